// Reductions of every reducer, and the conformance kit: compiled once for both MPIs.
#include "reductions.hpp"

#include <vector>

#include <gx/hierarchical/reducer.hpp>
#include <gx/reducer/name.hpp>
#include <gx/shared_memory/reducer.hpp>
#include <gx/testing/conformance.hpp>
#include <gx/testing/detail/reduce.hpp>
#include <gx/testing/mutants.hpp>
#include <gx/testing/worlds.hpp>

#include <support/all_reducers.hpp>

namespace gx::mpi_tests {

namespace {

using namespace testing;

/// Threads whose transport hides that they share memory.
struct OnMessages {
    template <class F>
    void operator()(Placement placement, F f) const {
        ThreadWorld<>({.placement = placement}).run([&](auto& rank) {
            TransportOver link(rank.transport());
            RankWithTransport other(rank, link);
            f(other);
        });
    }
};

/// Those whose names contain `part`.
std::vector<ReducerUnderTest> all_reducers(const std::string& part) {
    std::vector<ReducerUnderTest> all;
    testing_support::AllReducers::for_each([&]<class R>() { all.push_back(under_test<R>()); });
    all.push_back(under_test<Hierarchical<SharedMemory<>, Ring<fp16>>>());  // of the host's memory
    std::erase_if(all, [&](const auto& r) { return r.name.find(part) == r.name.npos; });
    return all;
}

void compare(const ReducerUnderTest& r, const AnyWorld& threads, const AnyWorld& world, int me,
             int ranks, Compared& out) {
    ++out.reducers;
    std::vector<Placement> placements{{1, ranks}};
    if (ranks > 1) placements.push_back({ranks, 1});
    if (ranks == 4) placements.push_back({2, 2});
    for (const Placement placement : placements) {
        for (const std::int64_t length : {1, 67, 4099}) {
            std::vector<Rows> jobs;
            for (std::uint64_t seed = 1; seed <= 3; ++seed)
                jobs.push_back(wide_magnitudes(seed, ranks, length));
            ConformanceReport report;
            const auto expected = testing::detail::reduce(r, threads, placement, jobs, report);
            const auto got = testing::detail::reduce(r, world, placement, jobs, report);
            out.differences += report.text();
            const auto mine = static_cast<std::size_t>(me);
            for (std::size_t j = 0; j < jobs.size(); ++j) {
                ++out.reductions;
                const ReduceReport &a = expected.reports[j][mine], &b = got.reports[j][mine];
                const bool same =
                    testing::detail::same_bits(expected.rows[j][mine], got.rows[j][mine]) &&
                    a.complete() && b.complete() && a.bytes_sent == b.bytes_sent &&
                    a.steps == b.steps;
                if (!same)
                    out.differences += r.name + " differs at " + std::to_string(ranks) +
                                       " ranks of " + std::to_string(placement.machines) +
                                       " machines, " + std::to_string(length) +
                                       " values, reduction " + std::to_string(j) + "; ";
            }
        }
    }
}

}  // namespace

Compared compare_with_threads(const AnyWorld& world, int me, int ranks, const std::string& part) {
    const AnyWorld threads = any_world(OnMessages{});
    Compared out;
    for (const ReducerUnderTest& r : all_reducers(part)) compare(r, threads, world, me, ranks, out);
    return out;
}

std::string check_conformance(const AnyWorld& world, const std::string& part, int& reducers) {
    std::string lines, wrong;
    reducers = 0;
    for (const ReducerUnderTest& r : all_reducers(part)) {
        ++reducers;
        ConformanceReport report;
        check_all(r, world, 1, report);
        lines += r.name + ": " + report.summary() + "\n";
        if (!report.empty()) wrong += r.name + " is wrong: " + report.text() + "\n";
        if (report.messages < 100) wrong += r.name + " sent too few messages\n";
    }
    return lines + wrong;
}

std::string check_seeded_bugs(const AnyWorld& world) {
    using R = MultiRing<2, fp16>;
    std::string missed;
    const auto check = [&]<class Bug>(auto by, const std::string& name) {
        ConformanceReport report;
        by(under_test<Bug, false>(), world, 1, report);
        if (!report.rejected_by(name)) missed += reducer_name<Bug>() + " is not rejected; ";
    };
    using Check = void(const ReducerUnderTest&, const AnyWorld&, std::uint64_t, ConformanceReport&);
    const auto state = [](const ReducerUnderTest& r, const AnyWorld& w, std::uint64_t seed,
                          ConformanceReport& report) {
        check_state(r, w, seed, keep_every_state, report);
    };
    check.operator()<HideOverflow<R>>(static_cast<Check*>(check_overflow), "overflow");
    check.operator()<KeepResidue<R>>(static_cast<Check*>(check_sequence), "sequence");
    check.operator()<HideState<R>>(state, "state");
    check.operator()<ClaimComplete<R>>(static_cast<Check*>(check_lost_rank), "lost rank");
    return missed.empty() ? "rejected" : missed;
}

}  // namespace gx::mpi_tests
