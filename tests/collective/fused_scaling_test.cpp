#include <gx/collective/fused_scaling.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>     // bit_cast
#include <cmath>   // signbit
#include <limits>  // infinity, quiet_NaN
#include <random>
#include <vector>

#include <gx/collective/binary_tree.hpp>
#include <gx/collective/execute.hpp>
#include <gx/collective/halving_doubling.hpp>
#include <gx/collective/recursive_doubling.hpp>
#include <gx/collective/hierarchical.hpp>
#include <gx/collective/proof.hpp>
#include <gx/collective/ring.hpp>
#include <gx/collective/tree.hpp>
#include <gx/reducer/collective_reducer.hpp>
#include <gx/reducer/divide.hpp>

#include "worlds.hpp"  // some_placement

namespace {

using gx::collective::FusedScaling;
using gx::collective::MeanFactors;
using Bits = std::vector<std::uint32_t>;

/// Floats of every kind, each drawn from all bits: subnormal, infinite and NaN among them.
std::vector<float> any_floats(std::uint64_t seed, std::int64_t count) {
    std::mt19937_64 random(seed);
    std::vector<float> all(static_cast<std::size_t>(count));
    for (float& x : all) {
        const auto bits = static_cast<std::uint32_t>(random());
        x = random() % 4 == 0 ? std::bit_cast<float>(bits)
                              : static_cast<float>(static_cast<std::int32_t>(bits)) * 1e-9f;
    }
    return all;
}
Bits bits_of(const std::vector<float>& values) {
    Bits bits;
    for (const float x : values) bits.push_back(std::bit_cast<std::uint32_t>(x));
    return bits;
}
void multiply(std::vector<float>& values, float factor) {
    if (factor != 1) gx::encode_scaled<gx::fp32>(values, factor, values);
}

/// Bits of each rank behind `reductions` means, one behind the other: by passes or fused.
template <class C>
std::vector<Bits> means(const C& collective, MeanFactors factors, std::uint64_t seed,
                        std::int64_t count, bool fused, int reductions = 2) {
    std::vector<Bits> ends(static_cast<std::size_t>(collective.ranks()));
    gx::testing::OnThreads{}({1, collective.ranks()}, [&](auto& rank) {
        auto& link = rank.transport();
        const auto r = static_cast<std::uint64_t>(rank.rank());
        std::vector<float> values = any_floats(seed * 1000 + r, count);
        std::vector<float> scratch(
            static_cast<std::size_t>(gx::collective::scratch_elements(collective, count)));
        std::array<FusedScaling, 1> scaling;
        scaling[0].reserve(collective);
        for (int i = 0; i < reductions; ++i) {
            const std::array flows{
                gx::collective::Flow<gx::fp32, C>{collective, values, scratch, 0}};
            if (!fused) multiply(values, factors.before);
            const auto done = fused ? gx::collective::execute(
                                          link, flows, gx::collective::Scaled{scaling, factors})
                                    : gx::collective::execute(link, flows);
            if (!fused) multiply(values, factors.after);
            if (!done.delivery.complete()) throw gx::Error("a reduction is not complete");
        }
        ends[r] = bits_of(values);
    });
    return ends;
}

const float third = 1.0f / 3;
MeanFactors some_factors() {
    return *rc::gen::element(MeanFactors{1, 0.25f}, MeanFactors{0.5f, 1}, MeanFactors{0.5f, 0.5f},
                             MeanFactors{third, 1}, MeanFactors{1, third}, MeanFactors{third, 7});
}
template <class C>
void expect_the_bits_of_passes(const C& c) {
    const auto factors = some_factors();
    const auto seed = *rc::gen::inRange<std::uint64_t>(0, 1'000'000);
    const std::int64_t count = some_length();
    RC_ASSERT(means(c, factors, seed, count, true) == means(c, factors, seed, count, false));
}

// ---- Cases worked by hand -----------------------------------------------------------
TEST(FusedScaling, RoundsEachProductAndTheSum) {
    std::vector<float> received{3.0f, -1.0f, 0.1f}, mine{1.0f, 5.0f, 0.7f};
    gx::collective::accumulate_scaled(received, {third, 0.5f}, mine);
    const auto by_hand = [](float own, float other) {
        const volatile float product = own * third;  // volatile: not fused with the sum
        const volatile float sum = product + other;
        return sum * 0.5f;
    };
    EXPECT_EQ(mine, (std::vector<float>{by_hand(1, 3), by_hand(5, -1), by_hand(0.7f, 0.1f)}));
}
TEST(FusedScaling, HasTheBitsOfPassesInAllVectors) {
    for (const gx::Simd simd : {gx::Simd::portable, gx::Simd::avx2, gx::Simd::avx512}) {
        if (!gx::supported(simd)) continue;
        for (const float of_received : {1.0f, third}) {
            std::vector<float> received = any_floats(1, 5000), mine = any_floats(2, 5000);
            std::vector<float> sum = mine, scaled = received;
            multiply(sum, 7 * third), multiply(scaled, of_received);
            gx::accumulate<gx::fp32>(scaled, sum);
            multiply(sum, third);
            gx::collective::accumulate_scaled(received, {7 * third, third}, mine, of_received,
                                              simd);
            EXPECT_EQ(bits_of(mine), bits_of(sum)) << gx::to_string(simd);
        }
    }
}
TEST(FusedScaling, OfBlocksOfEveryLength) {
    for (const std::size_t n : {0, 1, 2047, 2048, 2049, 4096, 5000}) {
        std::vector<float> received(n, 2.0f), mine(n, 4.0f);
        gx::collective::accumulate_scaled(received, {0.5f, 0.25f}, mine);
        EXPECT_EQ(mine, std::vector<float>(n, 1.0f)) << n;
    }
}
TEST(FusedScaling, ScalesOnceWhereItIsAdded) {
    // Rank 0 of a ring of 3: chunk 0 goes out as it is, 2 and 1 once they have been added to. It
    // receives rank 2's own chunk 2, and rank 2's sum of chunk 1.
    const gx::collective::Ring ring(3);
    FusedScaling scaling;
    scaling.reserve(ring);
    const MeanFactors half{0.5f, 0.25f};
    for (int turn = 0; turn < 2; ++turn) {
        std::vector<float> values{1, 2, 3}, own{10.0f}, sum{10.0f};
        scaling.begin(ring, 0);
        scaling.send(ring.exchange(0, 0), 0, half, values);
        EXPECT_EQ(values, (std::vector<float>{1, 2, 3})) << "rank 1 scales it";
        scaling.add(ring.exchange(0, 0), 0, half, own, values);
        EXPECT_EQ(values, (std::vector<float>{1, 2, 6.5f}));
        scaling.send(ring.exchange(0, 1), 1, half, values);
        EXPECT_EQ(values, (std::vector<float>{1, 2, 6.5f})) << "scaled as it was added to";
        scaling.add(ring.exchange(0, 1), 1, half, sum, values);
        EXPECT_EQ(values, (std::vector<float>{1, 2.75f, 6.5f})) << "a whole sum: a mean";
        for (const int step : {2, 3}) scaling.send(ring.exchange(0, step), step, half, values);
        scaling.end(half, values);
        EXPECT_EQ(values, (std::vector<float>{1, 2.75f, 6.5f})) << "others are copies";
    }
}
TEST(FusedScaling, AddsToWhatWasReceived) {
    const gx::collective::RecursiveDoubling swaps(2);
    FusedScaling scaling;
    scaling.reserve(swaps);
    const MeanFactors half{0.5f, 0.25f};
    std::vector<float> values{1, 2}, received{10, 20};
    scaling.begin(swaps, 1);
    scaling.send(swaps.exchange(1, 0), 0, half, values);
    EXPECT_EQ(values, (std::vector<float>{1, 2}));
    scaling.add(swaps.exchange(1, 0), 0, half, received, values);
    EXPECT_EQ(values, (std::vector<float>{1.375f, 2.75f}));
    constexpr float nan = std::numeric_limits<float>::quiet_NaN();
    values = {nan, -nan}, received = {-nan, nan};
    scaling.begin(swaps, 1);
    scaling.add(swaps.exchange(1, 0), 0, half, received, values);
    EXPECT_TRUE(std::signbit(values[0]) && !std::signbit(values[1])) << "what was received";
}
/// Rank 0 of 2 sends chunk 1, receives chunks 0 and 1 in one message, and then chunk 1 alone.
struct Uneven {
    static constexpr int ranks() { return 2; }
    static constexpr int chunks() { return 2; }
    static constexpr int steps() { return 3; }
    static constexpr gx::Exchange exchange(int, int step) {
        if (step == 0) return {.to = 1, .send_chunk = 1, .combine = gx::Combine::copy};
        return {.from = 1,
                .receive_chunk = step - 1,
                .combine = gx::Combine::add,
                .chunks = step == 1 ? 2 : 1};
    }
};
TEST(FusedScaling, OfAMessageWhoseChunksAreNotAlike) {
    FusedScaling scaling;
    scaling.reserve(Uneven());
    const MeanFactors half{0.5f, 0.25f};
    std::vector<float> values{8, 8, 8, 8};
    scaling.begin(Uneven(), 0);
    scaling.send(Uneven::exchange(0, 0), 0, half, values);
    EXPECT_EQ(values, (std::vector<float>{8, 8, 4, 4}));
    std::vector<float> received(4, 4.0f);
    scaling.add(Uneven::exchange(0, 1), 1, half, received, values);
    EXPECT_EQ(values, (std::vector<float>{2, 2, 8, 8})) << "chunk 0 is whole, chunk 1 was scaled";
    received.resize(2);
    scaling.add(Uneven::exchange(0, 2), 2, half, received, values);
    EXPECT_EQ(values, (std::vector<float>{2, 2, 3, 3}));
}
/// A chain of sums to the last rank, and copies around the ring that end there again. prove() is
/// right that it is an all-reduce.
struct ClosedRing {
    static constexpr gx::Promise promise = gx::Promise::all_reduce;
    int n = 2;
    [[nodiscard]] constexpr int ranks() const { return n; }
    static constexpr int chunks() { return 1; }
    [[nodiscard]] constexpr int steps() const { return 2 * n - 1; }
    [[nodiscard]] constexpr gx::Exchange exchange(int rank, int step) const {
        const int sender = step % n;
        gx::Exchange e{.combine = step < n - 1 ? gx::Combine::add : gx::Combine::copy};
        if (rank == sender) e.to = (sender + 1) % n, e.send_chunk = 0;
        if (rank == (sender + 1) % n) e.from = sender, e.receive_chunk = 0;
        return e;
    }
};
static_assert(gx::collective::prove_all_reduce(ClosedRing{4}).holds());
/// As Mean: each rank's own sum, though a copy of it comes back.
struct ClosedRings {
    static constexpr int count = 1;
    static constexpr ClosedRing make(gx::Placement placement, int) { return {placement.ranks()}; }
};
TEST(FusedScaling, YieldsNoMeanWhereTheWholeSumReturnsAsACopy) {
    EXPECT_FALSE(FusedScaling::yields_mean(ClosedRing{2}));
    EXPECT_FALSE(FusedScaling::yields_mean(ClosedRing{5}));
    EXPECT_TRUE(FusedScaling::yields_mean(gx::collective::Ring(1)));
    gx::testing::OnThreads{}({1, 4}, [](auto& rank) {
        gx::detail::reducer::Mean<ClosedRings, gx::fp32, gx::DivideAfter> mean;
        mean.reserve(gx::ReducePlan::whole({1, 4}, 3));
        std::vector<float> values(3, static_cast<float>(rank.rank()));
        (void)mean.all_reduce(rank.transport(), values);
        EXPECT_EQ(values, std::vector<float>(3, 1.5f)) << "rank " << rank.rank();
    });
}
RC_GTEST_PROP(FusedScaling, YieldsTheMeanByAllThatAreHere, ()) {
    const auto placement = some_placement(33);
    const int n = placement.ranks();
    RC_ASSERT(FusedScaling::yields_mean(
        gx::collective::machine_ring(placement, *rc::gen::inRange(0, 4))));
    RC_ASSERT(FusedScaling::yields_mean(gx::collective::HalvingDoubling(n)));
    RC_ASSERT(FusedScaling::yields_mean(gx::collective::RecursiveDoubling(n)));
    RC_ASSERT(FusedScaling::yields_mean(gx::collective::Tree(n)));
    RC_ASSERT(FusedScaling::yields_mean(
        gx::collective::BinaryTree(n, *rc::gen::inRange(0, 2), *rc::gen::inRange(1, 5))));
    RC_ASSERT(FusedScaling::yields_mean(gx::collective::Hierarchical(placement)));
}
TEST(FusedScaling, OneRankHasNothingToAddTo) {
    const gx::collective::Ring ring(1);
    FusedScaling scaling;
    scaling.reserve(ring);
    std::vector<float> values{8, 16};
    scaling.begin(ring, 0);
    scaling.end({0.5f, 0.25f}, values);
    EXPECT_EQ(values, (std::vector<float>{1, 2}));
}

// ---- Properties ---------------------------------------------------------------------
RC_GTEST_PROP(FusedScaling, RingsHaveTheBitsOfPasses, ()) {
    const auto placement = some_placement(17);
    expect_the_bits_of_passes(gx::collective::machine_ring(placement, *rc::gen::inRange(0, 4)));
}
RC_GTEST_PROP(FusedScaling, HalvingDoublingHasTheBitsOfPasses, ()) {
    expect_the_bits_of_passes(gx::collective::HalvingDoubling(*rc::gen::inRange(1, 18)));
}
RC_GTEST_PROP(FusedScaling, RecursiveDoublingHasTheBitsOfPasses, ()) {
    expect_the_bits_of_passes(gx::collective::RecursiveDoubling(*rc::gen::inRange(1, 18)));
}
RC_GTEST_PROP(FusedScaling, TreesHaveTheBitsOfPasses, ()) {
    expect_the_bits_of_passes(gx::collective::Tree(*rc::gen::inRange(1, 18)));
    expect_the_bits_of_passes(gx::collective::BinaryTree(
        *rc::gen::inRange(1, 18), *rc::gen::inRange(0, 2), *rc::gen::inRange(1, 5)));
}
RC_GTEST_PROP(FusedScaling, HierarchiesHaveTheBitsOfPasses, ()) {
    expect_the_bits_of_passes(gx::collective::Hierarchical(some_placement(17)));
}

}  // namespace
