#include <gx/sim/network/max_min.hpp>  // first, so the header is seen to stand alone

#include <algorithm>  // find, max, shuffle
#include <random>     // orders
#include <vector>     // flows, links

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

using gx::sim::MaxMinSolver;
using Rate = MaxMinSolver::Rate;

struct AnyFlow {
    std::vector<int> links;
    Rate cap;
    int weight = 1, count = 1;
};
struct Case {
    std::vector<Rate> links;
    std::vector<AnyFlow> flows;
};
/// Rates of the flows of a case, given in this order; what is left in its links goes to `left`.
std::vector<Rate> rates(MaxMinSolver& f, const Case& c, const std::vector<std::size_t>& order,
                        std::vector<Rate>& left) {
    f.clear();
    for (std::size_t r = 0; r < c.links.size(); ++r) f.add_link(c.links[r], static_cast<int>(r));
    for (const std::size_t i : order) {
        for (const int r : c.flows[i].links) f.crosses(r);
        f.add_flow({.cap_level = MaxMinSolver::level_of(c.flows[i].cap, c.flows[i].weight),
                    .weight = c.flows[i].weight,
                    .count = c.flows[i].count,
                    .slot = static_cast<int>(i)});
    }
    for (int r = 0; r < static_cast<int>(c.links.size()); ++r) {
        f.begin_members();
        for (std::size_t n = 0; n < order.size(); ++n) {
            const auto& shared = c.flows[order[n]].links;
            if (std::find(shared.begin(), shared.end(), r) != shared.end())
                f.add_member(static_cast<int>(n));
        }
        f.end_members(r, 0);
    }
    f.solve();
    left.clear();
    for (const auto& link : f.links()) left.push_back(link.free);
    std::vector<Rate> out(c.flows.size());
    for (const auto& flow : f.flows())
        out[static_cast<std::size_t>(flow.slot)] = flow.level * flow.weight;
    return out;
}
std::vector<std::size_t> in_order(const Case& c) {
    std::vector<std::size_t> order(c.flows.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    return order;
}
constexpr Rate no_cap = MaxMinSolver::unlimited;

// ---- Cases worked by hand -----------------------------------------------------------
TEST(MaxMinSolver, ByHand) {
    MaxMinSolver f;
    std::vector<Rate> left;
    // A in links 0 and 1, B in 1 and 2, C in 0, D in 2. Link 0: A = C = 50; link 1 leaves B 150,
    // link 2 gives B = D = 150.
    const Case three{{100, 200, 300},
                     {{{0, 1}, no_cap}, {{1, 2}, no_cap}, {{0}, no_cap}, {{2}, no_cap}}};
    EXPECT_EQ(rates(f, three, in_order(three), left), (std::vector<Rate>{50, 150, 50, 150}));
    EXPECT_EQ(left, (std::vector<Rate>{0, 0, 0}));
    // A cap of 10 leaves 90 to weights 1 and 2; 100 is not 3 x 33.
    const Case capped{{100}, {{{0}, 10}, {{0}, no_cap}, {{0}, no_cap, 2}}};
    EXPECT_EQ(rates(f, capped, in_order(capped), left), (std::vector<Rate>{10, 30, 60}));
    const Case thirds{{100}, {{{0}, no_cap}, {{0}, no_cap}, {{0}, no_cap}}};
    EXPECT_EQ(rates(f, thirds, in_order(thirds), left), (std::vector<Rate>{33, 33, 33}));
    EXPECT_EQ(left, (std::vector<Rate>{1}));
}
TEST(MaxMinSolver, WhatOthersKeepIsNotShared) {
    MaxMinSolver f;
    f.clear();
    const int link = f.add_link(100, 7);
    f.crosses(link);
    f.begin_members();
    f.add_member(f.add_flow({.slot = 3}));
    f.end_members(link, 60);
    f.solve();
    EXPECT_EQ(f.flows()[0].level, 40);
    EXPECT_EQ(f.flows()[0].slot, 3);
    EXPECT_EQ(f.links()[0].id, 7);
}
TEST(MaxMinSolver, EqualFlowsAreOneWithACount) {
    MaxMinSolver f;
    std::vector<Rate> left;
    // Three of weight 2 and one of weight 1 share 70: 20 each, and 10.
    const Case c{{70}, {{{0}, no_cap, 2, 3}, {{0}, no_cap}}};
    EXPECT_EQ(rates(f, c, in_order(c), left), (std::vector<Rate>{20, 10}));
    EXPECT_EQ(left, (std::vector<Rate>{0}));
}

// ---- Properties ---------------------------------------------------------------------
Case any_case() {
    Case c;
    c.links = *rc::gen::nonEmpty(
        rc::gen::container<std::vector<Rate>>(rc::gen::inRange<Rate>(1, 1'000'000)));
    for (int n = *rc::gen::inRange(1, 20); n > 0; --n) {
        AnyFlow f{{}, *rc::gen::inRange<Rate>(1, 1'000'000), *rc::gen::inRange(1, 4)};
        for (int r = 0; r < static_cast<int>(c.links.size()); ++r)
            if (*rc::gen::inRange(0, 3) == 0) f.links.push_back(r);
        if (!f.links.empty() && *rc::gen::arbitrary<bool>()) f.cap = no_cap;
        c.flows.push_back(f);
    }
    return c;
}
/// What max-min fair means: nobody can have more but by taking from who has no more than he.
RC_GTEST_PROP(MaxMinSolver, EachFlowMeetsItsCapOrIsAmongTheFirstInAFullLink, ()) {
    const Case c = any_case();
    MaxMinSolver f;
    std::vector<Rate> left;
    const auto rate = rates(f, c, in_order(c), left);
    const auto level = [&](std::size_t i) { return rate[i] / c.flows[i].weight; };
    std::vector<Rate> used(c.links.size(), 0), highest(c.links.size(), 0),
        weight(c.links.size(), 0);
    for (std::size_t i = 0; i < rate.size(); ++i)
        for (const int r : c.flows[i].links) {
            const auto link = static_cast<std::size_t>(r);
            used[link] += rate[i];
            weight[link] += c.flows[i].weight;
            highest[link] = std::max(highest[link], level(i));
        }
    for (std::size_t r = 0; r < used.size(); ++r) {
        RC_ASSERT(used[r] <= c.links[r]);
        RC_ASSERT(left[r] == c.links[r] - used[r]);
    }
    for (std::size_t i = 0; i < rate.size(); ++i) {
        const Rate cap = c.flows[i].cap / c.flows[i].weight;
        RC_ASSERT(level(i) <= cap);
        bool stopped = level(i) == cap;
        for (const int r : c.flows[i].links) {  // full: no more for a whole level
            const auto link = static_cast<std::size_t>(r);
            stopped |= left[link] < weight[link] && level(i) == highest[link];
        }
        RC_ASSERT(stopped);
    }
}
RC_GTEST_PROP(MaxMinSolver, OneWithACountIsAsThatManyFlows, ()) {
    Case counted = any_case(), each{counted.links, {}};
    std::vector<std::size_t> of;  // which flow of `counted` each one is
    for (std::size_t i = 0; i < counted.flows.size(); ++i) {
        counted.flows[i].count = *rc::gen::inRange(1, 6);
        for (int n = 0; n < counted.flows[i].count; ++n) {
            of.push_back(i);
            each.flows.push_back(counted.flows[i]);
            each.flows.back().count = 1;
        }
    }
    MaxMinSolver f;
    std::vector<Rate> left, left_of_each;
    const auto rate = rates(f, counted, in_order(counted), left);
    const auto rate_of_each = rates(f, each, in_order(each), left_of_each);
    for (std::size_t i = 0; i < of.size(); ++i) RC_ASSERT(rate_of_each[i] == rate[of[i]]);
    RC_ASSERT(left_of_each == left);
}
RC_GTEST_PROP(MaxMinSolver, TheOrderOfFlowsChangesNothing, (std::uint32_t seed)) {
    const Case c = any_case();
    MaxMinSolver f;  // one for both, so that nothing of the first is left in the second
    std::vector<Rate> left, left_again;
    auto order = in_order(c);
    const auto straight = rates(f, c, order, left);
    std::shuffle(order.begin(), order.end(), std::minstd_rand(seed));
    RC_ASSERT(rates(f, c, order, left_again) == straight);
    RC_ASSERT(left_again == left);
}

}  // namespace
