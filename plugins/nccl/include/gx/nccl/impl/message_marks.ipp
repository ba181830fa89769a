// MessageMarks: a ring of events.
#pragma once

#include <gx/nccl/message_marks.hpp>  // the declarations

namespace gx::nccl {

GX_DECL MessageMarks::MessageMarks(cuda::Queue& queue, std::size_t capacity)
    : queue_(&queue), marks_(capacity) {
    for (Mark& m : marks_) m.event = cuda::make_event();
}

GX_DECL void MessageMarks::record(bool begins) {
    if (recorded_ - reached_ == marks_.size()) {
        unmarked_ = unmarked_ || !begins;
        return;
    }
    Mark& m = marks_[recorded_ % marks_.size()];
    if (cudaEventRecord(m.event.get(), queue_->stream()) != cudaSuccess) return;
    m.operation = current_;
    m.begins = begins;
    if (reached_ == recorded_++) got_on_ = Clock::now();
    if (!begins) unmarked_ = false;
}

GX_DECL void MessageMarks::begin(const Operation& operation) {
    current_ = operation;
    record(true);
}
GX_DECL void MessageMarks::queued() { record(false); }

GX_DECL void MessageMarks::poll() {
    while (reached_ < recorded_) {
        if (cudaEventQuery(mark(reached_).event.get()) != cudaSuccess) {
            (void)cudaGetLastError();  // not ready; or an error that the queue's waits return too
            break;
        }
        ++reached_;
        got_on_ = Clock::now();
    }
    if (unmarked_) record(false);
}

GX_DECL std::chrono::nanoseconds MessageMarks::stuck() const {
    if (reached_ == recorded_ || works_before_messages()) return {};
    return Clock::now() - got_on_;
}

GX_DECL std::optional<Operation> MessageMarks::oldest() const {
    if (reached_ == recorded_) return std::nullopt;
    return mark(reached_).operation;
}

}  // namespace gx::nccl
