#include <gx/cuda/memory.hpp>

#include <memory>  // unique_ptr
#include <string>  // sentences

#include <gx/cuda/error.hpp>  // expect

namespace gx::cuda {

Resource::Resource(int device) : device_(device) {
    expect(cudaSetDevice(device), "cudaSetDevice", device);
    clearing_ = make_stream();
}

namespace {

struct Free {
    void operator()(void* memory) const { (void)cudaFree(memory); }
};

}  // namespace

std::byte* Resource::allocate(std::size_t bytes, const Label& name) {
    void* memory = nullptr;
    const cudaError_t result = cudaMalloc(&memory, bytes);
    if (result == cudaErrorMemoryAllocation) {
        std::size_t free = 0, all = 0;
        (void)cudaGetLastError();
        (void)cudaMemGetInfo(&free, &all);
        expect(result,
               "cudaMalloc of " + std::to_string(bytes) + " bytes for '" +
                   std::string(name.view()) + "', of " + std::to_string(all) + " bytes " +
                   std::to_string(free) + " are free",
               device_);
    }
    expect(result, "cudaMalloc for '" + std::string(name.view()) + "'", device_);
    std::unique_ptr<void, Free> made(memory);
    expect(cudaMemsetAsync(memory, 0, bytes, clearing_.get()), "cudaMemsetAsync", device_);
    expect(cudaStreamSynchronize(clearing_.get()), "clearing '" + std::string(name.view()) + "'",
           device_);
    return static_cast<std::byte*>(made.release());
}

void Resource::release(std::byte* memory, std::size_t) noexcept { (void)cudaFree(memory); }

}  // namespace gx::cuda
