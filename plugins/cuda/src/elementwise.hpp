// apply: a kernel that calls a function on the i-th elements of its spans, for all i.
#pragma once

#include <algorithm>  // min
#include <cstdint>    // int64_t

#include <gx/core/contract.hpp>  // GX_EXPECT
#include <gx/cuda/kernel.hpp>    // GX_KERNEL, launch

namespace gx::cuda {

inline constexpr unsigned elementwise_threads = 256, elementwise_blocks_max = 4096;

template <class F, class... T>
GX_KERNEL apply_kernel(F f, std::int64_t count, DeviceSpan<T>... spans) {
    for (std::int64_t i = global_thread(); i < count; i += all_threads()) f(spans[i]...);
}

template <class F, class... T>
void apply(cudaStream_t stream, const char* name, F f, DeviceSpan<T>... spans) {
    std::int64_t count = 0;
    ((count = spans.size), ...);
    GX_EXPECT((... && (spans.size == count)), "a kernel's spans have one length");
    const std::int64_t blocks = (count + elementwise_threads - 1) / elementwise_threads;
    launch(name,
           {static_cast<unsigned>(std::min<std::int64_t>(blocks, elementwise_blocks_max)),
            elementwise_threads, stream},
           apply_kernel<F, T...>, f, count, spans...);
}

}  // namespace gx::cuda
