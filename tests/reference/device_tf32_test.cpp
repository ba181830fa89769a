// reference::Device in tf32: operands of products are rounded, nothing that is stored is.
#include <gx/reference/device.hpp>

#include <bit>     // bit_cast
#include <cmath>   // frexp, ldexp, floor, exp
#include <limits>  // infinity
#include <vector>  // numbers

#include <gx/model/graph.hpp>  // GraphBuilder

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <reference/tensor.hpp>  // Values

namespace {

using gx::tf32;
using Values = std::vector<double>;

// ---- The rounding -----------------------------------------------------------------------
TEST(Tf32, HasElevenDigitsAndRoundsTiesAway) {
    EXPECT_EQ(tf32::round(1 + 0x1p-10f), 1 + 0x1p-10f);
    EXPECT_EQ(tf32::round(1 + 0x1p-11f), 1 + 0x1p-10f);
    EXPECT_EQ(tf32::round(-1 - 0x1p-11f), -1 - 0x1p-10f);
    EXPECT_EQ(tf32::round(1 + 0x1p-11f - 0x1p-23f), 1.0f);
    EXPECT_EQ(tf32::round(1 + 3 * 0x1p-11f), 1 + 0x1p-9f);
    EXPECT_EQ(tf32::round(2 - 0x1p-23f), 2.0f);
    EXPECT_EQ(tf32::round(0x1p-126f), 0x1p-126f);
    constexpr float infinite = std::numeric_limits<float>::infinity();
    EXPECT_EQ(tf32::round(infinite), infinite);
    EXPECT_EQ(tf32::round(-infinite), -infinite);
    EXPECT_EQ(tf32::round(std::numeric_limits<float>::max()), infinite);
    EXPECT_TRUE(std::isnan(tf32::round(std::numeric_limits<float>::quiet_NaN())));
    EXPECT_TRUE(std::signbit(tf32::round(-0.0f)));
}
/// To 11 digits in double, ties away from 0.
double to_eleven_digits(double x) {
    int exponent = 0;
    const double digits = std::ldexp(std::frexp(std::abs(x), &exponent), 11);
    return std::copysign(std::ldexp(std::floor(digits + 0.5), exponent - 11), x);
}
RC_GTEST_PROP(Tf32, IsTheNearest, ()) {
    const auto exponent = *rc::gen::inRange<std::uint32_t>(1, 254),
               digits = *rc::gen::oneOf(rc::gen::inRange<std::uint32_t>(0, 1 << 23),
                                        rc::gen::map(rc::gen::inRange<std::uint32_t>(0, 1 << 11),
                                                     [](std::uint32_t k) { return k << 12; }));
    const auto x = std::bit_cast<float>(*rc::gen::inRange<std::uint32_t>(0, 2) << 31 |
                                        exponent << 23 | digits);
    RC_ASSERT(double{tf32::round(x)} == to_eleven_digits(x));
}

// ---- A linear layer by hand -------------------------------------------------------------
/// Numbers of many digits.
Values numbers(std::size_t count, std::uint64_t seed) {
    const gx::Rng random(seed, "numbers");
    Values v(count);
    for (std::size_t i = 0; i < count; ++i) v[i] = random.normal(i);
    return v;
}
RC_GTEST_PROP(DeviceInTf32, RoundsOperandsOfALinearLayerAlone, (std::uint64_t seed)) {
    const int in = *rc::gen::inRange(1, 6), out = *rc::gen::inRange(2, 5);
    gx::GraphBuilder b("linear", {in, 1, 1}, out);
    b.softmax_cross_entropy(b.linear(b.flatten(0, "flat"), out, true, "fc"), 0, "loss");
    const gx::Graph g = std::move(b).finish();
    const auto of_floats = [](const Values& v) { return std::vector<float>(v.begin(), v.end()); };
    const std::vector<float> x = of_floats(numbers(std::size_t(in), seed)),
                             p = of_floats(numbers(std::size_t(in * out + out), seed + 1));
    gx::reference::Device d(g, {.batch = 1, .tf32 = true});
    d.update([&](std::span<float> all) { std::ranges::copy(p, all.begin()); });
    const std::vector<std::int32_t> label{out - 1};
    (void)d.forward({x, label, 1, 0}, gx::Mode::train);
    std::vector<float> gradients(p.size());
    d.backward(1, gradients, [](std::size_t) {});

    const auto t = [](double v) { return to_eleven_digits(double{float(v)}); };
    Values logits(static_cast<std::size_t>(out)), dy = logits;
    double total = 0;
    for (int o = 0; o < out; ++o) {
        double& y = logits[std::size_t(o)];
        y = p[std::size_t(in * out + o)];
        for (int i = 0; i < in; ++i) y += t(p[std::size_t(o * in + i)]) * t(x[std::size_t(i)]);
        total += std::exp(y);
    }
    const auto near = [](double a, double c) {
        return std::abs(a - c) <= 1e-12 * (1 + std::abs(c));
    };
    const auto bits = [](double a, double c) { return std::abs(a - c) <= 0x1p-22 * std::abs(c); };
    for (int o = 0; o < out; ++o) {
        const auto at = std::size_t(o);
        RC_ASSERT(near(d.activation(int(g.tensors.size()) - 2)[at], logits[at]));
        dy[at] = std::exp(logits[at]) / total - (o == out - 1 ? 1 : 0);
        // Not rounded.
        RC_ASSERT(bits(d.parameter_gradient()[std::size_t(in * out + o)], dy[at]));
    }
    // A rounded operand may lie on the other side of a tie than by hand: then by one unit.
    for (int o = 0; o < out; ++o)
        for (int i = 0; i < in; ++i) {
            const double expected = t(dy[std::size_t(o)]) * t(x[std::size_t(i)]);
            const double found = d.parameter_gradient()[std::size_t(o * in + i)];
            RC_ASSERT(bits(found, expected) ||
                      std::abs(found - expected) <= 0x1p-10 * std::abs(expected));
        }
}

// ---- A convolution, by a device whose numbers were rounded before ------------------------
RC_GTEST_PROP(DeviceInTf32, ConvolvesRoundedImagesByRoundedWeights, (std::uint64_t seed)) {
    const int side = *rc::gen::inRange(3, 7), channels = *rc::gen::inRange(1, 4);
    gx::GraphBuilder b("conv", {channels, side, side}, 2);
    const int y = b.conv2d(b.input(), {3, gx::Window::square(3), 1, false}, "conv");
    b.softmax_cross_entropy(b.linear(b.flatten(y, "flat"), 2, false, "fc"), 0, "loss");
    const gx::Graph g = std::move(b).finish();
    const auto of_floats = [](const Values& v) { return std::vector<float>(v.begin(), v.end()); };
    std::vector<float> x = of_floats(numbers(std::size_t(channels * side * side), seed)),
                       p = of_floats(numbers(std::size_t(g.parameter_elements()), seed + 1));
    const std::vector<std::int32_t> label{1};
    gx::reference::Device a(g, {.batch = 1, .tf32 = true}), c(g, {.batch = 1});
    a.update([&](std::span<float> all) { std::ranges::copy(p, all.begin()); });
    (void)a.forward({x, label, 1, 0}, gx::Mode::train);
    for (auto* v : {&x, &p})
        for (float& f : *v) f = float(to_eleven_digits(f));
    c.update([&](std::span<float> all) { std::ranges::copy(p, all.begin()); });
    (void)c.forward({x, label, 1, 0}, gx::Mode::train);
    RC_ASSERT(std::ranges::equal(a.activation(y), c.activation(y)));
    RC_ASSERT(a.parameters()[0] != c.parameters()[0] || p[0] == a.parameters()[0]);
}

// ---- Backward through three layers, by hand --------------------------------------------
/// Two convolutions of one pixel and a linear layer, all without bias: matrices, one behind the
/// other. Each product reads its operands rounded, and nothing between them is.
RC_GTEST_PROP(DeviceInTf32, RoundsOperandsOfEveryGradient, (std::uint64_t seed)) {
    const std::vector<int> sides{*rc::gen::inRange(1, 5), *rc::gen::inRange(1, 5),
                                 *rc::gen::inRange(1, 5), 3};
    const float scale = *rc::gen::element(1.0f, 0.3f, 7.0f);
    gx::GraphBuilder b("matrices", {sides[0], 1, 1}, sides[3]);
    int y = b.conv2d(b.input(), {sides[1], gx::Window::square(1), 1, false}, "first");
    y = b.conv2d(y, {sides[2], gx::Window::square(1), 1, false}, "second");
    b.softmax_cross_entropy(b.linear(b.flatten(y, "flat"), sides[3], false, "fc"), 0, "loss");
    const gx::Graph g = std::move(b).finish();
    const auto of_floats = [](const Values& v) { return std::vector<float>(v.begin(), v.end()); };
    const std::vector<float> x = of_floats(numbers(std::size_t(sides[0]), seed));
    std::vector<float> p = of_floats(numbers(std::size_t(g.parameter_elements()), seed + 1));
    for (float& w : p) w *= 0.3f;  // so that the loss is far from saturated
    gx::reference::Device d(g, {.batch = 1, .tf32 = true});
    d.update([&](std::span<float> all) { std::ranges::copy(p, all.begin()); });
    const std::vector<std::int32_t> label{1};
    (void)d.forward({x, label, 1, 0}, gx::Mode::train);
    std::vector<float> gradients(p.size());
    d.backward(scale, gradients, [](std::size_t) {});

    bool is_tie = false;  // by hand an operand may lie on the other side of it
    const auto t = [&](double v) {
        int exponent = 0;
        const double digits = std::ldexp(std::frexp(std::abs(double{float(v)}), &exponent), 11);
        is_tie = is_tie || std::abs(digits - std::floor(digits) - 0.5) < 0x1p-11;
        return to_eleven_digits(double{float(v)});
    };
    const auto at = [&](int layer, int row, int column) {  // of its parameters
        std::size_t first = 0;
        for (int l = 0; l < layer; ++l) first += std::size_t(sides[l] * sides[l + 1]);
        return first + std::size_t(row * sides[layer] + column);
    };
    std::vector<Values> h{Values(x.begin(), x.end())};
    for (int l = 0; l < 3; ++l) {
        h.emplace_back(std::size_t(sides[l + 1]));
        for (int o = 0; o < sides[l + 1]; ++o)
            for (int i = 0; i < sides[l]; ++i) h[l + 1][o] += t(p[at(l, o, i)]) * t(h[l][i]);
    }
    double total = 0;
    for (const double logit : h[3]) total += std::exp(logit);
    Values dy(3);
    for (int o = 0; o < 3; ++o)
        dy[o] = double{scale} * (std::exp(h[3][o]) / total - (o == 1 ? 1 : 0));
    for (int l = 2; l >= 0; --l) {
        double largest = 0, furthest = 0;
        Values before(static_cast<std::size_t>(sides[l]));
        for (int o = 0; o < sides[l + 1]; ++o)
            for (int i = 0; i < sides[l]; ++i) {
                const double expected = t(dy[o]) * t(h[l][i]);
                largest = std::max(largest, std::abs(expected));
                furthest = std::max(furthest, std::abs(expected - gradients[at(l, o, i)]));
                before[i] += t(p[at(l, o, i)]) * t(dy[o]);
            }
        RC_PRE(!is_tie);
        RC_ASSERT(furthest <= 0x1p-21 * largest);  // that of a float, and of sums in double
        dy = before;
    }
}
}  // namespace
