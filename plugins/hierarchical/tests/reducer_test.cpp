#include <gx/hierarchical/reducer.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/halving_doubling/reducer.hpp>
#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/multi_ring.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/shared_memory/reducer.hpp>
#include <gx/sim/testing/on_cluster.hpp>
#include <gx/testing/conformance.hpp>
#include <gx/testing/processes.hpp>
#include <support/generators.hpp>
#include <support/reduce_on.hpp>
#include <support/run_checked.hpp>
#include <testing/processes_run.hpp>

// ---- What the type promises ---------------------------------------------------------
static_assert(gx::Reducer<gx::Hierarchical<>> && gx::Reducer<gx::Hierarchical<gx::bf16>>);

namespace {

// ---- A case worked by hand ----------------------------------------------------------
TEST(Hierarchical, AveragesTwoMachinesOfTwo) {
    Rows rows{{1, 2, 3}, {10, 20, 30}, {100, 200, 300}, {1001, 2002, 3003}};
    const auto report = reduce_on<gx::Hierarchical<>>({.ranks = 4, .machines = 2}, rows);
    for (const auto& row : rows) EXPECT_EQ(row, (std::vector<float>{278, 556, 834}));
    EXPECT_EQ(report.steps, 4);
}

// ---- Properties ----------------------------------------------------------------------
TEST(Hierarchical, OfOneLevelHasTheBitsOfTheRing) {
    for (const int machines : {1, 5}) {
        Rows levels = gx::testing::wide_magnitudes(3, 5, 101), ring = levels;
        reduce_on<gx::Hierarchical<gx::fp16>>({.ranks = 5, .machines = machines}, levels);
        reduce_on<gx::Ring<gx::fp16>>({.ranks = 5, .machines = machines}, ring);
        EXPECT_EQ(levels, ring);
    }
}
TEST(Hierarchical, SumsInsideTheMachineFirst) {
    // Shard 0 is chunks 0 and 1 of 4, summed from GPU 0 up; what 1e8 absorbs shows the brackets.
    const Rows values{{1e8f}, {1.0f}, {-1e8f}, {1.0f}};
    Rows rows(4);
    for (std::size_t r = 0; r < 4; ++r) rows[r].assign(4, values[r][0]);
    reduce_on<gx::Hierarchical<gx::fp32, gx::DivideAfter>>({.ranks = 4, .machines = 2}, rows);
    // (1e8 + 1) + (-1e8 + 1) = 0, where a ring in the order of the ranks would keep the last 1
    EXPECT_EQ(rows[0], (std::vector<float>{0, 0, 0, 0}));
}

// ---- Reducers by name at each level --------------------------------------------------
using HierarchicalLevels = testing_support::WithProcesses;
using Shared = gx::Hierarchical<gx::SharedMemory<>, gx::Ring<>>;
static_assert(gx::Reducer<Shared> && Shared::works_in_place &&
              std::same_as<Shared::wire_type, gx::fp32>);
static_assert(
    gx::Hierarchical<gx::Bucketed<gx::SharedMemory<>, 1024>, gx::Ring<>>::works_in_place &&
    !gx::Hierarchical<gx::Bucketed<gx::Ring<>, 1024>, gx::SharedMemory<>>::works_in_place);
static_assert(
    std::same_as<gx::Hierarchical<gx::SharedMemory<>, gx::Ring<gx::fp16>>::wire_type, gx::fp16>);
static_assert(gx::Hierarchical<gx::Ring<>, gx::MultiRing<4>>::channels == 4);
static_assert(gx::RepeatsWork<Shared>);

TEST_F(HierarchicalLevels, AveragesTwoMachinesOfTwo) {
    EXPECT_EQ(gx::reducer_name<Shared>(), "Hierarchical<SharedMemory<fp32>, Ring<fp32>>");
    Rows rows{{1, 2, 3}, {10, 20, 30}, {100, 200, 300}, {1001, 2002, 3003}};
    const auto report = reduce_on<Shared>({.ranks = 4, .machines = 2}, rows);
    for (const auto& row : rows) EXPECT_EQ(row, (std::vector<float>{278, 556, 834}));
    EXPECT_EQ(report.steps, 2) << "of the ring of two machines: shared memory has none";
    EXPECT_EQ(report.bytes_sent, 2 * 4) << "shard 0 has two of the three values";
}
TEST_F(HierarchicalLevels, SendsShardsAroundEachMachineWithoutSharedMemory) {
    Rows rows(6, std::vector<float>(12, 6));
    const auto report =
        reduce_on<gx::Hierarchical<gx::Ring<>, gx::Ring<>>>({.ranks = 6, .machines = 2}, rows);
    EXPECT_EQ(rows, Rows(6, std::vector<float>(12, 6)));
    EXPECT_EQ(report.steps, 4 + 2) << "rings of 3 and 2; shards are copied in shared memory";
}

// The bits of each level's own reducer, applied by hand to the rows of the level; a level of one
// rank does nothing.
template <class Inner, class Outer>
Rows by_hand(const Rows& rows, int machines) {
    const std::size_t gpus = rows.size() / static_cast<std::size_t>(machines);
    const auto length = static_cast<std::int64_t>(rows[0].size());
    Rows all;
    for (std::size_t m = 0; m < rows.size(); m += gpus) {
        Rows machine(rows.begin() + static_cast<std::ptrdiff_t>(m),
                     rows.begin() + static_cast<std::ptrdiff_t>(m + gpus));
        if (gpus > 1) reduce_on<Inner>({.ranks = static_cast<int>(gpus)}, machine);
        all.insert(all.end(), machine.begin(), machine.end());
    }
    if (machines == 1) return all;
    std::vector<float> mean(rows[0].size());
    for (std::size_t g = 0; g < gpus; ++g) {
        const auto part = gx::chunk_range(length, static_cast<int>(gpus), static_cast<int>(g));
        Rows shards;
        for (std::size_t r = g; r < all.size(); r += gpus)
            shards.emplace_back(all[r].begin() + part.begin, all[r].begin() + part.end);
        reduce_on<Outer>({.ranks = machines, .machines = machines}, shards);
        std::ranges::copy(shards[0], mean.begin() + part.begin);
    }
    return Rows(rows.size(), mean);
}
template <class R>
void expect_on_processes(gx::Placement placement, const Rows& rows, const Rows& expected) {
    gx::testing::ProcessWorld<> world({.placement = placement});
    testing_support::run_checked(world, [&](auto& rank) {
        const auto r = static_cast<std::size_t>(rank.rank());
        std::vector<float> row = rows[r];
        R reducer;
        reducer.reserve(gx::ReducePlan::whole(placement, std::ssize(row)));
        EXPECT_TRUE(reducer.all_reduce(rank.transport(), gx::Bucket(row)).complete());
        EXPECT_EQ(row, expected[r]) << gx::reducer_name<R>() << " on processes";
    });
}
template <class Inner, class Outer>
void expect_bits(std::uint64_t seed) {
    using R = gx::Hierarchical<Inner, Outer>;
    for (const auto& [machines, gpus] : {std::pair{2, 3}, {3, 2}, {1, 3}, {3, 1}, {4, 2}}) {
        const int ranks = machines * gpus;
        const Rows rows = gx::testing::wide_magnitudes(seed, ranks, 37);
        const Rows expected = by_hand<Inner, Outer>(rows, machines);
        Rows threads = rows;
        reduce_on<R>({.ranks = ranks, .machines = machines}, threads);
        EXPECT_EQ(threads, expected) << gx::reducer_name<R>() << " on threads";
        const gx::Placement p{machines, gpus};
        const auto on_cluster = gx::testing::reduce_jobs<R>(gx::sim::OnCluster{}, p, {rows});
        EXPECT_EQ(on_cluster.rows[0], expected) << gx::reducer_name<R>() << " by messages";
        expect_on_processes<R>(p, rows, expected);
    }
}
TEST_F(HierarchicalLevels, HasTheBitsOfItsLevelsInEveryWorld) {
    expect_bits<gx::SharedMemory<>, gx::Ring<>>(1);
    expect_bits<gx::SharedMemory<gx::bf16>, gx::MultiRing<2, gx::bf16>>(2);
    expect_bits<gx::SharedMemory<>, gx::HalvingDoubling<gx::fp16>>(3);
    expect_bits<gx::Ring<gx::fp16>, gx::SharedMemory<>>(4);
}
TEST_F(HierarchicalLevels, ConformsOnThreadsAndOnASimulatedCluster) {
    using R = gx::Hierarchical<gx::SharedMemory<>, gx::Ring<gx::fp16>>;
    const auto on_threads = gx::testing::check<R>(gx::testing::OnThreads{});
    EXPECT_TRUE(on_threads.empty()) << on_threads.text();
    const auto on_cluster = gx::testing::check<R>(gx::sim::OnCluster{});
    EXPECT_TRUE(on_cluster.empty()) << on_cluster.text();
}
TEST_F(HierarchicalLevels, RefusesARaggedPlacement) {
    const std::vector<int> node{0, 0, 1}, local{0, 1, 0};
    const gx::NodeMap map{.node = node, .local_rank = local};
    Shared reducer;
    try {
        reducer.reserve(gx::ReducePlan::whole({2, 0, &map}, 8));
        FAIL() << "three ranks on two machines";
    } catch (const gx::Error& e) {
        EXPECT_NE(std::string(e.what()).find("equally many ranks on each machine"),
                  std::string::npos);
    }
}
TEST_F(HierarchicalLevels, SaysSoWhenAGpuIsLost) {
    for (const int dead : {1, 3}) {
        Rows rows(4, std::vector<float>(12, 1.0f));
        const auto report = reduce_on<Shared>({.ranks = 4, .machines = 2, .dead_rank = dead}, rows);
        EXPECT_FALSE(report.complete());
        EXPECT_EQ(report.delivery.peer, dead);
    }
}

// ---- A fault --------------------------------------------------------------------------
TEST(Hierarchical, SaysSoWhenAGpuIsLost) {
    Rows rows(4, std::vector<float>(12, 1.0f));
    const auto report =
        reduce_on<gx::Hierarchical<>>({.ranks = 4, .machines = 2, .dead_rank = 3}, rows);
    EXPECT_FALSE(report.complete());
    EXPECT_EQ(report.delivery.peer, 3);
}

}  // namespace
