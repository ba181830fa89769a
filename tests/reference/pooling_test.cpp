#include <gx/reference/pooling.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>   // isnan
#include <limits>  // quiet_NaN

#include <reference/tensor.hpp>  // Tensor

namespace {

using gx::Window;
using gx::reference::testing::dot;
using gx::reference::testing::small_integers;
using gx::reference::testing::Tensor;
using Values = std::vector<double>;

const Tensor image(1, {1, 3, 3}, {-1, -2, -3, -4, -5, -6, -7, -8, -9});

TEST(MaxPool, DoesNotSeeThePaddingAsZero) {
    Tensor y(1, {1, 2, 2});
    max_pool(Window::square(3, 2, 1), image.read(), y.write());
    EXPECT_EQ(y.values, (Values{-1, -2, -4, -5}));
}

TEST(MaxPool, GivesTheGradientToTheFirstOfEquals) {
    const Tensor x(1, {1, 2, 2}, {3, 5, 5, 5}), dy(1, {1, 1, 1}, {7});
    Tensor dx(1, {1, 2, 2});
    max_pool_backward(Window::square(2), x.read(), dy.read(), dx.write());
    EXPECT_EQ(dx.values, (Values{0, 7, 0, 0}));
}

TEST(MaxPool, AddsWhereWindowsOverlap) {
    const Tensor x(1, {1, 1, 3}, {1, 9, 1}), dy(1, {1, 1, 2}, {2, 3});
    Tensor dx(1, {1, 1, 3});
    max_pool_backward({1, 2, 1, 0, 0}, x.read(), dy.read(), dx.write());
    EXPECT_EQ(dx.values, (Values{0, 5, 0}));
}

TEST(MaxPool, LetsANaNThrough) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const Tensor x(1, {1, 1, 3}, {1, nan, 9});
    Tensor y(1, {1, 1, 1});
    max_pool({1, 3, 1, 0, 0}, x.read(), y.write());
    EXPECT_TRUE(std::isnan(y.values[0]));
}

TEST(AvgPool, DividesByWhatLiesInsideTheImage) {
    Tensor y(1, {1, 2, 2});
    avg_pool(Window::square(3, 2, 1), image.read(), y.write());
    EXPECT_EQ(y.values, (Values{-3, -4, -6, -7}));  // each over 4 numbers, not 9
}

TEST(AvgPool, DividesByTheWholeWindowWhereItCountsItsPadding) {
    Window w = Window::square(3, 2, 1);
    w.counts_padding = true;
    Tensor y(1, {1, 2, 2}), dx(1, {1, 3, 3});
    avg_pool(w, image.read(), y.write());
    EXPECT_EQ(y.values, (Values{-12 / 9.0, -16 / 9.0, -24 / 9.0, -28 / 9.0}));
    const Tensor dy(1, {1, 2, 2}, {9, 90, 900, 9000});
    avg_pool_backward(w, image.read(), dy.read(), dx.write());
    EXPECT_EQ(dx.values, (Values{1, 11, 10, 101, 1111, 1010, 100, 1100, 1000}));
}

TEST(AvgPool, SpreadsTheGradientOverWhatLiesInside) {
    const Tensor x(1, {1, 2, 2}), dy(1, {1, 2, 2}, {4, 40, 400, 4000});
    Tensor dx(1, {1, 2, 2});
    avg_pool_backward(Window::square(3, 1, 1), x.read(), dy.read(), dx.write());
    EXPECT_EQ(dx.values, (Values(4, 1111)));
}

// Pooling is homogeneous: <pool(x), dy> = <x, gradient>, for the mean because it is linear and for
// the largest because it picks. Windows of 1, 2 or 4 numbers keep the quotients exact.
RC_GTEST_PROP(Pooling, GradientsAreAdjoints, (std::uint64_t seed)) {
    const Window w{1 << *rc::gen::inRange(0, 2), 1 << *rc::gen::inRange(0, 2),
                   *rc::gen::inRange(1, 4), 0, 0};
    const gx::ImageShape in{2, *rc::gen::inRange(2, 7), *rc::gen::inRange(2, 7)};
    gx::GraphBuilder b("pool", in, 2);
    const gx::ImageShape out = b.shape(b.max_pool(b.input(), w, "pool"));
    Tensor x(2, in), y(2, out), dy(2, out), dx(2, in);
    x.values = small_integers(x.values.size(), seed);
    dy.values = small_integers(dy.values.size(), seed + 1);
    max_pool(w, x.read(), y.write());
    max_pool_backward(w, x.read(), dy.read(), dx.write());
    RC_ASSERT(dot(y.values, dy.values) == dot(x.values, dx.values));
    dx.values.assign(dx.values.size(), 0);
    avg_pool(w, x.read(), y.write());
    avg_pool_backward(w, x.read(), dy.read(), dx.write());
    RC_ASSERT(dot(y.values, dy.values) == dot(x.values, dx.values));
}

}  // namespace
