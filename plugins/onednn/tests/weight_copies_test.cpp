// CopyWeights: each number at oneDNN's offset, rounded; unsupported layouts are refused.
#include <gx/onednn/detail/tiles/weight_copies.hpp>

#include <cstddef>  // size_t
#include <cstdint>  // int64_t
#include <span>     // copies
#include <vector>   // weights

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/memory/aligned_buffer.hpp>   // AlignedBuffer
#include <gx/core/rng.hpp>                // weights
#include <gx/onednn/detail/cpu_bf16.hpp>  // cpu_bf16
#include <gx/onednn/detail/layout.hpp>    // element_offset

namespace {

using gx::bf16;
using gx::onednn::detail::Bf16;
using gx::onednn::detail::Bf16Unit;
using gx::onednn::detail::CopyWeights;
using gx::onednn::detail::element_offset;
using gx::onednn::detail::PairedLayout;

/// Pairs of dimension `pairs` (0: outputs, 1: inputs), blocks of the other; along the outputs
/// first.
dnnl_memory_desc_t paired(int o, int i, int h, int w, int pairs, int block) {
    dnnl_memory_desc_t d{};
    d.ndims = 4, d.format_kind = dnnl_blocked, d.data_type = dnnl_bf16;
    const int dims[] = {o, i, h, w};
    for (int k = 0; k < 4; ++k) d.dims[k] = d.padded_dims[k] = dims[k];
    auto& b = d.format_desc.blocking;
    b.inner_nblks = 3;
    b.inner_blks[0] = 16, b.inner_blks[1] = block, b.inner_blks[2] = 2;
    b.inner_idxs[0] = b.inner_idxs[2] = pairs, b.inner_idxs[1] = 1 - pairs;
    const std::int64_t inner = 32 * block, of_i = i / (pairs == 1 ? 32 : block);
    b.strides[3] = inner, b.strides[2] = inner * w, b.strides[1] = inner * w * h;
    b.strides[0] = b.strides[1] * of_i;
    return d;
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
    const dnnl_memory_desc_t descs[] = {paired(o, i, h, w, 1, *rc::gen::element(16, 32, 64)),
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
        args.layouts[k] = PairedLayout::of(descs[k]);
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
                        RC_ASSERT(copies[k][static_cast<std::size_t>(element_offset(
                                      descs[k], {a, b, y, x, 0}))] == bf16::encode(weights[from]));
                }
}
TEST(PairedLayout, RefusesOtherLayouts) {
    dnnl_memory_desc_t d = paired(64, 64, 3, 3, 1, 64);
    EXPECT_EQ(PairedLayout::of(d).block, 64);
    EXPECT_TRUE(PairedLayout::of(d).pairs_of_inputs);
    EXPECT_FALSE(PairedLayout::of(paired(64, 64, 3, 3, 0, 16)).pairs_of_inputs);
    d.data_type = dnnl_f32;
    EXPECT_EQ(PairedLayout::of(d).block, 0);
    d = paired(64, 64, 3, 3, 1, 64);
    d.format_desc.blocking.inner_blks[0] = 8;
    EXPECT_EQ(PairedLayout::of(d).block, 0);
    d = paired(64, 64, 3, 3, 1, 64);
    d.dims[0] = 60;  // padded
    EXPECT_EQ(PairedLayout::of(d).block, 0);
    d = paired(64, 64, 3, 3, 1, 64);
    d.extra.flags = 1;
    EXPECT_EQ(PairedLayout::of(d).block, 0);
    d = paired(64, 64, 3, 3, 1, 64);
    d.format_desc.blocking.inner_nblks = 2;
    EXPECT_EQ(PairedLayout::of(d).block, 0);
}

}  // namespace
