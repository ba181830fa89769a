// Kernels with a fault, each beside the right one: what the emulation must find.
#pragma once

#include <array>    // the list
#include <cstdint>  // uint32_t

#include <gx/cuda/kernel.hpp>  // GX_KERNEL

namespace gx::cuda_tests {

using In = cuda::DeviceSpan<const float>;
using Out = cuda::DeviceSpan<float>;
using Kernel = void (*)(In, Out);

inline constexpr unsigned all_lanes = 0xffffffffu, fault_threads = 256;

// All take elements and threads in equal numbers, blocks of fault_threads, and fill y; they differ
// from what they should be where `right` is false.

template <bool right>
GX_KERNEL reverse_block(In x, Out y) {
    GX_SHARED(float, s, fault_threads);
    s[threadIdx.x] = x[cuda::global_thread()];
    if (right) GX_SYNC_BLOCK();
    y[cuda::global_thread()] = s[fault_threads - 1 - threadIdx.x];
}
template <bool right>
GX_KERNEL swap_in_warp(In x, Out y) {
    GX_SHARED(float, s, fault_threads);
    s[threadIdx.x] = 0;
    __syncwarp();
    s[threadIdx.x] = x[cuda::global_thread()];
    if (right) __syncwarp();
    y[cuda::global_thread()] = s[threadIdx.x ^ 1];
}
/// The barrier of a warp orders nothing between warps.
template <bool right>
GX_KERNEL swap_warps(In x, Out y) {
    GX_SHARED(float, s, fault_threads);
    s[threadIdx.x] = x[cuda::global_thread()];
    if (right) GX_SYNC_BLOCK();
    else __syncwarp();
    y[cuda::global_thread()] = s[threadIdx.x ^ 32];
}
template <bool right>
GX_KERNEL use_again(In x, Out y) {
    GX_SHARED(float, s, fault_threads);
    float v = 0;
    for (std::int64_t k = 0; k < 3; ++k) {
        s[threadIdx.x] = x[(cuda::global_thread() + k) % x.size];
        GX_SYNC_BLOCK();
        v += s[fault_threads - 1 - threadIdx.x];
        if (right) GX_SYNC_BLOCK();
    }
    y[cuda::global_thread()] = v;
}
template <bool right>
GX_KERNEL tree(In x, Out y) {
    GX_SHARED(float, s, fault_threads);
    s[threadIdx.x] = x[cuda::global_thread()];
    GX_SYNC_BLOCK();
    for (unsigned by = fault_threads / 2; by > 0; by /= 2) {
        if (threadIdx.x < by) {
            s[threadIdx.x] += s[threadIdx.x + by];
            if (!right) GX_SYNC_BLOCK();
        }
        if (right) GX_SYNC_BLOCK();
    }
    y[cuda::global_thread()] = 0;
    if (threadIdx.x == 0) y[cuda::global_thread()] = s[0];
}
template <bool right>
GX_KERNEL two_barriers(In x, Out y) {
    GX_SHARED(float, s, fault_threads);
    s[threadIdx.x] = x[cuda::global_thread()];
    if (right || threadIdx.x % 2 == 0) {
        GX_SYNC_BLOCK();
    } else {
        GX_SYNC_BLOCK();
    }
    y[cuda::global_thread()] = s[threadIdx.x ^ 1];
}
template <bool right>
GX_KERNEL warp_leaves(In x, Out y) {
    GX_SHARED(float, s, fault_threads);
    s[threadIdx.x] = x[cuda::global_thread()];
    y[cuda::global_thread()] = 0;
    if (!right && threadIdx.x / 32 == 3) return;
    GX_SYNC_BLOCK();
    if (threadIdx.x == 0) y[cuda::global_thread()] = s[fault_threads - 1];
}
template <bool right>
GX_KERNEL lane_leaves(In x, Out y) {
    float v = x[cuda::global_thread()];
    y[cuda::global_thread()] = v;
    if (!right && threadIdx.x % 32 == 7) return;
    v += __shfl_down_sync(all_lanes, v, 1);
    if (threadIdx.x % 32 == 0) y[cuda::global_thread()] = v;
}
template <bool right>
GX_KERNEL two_masks(In x, Out y) {
    float v = x[cuda::global_thread()];
    const unsigned lower = 0xffffu, upper = 0xffff0000u;
    const bool low = threadIdx.x % 32 < 16;
    const unsigned mask = low ? lower : right ? upper : all_lanes;
    v += __shfl_xor_sync(mask, v, 1);
    y[cuda::global_thread()] = v;
}
template <bool right>
GX_KERNEL outside_of_the_mask(In x, Out y) {
    float v = x[cuda::global_thread()];
    if (threadIdx.x % 32 < 16) v = __shfl_sync(0xffffu, v, right ? 3 : 20);
    y[cuda::global_thread()] = v;
}
template <bool right>
GX_KERNEL warp_and_block(In x, Out y) {
    y[cuda::global_thread()] = x[cuda::global_thread()];
    if (right || threadIdx.x % 32 != 5) __syncwarp();
    GX_SYNC_BLOCK();
}
template <bool right>
GX_KERNEL two_shuffles(In x, Out y) {
    float v = x[cuda::global_thread()];
    if (right || threadIdx.x % 2 == 0) {
        v += __shfl_xor_sync(all_lanes, v, 2);
    } else {
        v += __shfl_xor_sync(all_lanes, v, 4);
    }
    y[cuda::global_thread()] = v;
}
template <bool right>
GX_KERNEL one_too_far(In x, Out y) {
    y[cuda::global_thread()] = x[cuda::global_thread() + (right ? 0 : 1)];
}
/// Counts up to the number of threads, and one more.
template <bool right>
GX_KERNEL off_by_one(In x, Out y) {
    for (std::int64_t i = cuda::global_thread(); right ? i < x.size : i <= x.size;
         i += cuda::all_threads())
        y[i] = x[i % x.size];
}
template <bool right>
GX_KERNEL too_far_in_shared(In x, Out y) {
    GX_SHARED(float, s, fault_threads);
    s[threadIdx.x + (right ? 0 : 1)] = x[cuda::global_thread()];
    y[cuda::global_thread()] = s[threadIdx.x + (right ? 0 : 1)];
}
template <bool right>
GX_KERNEL unwritten(In x, Out y) {
    GX_SHARED(float, s, fault_threads + 1);
    s[threadIdx.x] = x[cuda::global_thread()];
    GX_SYNC_BLOCK();
    y[cuda::global_thread()] = s[threadIdx.x + (right ? 0 : 1)];
}
/// Adds to a sum that was not set to zero.
template <bool right>
GX_KERNEL atomic_on_unwritten(In x, Out y) {
    GX_SHARED(unsigned, sum, 1);
    if (right && threadIdx.x == 0) sum[0] = 0;
    GX_SYNC_BLOCK();
    atomicAdd(&sum[0], static_cast<unsigned>(x[cuda::global_thread()]));
    GX_SYNC_BLOCK();
    y[cuda::global_thread()] = static_cast<float>(sum[0]);
}
/// Reads a sum that others may still add to.
template <bool right>
GX_KERNEL read_beside_atomics(In x, Out y) {
    GX_SHARED(unsigned, sum, 1);
    if (threadIdx.x == 0) sum[0] = 0;
    GX_SYNC_BLOCK();
    atomicAdd(&sum[0], static_cast<unsigned>(x[cuda::global_thread()]));
    if (right) GX_SYNC_BLOCK();
    y[cuda::global_thread()] = static_cast<float>(sum[0]);
}
/// Adds to a sum that was read, in a warp.
template <bool right>
GX_KERNEL atomics_beside_reads(In x, Out y) {
    GX_SHARED(unsigned, sum, fault_threads / 32);
    const unsigned warp = threadIdx.x / 32;
    if (threadIdx.x % 32 == 0) sum[warp] = 0;
    __syncwarp();
    const unsigned before = sum[warp];
    if (right) __syncwarp();
    atomicAdd(&sum[warp], static_cast<unsigned>(x[cuda::global_thread()]));
    __syncwarp();
    y[cuda::global_thread()] = static_cast<float>(before + sum[warp]);
}
/// Sets a sum to zero while others may still add to it.
template <bool right>
GX_KERNEL write_beside_atomics(In x, Out y) {
    GX_SHARED(unsigned, sum, 1);
    if (threadIdx.x == 0) sum[0] = 0;
    GX_SYNC_BLOCK();
    atomicAdd(&sum[0], static_cast<unsigned>(x[cuda::global_thread()]));
    if (right) GX_SYNC_BLOCK();
    if (threadIdx.x == 7) sum[0] = 3;
    GX_SYNC_BLOCK();
    y[cuda::global_thread()] = static_cast<float>(sum[0]);
}
/// Adds to what another thread of the block has just written.
template <bool right>
GX_KERNEL atomics_beside_a_write(In x, Out y) {
    GX_SHARED(unsigned, sum, 1);
    if (threadIdx.x == 0) sum[0] = 0;
    GX_SYNC_BLOCK();
    if (threadIdx.x == 33) sum[0] = 5;
    if (right) GX_SYNC_BLOCK();
    atomicAdd(&sum[0], static_cast<unsigned>(x[cuda::global_thread()]));
    GX_SYNC_BLOCK();
    y[cuda::global_thread()] = static_cast<float>(sum[0]);
}
/// A part of the warp meets: the others' writes are not ordered.
template <bool right>
GX_KERNEL half_a_warp(In x, Out y) {
    GX_SHARED(float, s, fault_threads);
    s[threadIdx.x] = 0;
    __syncwarp();
    s[threadIdx.x] = x[cuda::global_thread()];
    __syncwarp(threadIdx.x % 32 < 16 ? 0xffffu : 0xffff0000u);
    y[cuda::global_thread()] = s[threadIdx.x ^ (right ? 8 : 16)];
}
/// Lane 16's write comes to lane 1 through lane 0.
template <bool right>
GX_KERNEL through_a_lane(In x, Out y) {
    GX_SHARED(float, s, fault_threads);
    const unsigned lane = threadIdx.x % 32;
    s[threadIdx.x] = 0;
    __syncwarp();
    if (lane == 16) s[threadIdx.x] = x[cuda::global_thread()];
    if (lane == 0 || lane == 16) __syncwarp(right ? 0x10001u : 1u << lane);
    if (lane < 2) __syncwarp(0x3u);
    y[cuda::global_thread()] = lane == 1 ? float{s[threadIdx.x + 15]} : 0.0f;
}
/// The barrier before does not order what comes after it.
template <bool right>
GX_KERNEL write_after_the_barrier(In x, Out y) {
    GX_SHARED(float, s, fault_threads);
    s[threadIdx.x] = x[cuda::global_thread()];
    __syncwarp();
    if (!right) s[threadIdx.x] = 1 + x[cuda::global_thread()];
    y[cuda::global_thread()] = s[threadIdx.x ^ 1];
}
/// A shuffle moves values, and orders no memory.
template <bool right>
GX_KERNEL shuffle_for_a_barrier(In x, Out y) {
    GX_SHARED(float, s, fault_threads);
    s[threadIdx.x] = 0;
    __syncwarp();
    s[threadIdx.x] = x[cuda::global_thread()];
    if (right) __syncwarp();
    const float v = __shfl_xor_sync(all_lanes, x[cuda::global_thread()], 1);
    y[cuda::global_thread()] = v + s[threadIdx.x ^ 1];
}
/// So does a vote.
template <bool right>
GX_KERNEL vote_for_a_barrier(In x, Out y) {
    GX_SHARED(float, s, fault_threads);
    s[threadIdx.x] = 0;
    __syncwarp();
    s[threadIdx.x] = x[cuda::global_thread()];
    if (right) __syncwarp();
    const int any = __any_sync(all_lanes, threadIdx.x == 3);
    y[cuda::global_thread()] = static_cast<float>(any) + s[threadIdx.x ^ 1];
}
/// A thread reads with others, and writes when they all are behind a barrier.
template <bool right>
GX_KERNEL read_then_write(In x, Out y) {
    GX_SHARED(float, s, fault_threads / 32);
    const unsigned warp = threadIdx.x / 32;
    if (threadIdx.x % 32 == 5) s[warp] = x[cuda::global_thread()];
    __syncwarp();
    float v = s[warp];
    if (right) __syncwarp();
    if (threadIdx.x % 32 == 9) {
        v += s[warp];
        s[warp] = v;
    }
    __syncwarp();
    y[cuda::global_thread()] = v + s[warp];
}
/// A lane writes behind a barrier with some of the lanes that read.
template <bool right>
GX_KERNEL read_by_lanes_apart(In x, Out y) {
    GX_SHARED(float, s, fault_threads / 32);
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (lane == 5) s[warp] = x[cuda::global_thread()];
    __syncwarp();
    float v = s[warp];
    if (right || lane == 3 || lane == 9) __syncwarp(right ? all_lanes : 0x208u);
    if (lane == 9) {
        v += s[warp];  // the last read is its own
        s[warp] = v;
    }
    y[cuda::global_thread()] = v;
}
/// Warps read the same, and one of them writes.
template <bool right>
GX_KERNEL read_by_all_warps(In x, Out y) {
    GX_SHARED(float, s, 1);
    if (threadIdx.x == 0) s[0] = x[cuda::global_thread()];
    GX_SYNC_BLOCK();
    const float v = s[0];
    if (right) GX_SYNC_BLOCK();
    else __syncwarp();
    if (threadIdx.x == 70) s[0] = v + s[0];  // the last read is its own
    GX_SYNC_BLOCK();
    y[cuda::global_thread()] = v + s[0];
}
/// A warp writes what only another one read.
template <bool right>
GX_KERNEL read_by_another_warp(In x, Out y) {
    GX_SHARED(float, s, 1);
    if (threadIdx.x == 0) s[0] = x[cuda::global_thread()];
    GX_SYNC_BLOCK();
    y[cuda::global_thread()] = 0;
    if (threadIdx.x / 32 == 2) y[cuda::global_thread()] = s[0];
    if (right) GX_SYNC_BLOCK();
    else __syncwarp();
    if (threadIdx.x == 130) s[0] = 3;
}
template <bool right>
GX_KERNEL too_much_shared(In x, Out y) {
    GX_SHARED(float, s, right ? 256 : 12'289);
    s[threadIdx.x] = x[cuda::global_thread()];
    y[cuda::global_thread()] = s[threadIdx.x];
}

// ---- Faults that show as races between threads, or as wrong numbers -----------------------------

/// Blocks write to one place.
template <bool right>
GX_KERNEL one_place(In x, Out y) {
    const std::int64_t at = right ? cuda::global_thread() : std::int64_t{threadIdx.x};
    y[at] = x[cuda::global_thread()];
}
/// Blocks read what others write.
template <bool right>
GX_KERNEL neighbour_block(In x, Out y) {
    const std::int64_t i = cuda::global_thread();
    y[i] = x[i];
    if (!right) y[i] = y[i] + y[(i + fault_threads) % y.size];
}
template <bool right>
GX_KERNEL add_to_one(In x, Out y) {
    if (right) atomicAdd(&y[0], x[cuda::global_thread()]);
    else y[0] = y[0] + x[cuda::global_thread()];
}
/// Threads of a block exchange through global memory.
template <bool right>
GX_KERNEL through_memory(In x, Out y) {
    const std::int64_t i = cuda::global_thread();
    y[i] = x[i];
    if (right) GX_SYNC_BLOCK();
    const float v = y[i ^ 1];
    GX_SYNC_BLOCK();
    y[i] = v;
}
/// A last part that no thread does.
template <bool right>
GX_KERNEL part_left_out(In x, Out y) {
    const std::int64_t i = cuda::global_thread();
    if (right || i + 1 < x.size) y[i] = x[i];
}

struct PlantedFault {
    const char* name;
    Kernel right, wrong;
    const char* sentence;  ///< part of the error; "" where there is none
    bool races = false;    ///< ThreadSanitizer reports it
    bool numbers = true;   ///< without an error, what is written is wrong
};
#define GX_FAULT(kernel) #kernel, kernel<true>, kernel<false>
inline constexpr std::array planted_faults{
    PlantedFault{GX_FAULT(reverse_block), "which no thread has written"},
    PlantedFault{GX_FAULT(swap_in_warp), "and no barrier orders the two"},
    PlantedFault{GX_FAULT(swap_warps), "and no barrier orders the two"},
    PlantedFault{GX_FAULT(use_again), "and no barrier orders the two"},
    PlantedFault{GX_FAULT(tree), "waits at a barrier of the block, and thread"},
    PlantedFault{GX_FAULT(two_barriers), "must come to the same barrier"},
    PlantedFault{GX_FAULT(warp_leaves), "has ended without it"},
    PlantedFault{GX_FAULT(lane_leaves), "waits for its warp, and thread"},
    PlantedFault{GX_FAULT(two_masks), "waits for its warp, and thread"},
    PlantedFault{GX_FAULT(outside_of_the_mask), "reads from lane 20, which is not in the mask"},
    PlantedFault{GX_FAULT(warp_and_block), "waits for its warp, and thread"},
    PlantedFault{GX_FAULT(two_shuffles), "All lanes of the mask must call the same function"},
    PlantedFault{GX_FAULT(one_too_far), "element 1024 of a span to read of 1024 elements"},
    PlantedFault{GX_FAULT(off_by_one), "element 1024 of a span to write of 1024 elements"},
    PlantedFault{GX_FAULT(too_far_in_shared), "element 256 of shared memory of 256 elements"},
    PlantedFault{GX_FAULT(unwritten), "reads element 256 of shared memory, which no thread"},
    PlantedFault{GX_FAULT(atomic_on_unwritten), "reads element 0 of shared memory, which no"},
    PlantedFault{GX_FAULT(read_beside_atomics), "and no barrier orders the two"},
    PlantedFault{GX_FAULT(atomics_beside_reads), "and no barrier orders the two"},
    PlantedFault{GX_FAULT(write_beside_atomics), "and no barrier orders the two"},
    PlantedFault{GX_FAULT(atomics_beside_a_write), "and no barrier orders the two"},
    PlantedFault{GX_FAULT(half_a_warp), "and no barrier orders the two"},
    PlantedFault{GX_FAULT(through_a_lane), "and no barrier orders the two"},
    PlantedFault{GX_FAULT(write_after_the_barrier), "and no barrier orders the two"},
    PlantedFault{GX_FAULT(shuffle_for_a_barrier), "and no barrier orders the two"},
    PlantedFault{GX_FAULT(vote_for_a_barrier), "and no barrier orders the two"},
    PlantedFault{GX_FAULT(read_then_write), "and no barrier orders the two"},
    PlantedFault{GX_FAULT(read_by_lanes_apart), "and no barrier orders the two"},
    PlantedFault{GX_FAULT(read_by_all_warps), "and no barrier orders the two"},
    PlantedFault{GX_FAULT(read_by_another_warp), "and no barrier orders the two"},
    PlantedFault{GX_FAULT(too_much_shared), "49152 bytes of shared memory"},
    PlantedFault{GX_FAULT(one_place), "", true},
    PlantedFault{GX_FAULT(neighbour_block), "", true},
    PlantedFault{GX_FAULT(add_to_one), "", true, false},
    PlantedFault{GX_FAULT(through_memory), "", true},
    PlantedFault{GX_FAULT(part_left_out), ""},
};
#undef GX_FAULT

}  // namespace gx::cuda_tests
