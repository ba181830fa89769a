// Job: the processes of one MPI communicator: where they are, their session, and their runs.
#pragma once

#include <chrono>      // deadlines
#include <deque>       // communicators
#include <exception>   // uncaught_exceptions
#include <functional>  // on_start
#include <memory>      // the session
#include <optional>    // a guard
#include <string>      // hosts
#include <utility>     // in_place
#include <vector>      // ranks

#include <gx/coordination/node_memory.hpp>    // NodeMemory
#include <gx/coordination/process_cores.hpp>  // CoreShare
#include <gx/coordination/process_run.hpp>    // ProcessRun
#include <gx/coordination/roster.hpp>         // Roster
#include <gx/coordination/session.hpp>        // Session
#include <gx/core/decl.hpp>                   // GX_DECL
#include <gx/core/function_ref.hpp>           // FunctionRef
#include <gx/core/world_info.hpp>             // WorldInfo
#include <gx/mpi/call.hpp>                    // MPI
#include <gx/mpi/guard.hpp>                   // MeetingGuard
#include <gx/mpi/library.hpp>                 // Threading
#include <gx/mpi/transport.hpp>               // Transport

namespace gx::mpi {

struct JobOptions {
    std::chrono::nanoseconds deadline = std::chrono::seconds(60);  ///< of one wait
    /// Until all processes have made the world, and until all have called run().
    std::chrono::nanoseconds join_deadline = std::chrono::seconds(60);
    /// Runs first on each thread of the rank. `cores`: its share of its node's, for its device, as
    /// in omp_set_num_threads(cores).
    std::function<void(int cores)> on_start{};
    /// Name or address of rank 0's host; "": those of its network interfaces are tried.
    std::string host{};
    /// That a rank has to return, once there is a cause to stop; then its process ends.
    std::chrono::nanoseconds patience = std::chrono::milliseconds(1500);
    /// Messages of more bytes are one item of an MPI datatype of such pieces. All-reduces of more
    /// values are several: MPI counts in int.
    std::size_t piece_bytes = std::size_t{1} << 30;
    /// That MPI is asked for, where it is not initialised: MPI_THREAD_FUNNELED, SERIALIZED or
    /// MULTIPLE.
    int thread_level = MPI_THREAD_MULTIPLE;
    bool announce = true;  ///< rank 0 writes a line to stderr: ranks, hosts, MPI, threads
};

/// A duplicate of a communicator, whose errors return. Freed unless it or MPI has to be left open,
/// or MPI has been finalised.
class Duplicate {
public:
    /// Errors: gx::Error where not all ranks of `of` make one within `limit`.
    GX_DECL Duplicate(MPI_Comm of, std::chrono::nanoseconds limit);
    Duplicate(const Duplicate&) = delete;
    Duplicate& operator=(const Duplicate&) = delete;
    GX_DECL ~Duplicate();

    [[nodiscard]] MPI_Comm get() const { return communicator_; }
    /// It stays: a rank has failed.
    void leave() { left_ = true; }

private:
    MPI_Comm communicator_ = MPI_COMM_NULL;
    bool left_ = false;
};

/// What one run gives to its rank.
struct JobRun : coordination::ProcessRun {
    Transport transport;
};

/// The processes of a communicator. See World, whose parts without a device these are.
class Job {
public:
    /// Initialises MPI where it is not.
    /// Errors: gx::Error for MPI_COMM_NULL, an intercommunicator, and where a rank does not come.
    GX_DECL explicit Job(JobOptions options, MPI_Comm communicator = MPI_COMM_WORLD);
    Job(const Job&) = delete;
    Job& operator=(const Job&) = delete;
    GX_DECL ~Job();

    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] int ranks() const { return static_cast<int>(hosts_.size()); }
    [[nodiscard]] Placement placement() const { return roster_.placement(); }
    /// This rank's share of the cores that its node's ranks may use, by their affinity masks.
    [[nodiscard]] int cores() const { return cores_; }
    /// Whether MPI may be called by the thread of run() alone: reductions are made there.
    [[nodiscard]] bool reduces_on_callers_thread() const { return threading_.on_callers_alone; }
    [[nodiscard]] const JobOptions& options() const { return options_; }
    [[nodiscard]] GX_DECL WorldInfo info() const;
    /// "4 ranks on 2 hosts (a: 2, b: 2)"
    [[nodiscard]] GX_DECL std::string description() const;

    /// Errors: gx::Error inside of its own run(), after a rank of this job has failed, behind
    ///         MPI_Finalize, and where a rank does not come; else as ProcessRun has them.
    GX_DECL void run(FunctionRef<void(JobRun&)> rank);
    /// Whether it is in its run(), or that has failed.
    [[nodiscard]] bool runs() const { return !session_; }
    /// Ends the session with all ranks: the destructor, or before it the exit of the process.
    GX_DECL void leave();

private:
    GX_DECL void find_nodes();
    GX_DECL void share_memory();
    /// Errors: gx::Error where a rank has not come within `limit`.
    GX_DECL void meet(std::chrono::nanoseconds limit);
    GX_DECL void share_cores();
    /// Errors: gx::Error where a rank leaves instead, or does not come within `limit`.
    GX_DECL void agree_to_run(coordination::Session& session, std::chrono::nanoseconds limit);
    /// Errors: gx::Error where the system has no thread left.
    [[nodiscard]] GX_DECL std::unique_ptr<Guard> guard_or_leave();
    GX_DECL void leave_open();
    GX_DECL void end_behind_cause(coordination::Session& session) const;
    /// Known to the exit of the process.
    class Living {
    public:
        GX_DECL explicit Living(Job* job);
        Living(const Living&) = delete;
        Living& operator=(const Living&) = delete;
        GX_DECL ~Living();

    private:
        Job* job_;
    };

    JobOptions options_;
    std::optional<MeetingGuard> meeting_{"before the first run"};  ///< until the ranks have met
    Threading threading_{};
    std::deque<Duplicate> messages_{};  ///< as the communicators of Messages
    Duplicate collectives_;
    int rank_ = 0, cores_ = 1, meetings_ = 0;
    coordination::CoreShare core_share_{};  ///< of `cores_`
    std::vector<std::string> hosts_{};      ///< [rank]
    coordination::Roster roster_{};         ///< whose nodes are MPI's
    std::string address_{};                 ///< of the session
    std::string meeting_id_{};              ///< of the session: the same on all ranks
    std::string unmet_{};                   ///< why the ranks did not meet behind a run
    bool failed_ = false;
    bool spans_all_ = false;  ///< its processes are those of MPI_COMM_WORLD
    bool crowded_ = false;    ///< more ranks than cores that they share
    std::unique_ptr<coordination::NodeMemory> shared_{};  ///< nullptr: there is none
    std::unique_ptr<coordination::Session> session_{};    ///< of the next run
    int exceptions_ = std::uncaught_exceptions();         ///< under way when it was made
    std::optional<Living> living_{};                      ///< once it is made
};

}  // namespace gx::mpi

#if defined(GX_HEADER_ONLY)
#include <gx/mpi/impl/job.ipp>
#endif
