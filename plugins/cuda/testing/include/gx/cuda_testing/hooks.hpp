// Hooks: functions through which emulated kernels use the double of the CUDA runtime.
#pragma once

#include <cstddef>     // size_t
#include <functional>  // function
#include <string>      // sentences

#include <cuda_runtime_api.h>  // cudaStream_t

namespace gx::cuda_testing {

/// Queues a kernel's emulated run on a stream; defined by the runtime's double. Returns why it does
/// not: an error that was injected, or an earlier one of the device, which cudaGetLastError() has.
cudaError_t enqueue_kernel(cudaStream_t stream, const char* kernel, std::function<void()> run);

/// Refuses a launch with `error`, which it returns, and cudaGetLastError() later; an earlier error
/// of the device comes first. Defined by the runtime's double.
cudaError_t refuse_kernel(const char* kernel, cudaError_t error);

/// Reports an access of the running operation to device memory, for the race detector; defined by
/// the runtime's double.
void report_access(const void* begin, std::size_t bytes, bool writes, const char* kernel);

/// Turns a misuse into the double's named error: never returns; defined by the runtime's double.
[[noreturn]] void misuse(const std::string& sentence);

}  // namespace gx::cuda_testing
