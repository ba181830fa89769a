// CopyWeights: each number at oneDNN's offset, rounded; unsupported layouts are refused.
#include <gx/onednn/detail/tiles/weight_copies.hpp>

#include <cstddef>  // size_t
#include <cstdint>  // int64_t
#include <span>     // copies
#include <vector>   // weights

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/memory/aligned_buffer.hpp>                  // AlignedBuffer
#include <gx/core/rng.hpp>                               // weights
#include <gx/onednn/detail/library/blocked_strides.hpp>  // BlockedStrides, element_offset
#include <gx/onednn/detail/cpu_bf16.hpp>                 // cpu_bf16

namespace {

using gx::bf16;
using gx::onednn::detail::Bf16;
using gx::onednn::detail::Bf16Unit;
using gx::onednn::detail::BlockedStrides;
using gx::onednn::detail::CopyWeights;
using gx::onednn::detail::element_offset;
using gx::onednn::detail::PairedLayout;

/// Pairs of dimension `pairs` (0: outputs, 1: inputs), blocks of the other; along the outputs
/// first.
BlockedStrides paired(int o, int i, int h, int w, int pairs, int block) {
    const std::int64_t inner = 32 * block, of_i = i / (pairs == 1 ? 32 : block);
    return {.rank = 4,
            .inner_count = 3,
            .bf16 = true,
            .dims = {o, i, h, w},
            .strides = {inner * w * h * of_i, inner * w * h, inner * w, inner},
            .inner_sizes = {16, block, 2},
            .inner_dims = {pairs, 1 - pairs, pairs}};
}

RC_GTEST_PROP(CopyWeights, PutsEachNumberWhereTheDescriptorSays, (std::uint64_t seed)) {
    if (gx::onednn::detail::cpu_bf16().unit == Bf16Unit::none) return;
    const auto channels = [] { return 64 * *rc::gen::inRange(1, 4); };
    const int o = channels(), i = channels(), h = *rc::gen::inRange(1, 4),
              w = *rc::gen::inRange(1, 4);
    const bool rows_of_x = *rc::gen::arbitrary<bool>();
    const int rows = rows_of_x ? i : o, columns = rows_of_x ? o : i;
    const auto count = static_cast<std::size_t>(o) * static_cast<std::size_t>(i * h * w);
    const gx::Rng random(seed, "weights");
    std::vector<float> weights;
    for (std::size_t n = 0; n < count; ++n) weights.push_back(random.normal(n));
    const BlockedStrides blockings[] = {paired(o, i, h, w, 1, *rc::gen::element(16, 32, 64)),
                                        paired(o, i, h, w, 0, *rc::gen::element(16, 32, 64))};
    gx::AlignedBuffer<Bf16> buffers[] = {gx::AlignedBuffer<Bf16>(static_cast<std::int64_t>(count)),
                                         gx::AlignedBuffer<Bf16>(static_cast<std::int64_t>(count))};
    const std::span<Bf16> copies[] = {buffers[0].span(), buffers[1].span()};
    CopyWeights::Args args{.from = weights.data(),
                           .rows = rows,
                           .taps = h * w,
                           .columns = columns,
                           .width = w,
                           .rows_of_x = rows_of_x,
                           .layouts = {},
                           .to = {}};
    for (int k = 0; k < 2; ++k) {
        args.layouts[k] = PairedLayout::of(blockings[k]);
        RC_ASSERT(args.layouts[k].block > 0);
        args.to[k] = copies[k].data();
    }
    gx::onednn::detail::run_kernel<CopyWeights>(args);
    for (int a = 0; a < o; ++a)
        for (int b = 0; b < i; ++b)
            for (int y = 0; y < h; ++y)
                for (int x = 0; x < w; ++x) {
                    const int row = rows_of_x ? b : a, column = rows_of_x ? a : b;
                    const auto from =
                        static_cast<std::size_t>((row * h * w + y * w + x) * columns + column);
                    for (int k = 0; k < 2; ++k)
                        RC_ASSERT(copies[k][static_cast<std::size_t>(
                                      element_offset(blockings[k], {a, b, y, x, 0}))] ==
                                  bf16::encode(weights[from]));
                }
}
TEST(PairedLayout, RefusesOtherLayouts) {
    BlockedStrides d = paired(64, 64, 3, 3, 1, 64);
    EXPECT_EQ(PairedLayout::of(d).block, 64);
    EXPECT_TRUE(PairedLayout::of(d).pairs_of_inputs);
    EXPECT_FALSE(PairedLayout::of(paired(64, 64, 3, 3, 0, 16)).pairs_of_inputs);
    d.bf16 = false;
    EXPECT_EQ(PairedLayout::of(d).block, 0);
    d = paired(64, 64, 3, 3, 1, 64);
    d.inner_sizes[0] = 8;
    EXPECT_EQ(PairedLayout::of(d).block, 0);
    d = paired(64, 64, 3, 3, 1, 64);
    d.dims[0] = 60;  // padded
    EXPECT_EQ(PairedLayout::of(d).block, 0);
    d = paired(64, 64, 3, 3, 1, 64);
    d.offset = 16;
    EXPECT_EQ(PairedLayout::of(d).block, 0);
    d = paired(64, 64, 3, 3, 1, 64);
    d.inner_count = 2;
    EXPECT_EQ(PairedLayout::of(d).block, 0);
}

}  // namespace
