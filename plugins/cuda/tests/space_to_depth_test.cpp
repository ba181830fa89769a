// A first convolution of stride 2 on blocks of 2 x 2 pixels, beside the convolution itself.
#include "../src/network_kernels.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <vector>

#include <gx/core/element.hpp>
#include <gx/cuda_testing/runtime.hpp>

#include "device_memory.hpp"

namespace {

using namespace gx;
using namespace gx::cuda_tests;
using cuda::SpaceToDepth;

/// Element i of a vector of small whole numbers, of which all sums here are exact.
float value(std::size_t i) { return static_cast<float>(i * i % 23) - 11; }

std::vector<float> values(std::int64_t count) {
    std::vector<float> all;
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) all.push_back(value(i));
    return all;
}
std::vector<fp16::storage> encoded(const std::vector<float>& v) {
    std::vector<fp16::storage> all;
    for (const float x : v) all.push_back(fp16::encode(x));
    return all;
}

struct Trial {
    SpaceToDepth s;
    int images, outputs_y, outputs_x;

    [[nodiscard]] std::int64_t weights() const {
        return std::int64_t{s.filters} * s.kernel_height * s.kernel_width * s.channels;
    }
    /// y (images, outputs, filters) of images (images, C, H, W) and weights (filters, k, k, C).
    [[nodiscard]] std::vector<float> convolve(const std::vector<float>& x,
                                              const std::vector<float>& w) const {
        std::vector<float> y;
        for (int n = 0; n < images; ++n)
            for (int i = 0; i < outputs_y; ++i)
                for (int j = 0; j < outputs_x; ++j)
                    for (int f = 0; f < s.filters; ++f) {
                        float sum = 0;
                        for (int r = 0; r < s.kernel_height; ++r)
                            for (int q = 0; q < s.kernel_width; ++q)
                                for (int c = 0; c < s.channels; ++c) {
                                    const int at_y = 2 * i - s.pad_height + r,
                                              at_x = 2 * j - s.pad_width + q;
                                    if (at_y < 0 || at_y >= s.height || at_x < 0 || at_x >= s.width)
                                        continue;
                                    sum += x[std::size_t(((n * s.channels + c) * s.height + at_y) *
                                                             s.width +
                                                         at_x)] *
                                           w[std::size_t(
                                               ((f * s.kernel_height + r) * s.kernel_width + q) *
                                                   s.channels +
                                               c)];
                                }
                        y.push_back(sum);
                    }
        return y;
    }
    /// The same of blocks: stride 1.
    [[nodiscard]] std::vector<float> convolve_blocks(const std::vector<fp16::storage>& x,
                                                     const std::vector<fp16::storage>& w) const {
        std::vector<float> y;
        const int rows = s.height / 2, columns = s.width / 2;
        for (int n = 0; n < images; ++n)
            for (int i = 0; i < outputs_y; ++i)
                for (int j = 0; j < outputs_x; ++j)
                    for (int f = 0; f < s.filters; ++f) {
                        float sum = 0;
                        for (int r = 0; r < s.taps_y(); ++r)
                            for (int q = 0; q < s.taps_x(); ++q)
                                for (int c = 0; c < s.padded(); ++c) {
                                    const int at_y = i - s.before_y() + r,
                                              at_x = j - s.before_x() + q;
                                    if (at_y < 0 || at_y >= rows || at_x < 0 || at_x >= columns)
                                        continue;
                                    sum +=
                                        fp16::decode(x[std::size_t(
                                            ((n * rows + at_y) * columns + at_x) * s.padded() +
                                            c)]) *
                                        fp16::decode(w[std::size_t(
                                            ((f * s.taps_y() + r) * s.taps_x() + q) * s.padded() +
                                            c)]);
                                }
                        y.push_back(sum);
                    }
        return y;
    }
};

/// Any window whose outputs begin within the images, with padding behind them of 0 or more.
Trial any_trial() {
    const auto any = [](int low, int high) { return *rc::gen::inRange(low, high + 1); };
    Trial t{};
    t.images = any(1, 2);
    t.s.channels = any(1, 4), t.s.filters = any(1, 3);
    t.s.height = 2 * any(2, 5), t.s.width = 2 * any(2, 5);
    t.s.kernel_height = any(1, 7), t.s.kernel_width = any(1, 7);
    t.s.pad_height = any(0, 3), t.s.pad_width = any(0, 3);
    t.outputs_y = (t.s.height + 2 * t.s.pad_height - t.s.kernel_height) / 2 + 1;
    t.outputs_x = (t.s.width + 2 * t.s.pad_width - t.s.kernel_width) / 2 + 1;
    RC_PRE(t.s.height + 2 * t.s.pad_height >= t.s.kernel_height);
    RC_PRE(t.s.width + 2 * t.s.pad_width >= t.s.kernel_width);
    return t;
}

RC_GTEST_PROP(SpaceToDepth, IsTheSameConvolution, ()) {
    cuda_testing::reset({.check_at_exit = false});
    const Trial t = any_trial();
    const SpaceToDepth& s = t.s;
    const auto x = values(std::int64_t{t.images} * s.channels * s.height * s.width),
               w = values(t.weights());
    const TestStream stream;
    const DeviceVector<float> images(stream, x);
    const DeviceVector<fp16::storage> weight(stream, encoded(w));
    // One image more than the batch has: it is 0.
    DeviceVector<fp16::storage> blocks(stream,
                                       std::size_t(t.images + 1) * std::size_t(s.elements())),
        filters(stream, std::size_t(s.weights()));
    cuda::pack_blocks<fp16>(stream, s, t.images, images, blocks);
    cuda::weights_to_blocks<fp16>(stream, s, weight, filters);
    const auto packed = blocks.host();
    for (std::size_t i = std::size_t(t.images) * std::size_t(s.elements()); i < packed.size(); ++i)
        RC_ASSERT(packed[i] == 0);
    RC_ASSERT(t.convolve_blocks(packed, filters.host()) == t.convolve(x, w));
    RC_ASSERT(s.behind_y(t.outputs_y) <= s.taps_y() && s.behind_x(t.outputs_x) <= s.taps_x());

    DeviceVector<float> back(stream, std::vector<float>(w.size(), NAN));
    cuda::gradient_from_blocks<fp16>(stream, s, filters, back);
    RC_ASSERT(back.host() == w);  // each once
}

TEST(SpaceToDepth, PacksPixelsByTheirValues) {
    cuda_testing::reset({.check_at_exit = false});
    const SpaceToDepth s{.channels = 3,
                         .height = 2,
                         .width = 4,
                         .kernel_height = 3,
                         .kernel_width = 3,
                         .filters = 1};
    std::vector<std::uint8_t> pixels;
    std::vector<float> table, images;
    for (int i = 0; i < 3 * 256; ++i) table.push_back(static_cast<float>(i) / 4);
    for (std::size_t i = 0; i < 2 * 24; ++i) {
        pixels.push_back(static_cast<std::uint8_t>(i * 37 % 256));
        images.push_back(table[i / 8 % 3 * 256 + pixels.back()]);
    }
    const TestStream stream;
    const DeviceVector<std::uint8_t> from(stream, pixels);
    const DeviceVector<float> of(stream, table), same(stream, images);
    DeviceVector<fp16::storage> got(stream, 2 * std::size_t(s.elements())),
        expected(stream, 2 * std::size_t(s.elements()));
    cuda::pack_blocks_of_pixels<fp16>(stream, s, 2, from, of, got);
    cuda::pack_blocks<fp16>(stream, s, 2, same, expected);
    EXPECT_EQ(got.host(), expected.host());
    EXPECT_EQ(got.host()[15], 0) << "a channel that no pixel has";
    EXPECT_DEATH(cuda::pack_blocks<fp16>(stream, s, 1, same, got), "as many as the shape says");
}

/// ResNet's stem; and what keeps an operation from it.
TEST(SpaceToDepth, IsOfAFirstConvolutionOfStrideTwo) {
    const auto of = [](ImageShape in, GraphBuilder::Conv conv, bool twice = false) {
        GraphBuilder b("stem", in, 3);
        int x = b.conv2d(0, conv, "conv");
        if (twice) x = b.add(x, b.conv2d(0, conv, "again"), "add");
        x = b.linear(b.flatten(b.global_avg_pool(x, "mean"), "flatten"), 3, true, "fc");
        b.softmax_cross_entropy(x, 0, "loss");
        const Graph g = std::move(b).finish();
        return cuda::space_to_depth(g, g.ops[1]);
    };
    const GraphBuilder::Conv stem{16, Window::square(7, 2, 3)};
    const auto s = of({3, 224, 224}, stem);
    ASSERT_TRUE(s.has_value());
    EXPECT_EQ(s->padded(), 16);
    EXPECT_EQ(s->taps_y(), 4);
    EXPECT_EQ(s->before_x(), 2);
    EXPECT_EQ(s->behind_x(112), 1);
    EXPECT_EQ(s->weights(), 16 * 4 * 4 * 16);
    EXPECT_FALSE(of({3, 224, 224}, stem, true)) << "two readers";
    EXPECT_FALSE(of({3, 223, 224}, stem));
    EXPECT_FALSE(of({3, 224, 223}, stem));
    EXPECT_TRUE(of({4, 224, 224}, stem));
    EXPECT_FALSE(of({5, 224, 224}, stem)) << "channels";
    EXPECT_FALSE(of({3, 224, 224}, {16, Window::square(7, 1, 3)})) << "stride";
    EXPECT_FALSE(of({4, 224, 224}, {16, Window::square(7, 2, 3), 2})) << "groups";
    EXPECT_FALSE(of({3, 224, 224}, {16, Window::square(7, 2, 3), 1, true})) << "bias";
}

}  // namespace
