#include <gx/sim/network/flow_groups.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

namespace {

using gx::sim::FlowGroups;
using Slots = std::vector<int>;

/// One group at rate 1: a member ends when it has sent what it had.
struct Bench {
    FlowGroups groups{};
    int slots = 0, leader = FlowGroups::none;
    FlowGroups::Work remaining = 0;  // of the first to end

    int add(std::int64_t bytes) {
        const int slot = slots++;
        groups.add_slot();
        if (leader == FlowGroups::none) {
            leader = slot;
            remaining = bytes;
            groups.begin(slot);
        } else {
            groups.join(leader, slot, bytes);
        }
        return slot;
    }
    void settle() { remaining = groups.settle(leader, remaining); }
    /// Each member sends so much; returns those that end by then, in order.
    Slots send(std::int64_t bytes) {
        const auto due =
            groups.due(leader, remaining, bytes, [](FlowGroups::Work left) { return left <= 0; });
        Slots ended(due.begin(), due.end());
        for (const int slot : ended) EXPECT_EQ(groups.leave(slot), leader);
        remaining -= bytes;
        return ended;
    }
};

// ---- A case worked by hand ----------------------------------------------------------
TEST(FlowGroups, EndsTheLeastFirstAndTiesInTheOrderOfJoining) {
    Bench b;
    const int a = b.add(100), c = b.add(40), d = b.add(70);
    b.settle();
    EXPECT_EQ(b.groups.members(a), 3);
    EXPECT_TRUE(b.remaining == 40);
    EXPECT_EQ(b.send(40), Slots{c});
    const int e = b.add(30), f = b.add(30);  // beside d, which has 30 left too
    EXPECT_EQ(b.groups.joining(a), 2);
    b.settle();
    EXPECT_EQ(b.groups.joining(a), 0);
    EXPECT_TRUE(b.remaining == 30);
    EXPECT_EQ(b.send(30), (Slots{d, e, f}));
    EXPECT_EQ(b.groups.members(a), 1);
    EXPECT_TRUE(b.remaining == 30);
}

TEST(FlowGroups, FindsLeadersByHashAndEquality) {
    FlowGroups groups;
    for (int slot = 0; slot < 200; ++slot) {  // several growths
        groups.add_slot();
        groups.add(slot, static_cast<std::size_t>(slot % 7));
    }
    const auto find = [&](int slot) {
        return groups.find(static_cast<std::size_t>(slot % 7), [&](int s) { return s == slot; });
    };
    for (int slot = 0; slot < 200; ++slot) EXPECT_EQ(find(slot), slot);
    for (int slot = 0; slot < 200; slot += 2) groups.remove(slot);
    for (int slot = 0; slot < 200; ++slot)
        EXPECT_EQ(find(slot), slot % 2 == 0 ? FlowGroups::none : slot);
}

// ---- A property ---------------------------------------------------------------------
// Against each flow on its own: what it has left, and who ends when.
RC_GTEST_PROP(FlowGroups, EqualsFlowsOneByOne, ()) {
    Bench b;
    std::map<int, std::int64_t> left;  // by slot, which is also the order of joining
    const int rounds = *rc::gen::inRange(1, 12);
    for (int round = 0; round < rounds; ++round) {
        if (left.empty()) b.leader = FlowGroups::none;
        for (int joins = *rc::gen::inRange(round == 0 ? 1 : 0, 4); joins > 0; --joins) {
            const std::int64_t bytes = *rc::gen::inRange(1, 20);
            left[b.add(bytes)] = bytes;
        }
        if (left.empty()) continue;
        if (!b.groups.has_rate(b.leader) || b.groups.joining(b.leader) > 0) b.settle();
        if (left.size() > 1 && *rc::gen::inRange(0, 4) == 0) {  // one is taken out
            const auto at = std::next(left.begin(), *rc::gen::inRange<int>(0, int(left.size())));
            b.remaining = b.groups.take_out(at->first, b.remaining);
            left.erase(at);
        }
        const auto least = std::min_element(left.begin(), left.end(), [](auto& x, auto& y) {
                               return x.second < y.second;
                           })->second;
        RC_ASSERT(b.remaining == least);
        RC_ASSERT(b.groups.members(b.leader) == static_cast<int>(left.size()));
        // An event comes at the first end: no flow sends beyond it.
        const std::int64_t sent = *rc::gen::inRange<std::int64_t>(0, least + 1);
        if (sent < least) {
            b.remaining -= sent;
            for (auto& [slot, bytes] : left) bytes -= sent;
            continue;
        }
        Slots expected;
        for (auto& [slot, bytes] : left)
            if ((bytes -= sent) == 0) expected.push_back(slot);
        RC_ASSERT(b.send(sent) == expected);
        for (const int slot : expected) left.erase(slot);
    }
}

}  // namespace
