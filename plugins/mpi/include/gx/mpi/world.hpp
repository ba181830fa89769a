// World<Device>: ranks as the processes of an MPI job, on this machine or on many.
#pragma once

#include <chrono>      // chrono
#include <concepts>    // same_as
#include <cstdint>     // uint64_t
#include <functional>  // on_start
#include <memory>      // the job, devices
#include <optional>    // a thread
#include <utility>     // move

#include <gx/core/contract.hpp>      // GX_EXPECT
#include <gx/core/function_ref.hpp>  // FunctionRef
#include <gx/core/stream.hpp>        // Task, Event
#include <gx/core/units.hpp>         // Nanoseconds
#include <gx/core/world.hpp>         // NoDevice, SpansProcesses
#include <gx/core/world_info.hpp>    // RunTerms, ComparesTerms
#include <gx/mpi/job.hpp>            // Job
#include <gx/threads/worker.hpp>     // Worker

namespace gx::mpi {

template <class Device>
class JobRank;

/// This process's rank of an MPI job, one rank a process, as mpirun or srun start it. Gradients and
/// control messages go over MPI; a coordination channel beside it (gx/coordination) finds a rank
/// that dies, names the first error to all, and compares what the ranks run. Every rank has a
/// thread for its communication stream, which makes the progress of its messages.
///
///     mpi::World<onednn::Device> world;          // all processes: initialises MPI
///     mpi::World<onednn::Device> world(a_comm);  // those of a communicator, of an MPI that runs
///
/// Order:   reducers of gx end with the bits that they have on threads; mpi::AllReduce does not.
/// Errors:  see gx::World. Construction throws gx::Error for an MPI of another kind than its
///          launcher's, no launcher, thread level SINGLE, ranks that do not come before
///          `join_deadline`, and a rank 0 that is not reached. run() throws on all processes where
///          a rank throws, dies (also by SIGKILL), is late or runs something else; where it died
///          the error names it with step, bucket and operation. A process whose rank does not
///          return within `patience` then writes the sentence to stderr and exits. Afterwards the
///          world can't run again: the process ends without MPI_Finalize; resume from a checkpoint.
///          All processes make it, and call run(), equally often.
/// Threads: MPI functions are called on the rank's thread and on its stream's; at level SERIALIZED
///          one at a time. At FUNNELED they are handed to the thread that initialised MPI, one of
///          gx; where the program did that itself, it makes the world and calls run() there, and
///          each reduction is made there when it is queued, not beside the backward pass.
/// Cost:    construction and each run() connect the processes to rank 0. Three threads a process in
///          a run, and one for MPI's initialisation. What MPI costs is in README.md.
template <class Device = NoDevice>
class World {
public:
    using Options = JobOptions;
    using Rank = JobRank<Device>;

    World() : World(Options{}) {}
    explicit World(Options options) : job_(std::make_unique<Job>(std::move(options))) {}
    /// The processes of a communicator, which is duplicated; MPI stays the caller's to finalise.
    /// Errors: gx::Error for MPI_COMM_NULL, and for an intercommunicator.
    explicit World(MPI_Comm communicator, Options options = {})
        : job_(std::make_unique<Job>(std::move(options), communicator)) {}

    [[nodiscard]] int ranks() const { return job_->ranks(); }
    /// Machines as MPI sees them: ranks of one can share memory.
    [[nodiscard]] Placement placement() const { return job_->placement(); }
    [[nodiscard]] int first_local_rank() const { return job_->rank(); }
    /// This rank's share of its machine's cores, by the affinity masks of all ranks there.
    [[nodiscard]] int cores() const { return job_->cores(); }
    [[nodiscard]] WorldInfo info() const { return job_->info(); }

    void run(FunctionRef<void(Rank&)> f) {
        job_->run([&](JobRun& run) {
            const auto start = [this] {
                if (job_->options().on_start) job_->options().on_start(job_->cores());
            };
            start();
            Rank rank(run, start, job_->reduces_on_callers_thread());
            try {
                f(rank);
            } catch (...) {
                run.fail();  // before the rank's stream is drained: its waits must end
            }
            run.end_if_forked();
        });
    }

private:
    std::unique_ptr<Job> job_;
};

/// A rank's communication stream: a thread, or the rank's own, where a task runs when it is queued.
class RankStream {
public:
    using Worker = gx::detail::threads::Worker;
    RankStream(Worker::Options options, bool on_callers_thread) : options_(std::move(options)) {
        if (!on_callers_thread) worker_.emplace(options_);
    }

    Event enqueue(Task task) {
        if (worker_) return worker_->enqueue(task);
        try {
            task.run(task.context, task.argument);
        } catch (...) {
            options_.on_error();
        }
        return {++done_, options_.id};
    }
    void wait(Event event) {
        if (worker_) return worker_->wait(event);
        GX_EXPECT(event.sequence == 0 || (event.stream == options_.id && event.sequence <= done_),
                  "this event is not of this stream: wait for what its enqueue() has returned");
    }
    void drain() {
        if (worker_) worker_->drain();
    }
    void cancel() { options_.on_cancel(); }

private:
    Worker::Options options_;
    std::optional<Worker> worker_{};
    std::uint64_t done_ = 0;
};
static_assert(Stream<RankStream>);

/// What f is given: valid on its thread, until f returns.
template <class DeviceType>
class JobRank {
public:
    using Device = DeviceType;

    [[nodiscard]] int rank() const { return run_->transport.rank(); }
    [[nodiscard]] int ranks() const { return run_->transport.ranks(); }
    [[nodiscard]] Transport& transport() { return run_->transport; }
    [[nodiscard]] RankStream& stream() { return stream_; }
    /// Since this process's run() began.
    [[nodiscard]] Nanoseconds now() const { return std::chrono::steady_clock::now() - run_->begin; }
    /// Stops all ranks unless they run what rank 0 runs. Every rank calls it.
    void compare(const RunTerms& terms) { run_->session.compare(terms); }

    [[nodiscard]] std::unique_ptr<Device> make_device(const Graph& graph, DeviceOptions options)
        requires(!std::same_as<Device, NoDevice>)
    {
        options.rank = rank();
        return std::make_unique<Device>(graph, options);
    }

private:
    friend World<Device>;
    JobRank(JobRun& run, std::function<void()> on_start, bool on_callers_thread)
        : run_(&run),
          stream_({.on_start = std::move(on_start),
                   .on_error = [&run] { run.fail(); },
                   .on_cancel = [&run] { run.session.fail(""); }},
                  on_callers_thread) {}

    JobRun* run_;
    RankStream stream_;
};
static_assert(SpansProcesses<World<>> && ComparesTerms<World<>::Rank>);

}  // namespace gx::mpi
