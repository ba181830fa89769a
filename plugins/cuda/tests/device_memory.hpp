// DeviceVector: the elements of a host's vector in the memory of a GPU, or of its double.
#pragma once

#include <cuda_runtime_api.h>

#include <cstring>    // memcpy
#include <stdexcept>  // runtime_error
#include <string>     // sentences
#include <vector>     // the host's

#include <gx/cuda/device_span.hpp>  // DeviceSpan

namespace gx::cuda_tests {

inline void must(cudaError_t result) {
    if (result != cudaSuccess)
        throw std::runtime_error("CUDA error " + std::to_string(static_cast<int>(result)));
}

/// The stream of a test.
class TestStream {
public:
    TestStream() { must(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
    TestStream(const TestStream&) = delete;
    TestStream& operator=(const TestStream&) = delete;
    ~TestStream() { cudaStreamDestroy(stream_); }
    operator cudaStream_t() const { return stream_; }  // NOLINT(google-explicit-constructor)

private:
    cudaStream_t stream_{};
};

/// Copies to the device when made, and back on request.
template <class T>
class DeviceVector {
public:
    DeviceVector(cudaStream_t stream, const std::vector<T>& values)
        : stream_(stream), size_(values.size()) {
        must(cudaMalloc(&device_, bytes()));
        must(cudaMallocHost(&pinned_, bytes()));
        if (size_ > 0) std::memcpy(pinned_, values.data(), size_ * sizeof(T));
        must(cudaMemcpyAsync(device_, pinned_, bytes(), cudaMemcpyHostToDevice, stream_));
        must(cudaStreamSynchronize(stream_));
    }
    DeviceVector(cudaStream_t stream, std::size_t count)
        : DeviceVector(stream, std::vector<T>(count)) {}
    DeviceVector(const DeviceVector&) = delete;
    DeviceVector& operator=(const DeviceVector&) = delete;
    ~DeviceVector() {
        cudaFree(device_);
        cudaFreeHost(pinned_);
    }

    operator cuda::DeviceSpan<T>() const {  // NOLINT(google-explicit-constructor)
        return {static_cast<T*>(device_), static_cast<std::int64_t>(size_)};
    }
    operator cuda::DeviceSpan<const T>() const {  // NOLINT(google-explicit-constructor)
        return {static_cast<const T*>(device_), static_cast<std::int64_t>(size_)};
    }
    [[nodiscard]] std::vector<T> host() {
        must(cudaMemcpyAsync(pinned_, device_, bytes(), cudaMemcpyDeviceToHost, stream_));
        must(cudaStreamSynchronize(stream_));
        std::vector<T> values(size_);
        if (size_ > 0) std::memcpy(values.data(), pinned_, size_ * sizeof(T));
        return values;
    }

private:
    [[nodiscard]] std::size_t bytes() const { return (size_ + 1) * sizeof(T); }  // never 0

    cudaStream_t stream_;
    std::size_t size_;
    void* device_ = nullptr;
    void* pinned_ = nullptr;
};

}  // namespace gx::cuda_tests
