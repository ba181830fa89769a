// World<Device>: ranks as threads of one process, a GPU each, whose gradients go over NCCL.
#pragma once

#include <chrono>     // deadlines
#include <concepts>   // same_as
#include <cstdint>    // uint64_t
#include <exception>  // rethrow_exception, uncaught_exceptions
#include <memory>     // make_unique
#include <span>       // lost ranks
#include <thread>     // ranks
#include <utility>    // move
#include <vector>     // GPUs

#include <gx/core/decl.hpp>             // GX_DECL
#include <gx/core/error.hpp>            // LostRank
#include <gx/core/function_ref.hpp>     // FunctionRef
#include <gx/core/units.hpp>            // Nanoseconds
#include <gx/core/world.hpp>            // NoDevice
#include <gx/cuda/queue.hpp>            // DeviceContext, Queue
#include <gx/memory/queued_device.hpp>  // RepeatsQueuedWork
#include <gx/nccl/rank_board.hpp>       // RankBoard
#include <gx/nccl/transport.hpp>        // Transport
#include <gx/threads/threads.hpp>       // Mailbox, Run

namespace gx::nccl {

/// A GPU's memory. Where an exception passes, or a rank is lost, buffers are released that queued
/// messages use, whose peers may never come: these are ended first, and the queue is waited for.
class UnwindingResource : public cuda::Resource {
public:
    using Resource::Resource;
    void ends(Transport& messages) { messages_ = &messages; }
    void release(std::byte* memory, std::size_t bytes) noexcept override {
        if (messages_ != nullptr &&
            (std::uncaught_exceptions() > 0 || !messages_->lost().complete()))
            messages_->abandon();
        Resource::release(memory, bytes);
    }

private:
    Transport* messages_ = nullptr;
};

template <class Device, class Control = gx::detail::threads::Endpoint>
class WorldRank;

struct WorldOptions {
    Placement placement{};    ///< as if they were spread so
    std::vector<int> gpus{};  ///< of each rank; empty: rank r has GPU r
    /// Of a wait for a control message; of queued messages that do not get on.
    std::chrono::nanoseconds deadline = std::chrono::seconds(60);
    /// Steps that repeat are captured as CUDA graphs and replayed; false: each is queued anew.
    bool graphs = true;
};

/// Throws gx::Error with the first of: no driver or GPU, another NCCL than gx was compiled for,
/// fewer GPUs than ranks, a GPU that is not there, a GPU of two ranks, a deadline that is not above
/// 0.
GX_DECL void expect_possible(const WorldOptions& options);
/// Throws gx::Error where NCCL gives none.
[[nodiscard]] GX_DECL ncclUniqueId unique_id();

/// As many ranks as the placement holds, as threads of this process, each with a GPU of its own.
/// Gradients go over NCCL (Transport); control messages through the process's memory.
///
/// Order:  reducers of gx end with the bits that they have on threads; nccl::AllReduce does not.
/// Errors: on construction, expect_possible(). In run() see World: when a rank throws or is lost,
///         the communicators of all others are aborted and their waits return `cancelled`.
///         It Shrinks: the next world has the ranks that no LostRank names, on their GPUs, with
///         communicators of its own. run() waits for the thread of a lost rank to end.
template <class Device = NoDevice>
class World {
public:
    using Options = WorldOptions;
    using Rank = WorldRank<Device>;

    explicit World(Options options) : options_(std::move(options)) { expect_possible(options_); }

    [[nodiscard]] int ranks() const { return options_.placement.ranks(); }
    [[nodiscard]] Placement placement() const { return options_.placement; }
    void run(FunctionRef<void(Rank&)> f) {
        gx::detail::threads::Run run{.office{options_.placement, options_.deadline}};
        RankBoard board(ranks(), [&](int lost) { run.stop(lost); });
        const ncclUniqueId id = unique_id();
        {
            std::vector<std::jthread> threads;
            threads.reserve(static_cast<std::size_t>(ranks()));
            for (int r = 0; r < ranks(); ++r)
                threads.emplace_back([&, r] { run_rank(run, board, id, r, f); });
        }
        if (run.first_error) std::rethrow_exception(run.first_error);
    }

    /// A world of the ranks that are not lost.
    [[nodiscard]] Survivors<World> survivors(std::span<const int> lost,
                                             Nanoseconds /*restart_time*/) const {
        Survivors<World> left{.members = gx::detail::threads::ranks_without(ranks(), lost)};
        if (left.members.empty()) return left;
        Options options = options_;
        options.placement = gx::detail::threads::placement_of(placement(), left.members);
        options.gpus.clear();
        for (const int member : left.members) options.gpus.push_back(gpu(member));
        left.world = std::make_unique<World>(std::move(options));
        return left;
    }

private:
    [[nodiscard]] int gpu(int r) const {
        return options_.gpus.empty() ? r : options_.gpus[static_cast<std::size_t>(r)];
    }
    void run_rank(gx::detail::threads::Run& run, RankBoard& board, const ncclUniqueId& id, int r,
                  FunctionRef<void(Rank&)> f) {
        try {
            Rank rank({run.office, r}, run.begin, board, id, r, gpu(r),
                      {.placement = options_.placement,
                       .deadline = options_.deadline,
                       .graphs = options_.graphs});
            rank.call(f, board);
        } catch (const LostRank& e) {
            board.report(e.lost());
            run.fail(r);
        } catch (...) {
            board.report(r);
            run.fail(r);
        }
        board.leave(r);
        run.office.leave(r);
    }

    Options options_;
};

/// What f is given: valid on the rank's thread, until f returns. `Control` is the Transport of the
/// hosts' messages.
template <class DeviceType, class Control>
class WorldRank {
public:
    using Device = DeviceType;
    using Memory = cuda::GpuMemory;

    using Clock = std::chrono::steady_clock;

    /// Joins the others. `begin`: of run().
    WorldRank(Control control, Clock::time_point begin, RankBoard& board, const ncclUniqueId& id,
              int rank, int gpu, const Transport::Options& options)
        : begin_(begin),
          gpu_(gpu),
          memory_(gpu),
          queue_(gpu_, "communication"),
          transport_(queue_, board, id, rank, options),
          control_(std::move(control)),
          graphs_(options.graphs) {
        memory_.ends(transport_);
    }

    /// f(*this), and the end of its messages: before its queues are waited for where f throws.
    template <class Rank>
    void call(FunctionRef<void(Rank&)> f, RankBoard& board) {
        try {
            f(static_cast<Rank&>(*this));
            transport_.close();
        } catch (const LostRank& e) {
            board.report(e.lost());
            transport_.abandon();
            throw;
        } catch (...) {
            transport_.abandon();
            throw;
        }
    }

    [[nodiscard]] int rank() const { return transport_.rank(); }
    [[nodiscard]] int ranks() const { return transport_.ranks(); }
    [[nodiscard]] Transport& transport() { return transport_; }
    [[nodiscard]] cuda::Queue& stream() { return queue_; }
    /// The hosts' messages.
    [[nodiscard]] Control& control() { return control_; }
    [[nodiscard]] MemoryResource& memory() { return memory_; }
    [[nodiscard]] cuda::DeviceContext& gpu() { return gpu_; }
    [[nodiscard]] std::unique_ptr<Device> make_device(const Graph& graph, DeviceOptions options)
        requires(!std::same_as<Device, NoDevice>)
    {
        options.rank = rank();
        return std::make_unique<Device>(gpu_, graph, options);
    }
    // Models RepeatsQueuedWork.
    [[nodiscard]] bool repeats() const { return graphs_; }
    void repeat(cuda::Queue& queue, std::uint64_t key, FunctionRef<void()> f) {
        transport_.repeat(queue, key, f);
    }
    void forget_repeated() { transport_.graphs().clear(); }
    /// Since run() began.
    [[nodiscard]] Nanoseconds now() const { return Clock::now() - begin_; }

private:
    Clock::time_point begin_;
    cuda::DeviceContext gpu_;
    UnwindingResource memory_;
    cuda::Queue queue_;
    Transport transport_;
    Control control_;
    bool graphs_;
};
static_assert(gx::RepeatsQueuedWork<WorldRank<NoDevice>, cuda::Queue>);
static_assert(gx::World<World<>> && Shrinks<World<>>);

}  // namespace gx::nccl

#if defined(GX_HEADER_ONLY)
#include <gx/nccl/impl/world.ipp>
#endif
