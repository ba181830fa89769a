// LaunchedWorld<Device>: ranks as processes that a launcher started, a GPU each, over NCCL.
#pragma once

#include <chrono>    // deadlines
#include <memory>    // unique_ptr
#include <optional>  // a mesh
#include <string>    // sentences
#include <utility>   // exchange

#include <gx/coordination/launch.hpp>   // Launch
#include <gx/coordination/mesh.hpp>     // Mesh, MeshEndpoint
#include <gx/coordination/session.hpp>  // Session, Roster
#include <gx/core/decl.hpp>             // GX_DECL
#include <gx/core/function_ref.hpp>     // FunctionRef
#include <gx/core/world.hpp>            // NoDevice, SpansProcesses
#include <gx/core/world_info.hpp>       // RunTerms, ComparesTerms
#include <gx/nccl/rank_board.hpp>       // RankBoard
#include <gx/nccl/world.hpp>            // WorldRank

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
/// between their hosts.
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
    /// rank that stopped it. Once.
    GX_DECL void run(FunctionRef<void(RankBoard&, const ncclUniqueId&)> rank);

private:
    GX_DECL void connect(const LaunchedOptions& options);
    GX_DECL void take_gpu(const LaunchedOptions& options);
    GX_DECL void leave();
    [[nodiscard]] GX_DECL ncclUniqueId shared_id();

    std::chrono::nanoseconds deadline_, join_deadline_;
    std::unique_ptr<coordination::Session> session_{};
    coordination::Roster roster_{};
    std::optional<coordination::Mesh> mesh_{};
    int gpu_ = -1;
    bool left_ = false;
};

template <class Device>
class LaunchedRank;

/// This process's rank of a run that torchrun, mpirun, mpiexec or srun started, with a GPU of its
/// own. Gradients go over NCCL (Transport), control messages over sockets between the hosts.
///
/// Order:  reducers of gx end with the bits that they have on threads; nccl::AllReduce does not.
/// Errors: construction waits for all ranks, and throws gx::Error, on all of them, with the first
///         of: a rank that does not come before `join_deadline`; a process without a GPU or driver;
///         fewer GPUs than ranks of a host; a GPU of two ranks; NCCL of another version than on
///         rank 0. On this one alone: a deadline that is not above 0, an address that is not
///         reached. run() is World's: where a rank throws each process throws that error; where one
///         dies or is late all others name it, with step, bucket and operation, and abort their
///         communicators. Then it ends: resume from a checkpoint.
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
        if (!next_) next_ = std::make_unique<Meeting>(options_, runs_);
        ++runs_;
        const auto meeting = std::exchange(next_, nullptr);
        meeting->run([&](RankBoard& board, const ncclUniqueId& id) {
            Rank rank(*meeting, board, id,
                      {.placement = placement(),
                       .deadline = options_.deadline,
                       .graphs = options_.graphs});
            rank.call(f, board);
        });
    }

private:
    Options options_;
    int runs_ = 0;
    std::unique_ptr<Meeting> next_;  ///< of the next run, if it has begun
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
static_assert(SpansProcesses<LaunchedWorld<>> && ComparesTerms<LaunchedWorld<>::Rank>);

}  // namespace gx::nccl

#if defined(GX_HEADER_ONLY)
#include <gx/nccl/impl/launched_world.ipp>
#endif
