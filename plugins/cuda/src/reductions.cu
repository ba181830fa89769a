// Reductions in two kernels: blocks to partial results, and one block over these.
#include <gx/cuda/kernels.hpp>

#include <bit>  // bit_cast

#include <gx/core/contract.hpp>  // GX_EXPECT
#include <gx/cuda/kernel.hpp>    // GX_KERNEL, launch

namespace gx::cuda {
namespace {

constexpr unsigned all_lanes = 0xffffffffu;
constexpr int warps = reduction_threads / 32;
static_assert(reduction_blocks == reduction_threads, "one block takes a partial result a thread");

template <class T>
GX_DEVICE T warp_sum(T v) {
    for (unsigned by = 16; by > 0; by /= 2) v += __shfl_down_sync(all_lanes, v, by);
    return v;  // right in lane 0
}

/// The sum of a block's values in thread 0; a block calls it once.
template <class T>
GX_DEVICE T block_sum(T v) {
    GX_SHARED(T, sums, warps);
    v = warp_sum(v);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = v;
    GX_SYNC_BLOCK();
    if (threadIdx.x >= 32) return T{};
    T mine{};
    if (threadIdx.x < warps) mine = sums[threadIdx.x];
    return warp_sum(mine);
}

GX_KERNEL sum_kernel(DeviceSpan<const float> x, DeviceSpan<float> sums) {
    float v = 0;
    for (std::int64_t i = global_thread(); i < x.size; i += all_threads()) v += x[i];
    v = block_sum(v);
    if (threadIdx.x == 0) sums[blockIdx.x] = v;
}

GX_KERNEL count_kernel(DeviceSpan<const float> x, DeviceSpan<std::uint32_t> counts) {
    constexpr std::uint32_t exponent = 0x7f800000u;
    std::uint32_t bad = 0;
    for (std::int64_t i = global_thread(); i < x.size; i += all_threads())
        bad |=
            static_cast<std::uint32_t>((std::bit_cast<std::uint32_t>(x[i]) & exponent) == exponent);
    bad = block_sum(bad);
    if (threadIdx.x == 0) counts[blockIdx.x] = bad;
}
GX_KERNEL none_kernel(DeviceSpan<const std::uint32_t> counts, DeviceSpan<Flag> result) {
    std::uint32_t bad = 0;
    for (std::int64_t i = global_thread(); i < counts.size; i += all_threads()) bad += counts[i];
    bad = block_sum(bad);
    if (threadIdx.x == 0) result[0] = static_cast<Flag>(bad == 0);
}

void expect_scratch(std::int64_t scratch, std::int64_t result) {
    GX_EXPECT(scratch == reduction_blocks, "a reduction's scratch memory has reduction_blocks");
    GX_EXPECT(result == 1, "a reduction has one result");
}

}  // namespace

void sum(cudaStream_t stream, DeviceSpan<const float> values, DeviceSpan<float> scratch,
         DeviceSpan<float> result) {
    expect_scratch(scratch.size, result.size);
    launch("sum of blocks", {reduction_blocks, reduction_threads, stream}, sum_kernel, values,
           scratch);
    launch("sum of sums", {1, reduction_threads, stream}, sum_kernel, scratch, result);
}
void all_finite(cudaStream_t stream, DeviceSpan<const float> values,
                DeviceSpan<std::uint32_t> scratch, DeviceSpan<Flag> result) {
    expect_scratch(scratch.size, result.size);
    launch("count of blocks", {reduction_blocks, reduction_threads, stream}, count_kernel, values,
           scratch);
    launch("all finite", {1, reduction_threads, stream}, none_kernel, scratch, result);
}

}  // namespace gx::cuda
