// The largest values of a vector, and sums of such: what TopK sends and receives.
#include <gx/cuda/kernels.hpp>

#include <algorithm>  // clamp
#include <bit>        // bit_cast

#include <gx/core/contract.hpp>  // GX_EXPECT
#include <gx/cuda/error.hpp>     // expect
#include <gx/cuda/kernel.hpp>    // GX_KERNEL, launch

#include "arithmetic.hpp"
#include "block_sum.hpp"
#include "elementwise.hpp"

namespace gx::cuda {
namespace {

constexpr int digits = 256;  // of 8 bits
constexpr std::int64_t blocks_max = 256;
static_assert(digits == reduction_threads && blocks_max == reduction_threads &&
              reduction_threads == grid_threads);

/// Scratch memory of a selection.
struct Selection {
    DeviceSpan<std::uint32_t> histogram;  ///< keys by their digit
    /// The digits of the last key taken, as far as they are known; how many keys equal to them are
    /// taken.
    DeviceSpan<std::uint32_t> last;
    /// Of each block: keys above the last one in the upper half, keys equal to it in the lower.
    DeviceSpan<unsigned long long> counts;
};
Selection selection(DeviceSpan<std::uint32_t> scratch) {
    GX_EXPECT(scratch.size == selection_words, "a selection's scratch memory: selection_words");
    auto* const counts = reinterpret_cast<unsigned long long*>(scratch.data + 2 * digits);
    return {scratch.subspan(0, digits), scratch.subspan(digits, 2), {counts, blocks_max}};
}

/// Sorts as the magnitudes do, NaN last.
GX_DEVICE std::uint32_t key_of(float x) { return std::bit_cast<std::uint32_t>(x) & 0x7fffffffu; }

GX_KERNEL add_residual_kernel(DeviceSpan<const float> loss_scale, DeviceSpan<const float> values,
                              DeviceSpan<const float> before, DeviceSpan<float> after) {
    for (std::int64_t i = global_thread(); i < after.size; i += all_threads())
        after[i] = sum_of(quotient_of(values[i], loss_scale[0]), before[i]);
}

/// Counts the digit at `shift` of keys that begin as the last one taken.
GX_KERNEL histogram_kernel(DeviceSpan<const float> x, int shift,
                           DeviceSpan<const std::uint32_t> last,
                           DeviceSpan<std::uint32_t> histogram) {
    GX_SHARED(std::uint32_t, counts, digits);
    counts[threadIdx.x] = 0;
    GX_SYNC_BLOCK();
    const bool first = shift == 24;
    const std::uint32_t begin = first ? 0 : last[0];
    for (std::int64_t i = global_thread(); i < x.size; i += all_threads()) {
        const std::uint32_t key = key_of(x[i]);
        if (first || key >> (shift + 8) == begin) atomicAdd(&counts[key >> shift & 255u], 1u);
    }
    GX_SYNC_BLOCK();
    const std::uint32_t count = counts[threadIdx.x];
    if (count > 0) atomicAdd(&histogram[threadIdx.x], count);
}

/// The next digit of the last key taken; `taken` counts those that begin as it does so far.
GX_KERNEL digit_kernel(int shift, std::uint32_t taken, DeviceSpan<std::uint32_t> histogram,
                       DeviceSpan<std::uint32_t> last) {
    const std::uint32_t begin = shift == 24 ? 0 : last[0];
    if (shift != 24) taken = last[1];
    const std::uint32_t digit = digits - 1 - threadIdx.x, count = histogram[digit];
    histogram[digit] = 0;
    const std::uint32_t from_digit = block_scan(count).up_to;  // block_scan has barriers
    if (from_digit < taken || from_digit - count >= taken) return;
    last[0] = begin << 8 | digit;
    last[1] = taken - (from_digit - count);
}

/// The part of a block, so that blocks are in the order of the elements.
struct Part {
    std::int64_t begin, end;
};
GX_DEVICE Part part_of(std::int64_t size) {
    const std::int64_t each = (size + gridDim.x - 1) / gridDim.x, begin = blockIdx.x * each;
    return {begin, begin + each < size ? begin + each : size};
}
GX_DEVICE unsigned long long counted(std::uint32_t key, std::uint32_t last) {
    return static_cast<unsigned long long>(key > last) << 32 |
           static_cast<unsigned long long>(key == last);
}

GX_KERNEL count_keys_kernel(DeviceSpan<const float> x, DeviceSpan<const std::uint32_t> last,
                            DeviceSpan<unsigned long long> counts) {
    const Part part = part_of(x.size);
    const std::uint32_t key = last[0];
    unsigned long long count = 0;
    for (std::int64_t i = part.begin + threadIdx.x; i < part.end; i += blockDim.x)
        count += counted(key_of(x[i]), key);
    count = block_sum(count);
    if (threadIdx.x == 0) counts[blockIdx.x] = count;
}

/// Counts become those of all blocks before.
GX_KERNEL begins_kernel(DeviceSpan<unsigned long long> counts) {
    const bool inside = threadIdx.x < counts.size;
    const unsigned long long mine = inside ? counts[threadIdx.x] : 0,
                             up_to = block_scan(mine).up_to;
    if (inside) counts[threadIdx.x] = up_to - mine;
}

GX_KERNEL choose_kernel(DeviceSpan<const std::uint32_t> last,
                        DeviceSpan<const unsigned long long> begins, DeviceSpan<float> x,
                        DeviceSpan<IndexedValue> chosen) {
    const Part part = part_of(x.size);
    const std::uint32_t key = last[0], equal_taken = last[1];
    unsigned long long before = begins[blockIdx.x];
    for (std::int64_t first = part.begin; first < part.end; first += blockDim.x) {
        const std::int64_t i = first + threadIdx.x;
        const float value = i < part.end ? x[i] : 0;
        const unsigned long long mine = i < part.end ? counted(key_of(value), key) : 0;
        const Scanned<unsigned long long> scanned = block_scan(mine);
        const unsigned long long here = before + scanned.up_to - mine;
        before += scanned.all;
        const auto above = static_cast<std::uint32_t>(here >> 32),
                   equal = static_cast<std::uint32_t>(here);
        if (mine == 0 || (mine == 1 && equal >= equal_taken)) continue;
        chosen[above + (equal < equal_taken ? equal : equal_taken)] = {
            static_cast<std::uint32_t>(i), value};
        x[i] = 0;
    }
}

/// The indices of a part are unlike.
GX_KERNEL add_indexed_kernel(DeviceSpan<const IndexedValue> part, DeviceSpan<float> sums,
                             DeviceSpan<std::uint32_t> beyond) {
    for (std::int64_t j = global_thread(); j < part.size; j += all_threads()) {
        const IndexedValue e = part[j];
        if (e.index < sums.size) sums[e.index] = sum_of(sums[e.index], e.value);
        else atomicAdd(&beyond[0], 1u);
    }
}
GX_KERNEL finish_sums_kernel(DeviceSpan<const float> loss_scale, float ranks,
                             DeviceSpan<const std::uint32_t> beyond, DeviceSpan<float> sums) {
    const float factor = loss_scale[0] / ranks;
    for (std::int64_t i = global_thread(); i < sums.size; i += all_threads()) {
        sums[i] = product_of(sums[i], factor);
        if (i == 0 && beyond[0] != 0) sums[0] = std::bit_cast<float>(0x7fc00000u);
    }
}

LaunchShape shape_of_four(cudaStream_t stream, std::int64_t count) {
    return grid_for(stream, (count + 3) / 4, blocks_max);
}

void clear(cudaStream_t stream, DeviceSpan<std::uint32_t> words) {
    const auto set = [&] {
        return cudaMemsetAsync(
            words.data, 0, static_cast<std::size_t>(words.size) * sizeof(std::uint32_t), stream);
    };
    expect(queued_call("cudaMemsetAsync", set, stream, words), "cudaMemsetAsync");
}

}  // namespace

void choose_largest(cudaStream_t stream, DeviceSpan<const float> loss_scale,
                    DeviceSpan<const float> values, DeviceSpan<const float> before,
                    DeviceSpan<float> after, DeviceSpan<std::uint32_t> scratch,
                    DeviceSpan<IndexedValue> chosen) {
    GX_EXPECT(loss_scale.size == 1, "one loss scale");
    GX_EXPECT(values.size == after.size && before.size == after.size && after.size < 1ll << 32,
              "values and residuals have one length, below 2^32");
    GX_EXPECT(chosen.size <= after.size, "at most all values are chosen");
    const LaunchShape shape = shape_of_four(stream, after.size);
    launch("add residual", shape, add_residual_kernel, loss_scale, values, before, after);
    if (chosen.size == 0) return;
    const Selection s = selection(scratch);
    const DeviceSpan<unsigned long long> counts = s.counts.subspan(0, shape.blocks);
    clear(stream, s.histogram);
    for (int shift = 24; shift >= 0; shift -= 8) {
        launch("histogram of magnitudes", shape, histogram_kernel, after, shift, s.last,
               s.histogram);
        launch("digit of the last magnitude", {1, reduction_threads, stream}, digit_kernel, shift,
               static_cast<std::uint32_t>(chosen.size), s.histogram, s.last);
    }
    launch("count magnitudes", shape, count_keys_kernel, after, s.last, counts);
    launch("begins of blocks", {1, reduction_threads, stream}, begins_kernel, counts);
    launch("choose entries", shape, choose_kernel, s.last, counts, after, chosen);
}

void add_indexed(cudaStream_t stream, int ranks, DeviceSpan<const float> loss_scale,
                 DeviceSpan<const IndexedValue> all, DeviceSpan<std::uint32_t> scratch,
                 DeviceSpan<float> bucket) {
    GX_EXPECT(loss_scale.size == 1, "one loss scale");
    GX_EXPECT(ranks > 0 && all.size % ranks == 0, "a part of equal length from each rank");
    const DeviceSpan<std::uint32_t> beyond = selection(scratch).last.subspan(0, 1);
    clear(stream, beyond);
    fill(stream, bucket, 0.0f);
    const std::int64_t each = all.size / ranks;
    for (int r = 0; r < ranks; ++r)
        launch("add entries", grid_for(stream, each, blocks_max), add_indexed_kernel,
               all.subspan(r * each, each), bucket, beyond);
    launch("mean of entries", shape_of_four(stream, bucket.size), finish_sums_kernel, loss_scale,
           static_cast<float>(ranks), beyond, bucket);
}

}  // namespace gx::cuda
