#include <gx/cuda/handles.hpp>

#include <string>  // sentences

#include <gx/cuda/error.hpp>  // expect

namespace gx::cuda {

StreamHandle make_stream() {
    cudaStream_t s{};
    expect(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    return StreamHandle(s);
}

EventHandle make_event() {
    cudaEvent_t e{};
    expect(cudaEventCreateWithFlags(&e, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    return EventHandle(e);
}

PinnedBytes make_pinned(std::size_t bytes) {
    void* p = nullptr;
    expect(cudaMallocHost(&p, bytes), "cudaMallocHost of " + std::to_string(bytes) + " bytes");
    return PinnedBytes(static_cast<std::byte*>(p));
}

}  // namespace gx::cuda
