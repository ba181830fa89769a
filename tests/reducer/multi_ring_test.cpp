#include <gx/reducer/multi_ring.hpp>

#include <cstdlib>  // calloc, free

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/collective/proof.hpp>  // ranks_proved_at_start
#include <gx/reference/ring.hpp>
#include <gx/reference/ring_bound.hpp>
#include <gx/testing/rows.hpp>
#include <support/generators.hpp>
#include <support/reduce_on.hpp>

// ---- What the type promises ---------------------------------------------------------
static_assert(gx::Reducer<gx::MultiRing<4, gx::fp16>>);
static_assert(gx::MultiRing<4, gx::fp16>::channels == 4);

namespace {

// ---- A case worked by hand ----------------------------------------------------------
TEST(MultiRing, AveragesFourRanks) {
    Rows rows{{1, 2, 3}, {10, 20, 30}, {100, 200, 300}, {1001, 2002, 3003}};
    reduce_on<gx::MultiRing<2, gx::fp32>>({.ranks = 4, .machines = 2}, rows);
    for (const auto& row : rows) EXPECT_EQ(row, (std::vector<float>{278, 556, 834}));
}

// ---- Properties -----------------------------------------------------------------------
RC_GTEST_PROP(MultiRing, OfOneIsTheRing, ()) {
    const gx::Placement placement = *a_placement();
    Rows one = some_rows(placement), ring = one;
    const Fabric fabric{.ranks = placement.ranks(), .machines = placement.machines};
    reduce_on<gx::MultiRing<1, gx::fp16>>(fabric, one);
    reduce_on<gx::Ring<gx::fp16>>(fabric, ring);
    RC_ASSERT(one == ring);
}

/// Bitwise the serial reference with its rounding at every hop, and near the exact mean.
template <int K, class E>
void equals_the_reference() {
    const gx::Placement placement = *a_placement();
    Rows rows = some_rows(placement);
    const Rows before = rows;
    std::vector<gx::reference::RingOrder> orders(K);
    for (int k = 0; k < K; ++k)
        for (int p = 0; p < placement.ranks(); ++p)
            orders[static_cast<std::size_t>(k)].push_back(
                gx::collective::MachineOrder(placement, k).rank_at(p));
    reduce_on<gx::MultiRing<K, E>>({.ranks = placement.ranks(), .machines = placement.machines},
                                   rows);
    const auto expected = gx::reference::multi_ring_mean<E, gx::DivideSplit>(before, orders);
    const auto bound = gx::reference::ring_error_bound<E, gx::DivideSplit>(before, orders);
    const auto exact = gx::testing::column_means(before);
    for (const auto& row : rows) RC_ASSERT(row == expected);
    for (std::size_t i = 0; i < exact.size(); ++i)
        RC_ASSERT(std::abs(static_cast<double>(expected[i]) - exact[i]) <= bound[i]);
}
RC_GTEST_PROP(MultiRing, OfHalvesEqualsTheReference, ()) { equals_the_reference<4, gx::fp16>(); }
RC_GTEST_PROP(MultiRing, OfFloatsEqualsTheReference, ()) { equals_the_reference<3, gx::fp32>(); }

RC_GTEST_PROP(MultiRing, EqualsTheSerialSumOfSmallIntegers, (std::uint64_t seed)) {
    const int machines = *rc::gen::element(1, 2, 4), ranks = 8;
    Rows rows = gx::testing::small_integers(seed, ranks, *rc::gen::inRange(0, 300));
    const auto expected = gx::testing::column_means(rows);
    reduce_on<gx::MultiRing<4, gx::fp16>>({.ranks = ranks, .machines = machines}, rows);
    for (const auto& row : rows) RC_ASSERT(std::equal(row.begin(), row.end(), expected.begin()));
}

TEST(MultiRing, EachPartIsSummedInItsOwnOrder) {
    // 3 machines of one: ring 1 goes 0, 2, 1. The order shows where a sum absorbs small values.
    const Rows values{{1e8f}, {1.0f}, {-1e8f}};
    Rows rows(3);
    for (std::size_t r = 0; r < 3; ++r) rows[r].assign(6, values[r][0]);
    reduce_on<gx::MultiRing<2, gx::fp32, gx::DivideAfter>>({.ranks = 3, .machines = 3}, rows);
    const float third = 1.0f / 3.0f;
    // part 0: (0+1)+2, (1+2)+0, (2+0)+1;  part 1: positions hold 0, 2, 1: (0+2)+1, (2+1)+0, (1+0)+2
    EXPECT_EQ(rows[0], (std::vector<float>{0, 0, third, third, 0, 0}));
}

TEST(MultiRing, MoreRingsThanElementsWillDo) {
    for (std::int64_t length = 0; length < 9; ++length) {
        Rows rows = gx::testing::small_integers(5, 4, length);
        const auto expected = gx::testing::column_means(rows);
        reduce_on<gx::MultiRing<8, gx::fp32>>({.ranks = 4}, rows);
        for (const auto& row : rows)
            EXPECT_TRUE(std::equal(row.begin(), row.end(), expected.begin()));
    }
}

// ---- What CollectiveReducer reserves --------------------------------------------------
/// Memory that counts what is taken of it.
struct Counted : gx::MemoryResource {
    std::byte* allocate(std::size_t size, const gx::Label&) override {
        bytes += size;
        return static_cast<std::byte*>(std::calloc(size, 1));
    }
    void release(std::byte* memory, std::size_t) noexcept override { std::free(memory); }
    const void* memory() const override { return &gx::memory_id<gx::HostMemory>; }
    std::size_t bytes = 0;
};
TEST(CollectiveReducer, KeepsAMessageAndOfOneRankNothing) {
    const auto bytes_of = [](int ranks) {
        Counted memory;
        auto plan = gx::ReducePlan::whole({1, ranks}, 12);
        plan.memory = &memory;
        gx::Ring<gx::fp32> ring;
        ring.reserve(plan);
        return memory.bytes;
    };
    EXPECT_EQ(bytes_of(3), 12 / 3 * sizeof(float));
    EXPECT_EQ(bytes_of(1), 0u);
}

/// A ring without its last step.
struct Unfinished : gx::collective::Ring {
    using Ring::Ring;
    [[nodiscard]] int steps() const { return Ring::steps() - 1; }
};
struct UnfinishedPlan {
    static constexpr int count = 1;
    static Unfinished make(gx::Placement placement, int) { return Unfinished(placement.ranks()); }
};
struct UnfinishedMean : gx::CollectiveReducer<UnfinishedPlan, gx::fp32, gx::DivideSplit> {};
TEST(CollectiveReducerDeathTest, ProvesItsCollectivesWhereThatIsQuick) {
    const auto reserve = [](int ranks) {
        UnfinishedMean mean;
        mean.reserve(gx::ReducePlan::whole({ranks, 1}, 1));
    };
    constexpr int most = gx::collective::ranks_proved_at_start;
    EXPECT_DEATH(reserve(most), "a chunk ends without some rank's contribution");
    reserve(most + 1);
}

// ---- A fault --------------------------------------------------------------------------
TEST(MultiRing, SaysSoWhenANeighbourIsLost) {
    for (const int dead : {0, 1, 3}) {
        Rows rows(4, std::vector<float>(100, 1.0f));
        const auto report = reduce_on<gx::MultiRing<4, gx::fp16>>(
            {.ranks = 4, .machines = 4, .dead_rank = dead}, rows);
        EXPECT_FALSE(report.complete());
        EXPECT_EQ(report.delivery.peer, dead);
    }
}

}  // namespace
