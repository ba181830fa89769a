// LaunchedWorld<Device>: ranks as processes that a launcher started, a GPU each, over NCCL.
#pragma once

#include <chrono>    // deadlines
#include <cstdint>   // int64_t
#include <memory>    // unique_ptr
#include <optional>  // a mesh
#include <span>      // lost ranks
#include <string>    // sentences
#include <utility>   // exchange

#include <gx/coordination/launch.hpp>       // Launch
#include <gx/coordination/mesh.hpp>         // Mesh, MeshEndpoint
#include <gx/coordination/process_run.hpp>  // ProcessRun
#include <gx/coordination/session.hpp>      // Session, Roster
#include <gx/core/decl.hpp>                 // GX_DECL
#include <gx/core/function_ref.hpp>         // FunctionRef
#include <gx/core/units.hpp>                // Nanoseconds
#include <gx/core/world.hpp>                // NoDevice, SpansProcesses, Survivors
#include <gx/core/world_info.hpp>           // RunTerms, ComparesTerms
#include <gx/nccl/rank_board.hpp>           // RankBoard
#include <gx/nccl/world.hpp>                // WorldRank

namespace gx::nccl {

struct LaunchedOptions {
    coordination::Launch launch = coordination::launch_from_environment();
    int gpu = -1;  ///< of this process; -1: the local rank's, or the only one that it sees
    /// Of a wait for a control message; of queued messages that do not get on.
    std::chrono::nanoseconds deadline = std::chrono::seconds(60);
    /// Until all have come, and again until all have called run().
    std::chrono::nanoseconds join_deadline = std::chrono::seconds(60);
    bool graphs = true;  ///< see WorldOptions
};

/// The processes of one run, which have met: the channel that coordinates them, and the sockets
/// between their hosts. Where a run loses ranks, the others may meet again on that channel.
class Meeting {
public:
    /// Waits for all ranks. `run`: its number. Errors: LaunchedWorld's.
    GX_DECL Meeting(const LaunchedOptions& options, int run);
    Meeting(const Meeting&) = delete;
    Meeting& operator=(const Meeting&) = delete;
    GX_DECL ~Meeting();

    [[nodiscard]] const coordination::Roster& roster() const { return roster_; }
    [[nodiscard]] int gpu() const { return gpu_; }
    [[nodiscard]] coordination::Session& session() { return *session_; }
    [[nodiscard]] coordination::Mesh& mesh() { return *mesh_; }

    /// Calls `rank`, and waits for the other processes. Throws what it throws, or the error of the
    /// rank that stopped it; LostRank in all that a loss has stopped. Once, and again after each
    /// regroup().
    GX_DECL void run(FunctionRef<void(RankBoard&, const ncclUniqueId&)> rank);
    /// Whether run() has thrown because of a loss.
    [[nodiscard]] bool has_lost() const { return !loss_.empty(); }
    /// After a loss: see Session. No members where this process is left out, or has lost its GPU.
    /// Errors: gx::Error where rank 0 is gone.
    [[nodiscard]] GX_DECL coordination::Regrouped regroup(std::int64_t number);

private:
    GX_DECL void connect();
    GX_DECL void take_gpu();
    GX_DECL void leave();
    [[nodiscard]] GX_DECL ncclUniqueId shared_id();

    LaunchedOptions options_;
    std::unique_ptr<coordination::Session> session_{};
    coordination::Roster roster_{};
    std::optional<coordination::Mesh> mesh_{};
    int gpu_ = -1;
    bool left_ = false, gpu_lost_ = false;
    std::string loss_{};  ///< what run() has thrown
};

template <class Device>
class LaunchedRank;

/// This process's rank of a run that torchrun, mpirun, mpiexec or srun started, with a GPU of its
/// own. Gradients go over NCCL (Transport), control messages over sockets between the hosts.
/// The launcher runs main() in each process, so each calls run() and survivors() by itself: there
/// is no root that starts the others (StartsProcesses), and nothing to hand a function to.
///
/// Order:  reducers of gx end with the bits that they have on threads; nccl::AllReduce does not.
/// Errors: construction waits for all ranks, and throws gx::Error, on all of them, with the first
///         of: a rank that does not come before `join_deadline`; a process without a GPU or driver;
///         fewer GPUs than ranks of a host; a GPU of two ranks; NCCL of another version than on
///         rank 0. On this one alone: a deadline that is not above 0, an address that is not
///         reached. run() is World's: where a rank throws each process throws that error; where one
///         dies, is late or has lost its GPU all others name it, with step, bucket and operation,
///         and abort their communicators.
///         It Shrinks: after a loss the processes that are left agree over the channel to rank 0 on
///         who goes on, on the GPUs that they have, with new communicators. Those that do not come
///         to survivors() within `deadline` of rank 0 are left out. Without rank 0 none goes on:
///         survivors() throws gx::Error, and the run is resumed from a checkpoint.
///         Every process calls run() equally often, each time with the same composition; one that
///         leaves before its first run(), or does not call it for `join_deadline`, is named by all
///         others, in theirs.
/// Cost:   run() connects all processes, but the first, which finds them connected.
template <class Device = NoDevice>
class LaunchedWorld {
public:
    using Options = LaunchedOptions;
    using Rank = LaunchedRank<Device>;

    LaunchedWorld() : LaunchedWorld(Options{}) {}
    explicit LaunchedWorld(Options options)
        : options_(std::move(options)),
          next_(std::make_unique<Meeting>(options_, 0)),
          roster_(next_->roster()) {}

    [[nodiscard]] int ranks() const { return options_.launch.ranks; }
    /// A node for each host.
    [[nodiscard]] Placement placement() const { return roster_.placement(); }
    [[nodiscard]] int first_local_rank() const { return options_.launch.rank; }
    void run(FunctionRef<void(Rank&)> f) {
        lost_.reset();
        if (!next_) next_ = std::make_unique<Meeting>(options_, runs_);
        ++runs_;
        auto meeting = std::exchange(next_, nullptr);
        try {
            meeting->run([&](RankBoard& board, const ncclUniqueId& id) {
                Rank rank(*meeting, board, id,
                          {.placement = placement(),
                           .deadline = options_.deadline,
                           .graphs = options_.graphs});
                // A child of fork() goes no further: neither CUDA nor NCCL is its own.
                const auto in_parent = [&](Rank& own) {
                    coordination::ProcessRun child{meeting->session()};
                    try {
                        f(own);
                    } catch (...) {
                        if (meeting->session().is_forked()) child.fail();
                        child.end_if_forked();
                        throw;
                    }
                    child.end_if_forked();
                };
                rank.call(FunctionRef<void(Rank&)>(in_parent), board);
            });
        } catch (...) {
            if (meeting->has_lost()) lost_ = std::move(meeting);
            throw;
        }
    }
    /// The world of the processes that are left. See Shrinks: the processes know who is lost.
    [[nodiscard]] Survivors<LaunchedWorld> survivors(std::span<const int> /*lost*/,
                                                     Nanoseconds /*restart_time*/,
                                                     std::int64_t number = 0) {
        Survivors<LaunchedWorld> left;
        auto meeting = std::exchange(lost_, nullptr);
        if (!meeting) return left;
        coordination::Regrouped all = meeting->regroup(number);
        if (all.members.empty()) return left;
        left.members = std::move(all.members);
        left.number = all.number;
        left.world = std::unique_ptr<LaunchedWorld>(new LaunchedWorld(*this, std::move(meeting)));
        return left;
    }

private:
    /// What is left of `before`.
    LaunchedWorld(const LaunchedWorld& before, std::unique_ptr<Meeting> meeting)
        : options_(before.options_),
          runs_(before.runs_),
          next_(std::move(meeting)),
          roster_(next_->roster()) {
        options_.launch.rank = next_->session().rank();
        options_.launch.ranks = next_->session().ranks();
        options_.gpu = next_->gpu();
    }

    Options options_;
    int runs_ = 0;
    std::unique_ptr<Meeting> next_;    ///< of the next run, if it has begun
    std::unique_ptr<Meeting> lost_{};  ///< of a run that has lost ranks, for survivors()
    coordination::Roster roster_;
};

/// What f is given: valid on its thread, until f returns.
template <class Device>
class LaunchedRank : public WorldRank<Device, coordination::MeshEndpoint> {
public:
    /// Stops all ranks unless they run what rank 0 runs. Every rank calls it.
    void compare(const RunTerms& terms) { session_->compare(terms); }

private:
    friend LaunchedWorld<Device>;
    LaunchedRank(Meeting& meeting, RankBoard& board, const ncclUniqueId& id,
                 const Transport::Options& options)
        : WorldRank<Device, coordination::MeshEndpoint>(
              coordination::MeshEndpoint(meeting.mesh()), std::chrono::steady_clock::now(), board,
              id, meeting.session().rank(), meeting.gpu(), options),
          session_(&meeting.session()) {}

    coordination::Session* session_;
};
static_assert(SpansProcesses<LaunchedWorld<>> && ComparesTerms<LaunchedWorld<>::Rank> &&
              Shrinks<LaunchedWorld<>>);

}  // namespace gx::nccl

#if defined(GX_HEADER_ONLY)
#include <gx/nccl/impl/launched_world.ipp>
#endif
