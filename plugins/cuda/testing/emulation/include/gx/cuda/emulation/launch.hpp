// Launch of an emulated kernel on a stream of the runtime's double.
#pragma once

#include <cstddef>      // size_t
#include <cstdint>      // uintptr_t
#include <string>       // sentences
#include <type_traits>  // is_const_v

#include <cuda_runtime_api.h>  // cudaStream_t

#include <gx/cuda/device_span.hpp>     // DeviceSpan
#include <gx/cuda/emulation/grid.hpp>  // run_grid
#include <gx/cuda_testing/hooks.hpp>   // enqueue_kernel, refuse_kernel, report_access

namespace gx::cuda::emulation {

template <class T>
void report(const char* kernel, const DeviceSpan<T>& memory) {
    if (memory.size > 0)
        cuda_testing::report_access(memory.data, static_cast<std::size_t>(memory.size) * sizeof(T),
                                    !std::is_const_v<T>, kernel);
}
template <class T>
void report(const char*, const T&) {}

/// Errors: a misuse where the span's memory is not aligned for its elements; a GPU would end the
/// kernel with cudaErrorMisalignedAddress.
template <class T>
void expect_aligned(const char* kernel, const DeviceSpan<T>& memory) {
    if (reinterpret_cast<std::uintptr_t>(memory.data) % alignof(T) != 0)
        cuda_testing::misuse("kernel '" + std::string(kernel) +
                             "': the memory of a span is not aligned to the " +
                             std::to_string(alignof(T)) + " bytes of its elements");
}
template <class T>
void expect_aligned(const char*, const T&) {}

/// Queues the run of a grid. When its turn comes, each span that is an argument counts as read, or
/// as written where its elements are not const, in its whole length.
/// Errors: cudaErrorInvalidConfiguration, or the error of the runtime's double; nothing is queued,
///         and cudaGetLastError() returns it too. A span that is not aligned is a misuse.
template <class... P>
[[nodiscard]] cudaError_t launch(const char* name, unsigned blocks, unsigned threads,
                                 cudaStream_t stream, void (*kernel)(P...), P... arguments) {
    if (!is_launchable(blocks, threads))
        return cuda_testing::refuse_kernel(name, cudaErrorInvalidConfiguration);
    (expect_aligned(name, arguments), ...);
    return cuda_testing::enqueue_kernel(stream, name, [=] {
        (report(name, arguments), ...);
        run_grid(name, dim3(blocks), dim3(threads), [&] { kernel(arguments...); });
    });
}

}  // namespace gx::cuda::emulation
