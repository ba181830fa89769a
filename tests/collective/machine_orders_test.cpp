#include <gx/collective/machine_orders.hpp>

#include <gtest/gtest.h>

#include <set>
#include <vector>

using gx::collective::machine_stride;
using gx::collective::MachineOrder;
using gx::collective::stride_count;

// ---- What the values promise --------------------------------------------------------
static_assert(stride_count(1) == 1 && stride_count(2) == 1 && stride_count(4) == 2);
static_assert(stride_count(6) == 2 && stride_count(8) == 4 && stride_count(7) == 6);
static_assert(machine_stride(8, 0) == 1 && machine_stride(8, 1) == 3 && machine_stride(8, 2) == 5 &&
              machine_stride(8, 3) == 7);
static_assert(machine_stride(8, 4) == 1, "with the strides used up it begins anew");
static_assert(MachineOrder({2, 4}, 0).rank_at(5) == 5, "order 0 is the order of the ranks");

namespace {

std::vector<int> ranks_of(MachineOrder order) {
    std::vector<int> ranks;
    for (int p = 0; p < order.ranks(); ++p) ranks.push_back(order.rank_at(p));
    return ranks;
}

// ---- A case worked by hand ----------------------------------------------------------
TEST(MachineOrder, FourMachinesOfTwo) {
    EXPECT_EQ(ranks_of({{4, 2}, 0}), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
    EXPECT_EQ(ranks_of({{4, 2}, 1}),
              (std::vector<int>{1, 0, 7, 6, 5, 4, 3, 2}));  // backwards, by GPU 0
    EXPECT_EQ(ranks_of({{1, 3}, 2}), (std::vector<int>{2, 0, 1}));
}

TEST(MachineOrder, OfARaggedPlacementIsThatOfTheRanks) {
    const std::vector<int> node{0, 1, 0}, local{0, 0, 1};
    const gx::NodeMap map{.node = node, .local_rank = local};
    for (int k = 0; k < 4; ++k) {
        const MachineOrder order({2, 0, &map}, k);
        EXPECT_EQ(ranks_of(order), (std::vector<int>{0, 1, 2}));
        EXPECT_TRUE(order.is_identity());
    }
}

// ---- Properties, for every placement up to 12 x 9 and 10 rings ------------------------
TEST(MachineOrder, IsAPermutationThatVisitsMachinesWhole) {
    for (int machines = 1; machines <= 12; ++machines)
        for (int gpus = 1; gpus <= 9; ++gpus)
            for (int k = 0; k < 10; ++k) {
                const MachineOrder order({machines, gpus}, k);
                std::set<int> seen;
                for (int p = 0; p < order.ranks(); ++p) {
                    ASSERT_EQ(order.position_of(order.rank_at(p)), p);
                    ASSERT_EQ(order.rank_at(p) / gpus, order.rank_at(p / gpus * gpus) / gpus);
                    seen.insert(order.rank_at(p));
                }
                ASSERT_EQ(static_cast<int>(seen.size()), order.ranks());
                ASSERT_EQ(*seen.begin(), 0);
                ASSERT_EQ(*seen.rbegin(), order.ranks() - 1);
            }
}

TEST(MachineOrder, RingsLeaveAMachineByOtherRoadsAndOtherGpus) {
    for (int machines = 2; machines <= 12; ++machines)
        for (int gpus = 1; gpus <= 8; ++gpus)
            for (int m = 0; m < machines; ++m) {
                std::set<int> next_machines, leaving_gpus;
                const int roads = stride_count(machines);
                for (int k = 0; k < std::max(roads, gpus); ++k) {
                    const MachineOrder order({machines, gpus}, k);
                    int last = order.position_of(m * gpus) / gpus * gpus + gpus - 1;
                    if (k < gpus) leaving_gpus.insert(order.rank_at(last) % gpus);
                    if (k < roads)
                        next_machines.insert(order.rank_at((last + 1) % order.ranks()) / gpus);
                }
                ASSERT_EQ(static_cast<int>(next_machines.size()), roads);
                ASSERT_EQ(static_cast<int>(leaving_gpus.size()), gpus);
            }
}

// ---- Wrong use -----------------------------------------------------------------------
TEST(MachineOrderDeathTest, NeedsARankAndARing) {
    EXPECT_DEATH(MachineOrder({0, 1}, 0), "at least one machine");
    EXPECT_DEATH(MachineOrder({1, 1}, -1), "rings count from 0");
}

}  // namespace
