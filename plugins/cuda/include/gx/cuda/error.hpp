// expect: turn a CUDA call's status into gx::Error, with GPU, CUDA's name and remedy.
#pragma once

#include <string>  // what was called

#include <cuda_runtime_api.h>  // cudaError_t

namespace gx::cuda {

/// Throws unless `result` is cudaSuccess. `call` names what was called, and its arguments that
/// matter; `device` is the GPU, or -1 for none. Without it: the current one.
/// Errors: gx::Error, or gx::DeviceLost where the device cannot be used any more:
///         "GPU 1: cudaMalloc of 400 bytes: cudaErrorMemoryAllocation (out of memory). ..."
void expect(cudaError_t result, const std::string& call, int device);
void expect(cudaError_t result, const std::string& call);

/// Throws where the current GPU cannot be used any more: what a library above CUDA reports by an
/// error of its own, with that `text`. Allowed in a capture.
/// Errors: gx::DeviceLost: "GPU 1: cuDNN 9.10.2: conv1: CUDNN_STATUS_EXECUTION_FAILED:
///         cudaErrorECCUncorrectable (uncorrectable ECC error encountered). ..."
void expect_usable(const std::string& text);

/// GPUs that a program may use. Errors: gx::Error where there is no driver or no GPU.
[[nodiscard]] int device_count();

}  // namespace gx::cuda
