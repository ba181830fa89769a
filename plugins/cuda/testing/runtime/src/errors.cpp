// CUDA Runtime API, "Error Handling".
#include "error_texts.hpp"
#include "state.hpp"

namespace gx::cuda_testing {
namespace {

const ErrorText* find(cudaError_t error) {
    for (const ErrorText& text : error_texts)
        if (text.code == static_cast<int>(error)) return &text;
    return nullptr;
}

// The error of a failed device stays, and so does the lack of a driver or a device; any other is
// given once.
cudaError_t last(bool clear) {
    const auto r = the_runtime();
    const std::lock_guard lock(r->mutex);
    if (const cudaError_t error = r->lacking(); error != cudaSuccess) return error;
    HostThread& thread = host_thread(*r);
    const cudaError_t error = thread.last_error;
    if (clear) thread.last_error = r->device_error(thread.device);
    return error;
}

}  // namespace
}  // namespace gx::cuda_testing

// "Error Handling": the last error of the calling thread, which it clears.
cudaError_t cudaGetLastError() { return gx::cuda_testing::last(true); }
// "Error Handling": the same, and it stays.
cudaError_t cudaPeekAtLastError() { return gx::cuda_testing::last(false); }
const char* cudaGetErrorName(cudaError_t error) {
    const auto* const text = gx::cuda_testing::find(error);
    return text != nullptr ? text->name : "unrecognized error code";
}
const char* cudaGetErrorString(cudaError_t error) {
    const auto* const text = gx::cuda_testing::find(error);
    return text != nullptr ? text->sentence : "unrecognized error code";
}
