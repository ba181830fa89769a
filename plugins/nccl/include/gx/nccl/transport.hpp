// Transport: messages between GPUs by NCCL, queued on a stream in groups.
#pragma once

#include <chrono>    // deadlines
#include <cstdint>   // uint64_t
#include <deque>     // parts
#include <memory>    // unique_ptr
#include <optional>  // what is unfinished
#include <span>      // messages
#include <string>    // sentences

#include <nccl.h>  // ncclDataType_t

#include <gx/core/decl.hpp>           // GX_DECL
#include <gx/core/element.hpp>        // fp32, fp16, bf16
#include <gx/core/function_ref.hpp>   // FunctionRef
#include <gx/core/stream.hpp>         // Operation
#include <gx/core/transport.hpp>      // Placement
#include <gx/cuda/queue.hpp>          // Queue
#include <gx/cuda/queued_call.hpp>    // queued_call
#include <gx/cuda/step_graphs.hpp>    // StepGraphs
#include <gx/memory/queue.hpp>        // StreamOrdered, QueuedMessage
#include <gx/nccl/clock.hpp>          // Now
#include <gx/nccl/communicator.hpp>   // Communicator
#include <gx/nccl/message_marks.hpp>  // MessageMarks
#include <gx/nccl/rank_board.hpp>     // RankBoard

namespace gx::nccl {

template <class E>
inline constexpr ncclDataType_t type_of = ncclNumTypes;
template <>
inline constexpr ncclDataType_t type_of<fp32> = ncclFloat32;
template <>
inline constexpr ncclDataType_t type_of<fp16> = ncclFloat16;
template <>
inline constexpr ncclDataType_t type_of<bf16> = ncclBfloat16;

/// One rank's end of an NCCL communicator; models StreamOrdered. A group of messages is one
/// ncclGroupStart ... ncclGroupEnd; nothing waits for the host but where NCCL is still setting up.
///
/// Errors: gx::Error for a call that NCCL refuses. Where a rank is missing, NCCL reports an
///         asynchronous error, or messages that have begun do not get on for `deadline`, the
///         communicator is aborted, later messages are dropped, and the host's waits return
///
///             timed_out  on the rank that finds it: the peer is the rank that left without what it
///                        owes, or that others wait for; where none owes anything, one whose GPU
///                        has not come to its messages; else itself. Where NCCL fails elsewhere,
///                        one that does not answer
///             cancelled  on all other ranks, with the same peer
///
///         Where NCCL fails on this rank alone, or its GPU does, a call or a wait throws
///         DeviceLost, with CUDA's error, else NCCL's.
///         What the queue holds then runs on memory that holds anything; unfinished() is the
///         operation from which on it does.
/// Threads: that of its rank.
class Transport {
public:
    using Memory = cuda::GpuMemory;
    struct Options {
        Placement placement{};
        std::chrono::nanoseconds deadline = std::chrono::seconds(60);  ///< of messages in progress
        bool graphs = true;                                            ///< see WorldOptions
        Now now = steady_now;                                          ///< of the deadline
    };

    /// Joins the other ranks: waits for them. Errors: LostRank.
    GX_DECL Transport(cuda::Queue& queue, RankBoard& board, const ncclUniqueId& id, int rank,
                      const Options& options);
    Transport(const Transport&) = delete;
    Transport& operator=(const Transport&) = delete;
    /// Aborts what was not closed.
    GX_DECL ~Transport();

    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] int ranks() const { return options_.placement.ranks(); }
    [[nodiscard]] Placement placement() const { return options_.placement; }
    [[nodiscard]] cuda::Queue& queue() { return *queue_; }
    /// Incomplete once a rank is lost.
    [[nodiscard]] Delivery lost() const { return lost_; }
    [[nodiscard]] ncclComm_t communicator() const { return comm_.get(); }
    /// What the next messages are of, on this transport and its parts.
    void working_on(const Operation& operation) {
        root().marks_->begin(operation);
        board_->working_on(operation);
    }
    /// Once a rank is lost: what the first messages are of that were not done then.
    [[nodiscard]] std::optional<Operation> unfinished() const { return root().unfinished_; }
    GX_DECL void exchange(std::span<const QueuedMessage<Memory>> group);
    /// Calls f, which queues the same work on `queue` and here for each call with the same key: it
    /// is captured with its messages, and replayed (cuda::StepGraphs). Where a rank is lost nothing
    /// of it runs. The graphs end with the communicator, which is aborted behind a capture. Not of
    /// a part of another transport.
    /// Errors: those of cuda::StepGraphs.
    GX_DECL void repeat(cuda::Queue& queue, std::uint64_t key, FunctionRef<void()> f);
    [[nodiscard]] cuda::StepGraphs& graphs() { return graphs_; }

    /// Queues ncclAllReduce by ncclSum, in place. Returns `complete`: a loss is seen by lost().
    /// Order: NCCL's own: it depends on its version, topology and settings; equal on all ranks.
    template <Element E>
    Delivery all_reduce(ViewIn<typename E::storage, Memory> values) {
        static_assert(type_of<E> != ncclNumTypes,
                      "gx: NCCL does not sum this element. Fix: fp32, fp16 or bf16.");
        sum(Memory::open(values).data, values.size(), type_of<E>);
        return {};
    }

    /// The ranks that give the same color, ordered by key, then by rank, by ncclCommSplit. Every
    /// rank calls it. It queues where this one does, and lives as long.
    /// Errors: LostRank.
    [[nodiscard]] GX_DECL Transport& split(int color, int key);

    /// Waits until all that was queued is done, and ends the communicator. Errors: LostRank.
    GX_DECL void close();
    /// Ends the messages of this and its parts, whatever they wait for; within repeat() at its end.
    GX_DECL void abort() noexcept;
    /// Goes no further without rank `lost` of the world, which may be this one: reports it, unless
    /// another was, ends the messages, and waits for the rest of the queue.
    GX_DECL void give_up(int lost) noexcept;
    void abandon() noexcept { give_up(world_rank_); }

private:
    GX_DECL Transport(Transport& parent, int color, int key);
    GX_DECL ncclResult_t call_group(std::span<const QueuedMessage<Memory>> group);
    GX_DECL void sum(void* values, std::size_t count, ncclDataType_t type);
    /// Polls while the host waits; incomplete once a rank is lost.
    [[nodiscard]] GX_DECL Delivery watch();
    [[nodiscard]] GX_DECL Delivery watch_all();
    /// Polls until the communicator is not in progress, as `state` says it is. False: a rank is
    /// lost.
    GX_DECL bool settle(ncclResult_t state);
    /// Polls until it is known who is in which part. False: a rank is lost.
    GX_DECL bool await_division(int split);
    GX_DECL void check(ncclResult_t result, const char* call);
    [[nodiscard]] GX_DECL int gone();
    [[nodiscard]] GX_DECL int suspect();
    [[nodiscard]] GX_DECL int owing();
    /// Incomplete where a rank has left with a debt, or NCCL, in this state, has failed.
    [[nodiscard]] GX_DECL Delivery examine(ncclResult_t state);
    /// Behind messages: marks them, or keeps that they were dropped.
    GX_DECL void queued();
    [[nodiscard]] Transport& root() { return parent_ == nullptr ? *this : parent_->root(); }
    [[nodiscard]] const Transport& root() const {
        return parent_ == nullptr ? *this : parent_->root();
    }
    GX_DECL Delivery lose(int lost);
    GX_DECL void tell_parts();
    GX_DECL void finish(const char* operation);
    [[noreturn]] GX_DECL void throw_lost(const char* operation, Delivery d) const;

    cuda::Queue* queue_;
    RankBoard* board_;
    Options options_;
    Transport* parent_ = nullptr;
    int rank_ = 0, world_rank_ = 0;
    int ledger_ = -1;  ///< -1: has not joined
    int splits_ = 0;
    Communicator comm_{};
    std::deque<std::unique_ptr<Transport>> parts_{};
    Delivery lost_{};
    /// When NCCL first said that another rank has failed.
    std::optional<std::chrono::steady_clock::time_point> failed_since_{};
    // Of the whole rank, in the transport that is no part of another:
    std::optional<MessageMarks> marks_{};
    cuda::StepGraphs graphs_{};
    std::optional<Operation> unfinished_{};
};
static_assert(StreamOrdered<Transport>);

}  // namespace gx::nccl

#if defined(GX_HEADER_ONLY)
#include <gx/nccl/impl/transport.ipp>
#endif
