// MessageMarks: a ring of events.
#pragma once

#include <utility>  // exchange

#include <gx/nccl/message_marks.hpp>  // the declarations

namespace gx::nccl {

GX_DECL MessageMarks::MessageMarks(cuda::Queue& queue, Now now, std::size_t capacity)
    : queue_(&queue), now_(now), marks_(capacity) {
    for (Mark& m : marks_) m.own = cuda::make_event();
}

GX_DECL cudaEvent_t MessageMarks::record_in_graph(cuda::GraphCalls& graph) {
    OfGraph& of = of_graphs_[graph.life()];
    if (std::exchange(of.pass, graph.passes()) != graph.passes()) {
        of.next = 0;
        launched_ = recorded_;
        poll();  // the events of an earlier launch will mean this one
    }
    const std::size_t i = of.next++;
    if (i == of.events.size()) of.events.push_back(cuda::make_event());
    const cudaEvent_t event = of.events[i].get();
    const auto call = [&] {
        return cudaEventRecordWithFlags(event, queue_->stream(), cudaEventRecordExternal);
    };
    return cuda::queued_call("cudaEventRecordWithFlags", call, event) == cudaSuccess ? event
                                                                                     : nullptr;
}

/// Of graphs that are gone, unless a mark still means one of their events.
GX_DECL void MessageMarks::drop_graphs() {
    const auto is_used = [this](const OfGraph& of) {
        for (std::uint64_t i = reached_; i < recorded_; ++i)
            for (const cuda::EventHandle& e : of.events)
                if (e.get() == mark(i).event) return true;
        return false;
    };
    std::erase_if(of_graphs_,
                  [&](const auto& g) { return g.first.expired() && !is_used(g.second); });
}

GX_DECL void MessageMarks::record(bool begins) {
    cuda::GraphCalls* const graph = cuda::current_graph;
    const cudaEvent_t in_graph = graph != nullptr ? record_in_graph(*graph) : nullptr;
    if (recorded_ - reached_ == marks_.size()) {
        unmarked_ = unmarked_ || !begins;
        return;
    }
    Mark& m = marks_[recorded_ % marks_.size()];
    m.event = graph != nullptr ? in_graph : m.own.get();
    if (graph == nullptr && cudaEventRecord(m.event, queue_->stream()) != cudaSuccess) return;
    if (m.event == nullptr) return;
    m.operation = current_;
    m.begins = begins;
    if (reached_ == recorded_++) got_on_ = now_();
    if (!begins) unmarked_ = false;
}

GX_DECL void MessageMarks::begin(const Operation& operation) {
    current_ = operation;
    record(true);
}
GX_DECL void MessageMarks::queued() { record(false); }

GX_DECL void MessageMarks::poll() {
    const bool in_graph = cuda::current_graph != nullptr;
    auto mode = cudaStreamCaptureModeRelaxed;  // queries of other events are no part of a capture
    if (in_graph) (void)cudaThreadExchangeStreamCaptureMode(&mode);
    while (reached_ < (in_graph ? launched_ : recorded_)) {
        if (cudaEventQuery(mark(reached_).event) != cudaSuccess) {
            (void)cudaGetLastError();  // not ready; or an error that the queue's waits return too
            break;
        }
        ++reached_;
        got_on_ = now_();
    }
    if (in_graph) {
        drop_graphs();
        (void)cudaThreadExchangeStreamCaptureMode(&mode);
    } else if (unmarked_) record(false);
}

GX_DECL std::chrono::nanoseconds MessageMarks::stuck() const {
    if (reached_ == recorded_ || works_before_messages()) return {};
    return now_() - got_on_;
}

GX_DECL std::optional<Operation> MessageMarks::oldest() const {
    if (reached_ == recorded_) return std::nullopt;
    return mark(reached_).operation;
}

}  // namespace gx::nccl
