#include <gx/reference/linear.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/reference/convolution.hpp>  // a linear layer is a 1x1 convolution
#include <reference/tensor.hpp>          // Tensor

namespace {

using gx::reference::testing::small_integers;
using gx::reference::testing::Tensor;
using Values = std::vector<double>;

TEST(Linear, TwoImagesByHand) {
    const Tensor x(2, {3, 1, 1}, {1, 2, 3, 4, 5, 6});
    const Values weight{1, 0, 0, 1, 1, 1}, bias{10, 20};
    Tensor y(2, {2, 1, 1});
    multiply(weight.data(), bias.data(), x.read(), y.write());
    EXPECT_EQ(y.values, (Values{11, 26, 14, 35}));
}

TEST(Linear, GradientsByHand) {
    const Tensor x(2, {2, 1, 1}, {1, 2, 3, 4}), dy(2, {1, 1, 1}, {1, 10});
    const Values weight{7, 8};
    Tensor dx(2, {2, 1, 1});
    Values dweight(2), dbias(1);
    multiply_backward(weight.data(), x.read(), dy.read(), dx.write(), dweight.data());
    bias_backward(dy.read(), dbias.data());
    EXPECT_EQ(dx.values, (Values{7, 8, 70, 80}));
    EXPECT_EQ(dweight, (Values{31, 42}));
    EXPECT_EQ(dbias, (Values{11}));
}

RC_GTEST_PROP(Linear, EqualsAOneByOneConvolution, (std::uint64_t seed)) {
    const int in = *rc::gen::inRange(1, 9), out = *rc::gen::inRange(1, 9);
    const int count = *rc::gen::inRange(0, 4);
    Tensor x(count, {in, 1, 1}), a(count, {out, 1, 1}), b = a, dy = a, da = x, db = x;
    x.values = small_integers(x.values.size(), seed);
    dy.values = small_integers(dy.values.size(), seed + 1);
    const Values weight = small_integers(std::size_t(in * out), seed + 2);
    const Values bias = small_integers(std::size_t(out), seed + 3);
    const gx::reference::Kernel kernel{weight.data(), bias.data(), gx::Window::square(1), 1};
    da.values.assign(da.values.size(), 0);
    db.values = da.values;
    Values weight_a(weight.size()), weight_b = weight_a;
    multiply(weight.data(), bias.data(), x.read(), a.write());
    convolve(kernel, x.read(), b.write());
    RC_ASSERT(a.values == b.values);
    multiply_backward(weight.data(), x.read(), dy.read(), da.write(), weight_a.data());
    convolve_backward(kernel, x.read(), dy.read(), db.write(), weight_b.data());
    RC_ASSERT(da.values == db.values);
    RC_ASSERT(weight_a == weight_b);
}

}  // namespace
