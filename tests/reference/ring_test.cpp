#include <gx/reference/ring.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>  // infinity

#include <gx/core/rng.hpp>        // Rng
#include <gx/reducer/divide.hpp>  // DivideAfter, DivideBefore, DivideSplit

namespace {

using gx::bf16;
using gx::DivideAfter;
using gx::DivideBefore;
using gx::DivideSplit;
using gx::fp16;
using gx::fp32;
using gx::reference::RingOrder;
using gx::reference::Rows;
using Floats = std::vector<float>;

/// Sums, not means: leaves the wire's rounding alone in view.
struct DivideNever {
    static constexpr float before(int) { return 1; }
    static constexpr float after(int) { return 1; }
};

// ---- Cases worked by hand. In fp16 2048 + 1 is a tie and rounds to 2048; 1 + 1 + 2048 is 2050 ---
const Rows three{{2048, 2048, 2048}, {1, 1, 1}, {1, 1, 1}};

TEST(RingMean, StartsEachChunkAtItsPosition) {
    EXPECT_EQ((gx::reference::ring_mean<fp16, DivideNever>(three, {0, 1, 2})),
              (Floats{2048, 2050, 2048}));  // 2048+1+1, 1+1+2048, 1+2048+1
}

TEST(RingMean, FollowsTheOrderOfTheRanks) {
    EXPECT_EQ((gx::reference::ring_mean<fp16, DivideNever>(three, {1, 2, 0})),
              (Floats{2050, 2048, 2048}));
}

TEST(RingMean, GivesEachRingItsPart) {
    const Rows rows{Floats(6, 2048), Floats(6, 1), Floats(6, 1)};
    const std::vector<RingOrder> orders{{0, 1, 2}, {2, 1, 0}};
    EXPECT_EQ((gx::reference::multi_ring_mean<fp16, DivideNever>(rows, orders)),
              (Floats{2048, 2050, 2048, 2050, 2048, 2048}));
}

TEST(RingMean, DividesWhereThePolicySays) {
    const Rows large{{40000, 40000}, {40000, 40000}}, small{{0x1p-24f, 0}, {0x1p-24f, 0}};
    EXPECT_EQ((gx::reference::ring_mean<fp16, DivideAfter>(large, {0, 1})),
              Floats(2, std::numeric_limits<float>::infinity()));
    EXPECT_EQ((gx::reference::ring_mean<fp16, DivideBefore>(large, {0, 1})), Floats(2, 40000));
    EXPECT_EQ((gx::reference::ring_mean<fp16, DivideAfter>(small, {0, 1})), (Floats{0x1p-24f, 0}));
    EXPECT_EQ((gx::reference::ring_mean<fp16, DivideBefore>(small, {0, 1})), (Floats{0, 0}));
}

TEST(RingMean, OfOneRankRoundsOnce) {
    EXPECT_EQ((gx::reference::ring_mean<fp16, DivideSplit>({{2049, 0.5f}}, {0})),
              (Floats{2048, 0.5f}));
}

// ---- The same, message by message -------------------------------------------------------
/// Step by step around the ring, as ranks do it; every position's own result.
template <class E, class Divide>
std::vector<Floats> pass_messages(const Rows& rows, const RingOrder& order) {
    using Wire = std::vector<typename E::storage>;
    const int n = static_cast<int>(order.size());
    const auto count = static_cast<std::int64_t>(rows[0].size());
    const auto mod = [n](int x) { return (x % n + n) % n; };
    std::vector<Wire> at;
    for (const int rank : order) {
        at.emplace_back();
        for (const float g : rows[std::size_t(rank)])
            at.back().push_back(E::encode(g * Divide::before(n)));
    }
    for (int step = 0; step < 2 * (n - 1); ++step) {
        const bool scatter = step < n - 1;
        const auto sent = at;  // all send before any receives
        for (int p = 0; p < n; ++p) {
            const int chunk = scatter ? mod(p - step) : mod(p + 1 - (step - (n - 1)));
            const auto [begin, end] = gx::chunk_range(count, n, chunk);
            Wire& to = at[std::size_t(mod(p + 1))];
            for (auto i = std::size_t(begin); i < std::size_t(end); ++i) {
                const auto message = sent[std::size_t(p)][i];
                to[i] = scatter ? E::encode(E::decode(to[i]) + E::decode(message)) : message;
            }
        }
    }
    std::vector<Floats> results;
    for (const Wire& wire : at) {
        results.emplace_back();
        for (const auto x : wire) results.back().push_back(E::decode(x) * Divide::after(n));
    }
    return results;
}

Rows random_rows(int ranks, std::size_t count, std::uint64_t seed) {
    Rows rows;
    for (int r = 0; r < ranks; ++r) {
        rows.emplace_back();
        const gx::Rng rng = gx::Rng(seed, "rows").at(std::uint64_t(r));
        for (std::size_t i = 0; i < count; ++i) rows.back().push_back(rng.normal(i));
    }
    return rows;
}

RingOrder random_order(int ranks, std::uint64_t seed) {
    std::vector<std::uint32_t> order(static_cast<std::size_t>(ranks));
    gx::Rng(seed, "order").permutation_into(order);
    return {order.begin(), order.end()};
}

template <class E, class Divide>
void expect_messages_agree(std::uint64_t seed) {
    const int ranks = *rc::gen::inRange(1, 9);
    const Rows rows = random_rows(ranks, *rc::gen::inRange<std::size_t>(0, 40), seed);
    const RingOrder order = random_order(ranks, seed);
    const Floats mean = gx::reference::ring_mean<E, Divide>(rows, order);
    for (const Floats& rank : pass_messages<E, Divide>(rows, order)) RC_ASSERT(rank == mean);
}
RC_GTEST_PROP(RingMean, EqualsMessageByMessageInFp32, (std::uint64_t seed)) {
    expect_messages_agree<fp32, DivideBefore>(seed);
}
RC_GTEST_PROP(RingMean, EqualsMessageByMessageInFp16, (std::uint64_t seed)) {
    expect_messages_agree<fp16, DivideSplit>(seed);
}
RC_GTEST_PROP(RingMean, EqualsMessageByMessageInBf16, (std::uint64_t seed)) {
    expect_messages_agree<bf16, DivideAfter>(seed);
}

TEST(RingMeanDeathTest, RefusesAnOrderThatLeavesARankOut) {
    EXPECT_DEATH((void)(gx::reference::ring_mean<fp32, DivideAfter>(three, {0, 1})), "every rank");
}

}  // namespace
