#include <gx/recursive_doubling/reducer.hpp>

#include <bit>      // bit_cast, bit_floor
#include <cstring>  // memcmp

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <support/generators.hpp>
#include <support/reduce_on.hpp>

// ---- What the type promises ---------------------------------------------------------
static_assert(gx::Reducer<gx::RecursiveDoubling<>> && gx::Reducer<gx::RecursiveDoubling<gx::fp16>>);

namespace {

// ---- A case worked by hand ----------------------------------------------------------
TEST(RecursiveDoubling, AveragesThreeRanks) {
    Rows rows{{3, 6}, {30, 60}, {300, 600}};
    const auto report = reduce_on<gx::RecursiveDoubling<>>({.ranks = 3}, rows);
    EXPECT_EQ(rows, (Rows{{111, 222}, {111, 222}, {111, 222}}));
    EXPECT_EQ(report.steps, 3) << "a fold, a swap, and the fold back";
}

// ---- Properties ----------------------------------------------------------------------
float rounded(float x) { return gx::fp16::decode(gx::fp16::encode(x)); }
/// What virtual rank v has before the swaps, of column i: the ranks beyond a power of two, `extra`
/// of them, are in their neighbours' values.
float folded(const Rows& rows, std::size_t i, std::size_t v, std::size_t extra, float factor) {
    const auto of = [&](std::size_t rank) { return rounded(rows[rank][i] * factor); };
    return v < extra ? rounded(of(2 * v + 1) + of(2 * v)) : of(v + extra);
}
/// Its sum over virtual ranks [first, first + width), bracketed by halves.
float sum(const Rows& rows, std::size_t i, std::size_t first, std::size_t width, float factor) {
    if (width == 1)
        return folded(rows, i, first, rows.size() - std::bit_floor(rows.size()), factor);
    return rounded(sum(rows, i, first, width / 2, factor) +
                   sum(rows, i, first + width / 2, width / 2, factor));
}
TEST(RecursiveDoubling, SumsNeighboursFirst) {  // sums commute: the brackets decide
    for (int n = 1; n <= 13; ++n)
        for (const std::int64_t length : {1, 7, 64, 1001}) {
            const Rows before = gx::testing::wide_magnitudes(7, n, length);
            Rows after = before;
            reduce_on<gx::RecursiveDoubling<gx::fp16>>({.ranks = n}, after);
            for (std::size_t i = 0; i < before[0].size(); ++i) {
                const float mean =
                    sum(before, i, 0, std::bit_floor(before.size()), gx::DivideSplit::before(n)) *
                    gx::DivideSplit::after(n);
                for (const auto& row : after) ASSERT_EQ(row[i], mean) << n << " ranks, " << i;
            }
        }
}
/// A NaN of a sign and a payload of its own on each rank.
template <class R>
void expect_one_nan_of_all(int n) {
    Rows rows(static_cast<std::size_t>(n), std::vector<float>(40, 1.0f));
    for (std::size_t r = 0; r < rows.size(); ++r)
        for (std::size_t i = r % 3; i < 40; i += 1 + r % 4)
            rows[r][i] = std::bit_cast<float>((r % 2 == 0 ? 0x7fc00000u : 0xffc00000u) +
                                              (static_cast<std::uint32_t>(r + 1) << 14));
    reduce_on<R>({.ranks = n}, rows);
    for (const auto& row : rows)
        ASSERT_EQ(std::memcmp(row.data(), rows[0].data(), 40 * sizeof(float)), 0) << n << " ranks";
}
TEST(RecursiveDoubling, AllRanksEndWithTheSameNan) {
    for (int n = 2; n <= 9; ++n) {
        expect_one_nan_of_all<gx::RecursiveDoubling<gx::fp32>>(n);  // scaled in its sums
        expect_one_nan_of_all<gx::RecursiveDoubling<gx::fp32, gx::DivideAfter>>(n);
        expect_one_nan_of_all<gx::RecursiveDoubling<gx::fp16>>(n);
        expect_one_nan_of_all<gx::RecursiveDoubling<gx::bf16>>(n);
    }
}
RC_GTEST_PROP(RecursiveDoubling, HasTheSameBitsWhereverBucketsAreCut, ()) {
    const int n = *rc::gen::inRange(2, 12);
    const std::int64_t length = *rc::gen::inRange(2, 300), cut = *rc::gen::inRange(1L, length);
    const Rows before = gx::testing::wide_magnitudes(3, n, length);
    Rows whole = before;
    reduce_on<gx::RecursiveDoubling<gx::fp16>>({.ranks = n}, whole);
    Rows left, right;
    for (const auto& row : before) {
        left.emplace_back(row.begin(), row.begin() + cut);
        right.emplace_back(row.begin() + cut, row.end());
    }
    reduce_on<gx::RecursiveDoubling<gx::fp16>>({.ranks = n}, left);
    reduce_on<gx::RecursiveDoubling<gx::fp16>>({.ranks = n}, right);
    for (std::size_t r = 0; r < whole.size(); ++r) {
        left[r].insert(left[r].end(), right[r].begin(), right[r].end());
        RC_ASSERT(left[r] == whole[r]);
    }
}
TEST(RecursiveDoubling, SendsTheBucketInEachStep) {
    for (const int levels : {1, 2, 3}) {
        Rows rows(std::size_t{1} << levels, std::vector<float>(64, 1.0f));
        const auto report =
            reduce_on<gx::RecursiveDoubling<gx::fp16>>({.ranks = 1 << levels}, rows);
        EXPECT_EQ(report.steps, levels);
        EXPECT_EQ(report.bytes_sent, levels * 64 * 2);
    }
}

// ---- A fault --------------------------------------------------------------------------
TEST(RecursiveDoubling, SaysSoWhenAPartnerIsLost) {
    Rows rows(4, std::vector<float>(12, 1.0f));
    const auto report = reduce_on<gx::RecursiveDoubling<>>({.ranks = 4, .dead_rank = 2}, rows);
    EXPECT_FALSE(report.complete());
}

}  // namespace
