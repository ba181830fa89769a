// CUDA Runtime API, "Memory Management" and "Stream Ordered Memory Allocator": what is given out.
#include <cstdint>  // PTRDIFF_MAX
#include <cstring>  // memset

#include "state.hpp"

using namespace gx::cuda_testing;

namespace {

constexpr std::uintptr_t addresses_max = PTRDIFF_MAX;  // a program has fewer
constexpr CallRules allocates{.unsafe_in_capture = true};
constexpr CallRules releases{.unsafe_in_capture = true, .frees = true};

/// False where the system gives no memory for it.
bool poison(const Runtime& r, Allocation& a) {
    if (!r.options.poison) return true;
    const bool on_device = a.kind == Allocation::Kind::device;
    if (on_device && !Memory::protect(a, true)) return false;
    std::memset(a.begin, 0xff, a.bytes);
    if (on_device) Memory::protect(a, false);
    return true;
}

// nullptr: the reason is in *error. Where the process has too many mappings it is a misuse, since a
// device would have memory.
Allocation* allocate(Runtime& r, Allocation::Kind kind, int device, std::size_t bytes,
                     cudaError_t* error) {
    *error = cudaErrorMemoryAllocation;
    if (r.next_allocation.fires()) {
        *error = r.next_allocation.error;
        return nullptr;
    }
    if (kind == Allocation::Kind::device &&
        (bytes > r.options.device_bytes ||
         r.memory.used(device) + Memory::footprint(bytes) > r.options.device_bytes))
        return nullptr;
    Allocation* const a = r.memory.map(kind, device, bytes);
    if (a == nullptr) {
        if (const std::string shortage = Memory::shortage(); !shortage.empty())
            r.stop("an allocation of " + std::to_string(bytes) + " bytes fails: " + shortage);
        return nullptr;
    }
    if (!poison(r, *a)) {
        r.memory.release(*a, "a lack of memory");
        return nullptr;
    }
    *error = cudaSuccess;
    const bool on_device = kind == Allocation::Kind::device;
    const std::string label = a->name.substr(0, a->name.find(" ("));
    r.races.note(r.host, gx::Access::begin, {a->begin, a->bytes}, {std::string_view(label)});
    ++(on_device ? r.counts.allocations : r.counts.host_allocations);
    return a;
}

cudaError_t no_bytes(void** pointer) {
    *pointer = nullptr;
    return cudaSuccess;
}

/// The live allocation of one of these kinds that begins there, or a misuse.
Allocation& to_free(Runtime& r, const void* pointer, Allocation::Kind kind,
                    const std::string& name) {
    const auto is = [&](const Allocation* a) { return a != nullptr && a->kind == kind; };
    if (Allocation* const a = r.memory.begins_at(pointer); is(a)) return *a;
    const Allocation* const near = r.memory.find(pointer);
    if (near == nullptr) r.stop(name + " of memory that the runtime did not allocate.");
    if (near->state == Allocation::State::freed)
        r.stop(name + " of " + near->name + ", which " + near->freed_by + " freed already.");
    if (near->kind != kind)
        r.stop(name + " of " + near->name + ". Release memory with the partner of its allocation.");
    r.stop(name + " of " + Memory::byte_of(*near, pointer) +
           ". Free what the allocation returned.");
}

void end(Runtime& r, Allocation& a, const std::string& name) {
    r.races.note(r.host, gx::Access::end, {a.begin, a.bytes}, {std::string_view(name)});
    if (a.kind == Allocation::Kind::registered) r.memory.forget_registered(a);
    else r.memory.release(a, name);
}

// Memory of the current device, or pinned while it is.
cudaError_t allocate_here(Runtime& r, Allocation::Kind kind, void** pointer, size_t bytes) {
    if (pointer == nullptr) return cudaErrorInvalidValue;
    if (bytes == 0) return no_bytes(pointer);
    cudaError_t error{};
    if (const auto* const a = allocate(r, kind, host_thread(r).device, bytes, &error))
        *pointer = a->begin;
    return error;
}

}  // namespace

// "Memory Management": linear memory of the current device, aligned to at least 256 bytes, not
// cleared. *pointer stays where it fails. A potentially unsafe call in captures.
cudaError_t cudaMalloc(void** pointer, size_t bytes) {
    return call("cudaMalloc", allocates, [&](Runtime& r) {
        return allocate_here(r, Allocation::Kind::device, pointer, bytes);
    });
}

// "Memory Management": an error for what was freed already; nullptr is no operation. It "may
// perform implicit synchronization", so work that was not waited for is a misuse here.
cudaError_t cudaFree(void* pointer) {
    return call("cudaFree", releases, [&](Runtime& r) {
        if (pointer == nullptr) return cudaSuccess;
        Allocation& a = to_free(r, pointer, Allocation::Kind::device, "cudaFree");
        r.expect_unused(a, "cudaFree");
        end(r, a, "cudaFree");
        ++r.counts.frees;
        return cudaSuccess;
    });
}

// "Stream Ordered Memory Allocator": usable by work that is ordered behind the allocation.
cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t stream) {
    return call("cudaMallocAsync", {}, [&](Runtime& r) {
        if (pointer == nullptr) return cudaErrorInvalidValue;
        CUstream_st& s = r.stream_of(stream, "cudaMallocAsync");
        if (s.capture)
            r.stop("cudaMallocAsync in a capture of " + s.name +
                   ": this double captures no allocations. Allocate before the capture.");
        if (bytes == 0) return no_bytes(pointer);
        cudaError_t error{};
        Allocation* const a = allocate(r, Allocation::Kind::device, s.device, bytes, &error);
        if (a == nullptr) return error;
        *pointer = a->begin;
        a->state = Allocation::State::promised;
        r.push(s, {.name = "cudaMallocAsync", .run = [a, &r, &s] {
                       a->state = Allocation::State::live;
                       r.note(s.actor, {a->begin, a->bytes, true}, "cudaMallocAsync");
                   }});
        return cudaSuccess;
    });
}

// "Stream Ordered Memory Allocator": all accesses are ordered before the free.
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
    return call("cudaFreeAsync", {.frees = true}, [&](Runtime& r) {
        if (pointer == nullptr) return cudaSuccess;
        CUstream_st& s = r.stream_of(stream, "cudaFreeAsync");
        if (s.capture)
            r.stop("cudaFreeAsync in a capture of " + s.name +
                   ": this double captures no allocations. Free after the capture.");
        Allocation* const a = &to_free(r, pointer, Allocation::Kind::device, "cudaFreeAsync");
        r.push(s, {.name = "cudaFreeAsync", .run = [a, &r, &s] {
                       if (a->state == Allocation::State::freed)
                           r.stop("cudaFreeAsync (" + s.name + ") of " + a->name + ", which " +
                                  a->freed_by + " freed already.");
                       if (a->state == Allocation::State::promised)
                           r.stop("cudaFreeAsync (" + s.name + ") of " + a->name +
                                  ", whose cudaMallocAsync has not run. Wait for it first.");
                       r.note(s.actor, {a->begin, a->bytes, true}, "cudaFreeAsync");
                       end(r, *a, "cudaFreeAsync");
                   }});
        ++r.counts.frees;
        return cudaSuccess;
    });
}

// "Memory Management": page-locked memory of the host, for asynchronous copies. Pages are closed to
// the host while queued work uses them (RuntimeOptions::watch_pinned).
cudaError_t cudaMallocHost(void** pointer, size_t bytes) {
    return call("cudaMallocHost", allocates, [&](Runtime& r) {
        return allocate_here(r, Allocation::Kind::pinned, pointer, bytes);
    });
}
// "Memory Management": the same with hints, which change nothing here.
cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned int flags) {
    return call("cudaHostAlloc", allocates, [&](Runtime& r) {
        constexpr unsigned int known =
            cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
        if ((flags & ~known) != 0) return cudaErrorInvalidValue;
        return allocate_here(r, Allocation::Kind::pinned, pointer, bytes);
    });
}
cudaError_t cudaFreeHost(void* pointer) {
    return call("cudaFreeHost", releases, [&](Runtime& r) {
        if (pointer == nullptr) return cudaSuccess;
        Allocation& a = to_free(r, pointer, Allocation::Kind::pinned, "cudaFreeHost");
        r.expect_unused(a, "cudaFreeHost");
        end(r, a, "cudaFreeHost");
        return cudaSuccess;
    });
}

// "Memory Management": page-locks memory of the program, which must not be registered already.
// Flags are hints, but for cudaHostRegisterReadOnly, which the double's devices do not support.
cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned int flags) {
    return call("cudaHostRegister", allocates, [&](Runtime& r) {
        constexpr unsigned int hints =
            cudaHostRegisterPortable | cudaHostRegisterMapped | cudaHostRegisterIoMemory;
        if (pointer == nullptr || bytes == 0) return cudaErrorInvalidValue;
        if ((flags & ~(hints | cudaHostRegisterReadOnly)) != 0) return cudaErrorInvalidValue;
        if ((flags & cudaHostRegisterReadOnly) != 0) return cudaErrorNotSupported;
        if (bytes > addresses_max - reinterpret_cast<std::uintptr_t>(pointer))
            return cudaErrorInvalidValue;
        const auto* const begin = static_cast<const std::byte*>(pointer);
        for (const Allocation* const a : r.memory.live())
            if (a->begin < begin + bytes && begin < a->begin + a->bytes)
                return cudaErrorHostMemoryAlreadyRegistered;
        const Allocation& a = *r.memory.add_registered(pointer, bytes, host_thread(r).device);
        const std::string label = a.name.substr(0, a.name.find(" ("));
        r.races.note(r.host, gx::Access::begin, {a.begin, a.bytes}, {std::string_view(label)});
        ++r.counts.host_allocations;
        return cudaSuccess;
    });
}
cudaError_t cudaHostUnregister(void* pointer) {
    return call("cudaHostUnregister", releases, [&](Runtime& r) {
        Allocation& a = to_free(r, pointer, Allocation::Kind::registered, "cudaHostUnregister");
        r.expect_unused(a, "cudaHostUnregister");
        end(r, a, "cudaHostUnregister");
        return cudaSuccess;
    });
}

// "Unified Addressing": what memory an address is of. devicePointer is nullptr where the current
// device may not access it. Of freed memory it is a misuse here; CUDA may give the address anew.
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
    return call("cudaPointerGetAttributes", {}, [&](Runtime& r) {
        if (attributes == nullptr) return cudaErrorInvalidValue;
        void* const address = const_cast<void*>(pointer);
        *attributes = {};
        attributes->type = cudaMemoryTypeUnregistered;
        attributes->device = cudaInvalidDeviceId;  // observed
        attributes->hostPointer = address;
        const Allocation* const a = r.memory.find(pointer);
        const auto* const byte = static_cast<const std::byte*>(pointer);
        if (a == nullptr || byte < a->begin || byte >= a->begin + a->bytes) return cudaSuccess;
        if (a->state == Allocation::State::freed)
            r.stop("cudaPointerGetAttributes of " + a->name + ", which " + a->freed_by + " freed.");
        const bool on_device = a->kind == Allocation::Kind::device;
        attributes->type = on_device ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
        attributes->device = a->device;
        attributes->devicePointer = r.may_access(host_thread(r).device, *a) ? address : nullptr;
        if (on_device) attributes->hostPointer = nullptr;
        return cudaSuccess;
    });
}

// "Memory Management": of the current device.
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
    return call("cudaMemGetInfo", {}, [&](Runtime& r) {
        if (free == nullptr || total == nullptr) return cudaErrorInvalidValue;
        *total = r.options.device_bytes;
        const std::size_t used = r.memory.used(host_thread(r).device);
        *free = *total - std::min(*total, used);
        return cudaSuccess;
    });
}
