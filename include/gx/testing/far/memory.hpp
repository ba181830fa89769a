// FarMemory: memory closed to the host, which stands in for a GPU's in tests.
#pragma once

#include <cstddef>  // byte
#include <cstdint>  // uintptr_t
#include <map>      // allocations
#include <span>     // the device's side
#include <string>   // sentences

#include <gx/core/decl.hpp>      // GX_DECL
#include <gx/core/label.hpp>     // Label
#include <gx/memory/buffer.hpp>  // MemoryResource
#include <gx/memory/memory.hpp>  // DeviceView, DeviceScalar

namespace gx::testing {

/// The memory of a FarMachine's ranks. Its views hold addresses of pages without access: a host
/// that reads or writes there ends with SIGSEGV. Kernels work on a second mapping of these pages.
struct FarMemory {
    template <class T>
    using View = DeviceView<T, FarMemory>;
    template <class T>
    using Scalar = DeviceScalar<T, FarMemory>;

    /// Distance from an address that the host sees to the same byte as kernels see it; also the
    /// most that one rank can allocate. Pages are used as they are touched.
    static constexpr std::size_t mapped_bytes = std::size_t{1} << 30;

    template <class T>
    [[nodiscard]] static View<T> view(T* begin, std::size_t count) {
        return {begin, count};
    }
    template <class T>
    [[nodiscard]] static View<const std::byte> bytes(View<const T> v) {
        return {reinterpret_cast<const std::byte*>(v.begin_), v.size_bytes()};
    }
    template <class T>
    [[nodiscard]] static View<std::byte> writable_bytes(View<T> v) {
        return {reinterpret_cast<std::byte*>(v.begin_), v.size_bytes()};
    }
    /// What the host sees; to compare and to report, not to read.
    template <class T>
    [[nodiscard]] static std::span<const std::byte> seen(View<T> v) {
        return {reinterpret_cast<const std::byte*>(v.begin_), v.size_bytes()};
    }
    /// What kernels see.
    template <class T>
    [[nodiscard]] static std::span<T> open(View<T> v) {
        if (v.empty()) return {};
        return {reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(v.begin_) + mapped_bytes),
                v.size_};
    }
    template <class T>
    [[nodiscard]] static T open(Scalar<T> s) {
        return open(s.at)[0];
    }
    template <class T>
    [[nodiscard]] static T open(T value) {
        return value;
    }
};

/// One rank's far memory. No address is used twice, so that a view of a released buffer is known.
/// Errors: gx::Error where the system gives no pages, or the rank has allocated `mapped_bytes`.
class FarArena {
public:
    GX_DECL explicit FarArena(int rank);
    FarArena(const FarArena&) = delete;
    FarArena& operator=(const FarArena&) = delete;
    GX_DECL ~FarArena();

    [[nodiscard]] GX_DECL std::byte* allocate(std::size_t bytes, const Label& name);
    GX_DECL void release(const std::byte* memory);

    /// "" where all of `memory` lies in one buffer that was not released, else what is wrong.
    [[nodiscard]] GX_DECL std::string flaw(std::span<const std::byte> memory) const;
    /// "'wire' of rank 2, byte 16", or "" where the address is not of this arena.
    [[nodiscard]] GX_DECL std::string describe(const void* address) const;
    /// Buffers that were not released.
    [[nodiscard]] int live() const { return live_; }
    /// Bytes of all buffers, released or not, with the room between them.
    [[nodiscard]] std::size_t used() const { return used_; }

private:
    struct Allocation {
        std::size_t bytes = 0;
        Label name{};
        bool released = false;
    };
    [[nodiscard]] const std::pair<const std::byte* const, Allocation>* find(
        const std::byte* address) const;

    int rank_;
    int live_ = 0;
    std::byte* base_ = nullptr;  ///< pages without access; kernels' follow behind
    std::size_t used_ = 0;
    std::map<const std::byte*, Allocation> allocations_{};
};

/// Names accesses of hosts to far memory from here on. A host that touches it writes one sentence
/// to standard error that names the buffer, its rank and the byte; then the previous handler of
/// SIGSEGV ends the process: the system's, or a sanitizer's with its report.
GX_DECL void name_host_accesses();

}  // namespace gx::testing

#if defined(GX_HEADER_ONLY)
#include <gx/testing/far/impl/memory.ipp>
#endif
