// Processes<N, Device>: a world of N ranks that are processes, forked for each run; a test double.
#pragma once

#include <chrono>     // steady_clock
#include <concepts>   // same_as
#include <exception>  // exception_ptr
#include <memory>     // make_unique
#include <mutex>      // the first error

#include <gx/coordination/mesh.hpp>     // Mesh, MeshEndpoint
#include <gx/coordination/session.hpp>  // Session, RunTerms
#include <gx/core/contract.hpp>         // GX_EXPECT
#include <gx/core/decl.hpp>             // GX_DECL
#include <gx/core/function_ref.hpp>     // FunctionRef
#include <gx/core/units.hpp>            // Nanoseconds
#include <gx/core/world.hpp>            // World, NoDevice
#include <gx/threads/worker.hpp>        // Worker

namespace gx::testing {

namespace detail::processes {

using coordination::Descriptor;
using coordination::Mesh;
using coordination::Moment;

/// One process's part of a run.
struct Part {
    coordination::Session& session;
    Mesh& mesh;
    Moment begin;  ///< of run(), the same for all processes
    std::mutex mutex{};
    std::exception_ptr first_error{};

    /// Inside a handler: keeps the first exception of this process and stops the other ranks.
    void fail();
};

/// Forks placement.ranks() - 1 children and calls body(part) in each and, as rank 0, here.
GX_DECL void run(Placement placement, std::chrono::nanoseconds deadline,
                 FunctionRef<void(Part&)> body);

/// Errors: gx::Error for a deadline that is not above 0.
GX_DECL void expect_deadline(std::chrono::nanoseconds deadline);

}  // namespace detail::processes

template <class Device>
class ProcessRank;

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
///          A wait that meets the deadline names its peer; it does not look for the rank that
///          the peer waits for.
///          A deadline that is not above 0 throws gx::Error on construction; nanoseconds::max()
///          is endless.
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

    explicit ProcessWorld(Options options) : options_(options) {
        detail::processes::expect_deadline(options_.deadline);
    }

    [[nodiscard]] int ranks() const { return options_.placement.ranks(); }
    [[nodiscard]] Placement placement() const { return options_.placement; }

    void run(FunctionRef<void(Rank&)> f) {
        detail::processes::run(options_.placement, options_.deadline, [&](auto& part) {
            Rank rank(part);
            try {
                f(rank);
            } catch (...) {
                part.fail();  // before the rank's stream is drained: its waits must end
            }
        });
    }

private:
    Options options_;
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
    explicit ProcessRank(detail::processes::Part& part)
        : part_(&part),
          transport_(part.mesh),
          stream_({.on_error = [&part] { part.fail(); },
                   .on_cancel = [&part] { part.session.fail(""); }}) {}

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
static_assert(explain_world<Processes<2>>());

}  // namespace gx::testing

#if defined(GX_HEADER_ONLY)
#include <gx/testing/impl/processes.ipp>
#endif
