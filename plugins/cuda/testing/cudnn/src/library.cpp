// cuDNN, "cudnn_graph library": versions, errors and handles.
#include "library.hpp"

#include <algorithm>  // min
#include <cstdlib>    // setenv
#include <cstring>    // memcpy

#include "attributes.hpp"

namespace gx::cuda_testing {

namespace {

thread_local std::string last_sentence;

/// Programs that link the double keep no plans of it, unless they say where: see plan_cache.hpp.
[[maybe_unused]] const int no_plan_cache = ::setenv("GX_CACHE", "", 0);

}  // namespace

CudnnLibrary& cudnn_library() {
    static CudnnLibrary library;
    return library;
}

cudnnContext& CudnnLibrary::context(cudnnHandle_t handle, const std::string& call) {
    const auto at = handles.find(handle);
    if (at == handles.end())
        misuse(call + (ended.contains(handle) ? ": a handle that was destroyed."
                                              : ": a handle that was never made."));
    return *at->second;
}

std::shared_ptr<Contents>& CudnnLibrary::contents(cudnnBackendDescriptor_t descriptor,
                                                  const std::string& call) {
    const auto at = descriptors.find(descriptor);
    if (at == descriptors.end())
        misuse(call + (ended.contains(descriptor) ? ": a descriptor that was destroyed."
                                                  : ": a descriptor that was never made."));
    return at->second;
}

cudnnStatus_t refuse(cudnnStatus_t status, const std::string& sentence) {
    last_sentence = sentence;
    return status;
}
cudnnStatus_t refuse(const Refusal& refusal) {
    if (refusal.status == CUDNN_STATUS_SUCCESS && !refusal.sentence.empty())
        misuse(refusal.sentence);
    return refuse(refusal.status, refusal.sentence);
}

void reset_cudnn(const CudnnOptions& options) {
    CudnnLibrary& library = cudnn_library();
    const std::lock_guard lock(library.mutex);
    for (const auto& [handle, context] : library.handles) library.ended.insert(handle);
    for (const auto& [descriptor, contents] : library.descriptors) library.ended.insert(descriptor);
    library.handles.clear();
    library.descriptors.clear();
    library.options = options;
    library.counts = {};
    library.next_plan = library.next_execution = library.next_answer = library.next_allocation = {};
    library.draws = options.seed;
}

void expect_cudnn_clean() {
    CudnnLibrary& library = cudnn_library();
    const std::lock_guard lock(library.mutex);
    if (!library.handles.empty())
        misuse(std::to_string(library.handles.size()) +
               " cuDNN handles were not destroyed. Call cudnnDestroy.");
    if (library.descriptors.empty()) return;
    const Contents& first = *library.descriptors.begin()->second;
    misuse(std::to_string(library.descriptors.size()) + " backend descriptors, a " +
           name_of(first.type) +
           " among them, were not destroyed. Call cudnnBackendDestroyDescriptor.");
}

CudnnCounters cudnn_counters() { return cudnn_library().counts; }
void fail_cudnn_plan(int k, cudnnStatus_t status, int count) {
    cudnn_library().next_plan = {k, status, count};
}
void fail_cudnn_execution(int k, cudnnStatus_t status) {
    cudnn_library().next_execution = {k, status};
}
void fail_cudnn_answer(int k, cudnnStatus_t status) { cudnn_library().next_answer = {k, status}; }
void fail_cudnn_allocation(int k, cudnnStatus_t status) {
    cudnn_library().next_allocation = {k, status};
}

}  // namespace gx::cuda_testing

using namespace gx::cuda_testing;

// ---- Versions and errors ----------------------------------------------------------------------

// cudnnGetVersion(): the version that the GPU's answers are of, see support.cpp, or another
// that a test asks for.
size_t CUDNNWINAPI cudnnGetVersion(void) {
    const auto& options = cudnn_library().options;
    if (options.version != 0) return options.version;
    return options.gpu == CudnnGpu::v100 ? 91002 : 91900;
}

// cudnnGetErrorString(): "converts the cuDNN status code to a NULL terminated static string".
const char* CUDNNWINAPI cudnnGetErrorString(cudnnStatus_t status) {
    switch (static_cast<int>(status)) {
#define GX_STATUS(name) \
    case CUDNN_STATUS_##name: return "CUDNN_STATUS_" #name;
        GX_STATUS(SUCCESS)
        GX_STATUS(NOT_INITIALIZED)
        GX_STATUS(SUBLIBRARY_VERSION_MISMATCH)
        GX_STATUS(SERIALIZATION_VERSION_MISMATCH)
        GX_STATUS(SUBLIBRARY_LOADING_FAILED)
        GX_STATUS(BAD_PARAM)
        GX_STATUS(BAD_PARAM_NULL_POINTER)
        GX_STATUS(BAD_PARAM_MISALIGNED_POINTER)
        GX_STATUS(BAD_PARAM_NOT_FINALIZED)
        GX_STATUS(BAD_PARAM_OUT_OF_BOUND)
        GX_STATUS(BAD_PARAM_SIZE_INSUFFICIENT)
        GX_STATUS(BAD_PARAM_STREAM_MISMATCH)
        GX_STATUS(BAD_PARAM_SHAPE_MISMATCH)
        GX_STATUS(BAD_PARAM_DUPLICATED_ENTRIES)
        GX_STATUS(BAD_PARAM_ATTRIBUTE_TYPE)
        GX_STATUS(BAD_PARAM_CUDA_GRAPH_MISMATCH)
        GX_STATUS(BAD_PARAM_DESCRIPTOR_TYPE)
        GX_STATUS(NOT_SUPPORTED)
        GX_STATUS(NOT_SUPPORTED_GRAPH_PATTERN)
        GX_STATUS(NOT_SUPPORTED_SHAPE)
        GX_STATUS(NOT_SUPPORTED_DATA_TYPE)
        GX_STATUS(NOT_SUPPORTED_LAYOUT)
        GX_STATUS(NOT_SUPPORTED_ARCH_MISMATCH)
        GX_STATUS(NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING)
        GX_STATUS(INTERNAL_ERROR)
        GX_STATUS(INTERNAL_ERROR_COMPILATION_FAILED)
        GX_STATUS(INTERNAL_ERROR_HOST_ALLOCATION_FAILED)
        GX_STATUS(INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED)
        GX_STATUS(EXECUTION_FAILED)
        GX_STATUS(EXECUTION_FAILED_CUDA_DRIVER)
        GX_STATUS(EXECUTION_FAILED_CUDART)
#undef GX_STATUS
        default: return "CUDNN_UNKNOWN_STATUS";
    }
}

// cudnnGetLastErrorString(): the detail of the calling thread's last error, which it clears.
void CUDNNWINAPI cudnnGetLastErrorString(char* message, size_t max_size) {
    if (message == nullptr || max_size == 0) return;
    const std::size_t n = std::min(last_sentence.size(), max_size - 1);
    std::memcpy(message, last_sentence.data(), n);
    message[n] = '\0';
    last_sentence.clear();
}

// ---- Handles ----------------------------------------------------------------------------------

// cudnnCreate(): "allocates hardware resources on the host and device"; the handle belongs to the
// current device. As it allocates, it cannot be captured.
cudnnStatus_t CUDNNWINAPI cudnnCreate(cudnnHandle_t* handle) {
    if (handle == nullptr)
        return refuse(CUDNN_STATUS_BAD_PARAM, "cudnnCreate: a place for the handle is missing.");
    return cudnn_call([&](CudnnLibrary& library) {
        if (library.next_allocation.fires())
            return refuse(library.next_allocation.status, "cudnnCreate: an injected failure.");
        auto made = std::make_unique<cudnnContext>();
        if (cudaGetDevice(&made->device) != cudaSuccess)
            return refuse(CUDNN_STATUS_NOT_INITIALIZED, "cudnnCreate: there is no device.");
        if (cudaMalloc(&made->memory, 256) != cudaSuccess)
            return refuse(CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED,
                          "cudnnCreate: the device has no memory left.");
        *handle = made.get();
        library.ended.erase(made.get());
        library.handles[made.get()] = std::move(made);
        return CUDNN_STATUS_SUCCESS;
    });
}

// cudnnDestroy(): it waits for the device, as cudaFree does in the library.
cudnnStatus_t CUDNNWINAPI cudnnDestroy(cudnnHandle_t handle) {
    if (handle == nullptr) return CUDNN_STATUS_SUCCESS;
    return cudnn_call([&](CudnnLibrary& library) {
        cudnnContext& context = library.context(handle, "cudnnDestroy");
        void* const memory = context.memory;
        library.handles.erase(handle);
        library.ended.insert(handle);
        cudaFree(memory);
        return CUDNN_STATUS_SUCCESS;
    });
}

// cudnnSetStream(): all that the handle executes from then on is queued on the stream.
cudnnStatus_t CUDNNWINAPI cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
    if (handle == nullptr)
        return refuse(CUDNN_STATUS_BAD_PARAM, "cudnnSetStream: the handle is null.");
    return cudnn_call([&](CudnnLibrary& library) {
        library.context(handle, "cudnnSetStream").stream = stream;
        return CUDNN_STATUS_SUCCESS;
    });
}

cudnnStatus_t CUDNNWINAPI cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
    if (handle == nullptr || stream == nullptr)
        return refuse(CUDNN_STATUS_BAD_PARAM, "cudnnGetStream: a null pointer.");
    return cudnn_call([&](CudnnLibrary& library) {
        *stream = library.context(handle, "cudnnGetStream").stream;
        return CUDNN_STATUS_SUCCESS;
    });
}
