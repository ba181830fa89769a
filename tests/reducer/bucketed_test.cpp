#include <gx/reducer/bucketed.hpp>

#include <gtest/gtest.h>

#include <gx/reducer/multi_ring.hpp>
#include <gx/testing/rows.hpp>
#include <support/reduce_on.hpp>

// ---- What the type promises ---------------------------------------------------------
using Fp16Buckets = gx::Bucketed<gx::MultiRing<4, gx::fp16>, 16>;
static_assert(gx::Reducer<Fp16Buckets>);
static_assert(Fp16Buckets::bucket_elements == 8 && Fp16Buckets::channels == 4, "16 bytes of fp16");
static_assert(gx::Bucketed<gx::Ring<>, 19>::bucket_elements == 4, "whole elements");
static_assert(std::is_same_v<gx::Bucketed<gx::Ring<>>, gx::Bucketed<gx::Ring<>, 25 * 1024 * 1024>>);

namespace {

// ---- A case worked by hand: 10 elements in buckets of 4, 4 and 2 --------------------------
TEST(Bucketed, CutsFromTheFront) {
    Rows whole = gx::testing::wide_magnitudes(9, 3, 10), cut = whole, parts = whole;
    const auto report = reduce_on<gx::Bucketed<gx::Ring<>, 16>>({.ranks = 3}, cut);
    EXPECT_EQ(report.steps, 3 * 4);
    for (const auto& [begin, end] : {std::pair{0, 4}, {4, 8}, {8, 10}}) {
        Rows part(3);
        for (std::size_t r = 0; r < 3; ++r)
            part[r].assign(whole[r].begin() + begin, whole[r].begin() + end);
        reduce_on<gx::Ring<>>({.ranks = 3}, part);
        for (std::size_t r = 0; r < 3; ++r)
            std::copy(part[r].begin(), part[r].end(), parts[r].begin() + begin);
    }
    EXPECT_EQ(cut, parts);
    reduce_on<gx::Ring<>>({.ranks = 3}, whole);
    EXPECT_NE(cut, whole) << "the cuts change the order of sums, so this test can see them";
}

TEST(Bucketed, OfALargeBucketIsTheReducer) {
    Rows a = gx::testing::wide_magnitudes(2, 4, 100), b = a;
    const auto one = reduce_on<gx::Bucketed<gx::Ring<gx::fp16>, 1 << 20>>({.ranks = 4}, a);
    const auto other = reduce_on<gx::Ring<gx::fp16>>({.ranks = 4}, b);
    EXPECT_EQ(a, b);
    EXPECT_EQ(one.bytes_sent, other.bytes_sent);
}

TEST(Bucketed, IsCalledAsItIsSpelled) {
    EXPECT_EQ(gx::reducer_name<Fp16Buckets>(), "Bucketed<MultiRing<4, fp16>, 16>");
}

// ---- A fault --------------------------------------------------------------------------
TEST(Bucketed, StopsAtTheFirstBucketThatFails) {
    Rows rows(2, std::vector<float>(40, 1.0f));
    const auto report = reduce_on<gx::Bucketed<gx::Ring<>, 16>>({.ranks = 2, .dead_rank = 1}, rows);
    EXPECT_FALSE(report.complete());
    EXPECT_EQ(report.steps, 2) << "one bucket's, not ten";
}

}  // namespace
