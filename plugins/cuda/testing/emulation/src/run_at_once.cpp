// The few functions of the CUDA runtime that tests of kernels call: each operation runs at once.
#include <cstdlib>  // malloc
#include <cstring>  // memcpy

#include <cuda_runtime_api.h>

#include <gx/core/error.hpp>          // Error
#include <gx/cuda_testing/hooks.hpp>  // the declarations

namespace gx::cuda_testing {

void enqueue_kernel(cudaStream_t, const char*, std::function<void()> run) { run(); }
void report_access(const void*, std::size_t, bool, const char*) {}
void misuse(const std::string& sentence) { throw Error(sentence); }

}  // namespace gx::cuda_testing

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
    *memory = std::malloc(bytes);
    return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
    std::free(memory);
    return cudaSuccess;
}
cudaError_t cudaMallocHost(void** memory, std::size_t bytes) { return cudaMalloc(memory, bytes); }
cudaError_t cudaFreeHost(void* memory) { return cudaFree(memory); }
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t) {
    std::memcpy(to, from, bytes);
    return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
    *stream = nullptr;
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
