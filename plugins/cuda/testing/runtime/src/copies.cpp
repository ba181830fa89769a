// CUDA Runtime API, "Memory Management": copies and sets; "API synchronization behavior".
#include <algorithm>  // min
#include <cstring>    // memcpy, memset
#include <set>        // devices
#include <utility>    // move

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

/// "cudaMemcpyKind": the direction must be that of the memory; else the behaviour is undefined, and
/// the runtime may take the copy.
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

/// What the manual refuses of the arguments alone.
cudaError_t flaw_of(const void* to, const void* from, cudaMemcpyKind kind) {
    if (to == nullptr || from == nullptr) return cudaErrorInvalidValue;
    return kind > cudaMemcpyDefault ? cudaErrorInvalidMemcpyDirection : cudaSuccess;
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

/// "The memory areas may not overlap" (cudaMemcpyAsync), and a copy onto itself is of such areas.
void expect_apart(Runtime& r, const std::string& name, const void* to, const void* from,
                  std::size_t bytes) {
    const std::byte *const source = bytes_at(from), *const target = bytes_at(to);
    if (!Use{source, bytes}.overlaps({target, bytes})) return;
    const Allocation* const a = r.memory.find(from);
    const std::byte* const begin = a != nullptr ? a->begin : std::min(source, target);
    r.stop(name + " copies " + std::to_string(bytes) + " bytes of " +
           (a != nullptr ? a->name : "memory of the host") + " from its byte " +
           std::to_string(source - begin) + " to its byte " + std::to_string(target - begin) +
           ": the two areas overlap. Copy through other memory.");
}

void count_copy(Runtime& r, std::size_t bytes) {
    ++r.counts.copies;
    r.counts.copied_bytes += static_cast<std::int64_t>(bytes);
}

template <class Pointer>
struct OnDevice {
    Pointer begin;
    int device;
};

/// Queues a copy between two devices, behind these points too.
cudaError_t copy_between(Runtime& r, const std::string& name, CUstream_st& s, OnDevice<void*> to,
                         OnDevice<const void*> from, std::size_t bytes, std::vector<Point> waits) {
    if (!r.is_device(to.device) || !r.is_device(from.device)) return cudaErrorInvalidDevice;
    for (const int device : {s.device, to.device, from.device})
        if (const cudaError_t error = r.device_error(device); error != cudaSuccess) return error;
    if (bytes == 0) return cudaSuccess;
    if (to.begin == nullptr || from.begin == nullptr) return cudaErrorInvalidValue;
    const std::string who = name + " (" + s.name + ")";
    auto uses = uses_of(
        r, who, {{from.begin, bytes, false, from.device}, {to.begin, bytes, true, to.device}},
        false);
    direction(r, who, to.begin, from.begin, cudaMemcpyDeviceToDevice);
    expect_apart(r, who, to.begin, from.begin, bytes);
    count_copy(r, bytes);
    r.push(s, {.name = "copy from device " + std::to_string(from.device) + " to device " +
                       std::to_string(to.device) + " of " + std::to_string(bytes) + " bytes",
               .kind = Operation::Kind::transfer,
               .uses = std::move(uses),
               .run = [=] { std::memcpy(to.begin, from.begin, bytes); },
               .waits = std::move(waits)});
    return cudaSuccess;
}

/// Queues a set of device or pinned memory.
void set(Runtime& r, const std::string& who, CUstream_st& s, void* to, int value,
         std::size_t bytes) {
    auto uses = uses_of(r, who, {{to, bytes, true, s.device}}, false);
    ++r.counts.sets;
    r.push(s, {.name = "set of " + std::to_string(bytes) + " bytes",
               .kind = Operation::Kind::transfer,
               .uses = std::move(uses),
               .run = [=] { std::memset(to, value, bytes); }});
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
        if (const cudaError_t flaw = flaw_of(to, from, kind); flaw != cudaSuccess) return flaw;
        const std::string who = "cudaMemcpyAsync (" + s.name + ")";
        auto uses =
            uses_of(r, who, {{from, bytes, false, s.device}, {to, bytes, true, s.device}}, false);
        const std::string name = std::string("copy ") + name_of(direction(r, who, to, from, kind)) +
                                 " of " + std::to_string(bytes) + " bytes";
        expect_apart(r, who, to, from, bytes);
        count_copy(r, bytes);
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
        CUstream_st& s = r.stream_of(stream, "cudaMemcpyPeerAsync");
        return copy_between(r, "cudaMemcpyPeerAsync", s, {to, to_device}, {from, from_device},
                            bytes, {});
    });
}

// "Memory Management": asynchronous to the host, and serialized with all work of the current device
// and of these two, before and after.
cudaError_t cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device,
                           size_t bytes) {
    return call("cudaMemcpyPeer", {.unsafe_in_capture = true}, [&](Runtime& r) {
        CUstream_st& s = r.stream_of(nullptr, "cudaMemcpyPeer");
        const std::set<int> devices{s.device, to_device, from_device};
        std::vector<Point> before;
        for (CUstream_st& other : r.streams)
            if (devices.contains(other.device) && &other != &s && other.queued > 0)
                before.push_back(Runtime::end_of(other));
        const cudaError_t error = copy_between(r, "cudaMemcpyPeer", s, {to, to_device},
                                               {from, from_device}, bytes, std::move(before));
        if (error != cudaSuccess || bytes == 0) return error;
        for (const int d : devices)
            r.devices[static_cast<std::size_t>(d)].serial = Runtime::end_of(s);
        return cudaSuccess;
    });
}

// "API synchronization behavior", Synchronous: in the default stream. From pageable memory to a
// device the host waits for the stream, then copies to staging memory, from which the device copies
// on its own; between device memories the host does not wait; else it waits for the copy.
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    return call("cudaMemcpy", {.unsafe_in_capture = true}, [&](Runtime& r) {
        if (bytes == 0) return cudaSuccess;
        if (const cudaError_t flaw = flaw_of(to, from, kind); flaw != cudaSuccess) return flaw;
        CUstream_st& s = r.stream_of(nullptr, "cudaMemcpy");
        auto uses =
            uses_of(r, "cudaMemcpy", {{from, bytes, false, -1}, {to, bytes, true, -1}}, true);
        const cudaMemcpyKind is = direction(r, "cudaMemcpy", to, from, kind);
        expect_apart(r, "cudaMemcpy", to, from, bytes);
        const bool is_staged = is == cudaMemcpyHostToDevice && r.memory.find(from) == nullptr;
        const bool waits = !is_staged && is != cudaMemcpyDeviceToDevice;
        Operation op{.name = std::string("cudaMemcpy ") + name_of(is),
                     .kind = Operation::Kind::transfer,
                     .uses = std::move(uses),
                     .run = [=] { std::memcpy(to, from, bytes); }};
        if (is_staged) {
            ++r.counts.host_synchronizations;
            const cudaError_t error = r.wait({Runtime::end_of(s)}, "cudaMemcpy");
            if (error != cudaSuccess) return error;
            op.run = [to, staging = std::vector(bytes_at(from), bytes_at(from) + bytes)] {
                std::memcpy(to, staging.data(), staging.size());
            };
        }
        if (!waits) count_copy(r, bytes);
        r.push(s, std::move(op));
        if (!waits) return cudaSuccess;
        ++r.counts.host_synchronizations;
        return r.wait({Runtime::end_of(s)}, "cudaMemcpy");
    });
}

// "API synchronization behavior", Memset: asynchronous to the host, also of pinned memory.
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
    return call("cudaMemsetAsync", {}, [&](Runtime& r) {
        CUstream_st& s = r.stream_of(stream, "cudaMemsetAsync");
        if (const cudaError_t error = r.device_error(s.device); error != cudaSuccess) return error;
        if (bytes == 0) return cudaSuccess;
        if (to == nullptr) return cudaErrorInvalidValue;
        set(r, "cudaMemsetAsync (" + s.name + ")", s, to, value, bytes);
        return cudaSuccess;
    });
}

// "API synchronization behavior", Memset: in the default stream, and asynchronous to the host
// unless the memory is pinned. Stricter than the manual: refused where cudaMemcpy is, beside a
// capture.
cudaError_t cudaMemset(void* to, int value, size_t bytes) {
    return call("cudaMemset", {.unsafe_in_capture = true}, [&](Runtime& r) {
        if (bytes == 0) return cudaSuccess;
        if (to == nullptr) return cudaErrorInvalidValue;
        CUstream_st& s = r.stream_of(nullptr, "cudaMemset");
        set(r, "cudaMemset", s, to, value, bytes);
        if (on_device(r, to)) return cudaSuccess;
        ++r.counts.host_synchronizations;
        return r.wait({Runtime::end_of(s)}, "cudaMemset");
    });
}
