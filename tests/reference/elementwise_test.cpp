#include <gx/reference/elementwise.hpp>

#include <gtest/gtest.h>

#include <cmath>   // sqrt, isnan
#include <limits>  // quiet_NaN

#include <reference/tensor.hpp>  // Tensor

namespace {

using gx::reference::testing::Tensor;
using Values = std::vector<double>;

TEST(Relu, KeepsWhatIsPositive) {
    const Tensor x(1, {4, 1, 1}, {-1, 0, 2, -0.0}), dy(1, {4, 1, 1}, {1, 2, 3, 4});
    Tensor y(1, {4, 1, 1}), dx(1, {4, 1, 1}, {10, 10, 10, 10});
    relu(x.read(), y.write());
    EXPECT_EQ(y.values, (Values{0, 0, 2, 0}));
    relu_backward(x.read(), dy.read(), dx.write());
    EXPECT_EQ(dx.values, (Values{10, 10, 13, 10}));
}

TEST(Relu, LetsANaNThrough) {
    const Tensor x(1, {1, 1, 1}, {std::numeric_limits<double>::quiet_NaN()});
    Tensor y(1, {1, 1, 1});
    relu(x.read(), y.write());
    EXPECT_TRUE(std::isnan(y.values[0]));
}

TEST(Add, AddsAndPassesTheGradientBack) {
    const Tensor a(1, {2, 1, 1}, {1, 2}), b(1, {2, 1, 1}, {10, 20});
    Tensor y(1, {2, 1, 1}), dx(1, {2, 1, 1}, {100, 100});
    add(a.read(), b.read(), y.write());
    EXPECT_EQ(y.values, (Values{11, 22}));
    pass_back(a.read(), dx.write());
    EXPECT_EQ(dx.values, (Values{101, 102}));
}

TEST(Concat, PutsTheSecondsChannelsBehindTheFirsts) {
    const Tensor a(2, {1, 1, 2}, {1, 2, 3, 4}), b(2, {2, 1, 2}, {10, 20, 30, 40, 50, 60, 70, 80});
    Tensor y(2, {3, 1, 2}), da(2, {1, 1, 2}, {100, 0, 0, 0}), db(2, {2, 1, 2});
    concat(a.read(), b.read(), y.write());
    EXPECT_EQ(y.values, (Values{1, 2, 10, 20, 30, 40, 3, 4, 50, 60, 70, 80}));
    concat_backward(y.read(), da.write(), db.write());
    EXPECT_EQ(da.values, (Values{101, 2, 3, 4}));
    EXPECT_EQ(db.values, b.values);
}

// ---- Dropout --------------------------------------------------------------------------
TEST(Dropout, ScalesWhatItKeepsAndPassesGradientsThroughTheSameMask) {
    const auto stream = gx::reference::dropout_stream(1, "drop", 0, 0);
    const Tensor x(1, {1, 1, 64}, Values(64, 3.0));
    Tensor y(1, {1, 1, 64}), dx(1, {1, 1, 64});
    dropout(stream, 0.25, x.read(), y.write());
    dropout_backward(stream, 0.25, x.read(), dx.write());
    int kept = 0;
    for (const double v : y.values) {
        EXPECT_TRUE(v == 0 || v == 4) << v;
        kept += v != 0 ? 1 : 0;
    }
    EXPECT_GT(kept, 0);
    EXPECT_LT(kept, 64);
    EXPECT_EQ(y.values, dx.values);
}

// 100,000 draws at a rate of 0.3: the share dropped has a deviation of sqrt(0.21 / 1e5) = 0.00145;
// the stream is fixed, so five deviations are no gamble.
TEST(Dropout, DropsItsShare) {
    const auto stream = gx::reference::dropout_stream(9, "drop", 3, 4);
    int dropped = 0;
    for (std::uint64_t i = 0; i < 100'000; ++i)
        dropped += gx::reference::dropout_factor(stream, i, 0.3) == 0 ? 1 : 0;
    EXPECT_NEAR(dropped / 1e5, 0.3, 5 * 0.00145);
}

TEST(Dropout, DrawsAnewForEachSeedLayerRankAndBatch) {
    const auto mask = [](std::uint64_t seed, const char* name, int rank, std::uint64_t draw) {
        std::uint64_t bits = 0;
        const auto stream = gx::reference::dropout_stream(seed, name, rank, draw);
        for (std::uint64_t i = 0; i < 64; ++i)
            bits = bits << 1 | (gx::reference::dropout_factor(stream, i, 0.5) > 0 ? 1u : 0u);
        return bits;
    };
    const auto base = mask(1, "a", 0, 0);
    EXPECT_EQ(base, mask(1, "a", 0, 0));
    EXPECT_NE(base, mask(2, "a", 0, 0));
    EXPECT_NE(base, mask(1, "b", 0, 0));
    EXPECT_NE(base, mask(1, "a", 1, 0));
    EXPECT_NE(base, mask(1, "a", 0, 1));
}

TEST(Dropout, OfNothingKeepsAll) {
    const auto stream = gx::reference::dropout_stream(1, "drop", 0, 0);
    for (std::uint64_t i = 0; i < 100; ++i)
        EXPECT_EQ(gx::reference::dropout_factor(stream, i, 0.0), 1.0);
}

}  // namespace
