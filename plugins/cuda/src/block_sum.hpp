// block_sum, block_scan: sums over the threads of a block.
#pragma once

#include <gx/cuda/kernel.hpp>   // GX_DEVICE, GX_SHARED
#include <gx/cuda/kernels.hpp>  // reduction_threads

namespace gx::cuda {

inline constexpr unsigned all_lanes = 0xffffffffu;
inline constexpr int block_warps = reduction_threads / 32;

template <class T>
GX_DEVICE T warp_sum(T v) {
    for (unsigned by = 16; by > 0; by /= 2) v += __shfl_down_sync(all_lanes, v, by);
    return v;  // right in lane 0
}

/// The sum of a block's values in thread 0; a block of reduction_threads calls it once.
template <class T>
GX_DEVICE T block_sum(T v) {
    GX_SHARED(T, sums, block_warps);
    v = warp_sum(v);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = v;
    GX_SYNC_BLOCK();
    if (threadIdx.x >= 32) return T{};
    T mine{};
    if (threadIdx.x < block_warps) mine = sums[threadIdx.x];
    return warp_sum(mine);
}

template <class T>
struct Scanned {
    T up_to, all;  ///< sums: of this thread's value and those before it; of the block
};
/// For integers; a block of reduction_threads calls it as often as it likes.
template <class T>
GX_DEVICE Scanned<T> block_scan(T v) {
    GX_SHARED(T, sums, block_warps);
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (unsigned by = 1; by < 32; by *= 2) {
        const T before = __shfl_up_sync(all_lanes, v, by);
        if (lane >= by) v += before;
    }
    if (lane == 31) sums[warp] = v;
    GX_SYNC_BLOCK();
    T all{};
    for (unsigned w = 0; w < block_warps; ++w) {
        const T sum = sums[w];
        if (w < warp) v += sum;
        all += sum;
    }
    GX_SYNC_BLOCK();  // the next call writes sums
    return {v, all};
}

}  // namespace gx::cuda
