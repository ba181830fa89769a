#include <gx/reference/convolution.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <reference/tensor.hpp>  // Tensor

namespace {

using gx::Window;
using gx::reference::Kernel;
using gx::reference::testing::dot;
using gx::reference::testing::small_integers;
using gx::reference::testing::Tensor;
using Values = std::vector<double>;

// ---- Cases worked by hand -------------------------------------------------------------
TEST(Convolution, OfOneByOneMixesChannels) {
    const Tensor x(1, {2, 1, 3}, {1, 2, 3, 10, 20, 30});
    const Values weight{1, 1, 2, -1}, bias{0, 100};  // (2, 2, 1, 1)
    Tensor y(1, {2, 1, 3});
    convolve({weight.data(), bias.data(), Window::square(1), 1}, x.read(), y.write());
    EXPECT_EQ(y.values, (Values{11, 22, 33, 92, 84, 76}));
}

TEST(Convolution, OfThreeByThreeIsACorrelation) {
    const Tensor x(1, {1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
    const Values weight{1, 0, 0, 0, 0, 0, 0, 0, -1};  // upper left minus lower right, not flipped
    Tensor inside(1, {1, 1, 1}), padded(1, {1, 3, 3}), strided(1, {1, 2, 2});
    convolve({weight.data(), nullptr, Window::square(3), 1}, x.read(), inside.write());
    EXPECT_EQ(inside.values, (Values{1 - 9}));
    convolve({weight.data(), nullptr, Window::square(3, 1, 1), 1}, x.read(), padded.write());
    EXPECT_EQ(padded.values, (Values{-5, -6, 0, -8, 1 - 9, 2, 0, 4, 5}));
    convolve({weight.data(), nullptr, Window::square(3, 2, 1), 1}, x.read(), strided.write());
    EXPECT_EQ(strided.values, (Values{-5, 0, 0, 5}));
}

TEST(Convolution, KeepsGroupsApart) {
    const Tensor x(1, {4, 1, 1}, {1, 10, 100, 1000});
    const Values weight{1, 2, 3, 4};  // (2, 2, 1, 1): two groups, each of two channels to one
    Tensor y(1, {2, 1, 1});
    convolve({weight.data(), nullptr, Window::square(1), 2}, x.read(), y.write());
    EXPECT_EQ(y.values, (Values{21, 4300}));
}

TEST(Convolution, GivesBackGradientsWorkedByHand) {
    const Tensor x(1, {1, 2, 2}, {1, 2, 3, 4});
    const Values weight{5, 6};  // (1, 1, 1, 2)
    const Tensor dy(1, {1, 2, 1}, {1, 10});
    Tensor dx(1, {1, 2, 2});
    Values dweight(2), dbias(1);
    convolve_backward({weight.data(), nullptr, {1, 2, 1, 0, 0}, 1}, x.read(), dy.read(), dx.write(),
                      dweight.data());
    bias_backward(dy.read(), dbias.data());
    EXPECT_EQ(dx.values, (Values{5, 6, 50, 60}));
    EXPECT_EQ(dweight, (Values{1 + 30, 2 + 40}));
    EXPECT_EQ(dbias, (Values{11}));
}

TEST(Convolution, AddsToGradientsThatAreThere) {
    const Tensor x(1, {1, 1, 1}, {2}), dy(1, {1, 1, 1}, {3});
    const Values weight{5};
    Tensor dx(1, {1, 1, 1}, {100});
    Values dweight{200};
    convolve_backward({weight.data(), nullptr, Window::square(1), 1}, x.read(), dy.read(),
                      dx.write(), dweight.data());
    EXPECT_EQ(dx.values, (Values{115}));
    EXPECT_EQ(dweight, (Values{206}));
}

// ---- Properties: convolution is linear in x and in its weight, so each gradient is its adjoint.
// With integers every sum is exact, and `==` is fair.
RC_GTEST_PROP(Convolution, GradientsAreAdjoints, (std::uint64_t seed)) {
    const int groups = *rc::gen::inRange(1, 4), count = *rc::gen::inRange(0, 3);
    const gx::ImageShape in{groups * *rc::gen::inRange(1, 3), *rc::gen::inRange(3, 7),
                            *rc::gen::inRange(3, 7)};
    const Window w{*rc::gen::inRange(1, 4), *rc::gen::inRange(1, 4), *rc::gen::inRange(1, 4),
                   *rc::gen::inRange(0, 3), *rc::gen::inRange(0, 3)};
    gx::GraphBuilder b("conv", in, 2);
    const int channels = groups * *rc::gen::inRange(1, 3);
    const int y_index = b.conv2d(b.input(), {channels, w, groups, true}, "conv");
    const auto weights = static_cast<std::size_t>(b.peek().parameters[0].count);

    Tensor x(count, in), y(count, b.shape(y_index)), dy = y, dx(count, in);
    x.values = small_integers(x.values.size(), seed);
    dy.values = small_integers(dy.values.size(), seed + 1);
    const Values weight = small_integers(weights, seed + 2);
    const Values bias = small_integers(std::size_t(channels), seed + 3);
    Values dweight(weights), dbias(std::size_t(channels), 0);
    convolve({weight.data(), bias.data(), w, groups}, x.read(), y.write());
    convolve_backward({weight.data(), bias.data(), w, groups}, x.read(), dy.read(), dx.write(),
                      dweight.data());
    bias_backward(dy.read(), dbias.data());
    RC_ASSERT(dot(y.values, dy.values) == dot(dx.values, x.values) + dot(bias, dbias));
    RC_ASSERT(dot(y.values, dy.values) == dot(dweight, weight) + dot(bias, dbias));
}

}  // namespace
