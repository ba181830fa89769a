// What kernels are written with: one source for nvcc, clang's CUDA and g++'s emulation.
#pragma once

#include <cstdint>      // int64_t
#include <string>       // sentences
#include <type_traits>  // type_identity_t

#include <cuda_runtime_api.h>  // cudaStream_t, dim3

#include <gx/core/contract.hpp>     // GX_EXPECT
#include <gx/cuda/device_span.hpp>  // DeviceSpan
#include <gx/cuda/error.hpp>        // expect
#include <gx/cuda/queued_call.hpp>  // queued_call

// GX_KERNEL GX_LAUNCH_BOUNDS(threads, blocks) f(...): __launch_bounds__, threads of a block, and
// blocks that are resident on a multiprocessor at once, which limits registers.
#if defined(__CUDACC__)
#include <cuda_runtime.h>  // cudaLaunchKernelEx
#define GX_KERNEL static __global__ void
#define GX_DEVICE __device__ __forceinline__
#define GX_LAUNCH_BOUNDS(threads, blocks) __launch_bounds__(threads, blocks)
#define GX_SHARED(T, name, count) __shared__ T name[count]
#elif defined(GX_CUDA_EMULATED)
#include <gx/cuda/emulation/builtins.hpp>  // threadIdx, __shfl_down_sync, atomicAdd
#include <gx/cuda/emulation/launch.hpp>    // emulation::launch
#define GX_KERNEL static void
#define GX_DEVICE inline
#define GX_LAUNCH_BOUNDS(threads, blocks)
// A lambda, and so its static object, is one of each declaration and instantiation.
#define GX_SHARED(T, name, count)                                                 \
    const ::gx::cuda::emulation::SharedArray<T> name(count, []() -> const void* { \
        static char declaration;                                                  \
        return &declaration;                                                      \
    }())
#else
#error "gx: kernels are compiled by nvcc or clang, or by g++ with gx::cuda::emulation"
#endif
#define GX_SYNC_BLOCK() __syncthreads()

namespace gx::cuda {

struct LaunchShape {
    unsigned blocks = 1, threads = 1;
    cudaStream_t stream = nullptr;
};

inline constexpr unsigned grid_threads = 256, grid_blocks_max = 4096;

/// A thread for each of `count` elements, in blocks of grid_threads, of which there are at most
/// `blocks_max`: a kernel that begins at global_thread() goes on in strides of all_threads().
[[nodiscard]] constexpr LaunchShape grid_for(cudaStream_t stream, std::int64_t count,
                                             std::int64_t blocks_max = grid_blocks_max) {
    const std::int64_t blocks = (count + grid_threads - 1) / grid_threads;
    return {static_cast<unsigned>(blocks < blocks_max ? blocks : blocks_max), grid_threads, stream};
}

template <class T>
[[nodiscard]] constexpr bool has_size(const DeviceSpan<T>& memory) {
    return memory.size >= 0;
}
template <class T>
[[nodiscard]] constexpr bool has_size(const T&) {
    return true;
}

/// Queues `kernel` on a stream: the one way to launch, so that g++ meets no <<<>>>. No-op where the
/// grid is empty. `name` stays until the kernel has run: give a literal.
/// Errors: gx::Error, or DeviceLost, as expect(), with the kernel's name. A span of negative size
///         breaks the contract.
template <class... P>
void launch(const char* name, LaunchShape shape, void (*kernel)(P...),
            std::type_identity_t<P>... arguments) {
    GX_EXPECT((... && has_size(arguments)), "the size of a kernel's span is not negative");
    if (shape.blocks == 0) return;
    const auto call = [&] {
#if defined(__CUDACC__)
        cudaLaunchConfig_t config{};
        config.gridDim = dim3(shape.blocks);
        config.blockDim = dim3(shape.threads);
        config.stream = shape.stream;
        return cudaLaunchKernelEx(&config, kernel, arguments...);
#else
        return emulation::launch(name, shape.blocks, shape.threads, shape.stream, kernel,
                                 arguments...);
#endif
    };
    const cudaError_t result = queued_call(name, call, shape, kernel, arguments...);
    if (result != cudaSuccess) expect(result, "launch of kernel '" + std::string(name) + "'");
}

/// Number of the running thread in its grid, and of all of them.
GX_DEVICE std::int64_t global_thread() {
    return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
GX_DEVICE std::int64_t all_threads() { return std::int64_t{gridDim.x} * blockDim.x; }

}  // namespace gx::cuda
