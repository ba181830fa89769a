// CUDA Runtime API, "Memory Management": copies and sets; "API synchronization behavior".
#include <cstring>  // memcpy, memset

#include "state.hpp"

using namespace gx::cuda_testing;

namespace {

const std::byte* bytes_at(const void* p) { return static_cast<const std::byte*>(p); }

const char* name_of(cudaMemcpyKind kind) {
    switch (kind) {
        case cudaMemcpyHostToHost: return "host to host";
        case cudaMemcpyHostToDevice: return "host to device";
        case cudaMemcpyDeviceToHost: return "device to host";
        case cudaMemcpyDeviceToDevice: return "device to device";
        default: return "default";
    }
}

bool on_device(Runtime& r, const void* p) {
    const Allocation* const a = r.memory.find(p);
    return a != nullptr && a->kind == Allocation::Kind::device;
}

/// "cudaMemcpyKind": the direction must be that of the memory.
cudaMemcpyKind direction(Runtime& r, const std::string& name, const void* to, const void* from,
                         cudaMemcpyKind said) {
    const bool to_device = on_device(r, to), from_device = on_device(r, from);
    const cudaMemcpyKind is =
        to_device ? (from_device ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice)
                  : (from_device ? cudaMemcpyDeviceToHost : cudaMemcpyHostToHost);
    if (said != cudaMemcpyDefault && said != is)
        r.stop(name + " says '" + name_of(said) + "', but its memory is '" + name_of(is) + "'.");
    return is;
}

struct Span {
    const void* begin;
    std::size_t bytes;
    bool writes;
    int device;  ///< that it must belong to if it is device memory
};

/// Device and pinned memory of one transfer, checked; pageable memory only where `pageable`.
std::vector<Use> uses_of(Runtime& r, const std::string& name, std::initializer_list<Span> spans,
                         bool pageable) {
    std::vector<Use> uses;
    for (const Span& s : spans) {
        if (r.memory.find(s.begin) == nullptr) {
            if (pageable) continue;
            r.stop(name + (s.writes ? " writes " : " reads ") +
                   "pageable memory of the host. Use cudaMallocHost or cudaHostRegister; from "
                   "pageable memory a copy is not asynchronous.");
        }
        const Use use{bytes_at(s.begin), s.bytes, s.writes};
        r.expect_usable(name, use, s.device, Runtime::When::queued);
        uses.push_back(use);
    }
    return uses;
}

}  // namespace

// "API synchronization behavior", Asynchronous: from pageable memory the copy is staged and may
// block, so such memory is a misuse here. Stricter than the manual: device memory must be of the
// stream's device; between devices there is cudaMemcpyPeerAsync.
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
    return call("cudaMemcpyAsync", {}, [&](Runtime& r) {
        CUstream_st& s = r.stream_of(stream, "cudaMemcpyAsync");
        if (const cudaError_t error = r.device_error(s.device); error != cudaSuccess) return error;
        if (bytes == 0) return cudaSuccess;
        const std::string who = "cudaMemcpyAsync (" + s.name + ")";
        auto uses =
            uses_of(r, who, {{from, bytes, false, s.device}, {to, bytes, true, s.device}}, false);
        const std::string name = std::string("copy ") + name_of(direction(r, who, to, from, kind)) +
                                 " of " + std::to_string(bytes) + " bytes";
        ++r.counts.copies;
        r.counts.copied_bytes += static_cast<std::int64_t>(bytes);
        r.push(s, {.name = name,
                   .kind = Operation::Kind::transfer,
                   .uses = std::move(uses),
                   .run = [=] { std::memcpy(to, from, bytes); }});
        return cudaSuccess;
    });
}

// "Memory Management": between two devices, in a stream of either.
cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                size_t bytes, cudaStream_t stream) {
    return call("cudaMemcpyPeerAsync", {}, [&](Runtime& r) {
        const int count = static_cast<int>(r.devices.size());
        if (to_device < 0 || from_device < 0 || to_device >= count || from_device >= count)
            return cudaErrorInvalidDevice;
        CUstream_st& s = r.stream_of(stream, "cudaMemcpyPeerAsync");
        for (const int device : {s.device, to_device, from_device})
            if (const cudaError_t error = r.device_error(device); error != cudaSuccess)
                return error;
        if (bytes == 0) return cudaSuccess;
        const std::string who = "cudaMemcpyPeerAsync (" + s.name + ")";
        auto uses = uses_of(
            r, who, {{from, bytes, false, from_device}, {to, bytes, true, to_device}}, false);
        direction(r, who, to, from, cudaMemcpyDeviceToDevice);
        ++r.counts.copies;
        r.counts.copied_bytes += static_cast<std::int64_t>(bytes);
        r.push(s, {.name = "copy from device " + std::to_string(from_device) + " to device " +
                           std::to_string(to_device) + " of " + std::to_string(bytes) + " bytes",
                   .kind = Operation::Kind::transfer,
                   .uses = std::move(uses),
                   .run = [=] { std::memcpy(to, from, bytes); }});
        return cudaSuccess;
    });
}

// "API synchronization behavior", Synchronous: in the default stream, and the host waits.
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    return call("cudaMemcpy", {.unsafe_in_capture = true}, [&](Runtime& r) {
        if (bytes == 0) return cudaSuccess;
        CUstream_st& s = r.stream_of(nullptr, "cudaMemcpy");
        auto uses =
            uses_of(r, "cudaMemcpy", {{from, bytes, false, -1}, {to, bytes, true, -1}}, true);
        const std::string name =
            std::string("cudaMemcpy ") + name_of(direction(r, "cudaMemcpy", to, from, kind));
        ++r.counts.host_synchronizations;
        r.push(s, {.name = name,
                   .kind = Operation::Kind::transfer,
                   .uses = std::move(uses),
                   .run = [=] { std::memcpy(to, from, bytes); }});
        return r.wait({Runtime::end_of(s)}, "cudaMemcpy");
    });
}

// "Memory Management": asynchronous to the host unless the target is pinned host memory.
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
    return call("cudaMemsetAsync", {}, [&](Runtime& r) {
        CUstream_st& s = r.stream_of(stream, "cudaMemsetAsync");
        if (const cudaError_t error = r.device_error(s.device); error != cudaSuccess) return error;
        if (bytes == 0) return cudaSuccess;
        const std::string who = "cudaMemsetAsync (" + s.name + ")";
        auto uses = uses_of(r, who, {{to, bytes, true, s.device}}, false);
        ++r.counts.sets;
        r.push(s, {.name = "set of " + std::to_string(bytes) + " bytes",
                   .kind = Operation::Kind::transfer,
                   .uses = std::move(uses),
                   .run = [=] { std::memset(to, value, bytes); }});
        return cudaSuccess;
    });
}
