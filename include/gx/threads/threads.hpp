// Threads<N, Device>: a world of N ranks, each a thread, on the wall clock.
#pragma once

#include <chrono>      // steady_clock
#include <concepts>    // integral, same_as
#include <exception>   // exception_ptr
#include <functional>  // on_start
#include <memory>      // make_unique
#include <mutex>       // the first error
#include <span>        // lost ranks
#include <thread>      // ranks
#include <utility>     // move
#include <vector>      // ranks

#include <gx/core/contract.hpp>             // GX_EXPECT
#include <gx/core/decl.hpp>                 // GX_DECL
#include <gx/core/detail/expect_ranks.hpp>  // expect_ranks
#include <gx/threads/mailbox.hpp>           // Mailbox, Endpoint
#include <gx/core/units.hpp>                // Nanoseconds
#include <gx/threads/worker.hpp>            // Worker
#include <gx/core/world.hpp>                // World, NoDevice

namespace gx {

namespace detail::threads {

/// State shared by the ranks of one run().
struct Run {
    Mailbox office;
    std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
    std::mutex mutex{};
    std::exception_ptr first_error{};
    int first_rank = -1;  ///< the first to stop the others; run() throws its error
    int error_rank = -1;  ///< the rank that threw first_error

    /// An exception unwinds `rank`: the other ranks stop before a handler sees it.
    void stop(int rank);
    /// Inside a handler: keeps the exception of the rank that stopped the others first.
    void fail(int rank);
};

/// Errors: gx::Error for a deadline that is not above 0.
GX_DECL void expect_deadline(std::chrono::nanoseconds deadline);

/// The ranks of `ranks` that are not in `lost`.
[[nodiscard]] GX_DECL std::vector<int> ranks_without(int ranks, std::span<const int> lost);
/// As many machines as `members` lie on, where they have equally many; else one machine.
[[nodiscard]] GX_DECL Placement placement_of(Placement before, const std::vector<int>& members);

}  // namespace detail::threads

template <class Device>
class ThreadRank;

/// As many ranks as the placement holds, as threads over shared memory. Each has a second thread,
/// its communication stream.
///
/// Order:   which rank runs when is the operating system's choice; a reducer's bits don't depend on
///          it.
/// Threads: ranks share the machine's cores. `on_start` runs first on every thread of a rank; say
///          there how many threads its device may use, as in omp_set_num_threads(cores / ranks).
/// Errors:  see World. A wait that meets the deadline, or waits for a rank whose function has
///          returned, returns `timed_out` with the failed rank, found along the waits-for graph;
///          the waits of all other ranks return `cancelled` with the same rank.
///          It Shrinks: the next world has the ranks that no LostRank names. A rank whose thread
///          has missed a deadline is left out; run() still waits for that thread to end.
///          A message must be waited for before its memory goes away. A deadline that is not
///          above 0 throws gx::Error on construction; nanoseconds::max() is endless.
/// Cost:    a message is copied once, from the sender's memory to the receiver's. A reduction goes
///          through its bucket several times: buckets that a core's cache holds, as in
///          Bucketed<Ring<>, 1 << 20>, take about half the time of one that it does not hold, and
///          little more than copying the gradient (./gx bench threads).
template <class Device = NoDevice>
class ThreadWorld {
public:
    struct Options {
        Placement placement{};  ///< as if they were spread so
        std::chrono::nanoseconds deadline = std::chrono::seconds(60);  ///< of one wait
        std::function<void(int rank)> on_start{};
    };
    using Rank = ThreadRank<Device>;

    explicit ThreadWorld(Options options) : options_(std::move(options)) {
        gx::detail::expect_ranks(options_.placement);
        detail::threads::expect_deadline(options_.deadline);
    }
    /// Compile-time error: a number is no placement.
    template <std::integral N>
    explicit ThreadWorld(N) : ThreadWorld(Options{}) {
        static_assert(
            !sizeof(N),
            "gx: ThreadWorld(number): as if on how many machines? Fix: "
            "'ThreadWorld<Device> world({.placement = {1, 4}})', or 'Threads<4, Device>', "
            "whose number is part of its type.");
    }

    [[nodiscard]] int ranks() const { return options_.placement.ranks(); }
    [[nodiscard]] Placement placement() const { return options_.placement; }

    /// A world of the ranks that are not lost; its ranks start as those they were.
    [[nodiscard]] Survivors<ThreadWorld> survivors(std::span<const int> lost,
                                                   Nanoseconds /*restart_time*/) const {
        Survivors<ThreadWorld> left{.members = detail::threads::ranks_without(ranks(), lost)};
        if (left.members.empty()) return left;
        Options options = options_;
        options.placement = detail::threads::placement_of(placement(), left.members);
        if (options_.on_start)
            options.on_start = [start = options_.on_start, members = left.members](int rank) {
                start(members[static_cast<std::size_t>(rank)]);
            };
        left.world = std::make_unique<ThreadWorld>(std::move(options));
        return left;
    }

    void run(FunctionRef<void(Rank&)> f) {
        detail::threads::Run run{.office{options_.placement, options_.deadline}};
        {
            std::vector<std::jthread> threads;
            threads.reserve(static_cast<std::size_t>(ranks()));
            for (int r = 0; r < ranks(); ++r) threads.emplace_back([&, r] { run_rank(run, r, f); });
        }
        if (run.first_error) std::rethrow_exception(run.first_error);
    }

private:
    void run_rank(detail::threads::Run& run, int r, FunctionRef<void(Rank&)> f) {
        try {
            if (options_.on_start) options_.on_start(r);
            Rank rank(run, r, options_.on_start);
            try {
                f(rank);
            } catch (...) {
                run.fail(r);  // before the rank's stream is drained: its waits must end
            }
        } catch (...) {
            run.fail(r);
        }
        run.office.leave(r);
    }

    Options options_;
};

/// What f is given: valid on the rank's thread, until f returns.
template <class DeviceType>
class ThreadRank {
public:
    using Device = DeviceType;

    [[nodiscard]] int rank() const { return transport_.rank(); }
    [[nodiscard]] int ranks() const { return transport_.ranks(); }
    [[nodiscard]] detail::threads::Endpoint& transport() { return transport_; }
    [[nodiscard]] detail::threads::Worker& stream() { return stream_; }
    /// Since run() began.
    [[nodiscard]] Nanoseconds now() const { return std::chrono::steady_clock::now() - run_->begin; }

    [[nodiscard]] std::unique_ptr<Device> make_device(const Graph& graph, DeviceOptions options)
        requires(!std::same_as<Device, NoDevice>)
    {
        options.rank = rank();
        return std::make_unique<Device>(graph, options);
    }

private:
    friend ThreadWorld<Device>;
    ThreadRank(detail::threads::Run& run, int r, const std::function<void(int)>& on_start)
        : run_(&run),
          transport_(run.office, r),
          stream_({.on_start =
                       [&on_start, r] {
                           if (on_start) on_start(r);
                       },
                   .on_error = [&run, r] { run.fail(r); },
                   .on_cancel = [&run, r] { run.stop(r); },
                   .id = r}) {}

    detail::threads::Run* run_;
    detail::threads::Endpoint transport_;
    detail::threads::Worker stream_;
};

/// A ThreadWorld of N ranks: on one machine, unless the options spread them.
template <int N, class Device = NoDevice>
class Threads : public ThreadWorld<Device> {
    static_assert(N >= 1, "gx: Threads<0> has no rank to run. Fix: Threads<1> or more.");

public:
    struct Options {
        Placement placement{1, N};
        std::chrono::nanoseconds deadline = std::chrono::seconds(60);
        std::function<void(int rank)> on_start{};
    };

    Threads() : Threads(Options{}) {}
    explicit Threads(Options o)
        : ThreadWorld<Device>({o.placement, o.deadline, std::move(o.on_start)}) {
        GX_EXPECT(o.placement.ranks() == N, "the placement of Threads<N> holds N ranks");
    }
};
static_assert(explain_world<Threads<2>>() && explain_shrinking_world<Threads<2>>());

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/threads/impl/threads.ipp>
#endif
