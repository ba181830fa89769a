// Reductions in two kernels: blocks to partial results, and one block over these.
#include <gx/cuda/kernels.hpp>

#include <algorithm>  // clamp
#include <bit>        // bit_cast

#include <gx/core/contract.hpp>  // GX_EXPECT
#include <gx/cuda/kernel.hpp>    // GX_KERNEL, launch

#include "block_sum.hpp"

namespace gx::cuda {
namespace {

static_assert(reduction_blocks == reduction_threads, "one block takes a partial result a thread");

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

GX_KERNEL any_kernel(DeviceSpan<const std::uint32_t> counts, DeviceSpan<float> against) {
    std::uint32_t bad = 0;
    for (std::int64_t i = global_thread(); i < counts.size; i += all_threads()) bad += counts[i];
    bad = block_sum(bad);
    if (threadIdx.x == 0 && bad != 0) against[0] = 1;
}
GX_KERNEL is_zero_kernel(DeviceSpan<const float> value, DeviceSpan<Flag> result) {
    result[0] = static_cast<Flag>(value[0] == 0);
}

void expect_scratch(std::int64_t scratch, std::int64_t result) {
    GX_EXPECT(scratch == reduction_blocks, "a reduction's scratch memory has reduction_blocks");
    GX_EXPECT(result == 1, "a reduction has one result");
}

/// How many of each block.
DeviceSpan<std::uint32_t> count_not_finite(cudaStream_t stream, DeviceSpan<const float> values,
                                           DeviceSpan<std::uint32_t> scratch) {
    const std::int64_t enough = (values.size + reduction_threads - 1) / reduction_threads;
    const auto counts = scratch.subspan(0, std::clamp<std::int64_t>(enough, 1, reduction_blocks));
    launch("count of blocks", {static_cast<unsigned>(counts.size), reduction_threads, stream},
           count_kernel, values, counts);
    return counts;
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
    const auto counts = count_not_finite(stream, values, scratch);
    launch("all finite", {1, reduction_threads, stream}, none_kernel, counts, result);
}

void find_overflow(cudaStream_t stream, DeviceSpan<const float> values,
                   DeviceSpan<std::uint32_t> scratch, DeviceSpan<float> against) {
    expect_scratch(scratch.size, against.size);
    const auto counts = count_not_finite(stream, values, scratch);
    launch("find overflow", {1, reduction_threads, stream}, any_kernel, counts, against);
}
void is_zero(cudaStream_t stream, DeviceSpan<const float> value, DeviceSpan<Flag> result) {
    GX_EXPECT(value.size == 1 && result.size == 1, "one value and one result");
    launch("is zero", {1, 1, stream}, is_zero_kernel, value, result);
}

}  // namespace gx::cuda
