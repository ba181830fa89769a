#include <gx/shared_memory/average.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include <gx/testing/rows.hpp>

#include "serial_mean.hpp"  // serial_mean, same_bits

namespace {

using gx::testing::Rows;
using testing_support::same_bits;
using testing_support::serial_mean;

// ---- A case worked by hand ----------------------------------------------------------
TEST(Average, LeavesWhatIsOutsideOfItsRange) {
    std::array<float, 3> a{1, 2, 3}, b{5, 6, 7};
    const std::array<std::span<std::byte>, 2> all{std::as_writable_bytes(std::span(a)),
                                                  std::as_writable_bytes(std::span(b))};
    gx::detail::shared_memory::average<gx::fp32>(all, 1, 2);
    EXPECT_EQ(a, (std::array<float, 3>{1, 4, 3}));
    EXPECT_EQ(b, (std::array<float, 3>{5, 4, 7}));
}

/// All that this processor runs.
std::vector<gx::Simd> instruction_sets() {
    std::vector<gx::Simd> all;
    for (const gx::Simd simd :
         {gx::Simd::portable, gx::Simd::avx2, gx::Simd::avx512, gx::Simd::avx512_bf16})
        if (gx::supported(simd)) all.push_back(simd);
    return all;
}

// ---- Bits ---------------------------------------------------------------------------
template <class S>
using Bits = std::conditional_t<sizeof(typename S::storage) == 2, std::uint16_t, std::uint32_t>;

/// In any buffers' memory: of floats, or of elements on 16 bits.
template <class E, class S>
bool averages_like_plain_words(Rows rows, gx::Simd simd) {
    const std::size_t count = rows[0].size(), first = count / 7, end = count - count / 5;
    std::vector<std::vector<typename S::storage>> stored;
    for (auto& row : rows) {
        auto& one = stored.emplace_back();
        for (float& x : row) one.push_back(S::encode(x)), x = S::decode(one.back());
    }
    const auto before = stored;
    std::vector<std::span<std::byte>> all;
    for (auto& one : stored) all.push_back(std::as_writable_bytes(std::span(one)));
    gx::detail::shared_memory::average<E, S>(all, first, end, simd);
    for (std::size_t r = 0; r < stored.size(); ++r)
        for (std::size_t i = 0; i < count; ++i)
            if (i < first || i >= end
                    ? std::bit_cast<Bits<S>>(stored[r][i]) != std::bit_cast<Bits<S>>(before[r][i])
                    : !same_bits(S::decode(stored[r][i]), serial_mean<E>(rows, i)))
                return false;
    return true;
}
/// On every instruction set, and for every element in both kinds of memory.
bool all_average_like_plain_words(const Rows& rows) {
    bool all = true;
    for (const gx::Simd simd : instruction_sets())
        all = all && averages_like_plain_words<gx::fp32, gx::fp32>(rows, simd) &&
              averages_like_plain_words<gx::fp16, gx::fp32>(rows, simd) &&
              averages_like_plain_words<gx::bf16, gx::fp32>(rows, simd) &&
              averages_like_plain_words<gx::fp16, gx::fp16>(rows, simd) &&
              averages_like_plain_words<gx::bf16, gx::bf16>(rows, simd);
    return all;
}
TEST(Average, KeepsSubnormalMeansOfNormalNumbers) {
    constexpr float least = std::numeric_limits<float>::min();
    for (const gx::Simd simd : instruction_sets()) {
        const Rows rows{std::vector<float>(200, least),
                        std::vector<float>(200, least / 64 - least)};
        EXPECT_EQ(serial_mean<gx::bf16>(rows, 0), least / 128);
        EXPECT_TRUE((averages_like_plain_words<gx::bf16, gx::fp32>(rows, simd)));
        EXPECT_TRUE((averages_like_plain_words<gx::bf16, gx::bf16>(rows, simd)));
    }
}
// By hand: 2^-114 is half of the last bit of 2^-90, and 2^-98 half of that of its bf16. With 2^-127
// both sums are above their ties, and the mean is 2^-92 (1 + 2^-7); without it both are even.
TEST(Average, KeepsASubnormalContributionThatDecidesTheMean) {
    Rows rows;
    for (const float x : {0x1p-127f, 0x1p-114f, 0x1p-90f, 0x1p-98f}) rows.emplace_back(200, x);
    EXPECT_EQ(serial_mean<gx::bf16>(rows, 0), 0x1.02p-92f);
    for (const gx::Simd simd : instruction_sets())
        EXPECT_TRUE((averages_like_plain_words<gx::bf16, gx::fp32>(rows, simd)));
}
TEST(Average, KeepsASubnormalContributionToANormalMean) {
    const Rows rows{std::vector<float>(200, 0x1p-127f), std::vector<float>(200, 0x1p-125f)};
    EXPECT_EQ(serial_mean<gx::bf16>(rows, 0), 0x1.4p-126f);
    for (const gx::Simd simd : instruction_sets())
        EXPECT_TRUE((averages_like_plain_words<gx::bf16, gx::fp32>(rows, simd)));
}
TEST(Average, KeepsTheFirstOfTwoNaNs) {
    const Rows rows{std::vector<float>(200, 1.0f),
                    std::vector<float>(200, std::bit_cast<float>(0xffa00001u)),
                    std::vector<float>(200, std::bit_cast<float>(0x7fe00000u))};
    EXPECT_TRUE(all_average_like_plain_words(rows));
}
/// Numbers from below the least normal one to above the least sum that is rounded without a look at
/// what it is made of; often with the negative of the rank before, so that sums are small or zero.
RC_GTEST_PROP(Average, KeepsSubnormalContributionsToSmallSums, (std::uint64_t seed)) {
    std::mt19937_64 random(seed);
    const auto ranks = *rc::gen::inRange<std::size_t>(1, 6);
    const int lowest = *rc::gen::inRange(-150, -60), highest = *rc::gen::inRange(lowest, -58);
    Rows rows(ranks, std::vector<float>(256));
    for (std::size_t r = 0; r < ranks; ++r) {
        for (std::size_t i = 0; i < rows[r].size(); ++i) {
            const auto bits = static_cast<std::uint32_t>(random());
            const int exponent =
                lowest + static_cast<int>(random() % static_cast<unsigned>(highest - lowest + 1));
            rows[r][i] = std::ldexp(1.0f + static_cast<float>(bits >> 9) * 0x1p-23f, exponent);
            if ((bits & 1u) != 0) rows[r][i] = -rows[r][i];
            if ((bits & 6u) == 0 && r > 0) rows[r][i] = -rows[r - 1][i];
        }
    }
    for (const gx::Simd simd : instruction_sets()) {
        RC_ASSERT((averages_like_plain_words<gx::bf16, gx::fp32>(rows, simd)));
        RC_ASSERT((averages_like_plain_words<gx::bf16, gx::bf16>(rows, simd)));
    }
}
RC_GTEST_PROP(Average, EveryInstructionSetHasTheBitsOfPlainWords, (std::uint64_t seed)) {
    const int ranks = *rc::gen::inRange(1, 9);
    Rows rows = gx::testing::wide_magnitudes(seed, ranks, *rc::gen::inRange(1, 700));
    constexpr float inf = std::numeric_limits<float>::infinity();
    const auto odd = std::array{inf,
                                -inf,
                                std::bit_cast<float>(0x7fffffffu),
                                std::bit_cast<float>(0xffa00001u),
                                std::numeric_limits<float>::max(),
                                1e-44f,
                                -6e-39f,
                                std::numeric_limits<float>::min(),
                                -0.0f};
    for (int n = *rc::gen::inRange(0, 9); n > 0; --n) {
        auto& row = rows[*rc::gen::inRange<std::size_t>(0, rows.size())];
        row[*rc::gen::inRange<std::size_t>(0, row.size())] =
            odd[*rc::gen::inRange<std::size_t>(0, odd.size())];
    }
    RC_ASSERT(all_average_like_plain_words(rows));
}

}  // namespace
