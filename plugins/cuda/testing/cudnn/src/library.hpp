// Library: the double's handles and live descriptors, and how a call refuses.
#pragma once

#include <cudnn.h>

#include <cstdint>        // uint64_t
#include <deque>          // addresses
#include <memory>         // unique_ptr
#include <mutex>          // one call at a time
#include <string>         // sentences
#include <unordered_map>  // what lives
#include <unordered_set>  // what ended

#include <gx/cuda_testing/cudnn.hpp>    // CudnnOptions
#include <gx/cuda_testing/runtime.hpp>  // misuse

#include "contents.hpp"

/// A handle: it belongs to the device that was current when it was made.
struct cudnnContext {
    int device = 0;
    cudaStream_t stream = nullptr;
    void* memory = nullptr;  ///< of the device, as the library takes some
};

namespace gx::cuda_testing {

struct CudnnFault {
    int left = 0;  ///< 0: none
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    int count = 1;
    bool fires() {
        if (left == 0 || (left > 1 && --left >= 1)) return false;
        if (--count <= 0) left = 0;
        return true;
    }
};

struct CudnnLibrary {
    CudnnOptions options{};
    CudnnCounters counts{};
    CudnnFault next_plan{}, next_execution{}, next_answer{}, next_allocation{};
    std::unordered_map<const void*, std::unique_ptr<cudnnContext>> handles{};
    std::unordered_map<const void*, std::shared_ptr<Contents>> descriptors{};
    std::unordered_set<const void*> ended{};
    std::deque<char> addresses{};  ///< of descriptors
    std::uint64_t draws = 0;
    std::recursive_mutex mutex{};

    [[nodiscard]] int sm() const { return options.gpu == CudnnGpu::v100 ? 70 : 90; }
    /// A misuse where nothing that lives is meant.
    cudnnContext& context(cudnnHandle_t handle, const std::string& call);
    std::shared_ptr<Contents>& contents(cudnnBackendDescriptor_t descriptor,
                                        const std::string& call);
};
[[nodiscard]] CudnnLibrary& cudnn_library();

/// Keeps the sentence for cudnnGetLastErrorString and returns the status.
cudnnStatus_t refuse(cudnnStatus_t status, const std::string& sentence);
/// The same; of CUDNN_STATUS_SUCCESS with a sentence, which stands for what the library takes and
/// the manual forbids, a misuse.
cudnnStatus_t refuse(const Refusal& refusal);

/// One call at a time; what the runtime throws passes.
template <class F>
cudnnStatus_t cudnn_call(F body) {
    CudnnLibrary& library = cudnn_library();
    const std::lock_guard lock(library.mutex);
    return body(library);
}

}  // namespace gx::cuda_testing
