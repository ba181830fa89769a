// Winograd's gradients of weights in parts of the output channels, beside direct kernels.
#include <gx/onednn/detail/convolution.hpp>

#include <cmath>    // sqrt
#include <cstddef>  // size_t
#include <vector>   // gradients

#include <gtest/gtest.h>

#include <gx/core/rng.hpp>            // Rng
#include <gx/onednn/detail/team.hpp>  // OneOpenMpThread

#include "agreement.hpp"

namespace {

using namespace gx::onednn::detail;

constexpr int images = 8, side = 8, in = 256;

/// Of random images; where and how a chunk's gradient is written.
struct Gradient {
    bool winograd = false;
    int chunks = 1, lane = 0;
    bool at_cache_lines = true;
    int out = 256;
    bool bias = false;

    std::string kernels{};
    std::int64_t scratch_bytes = 0;

    /// In the order of (o, i, h, w); the bias behind them.
    std::vector<float> run() {
        const OneOpenMpThread alone;
        Lanes lanes(2);
        const Layout x_layout{{in, side, side}, cpu_block()},
            y_layout{{out, side, side}, cpu_block()};
        Convolution c({.in = x_layout,
                       .out = y_layout,
                       .window = gx::Window::square(3, 1, 1),
                       .bias = bias,
                       .winograd = winograd},
                      images / chunks, lanes);
        const Memory x_values = random(x_layout.floats(), "x"),
                     dy_values = random(y_layout.floats(), "dy");
        Buffer x{.data = x_values.data(), .image_floats = x_layout.floats()};
        Buffer dy{.data = dy_values.data(), .image_floats = y_layout.floats()};
        LaneGradients gradients;
        const std::int64_t floats = c.weight_floats() + (bias ? out : 0);
        gradients.allocate(2, floats);
        c.bias_gradient = {static_cast<std::size_t>(c.weight_floats()), c.weight_floats()};
        c.x = c.x_again = &x, c.dy = &dy, c.gradients = &gradients;
        const Memory flat(floats + 1);
        std::fill(flat.span().begin(), flat.span().end(), 7.0f);
        const Run run{.gradients = flat.span().subspan(at_cache_lines ? 0 : 1)};
        c.plan(Convolution::Pass::weights, images / chunks);
        lanes.reserve_spare_scratch(lanes.segment_floats);
        lanes.use_segment_scratch(lane, nullptr, lanes.segment_floats);
        for (int i = 0; i < chunks; ++i)
            c.run_weights(run, {.lane = lane,
                                .first = i * images / chunks,
                                .count = images / chunks,
                                .opens = i == 0});
        const float* dw = gradients.of(run, lane, {});
        std::vector<float> all;
        for (int o = 0; o < out; ++o)
            for (int i = 0; i < in; ++i)
                for (int tap = 0; tap < 9; ++tap)
                    all.push_back(dw[c.weight_index(o, i, tap / 3, tap % 3)]);
        for (int o = 0; o < out && bias; ++o) all.push_back(dw[c.weight_floats() + o]);
        kernels = c.kernels(), scratch_bytes = 4 * lanes.floats() / lanes.count();
        return all;
    }
    static Memory random(std::int64_t floats, const char* name) {
        const gx::Rng values(1, name);
        Memory all(images * floats);
        for (std::size_t i = 0; i < all.span().size(); ++i) all.span()[i] = values.normal(i);
        return all;
    }
};

/// A sum over the pixels of the batch, as agreement::bound() has it.
double bound() { return 8 * 8 * 0x1p-24 * std::sqrt(2.0 * images * side * side); }

TEST(WeightGradientParts, AgreeWithDirectKernelsWhereverTheyWrite) {
    if (!agreement::has_winograd()) GTEST_SKIP() << "oneDNN has no kernels by Winograd here";
    const std::vector<float> direct = Gradient{}.run();
    for (const int chunks : {1, 2})
        for (const int lane : {0, 1})
            for (const bool at_cache_lines : {true, false}) {
                Gradient parts{.winograd = true,
                               .chunks = chunks,
                               .lane = lane,
                               .at_cache_lines = at_cache_lines};
                EXPECT_LT(agreement::apart(parts.run(), direct), bound())
                    << chunks << " chunks, lane " << lane << ", at cache lines " << at_cache_lines;
                EXPECT_NE(parts.kernels.find("wino"), std::string::npos) << parts.kernels;
            }
}
TEST(WeightGradientParts, KeepScratchMemorySmall) {
    if (!agreement::has_winograd()) GTEST_SKIP() << "oneDNN has no kernels by Winograd here";
    Gradient wide{.winograd = true, .out = 512};
    (void)wide.run();
    constexpr auto transformed = std::int64_t{36} * in * 512 * 4;  // all weights
    EXPECT_LE(wide.scratch_bytes, static_cast<std::int64_t>(most_winograd_scratch_bytes));
    EXPECT_LT(wide.scratch_bytes, transformed);
}
TEST(WeightGradientParts, AreNotTakenWhereTheyCantBe) {
    if (!agreement::has_winograd()) GTEST_SKIP() << "oneDNN has no kernels by Winograd here";
    // 9 blocks of 16 channels have no halves; a bias has its gradient from the same call.
    for (const Gradient& direct : {Gradient{.out = 144}, Gradient{.bias = true}}) {
        Gradient winograd = direct, plain = direct;
        winograd.winograd = true;
        EXPECT_LT(agreement::apart(winograd.run(), plain.run()), bound());
        EXPECT_GT(winograd.scratch_bytes, static_cast<std::int64_t>(most_winograd_scratch_bytes));
    }
}

}  // namespace
