// Processes<N, Device>: a world of N ranks, processes forked for each run; a test double.
#pragma once

#include <chrono>     // steady_clock
#include <concepts>   // same_as
#include <cstdint>    // int64_t
#include <exception>  // exception_ptr
#include <map>        // children
#include <memory>     // make_unique
#include <optional>   // sockets
#include <span>       // lost ranks
#include <string>     // how children ended
#include <utility>    // move
#include <vector>     // members

#include <gx/coordination/mesh.hpp>         // Mesh, MeshEndpoint
#include <gx/coordination/process_run.hpp>  // ProcessRun
#include <gx/coordination/session.hpp>      // Session, RunTerms
#include <gx/core/contract.hpp>             // GX_EXPECT
#include <gx/core/decl.hpp>                 // GX_DECL
#include <gx/core/detail/expect_ranks.hpp>  // expect_ranks
#include <gx/core/function_ref.hpp>         // FunctionRef
#include <gx/core/units.hpp>                // Nanoseconds
#include <gx/core/world.hpp>                // World, NoDevice
#include <gx/threads/worker.hpp>            // Worker

namespace gx::testing {

namespace detail::processes {

using coordination::Descriptor;
using coordination::Mesh;
using coordination::Moment;

/// One process's part of a run.
struct Part : coordination::ProcessRun {
    Mesh& mesh;
};

/// How a run ended, as one process knows it.
struct Ended {
    coordination::Cause cause{};
    std::exception_ptr own{};             ///< first exception of this process
    bool joined = false;                  ///< all ranks had come
    std::string sentence{};               ///< the cause's, of this rank
    int exit_status = 0;                  ///< for this process
    std::vector<std::string> errors{};    ///< root: what each rank threw; empty: nothing
    std::map<int, std::string> deaths{};  ///< root: how ranks ended that did not leave
};

/// One of the processes that in_each() has forked, and its connections to the others. The root has
/// a line to each child, over which they get sockets for another run.
class Forked {
public:
    /// Forks placement.ranks() - 1 children and calls body(forked) in each and, as rank 0, here.
    /// Children exit behind it. Throws what the root's body throws, or that a child has failed.
    static void in_each(Placement placement, std::chrono::nanoseconds deadline,
                        FunctionRef<void(Forked&)> body);
    Forked(const Forked&) = delete;
    Forked& operator=(const Forked&) = delete;
    /// The root's: children that have not ended a deadline later are killed.
    ~Forked();

    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] Placement placement() const { return placement_; }

    /// Calls body(part) in this process; every process calls it equally often.
    Ended run(FunctionRef<void(Part&)> body);
    /// The same; throws this process's error, or the one that stopped it. `LostRank` and
    /// `DeviceLost` where a rank was lost, else what run() of a ProcessWorld throws.
    void run_or_throw(FunctionRef<void(Part&)> body);
    /// The processes that are left and go on, by their ranks until now, and the root's `number`;
    /// no ranks where this one does not. Those that have returned from run() and answer the root
    /// within the deadline go on, unless their device is lost. Where all do, the one that the
    /// others waited for does not. From then on ranks and placement are those of the processes that
    /// are left.
    std::pair<std::vector<int>, std::int64_t> agree(std::int64_t number);
    /// Root: waits for the end of all children, and kills those that are late. Returns how those
    /// ended that a signal killed, and where the run `ends_well` those that failed.
    std::map<int, std::string> reap(bool ends_well);

private:
    struct Child {
        int process = -1;
        Descriptor line{};
    };
    struct Sockets {
        std::vector<Descriptor> members{};  ///< root: to each rank, for a new session
        Descriptor to_root{};               ///< others: for a new session
        std::vector<Descriptor> peers{};    ///< for the mesh
        Moment begin{};
    };

    Forked(int rank, Placement placement, std::chrono::nanoseconds deadline)
        : rank_(rank), placement_(placement), deadline_(deadline) {}
    [[noreturn]] void live(FunctionRef<void(Forked&)> body) noexcept;
    [[nodiscard]] std::unique_ptr<coordination::Session> session_over(Sockets& sockets) const;
    [[nodiscard]] Sockets sockets_of_run();
    [[nodiscard]] Sockets hand_out();
    [[nodiscard]] Sockets receive();
    std::map<int, std::string> end(coordination::Session& session);

    int rank_;
    Placement placement_;
    std::chrono::nanoseconds deadline_;
    std::optional<Sockets> first_{};                      ///< of the first run
    std::unique_ptr<coordination::NodeMemory> memory_{};  ///< of the first run
    std::map<int, Child> children_{};                     ///< root
    Descriptor line_{};                                   ///< child: to the root
    std::unique_ptr<coordination::Session> session_{};    ///< of the last run
    bool regrouped_ = false;                              ///< session_ has begun another one
    bool device_lost_ = false;                            ///< this process's, in the last run
    int exit_status_ = 0;
};

/// Errors: gx::Error for a deadline that is not above 0.
GX_DECL void expect_deadline(std::chrono::nanoseconds deadline);
/// Throws the first error of a run on the root, if there is one.
GX_DECL void throw_first(const Ended& ended);

}  // namespace detail::processes

template <class Device>
class ProcessRank;
template <class Device>
class ForkedWorld;

/// As many ranks as the placement holds, as processes. run() forks all but rank 0, which runs in
/// the caller: the caller is the root, and what f writes to memory stays in its process, but for
/// what the transport's share() gives to all. For tests of code that must run on MPI.
///
/// Threads: run() forks before it makes a thread. A device whose library has started threads
///          before run() may hang in a child. Not for the thread sanitizer.
/// Errors:  see World, and gx/coordination, whose channel names the first error and lost ranks.
///          run() throws the first error: in its own type where it is of rank 0, or gx::Error with
///          its sentence. A child that ends before f returned is a lost rank to the others, and
///          run() throws how it ended: "rank 2 was killed by signal 9". So is one that is stopped
///          for a deadline, and at least 10 s. Children that have not returned a deadline after
///          rank 0 are killed and named. A child whose root has died ends within a deadline.
///          A wait that meets the deadline names the rank at the end of the waits-for graph.
///          A deadline that is not above 0 throws gx::Error on construction; nanoseconds::max()
///          is endless.
///          It Shrinks: in_each_process() forks once for several runs. After a run that has lost
///          ranks the others go on as the processes that they are, with what they have in memory.
///          The root is the caller: a run that loses it ends.
/// Cost:    fork() of the caller, ranks - 1 times, and ranks * (ranks - 1) descriptors in each run;
///          two threads a process.
template <class Device = NoDevice>
class ProcessWorld {
public:
    struct Options {
        Placement placement{};  ///< as if they were spread so
        std::chrono::nanoseconds deadline = std::chrono::seconds(60);  ///< of one wait
    };
    using Rank = ProcessRank<Device>;
    using Here = ForkedWorld<Device>;

    explicit ProcessWorld(Options options) : options_(options) {
        gx::detail::expect_ranks(options_.placement);
        detail::processes::expect_deadline(options_.deadline);
    }

    [[nodiscard]] int ranks() const { return options_.placement.ranks(); }
    [[nodiscard]] Placement placement() const { return options_.placement; }

    void run(FunctionRef<void(Rank&)> f) {
        detail::processes::Forked::in_each(
            options_.placement, options_.deadline, [&](detail::processes::Forked& here) {
                auto ended = here.run([&](auto& part) { Rank::call(f, part); });
                if (here.rank() != 0) return;
                ended.deaths.merge(here.reap(false));
                detail::processes::throw_first(ended);
            });
    }
    void in_each_process(FunctionRef<void(Here&)> f) {
        detail::processes::Forked::in_each(options_.placement, options_.deadline,
                                           [&](detail::processes::Forked& process) {
                                               Here here(process);
                                               f(here);
                                           });
    }

private:
    Options options_;
};

/// A ProcessWorld as one of its processes has it: each calls run() for its own rank, equally often.
///
/// Errors: run() throws LostRank in every process where a rank was lost: killed, stopped, late, or
///         without its device, which throws DeviceLost itself. Otherwise it throws the error of its
///         rank, else the one that stopped it.
template <class Device = NoDevice>
class ForkedWorld {
public:
    using Rank = ProcessRank<Device>;

    [[nodiscard]] int ranks() const { return process_->placement().ranks(); }
    [[nodiscard]] Placement placement() const { return process_->placement(); }
    [[nodiscard]] int first_local_rank() const { return process_->rank(); }

    void run(FunctionRef<void(Rank&)> f) {
        process_->run_or_throw([&](auto& part) { Rank::call(f, part); });
    }
    /// The world of the processes that are left takes the place of this one. See Shrinks. The
    /// processes know who is lost: who was killed, did not come back within a deadline, or has lost
    /// its device. A rank that others have waited for in vain and that came back is left out only
    /// if no other is, since they may have named one that waits itself.
    [[nodiscard]] Survivors<ForkedWorld> survivors(std::span<const int> /*lost*/,
                                                   Nanoseconds /*restart_time*/,
                                                   std::int64_t number = 0) {
        auto [members, of_root] = process_->agree(number);
        Survivors<ForkedWorld> left{.members = std::move(members), .number = of_root};
        if (!left.members.empty())
            left.world = std::unique_ptr<ForkedWorld>(new ForkedWorld(*process_));
        return left;
    }

private:
    friend ProcessWorld<Device>;
    explicit ForkedWorld(detail::processes::Forked& process) : process_(&process) {}

    detail::processes::Forked* process_;
};

/// What f is given: valid on the rank's thread, until f returns.
template <class DeviceType>
class ProcessRank {
public:
    using Device = DeviceType;

    [[nodiscard]] int rank() const { return transport_.rank(); }
    [[nodiscard]] int ranks() const { return transport_.ranks(); }
    [[nodiscard]] coordination::MeshEndpoint& transport() { return transport_; }
    [[nodiscard]] gx::detail::threads::Worker& stream() { return stream_; }
    /// Since run() began.
    [[nodiscard]] Nanoseconds now() const {
        return std::chrono::steady_clock::now() - part_->begin;
    }
    /// Stops all ranks unless they run what rank 0 runs. Every rank calls it.
    void compare(const coordination::RunTerms& terms) { part_->session.compare(terms); }

    [[nodiscard]] std::unique_ptr<Device> make_device(const Graph& graph, DeviceOptions options)
        requires(!std::same_as<Device, NoDevice>)
    {
        options.rank = rank();
        return std::make_unique<Device>(graph, options);
    }

private:
    friend ProcessWorld<Device>;
    friend ForkedWorld<Device>;
    static void call(FunctionRef<void(ProcessRank&)> f, detail::processes::Part& part) {
        ProcessRank rank(part);
        try {
            f(rank);
        } catch (...) {
            part.fail();  // before the rank's stream is drained: its waits must end
        }
    }
    explicit ProcessRank(detail::processes::Part& part)
        : part_(&part),
          transport_(part.mesh),
          stream_({.on_error = [&part] { part.fail(); },
                   .on_cancel = [&part] { part.session.fail(""); },
                   .id = part.mesh.rank()}) {}

    detail::processes::Part* part_;
    coordination::MeshEndpoint transport_;
    gx::detail::threads::Worker stream_;
};

/// A ProcessWorld of N ranks: on one machine, unless the options spread them.
template <int N, class Device = NoDevice>
class Processes : public ProcessWorld<Device> {
    static_assert(N >= 1, "gx: Processes<0> has no rank to run. Fix: Processes<1> or more.");

public:
    struct Options {
        Placement placement{1, N};
        std::chrono::nanoseconds deadline = std::chrono::seconds(60);
    };

    Processes() : Processes(Options{}) {}
    explicit Processes(Options o) : ProcessWorld<Device>({o.placement, o.deadline}) {
        GX_EXPECT(o.placement.ranks() == N, "the placement of Processes<N> holds N ranks");
    }
};
static_assert(explain_world<Processes<2>>() && explain_shrinking_world<Processes<2>>());
static_assert(SpansProcesses<ForkedWorld<>>);

}  // namespace gx::testing

#if defined(GX_HEADER_ONLY)
#include <gx/testing/impl/processes.ipp>
#endif
