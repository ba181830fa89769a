#include <gx/quantized/block_codec.hpp>

#include <cmath>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

using gx::Rng;
using gx::detail::quantized::BlockCodec;
using gx::detail::quantized::Phase;
using Eight = BlockCodec<8>;
using Four = BlockCodec<4>;
using Values = std::vector<float>;
using Bytes = std::vector<std::byte>;

constexpr float infinity = std::numeric_limits<float>::infinity(),
                nan = std::numeric_limits<float>::quiet_NaN(),
                most = std::numeric_limits<float>::max();

// ---- What the type promises ---------------------------------------------------------
static_assert(Eight::bytes(0) == 0 && Eight::bytes(1) == 5 && Eight::bytes(256) == 260 &&
              Eight::bytes(600) == 612);
static_assert(Four::bytes(1) == 5 && Four::bytes(3) == 6 && Four::bytes(256) == 132);
static_assert(Eight::step(127) == 1 && Four::step(7) == 1 && Eight::step(0) == 0);
static_assert(Eight::step(0x1p-149f) == 0x1p-149f, "where max / 127 would be 0");
static_assert(126 * double{Eight::step(most)} == double{most} &&
              7 * double{Four::step(most)} == double{most});

const Rng draws = Eight::draws(1, 0, 0, Phase::gradient);

template <class Codec>
Bytes encoded(const Values& values, std::int64_t offset = 0, const Rng& rng = draws) {
    Bytes out(Codec::bytes(values.size()));
    Codec::encode(values, offset, rng, out);
    return out;
}
template <class Codec>
Values decoded(const Bytes& message, std::size_t count) {
    Values out(count, -1.0f);
    Codec::decode(message, out);
    return out;
}
template <class Codec>
Values there_and_back(const Values& values, std::int64_t offset = 0) {
    return decoded<Codec>(encoded<Codec>(values, offset), values.size());
}
Bytes bytes(std::initializer_list<int> list) {
    Bytes out;
    for (const int b : list) out.push_back(static_cast<std::byte>(b));
    return out;
}

// ---- Cases worked by hand -----------------------------------------------------------
TEST(BlockCodec, WritesTheStepAndOneByteAValue) {  // 1.0f is 3f800000, here lowest byte first
    EXPECT_EQ(encoded<Eight>({127, -64, 0, 1}), bytes({0, 0, 0x80, 0x3f, 0x7f, 0xc0, 0, 1}));
}
TEST(BlockCodec, WritesTwoValuesOfFourBitsAByte) {  // codes + 8: 15, 5; 9, and 8 where none is
    EXPECT_EQ(encoded<Four>({7, -3, 1}), bytes({0, 0, 0x80, 0x3f, 0x5f, 0x89}));
}
TEST(BlockCodec, KeepsMultiplesOfTheStep) {
    Values whole;
    for (int i = -127; i <= 127; ++i) whole.push_back(0.25f * static_cast<float>(i));
    EXPECT_EQ(there_and_back<Eight>(whole), whole);
    const Values few{-7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
    EXPECT_EQ(there_and_back<Four>(few), few);
}
TEST(BlockCodec, RoundsUpWithTheChanceOfTheRest) {  // floor(x + word / 2^32), the step being 1
    Values values(200, -2.25f);
    values[0] = 127;
    const Values out = there_and_back<Eight>(values, 5);
    int up = 0;
    for (std::size_t i = 1; i < values.size(); ++i) {
        const auto word = draws.bits((i + 5) / 4)[(i + 5) % 4];
        EXPECT_EQ(out[i], word >= 0x40000000u ? -2.0f : -3.0f) << i;
        up += out[i] == -2.0f;
    }
    EXPECT_NEAR(up, 150, 6 * 6.2);
}
TEST(BlockCodec, KeepsZerosAndSubnormals) {
    const Values zeros(5, 0.0f), negative(3, -0.0f);
    EXPECT_EQ(there_and_back<Eight>(zeros), zeros);
    EXPECT_EQ(there_and_back<Eight>(negative), (Values{0, 0, 0}));
    EXPECT_EQ(encoded<Eight>(zeros), Bytes(9));
    const Values tiny{0x1p-149f, -127 * 0x1p-149f, 0};
    EXPECT_EQ(there_and_back<Eight>(tiny), tiny);
    EXPECT_EQ(Eight::step(128 * 0x1p-149f), 2 * 0x1p-149f);
}
TEST(BlockCodec, DoesNotOverflowNearTheLargestFloat) {
    for (float x = most; x > 0.999998f * most; x = std::nextafter(x, 0.0f)) {
        const Values out = there_and_back<Eight>({x, -x, x / 2, most / 3});
        const double s = Eight::step(x);
        for (const float y : out) ASSERT_TRUE(std::isfinite(y)) << x;
        ASSERT_LT(std::abs(double{out[0]} - double{x}), s);
        ASSERT_LT(std::abs(double{out[1]} + double{x}), s);
    }
    EXPECT_EQ(there_and_back<Eight>({most, -most}), (Values{most, -most}));
    EXPECT_EQ(there_and_back<Four>({most, -most}), (Values{most, -most}));
}
TEST(BlockCodec, LosesTheBlockOfAValueThatIsNotFinite) {
    for (const float bad : {infinity, -infinity, nan, -nan})
        for (const std::size_t at : {0, 1, 255, 256, 300}) {
            Values values(301, 127.0f);
            values[at] = bad;
            const Bytes message = encoded<Eight>(values);
            const Values out = decoded<Eight>(message, values.size());
            for (std::size_t i = 0; i < out.size(); ++i)
                EXPECT_TRUE(i / 256 == at / 256 ? std::isnan(out[i]) : out[i] == 127.0f) << i;
            std::array<double, 1> sum{};
            Eight::add(std::span(message).subspan(at / 256 * Eight::block_bytes), sum);
            EXPECT_TRUE(std::isnan(sum[0]));
        }
}
TEST(BlockCodec, HasAStreamForEachSeedGradientRankAndPhase) {
    const auto word = [](const Rng& rng) { return rng.bits(0)[0]; };
    std::vector<std::uint32_t> words{word(Eight::draws(2, 0, 0, Phase::gradient)),
                                     word(Eight::draws(1, 1, 0, Phase::gradient))};
    for (const int rank : {0, 1, 2})
        for (const Phase p : {Phase::gradient, Phase::mean})
            words.push_back(word(Eight::draws(1, 0, rank, p)));
    std::ranges::sort(words);
    EXPECT_EQ(std::ranges::adjacent_find(words), words.end());
}

// ---- Properties ---------------------------------------------------------------------

/// Finite floats of every exponent.
float any_float() {
    for (;;) {
        const float x = std::bit_cast<float>(*rc::gen::arbitrary<std::uint32_t>());
        if (std::isfinite(x)) return x;
    }
}
template <class Codec>
void expect_smallest_step(float largest) {
    const float s = Codec::step(largest);
    RC_ASSERT(double{s} * Codec::levels >= double{largest});
    if (Codec::levels == 127 && largest > 0.999999f * most) return;
    RC_ASSERT(std::isfinite(s * float{Codec::levels}));
    if (s > 0) RC_ASSERT(double{std::nextafter(s, 0.0f)} * Codec::levels < double{largest});
}
RC_GTEST_PROP(BlockCodec, StepIsTheSmallestThatReaches, ()) {
    const float largest = std::abs(any_float());
    expect_smallest_step<Eight>(largest);
    expect_smallest_step<Four>(largest);
}
template <class Codec>
void expect_neighbours() {
    Values values;
    for (int left = *rc::gen::inRange(0, 70); left > 0; --left) values.push_back(any_float());
    float largest = 0;
    for (const float x : values) largest = std::max(largest, std::abs(x));
    const double s = Codec::step(largest);
    const Values out = there_and_back<Codec>(values, *rc::gen::inRange(0, 1000));
    for (std::size_t i = 0; i < values.size(); ++i)
        RC_ASSERT(std::abs(double{out[i]} - double{values[i]}) <=
                  s + 0x1p-24 * std::abs(double{out[i]}));
}
RC_GTEST_PROP(BlockCodec, ReturnsANeighbourOnTheGrid, ()) {
    expect_neighbours<Eight>();
    expect_neighbours<Four>();
}
RC_GTEST_PROP(BlockCodec, DrawsByTheOffsetOfEachValue, ()) {  // wherever the message begins
    const int first = *rc::gen::inRange(0, 9), more = *rc::gen::inRange(0, 9);
    Values longer(40, 0.375f);
    longer[0] = 127;
    longer.back() = 127;
    const Values shorter(longer.begin() + 1 + more, longer.end());
    const Values a = there_and_back<Eight>(longer, first),
                 b = there_and_back<Eight>(shorter, first + 1 + more);
    RC_ASSERT(Values(a.begin() + 1 + more, a.end()) == b);
}

}  // namespace
