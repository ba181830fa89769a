// StreamHandle, EventHandle, PinnedBytes: owners of what the CUDA runtime creates.
#pragma once

#include <cstddef>  // byte
#include <memory>   // unique_ptr

#include <cuda_runtime_api.h>  // cudaStream_t, cudaEvent_t

namespace gx::cuda {

namespace detail {
struct DestroyStream {
    void operator()(cudaStream_t s) const { (void)cudaStreamDestroy(s); }
};
struct DestroyEvent {
    void operator()(cudaEvent_t e) const { (void)cudaEventDestroy(e); }
};
struct FreePinned {
    void operator()(std::byte* p) const { (void)cudaFreeHost(p); }
};
}  // namespace detail

using StreamHandle = std::unique_ptr<CUstream_st, detail::DestroyStream>;
using EventHandle = std::unique_ptr<CUevent_st, detail::DestroyEvent>;
using PinnedBytes = std::unique_ptr<std::byte[], detail::FreePinned>;

// Of the current device. Errors: gx::Error.

/// A stream that does not wait for the default stream.
[[nodiscard]] StreamHandle make_stream();
/// An event without a time.
[[nodiscard]] EventHandle make_event();
[[nodiscard]] PinnedBytes make_pinned(std::size_t bytes);

}  // namespace gx::cuda
