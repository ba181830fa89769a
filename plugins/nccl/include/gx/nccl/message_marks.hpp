// MessageMarks: which messages of a queue are done, their operations, and since when none is.
#pragma once

#include <algorithm>  // max
#include <chrono>     // time without progress
#include <cstdint>    // uint64_t
#include <map>        // graphs
#include <memory>     // owner_less
#include <optional>   // nothing in progress
#include <vector>     // a ring

#include <gx/core/decl.hpp>         // GX_DECL
#include <gx/core/stream.hpp>       // Operation
#include <gx/cuda/handles.hpp>      // EventHandle
#include <gx/cuda/queue.hpp>        // Queue
#include <gx/cuda/queued_call.hpp>  // GraphCalls
#include <gx/nccl/clock.hpp>        // Now

namespace gx::nccl {

/// Events of a queue: one where an operation begins, one behind each group of its messages. While
/// the ring is full groups go without one. In a graph (cuda::StepGraphs) they are external events,
/// which each launch records anew.
/// Threads: one at a time.
class MessageMarks {
public:
    /// Of the current GPU.
    GX_DECL explicit MessageMarks(cuda::Queue& queue, Now now = steady_now,
                                  std::size_t capacity = 256);

    /// What is queued from here on is of `operation`.
    GX_DECL void begin(const Operation& operation);
    /// A group of messages was queued.
    GX_DECL void queued();
    /// Marks so far. Those behind the first `recorded` are of a graph that does not run.
    [[nodiscard]] std::uint64_t recorded() const { return recorded_; }
    void forget(std::uint64_t recorded) { recorded_ = std::max(recorded, reached_); }
    /// Asks for the events, in their order.
    GX_DECL void poll();

    /// How long no message has got on that has begun; 0 where the queue has not come to any.
    [[nodiscard]] GX_DECL std::chrono::nanoseconds stuck() const;
    /// Whether the queue has work before the oldest messages that are not done.
    [[nodiscard]] bool works_before_messages() const {
        return reached_ < recorded_ && mark(reached_).begins;
    }
    /// What the oldest messages are of that are not done; nothing: all are.
    [[nodiscard]] GX_DECL std::optional<Operation> oldest() const;
    [[nodiscard]] const Operation& current() const { return current_; }
    /// Graphs whose events it keeps: those that are there, and of others what is not reached.
    [[nodiscard]] std::size_t graphs() const { return of_graphs_.size(); }

private:
    struct Mark {
        cuda::EventHandle own{};
        cudaEvent_t event = nullptr;  ///< its own, or one of a graph
        Operation operation{};
        bool begins = false;
    };
    /// Events of one graph, in the order of its records.
    struct OfGraph {
        std::uint64_t pass = 0;
        std::size_t next = 0;
        std::vector<cuda::EventHandle> events{};
    };
    GX_DECL void record(bool begins);
    [[nodiscard]] GX_DECL cudaEvent_t record_in_graph(cuda::GraphCalls& graph);
    GX_DECL void drop_graphs();
    [[nodiscard]] const Mark& mark(std::uint64_t i) const { return marks_[i % marks_.size()]; }

    cuda::Queue* queue_;
    Now now_;
    std::vector<Mark> marks_;
    std::map<std::weak_ptr<const void>, OfGraph, std::owner_less<>> of_graphs_{};  ///< by life()
    std::uint64_t recorded_ = 0, reached_ = 0;
    std::uint64_t launched_ = 0;  ///< while a graph is captured or replayed: the marks before it
    bool unmarked_ = false;       ///< messages were queued behind the last mark
    Operation current_{};
    std::chrono::steady_clock::time_point got_on_ = now_();
};

}  // namespace gx::nccl

#if defined(GX_HEADER_ONLY)
#include <gx/nccl/impl/message_marks.ipp>
#endif
