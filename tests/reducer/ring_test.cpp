#include <gx/reducer/ring.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/reference/ring.hpp>
#include <support/generators.hpp>
#include <support/reduce_on.hpp>

// ---- What the type promises ---------------------------------------------------------
static_assert(gx::Reducer<gx::Ring<>> && gx::Reducer<gx::Ring<gx::fp16>> &&
              gx::Reducer<gx::Ring<gx::bf16, gx::DivideAfter>>);
static_assert(!gx::Reducer<gx::fp16>, "an element is not a policy");
static_assert(gx::Ring<>::staleness == 0 && gx::Ring<>::asynchronous && gx::Ring<>::channels == 1);

namespace {

// ---- A case worked by hand ----------------------------------------------------------
TEST(Ring, AveragesThreeRanks) {
    Rows rows{{3, 6}, {30, 60}, {300, 600}};
    const auto report = reduce_on<gx::Ring<>>({.ranks = 3}, rows);
    EXPECT_EQ(rows, (Rows{{111, 222}, {111, 222}, {111, 222}}));
    EXPECT_EQ(report.steps, 4);
}

TEST(Ring, RoundsAtEveryHop) {
    // 2048 + 1 is halfway between two halves and goes to the even one, twice; summed first it is
    // 2050.
    Rows rows{{2048}, {1}, {1}};
    reduce_on<gx::Ring<gx::fp16, gx::DivideAfter>>({.ranks = 3}, rows);
    EXPECT_EQ(rows[0][0], 2048.0f * (1.0f / 3.0f));
    EXPECT_EQ(rows[1], rows[0]);
}

TEST(Ring, OneRankIsRoundedToTheWireOnly) {
    Rows rows{{0.1f, 3e-9f, -7.0f}};
    reduce_on<gx::Ring<gx::fp32>>({.ranks = 1}, rows);
    EXPECT_EQ(rows, (Rows{{0.1f, 3e-9f, -7.0f}}));
    reduce_on<gx::Ring<gx::fp16>>({.ranks = 1}, rows);
    EXPECT_EQ(rows, (Rows{{gx::fp16::decode(gx::fp16::encode(0.1f)), 0.0f, -7.0f}}));
}

// ---- Properties ----------------------------------------------------------------------
template <class E, class D>
void equals_the_serial_mean() {
    const gx::Placement placement = *a_placement();
    Rows rows = some_rows(placement);
    const auto order = gx::reference::natural_order(placement.ranks());
    const auto expected = gx::reference::ring_mean<E, D>(rows, order);
    const auto report = reduce_on<gx::Ring<E, D>>(
        {.ranks = placement.ranks(), .machines = placement.machines}, rows);
    for (const auto& row : rows) RC_ASSERT(row == expected);
    RC_ASSERT(report.complete());
    RC_ASSERT(report.steps == 2 * (placement.ranks() - 1));
}
RC_GTEST_PROP(Ring, OfFloatsEqualsTheSerialMean, ()) {
    equals_the_serial_mean<gx::fp32, gx::DivideSplit>();
}
RC_GTEST_PROP(Ring, OfHalvesEqualsTheSerialMean, ()) {
    equals_the_serial_mean<gx::fp16, gx::DivideSplit>();
}
RC_GTEST_PROP(Ring, OfBrainsEqualsTheSerialMean, ()) {
    equals_the_serial_mean<gx::bf16, gx::DivideBefore>();
}

TEST(Ring, SendsTheLeastThatAnAllReduceCan) {
    for (const int n : {2, 4, 8}) {
        Rows rows(static_cast<std::size_t>(n), std::vector<float>(64, 1.0f));
        EXPECT_EQ(reduce_on<gx::Ring<gx::fp32>>({.ranks = n}, rows).bytes_sent,
                  2 * (n - 1) * 64 / n * 4);
        EXPECT_EQ(reduce_on<gx::Ring<gx::fp16>>({.ranks = n}, rows).bytes_sent,
                  2 * (n - 1) * 64 / n * 2);
    }
}

// ---- A fault --------------------------------------------------------------------------
TEST(Ring, SaysSoWhenANeighbourIsLost) {
    Rows rows(3, std::vector<float>(12, 1.0f));
    const auto report = reduce_on<gx::Ring<>>({.ranks = 3, .dead_rank = 2}, rows);
    EXPECT_FALSE(report.complete());
    EXPECT_EQ(report.delivery.peer, 2);
}

TEST(RingDeathTest, KnowsHowMuchItWasToldToReserve) {
    gx::Ring<> ring;
    gx::detail::threads::Mailbox mailbox({1, 1}, std::chrono::seconds(1));
    gx::detail::threads::Endpoint link(mailbox, 0);
    std::vector<float> bucket(5);
    EXPECT_DEATH((void)ring.all_reduce(link, bucket), "reserve\\(\\) for the placement");
    ring.reserve(gx::ReducePlan::whole({1, 1}, 4));
    EXPECT_DEATH((void)ring.all_reduce(link, bucket), "larger than was reserved");
}

}  // namespace
