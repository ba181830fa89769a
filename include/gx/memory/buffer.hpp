// MemoryResource, Buffer: flat arrays in the memory of a device, or in the host's.
#pragma once

#include <concepts>     // same_as
#include <cstddef>      // byte
#include <cstdint>      // int64_t, PTRDIFF_MAX
#include <new>          // bad_alloc
#include <type_traits>  // is_trivially_copyable_v
#include <utility>      // exchange, swap

#include <gx/memory/aligned_buffer.hpp>  // AlignedBuffer: the host's
#include <gx/core/contract.hpp>          // GX_EXPECT
#include <gx/core/label.hpp>             // Label
#include <gx/memory/memory.hpp>          // ViewIn

namespace gx {

/// Identity of memory M, to compare.
template <class M>
inline constexpr char memory_id = 0;

/// Where buffers in the memory of a device come from.
class MemoryResource {
public:
    MemoryResource() = default;
    MemoryResource(const MemoryResource&) = delete;
    MemoryResource& operator=(const MemoryResource&) = delete;
    virtual ~MemoryResource() = default;

    /// Zeros from a multiple of 64 bytes on. Errors: throws where there is no more.
    [[nodiscard]] virtual std::byte* allocate(std::size_t bytes, const Label& name) = 0;
    /// Work that uses the memory was waited for.
    virtual void release(std::byte* memory, std::size_t bytes) noexcept = 0;
    /// `&memory_id<M>` of the memory M that it allocates.
    [[nodiscard]] virtual const void* memory() const = 0;
};

/// Where buffers of a transport lie that other ranks work on in place (SharesMemory): memory of the
/// host. nullptr: `link` has no such place, and any memory is as good.
template <class T>
[[nodiscard]] MemoryResource* shared_buffers([[maybe_unused]] T& link) {
    if constexpr (requires { link.shared_buffers(); }) return link.shared_buffers();
    else return nullptr;
}

/// Where messages of a transport over the host's memory are best read from and written to. nullptr:
/// `link` has no such place, and any memory is as good.
template <class T>
[[nodiscard]] MemoryResource* message_buffers([[maybe_unused]] T& link) {
    if constexpr (requires { link.message_buffers(); }) return link.message_buffers();
    else return nullptr;
}

/// `count` elements of a plain number type, zero at first, aligned to 64 bytes; in the memory of a
/// resource, or of the host where that is nullptr.
template <class T>
class Buffer {
    static_assert(std::is_trivially_copyable_v<T>, "gx: a Buffer holds plain numbers only.");

public:
    Buffer() = default;
    /// `name` is for reports on the device's memory.
    Buffer(MemoryResource* resource, std::int64_t count, const Label& name) : resource_(resource) {
        GX_EXPECT(count >= 0, "a buffer has at least 0 elements");
        if (count > PTRDIFF_MAX / static_cast<std::int64_t>(sizeof(T))) throw std::bad_alloc();
        size_ = static_cast<std::size_t>(count);
        if (resource_ == nullptr) host_ = AlignedBuffer<T>(count);
        else if (count > 0)
            far_ = reinterpret_cast<T*>(resource_->allocate(size_ * sizeof(T), name));
    }
    Buffer(Buffer&& b) noexcept { swap(b); }
    Buffer& operator=(Buffer&& b) noexcept {
        Buffer(std::move(b)).swap(*this);
        return *this;
    }
    ~Buffer() {
        if (far_ != nullptr)
            resource_->release(reinterpret_cast<std::byte*>(far_), size_ * sizeof(T));
    }

    [[nodiscard]] std::size_t size() const { return size_; }
    /// All elements, in the memory M of the resource. Errors: another M breaks the contract.
    template <class M = HostMemory>
    [[nodiscard]] ViewIn<T, M> view() {
        if constexpr (std::same_as<M, HostMemory>) {
            if (resource_ == nullptr) return host_.span();
            GX_EXPECT(resource_->memory() == &memory_id<HostMemory>,
                      "a buffer of a device has no view for the host");
            return {far_, size_};
        } else {
            GX_EXPECT(size_ == 0 || (resource_ && resource_->memory() == &memory_id<M>),
                      "a buffer has views in its own memory");
            return M::view(far_, size_);
        }
    }

private:
    void swap(Buffer& b) noexcept {
        std::swap(host_, b.host_);
        std::swap(resource_, b.resource_);
        std::swap(far_, b.far_);
        std::swap(size_, b.size_);
    }
    AlignedBuffer<T> host_{};
    MemoryResource* resource_ = nullptr;
    T* far_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace gx
