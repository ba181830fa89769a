// Memory, ViewIn: a vector's memory as a type; views that hosts can't dereference.
#pragma once

#include <compare>      // equality
#include <concepts>     // same_as, convertible_to
#include <cstddef>      // byte, size_t
#include <cstdint>      // uint8_t
#include <span>         // views of the host's memory
#include <type_traits>  // is_const

#include <gx/core/contract.hpp>  // GX_EXPECT

namespace gx {

/// Contiguous elements in the memory M of a device: a span that host code can cut and pass on, and
/// neither read nor write. M alone makes and opens it, inside of kernels on its queue (launch).
template <class T, class M>
class DeviceView {
public:
    using element_type = T;
    using Memory = M;

    constexpr DeviceView() = default;
    template <class U>
        requires std::convertible_to<U (*)[], T (*)[]>
    constexpr DeviceView(DeviceView<U, M> v)  // NOLINT(google-explicit-constructor): const is added
        : begin_(v.begin_), size_(v.size_) {}

    [[nodiscard]] constexpr std::size_t size() const { return size_; }
    [[nodiscard]] constexpr std::size_t size_bytes() const { return size_ * sizeof(T); }
    [[nodiscard]] constexpr bool empty() const { return size_ == 0; }

    /// Errors: a part outside of the view breaks the contract.
    [[nodiscard]] constexpr DeviceView subspan(std::size_t first, std::size_t count) const {
        GX_EXPECT(first <= size_ && count <= size_ - first, "a part lies inside of its view");
        return {begin_ + first, count};
    }
    [[nodiscard]] constexpr DeviceView subspan(std::size_t first) const {
        return subspan(first, size_ - first);
    }
    [[nodiscard]] constexpr DeviceView first(std::size_t count) const { return subspan(0, count); }
    [[nodiscard]] constexpr DeviceView last(std::size_t count) const {
        GX_EXPECT(count <= size_, "a part lies inside of its view");
        return subspan(size_ - count, count);
    }
    /// A member of the first element.
    template <class U, class C>
    [[nodiscard]] constexpr DeviceView<U, M> member(U C::* m) const {
        GX_EXPECT(size_ > 0, "a member of an element");
        return {&(begin_->*m), 1};
    }
    /// The same elements of the same memory.
    [[nodiscard]] friend constexpr bool operator==(DeviceView, DeviceView) = default;

private:
    friend M;
    template <class, class>
    friend class DeviceView;
    constexpr DeviceView(T* begin, std::size_t size) : begin_(begin), size_(size) {}

    T* begin_ = nullptr;
    std::size_t size_ = 0;
};

/// The memory of the process: views are spans, kernels run at once (queue.hpp).
struct HostMemory {
    template <class T>
    using View = std::span<T>;
    /// One value that kernels read: the value itself.
    template <class T>
    using Scalar = T;
};

/// One value in the memory M of a device, which a kernel reads when it runs.
template <class T, class M>
struct DeviceScalar {
    DeviceView<const T, M> at{};
};

/// Elements of type T in memory M: a span for HostMemory, else a DeviceView.
template <class T, class M>
using ViewIn = typename M::template View<T>;

/// A value of type T that kernels on memory M read: the value, or where it lies.
template <class T, class M>
using ScalarIn = typename M::template Scalar<T>;

/// 0 or 1: a decision that lies in the memory of a device.
using Flag = std::uint8_t;

/// A tag of a memory: names the type of its views and of the values that kernels read there.
template <class M>
concept Memory = requires {
    typename M::template View<float>;
    typename M::template Scalar<float>;
};
static_assert(Memory<HostMemory>);

namespace detail::memory {
template <class T>
consteval auto of_object() {
    if constexpr (requires { typename T::Memory; }) return std::type_identity<typename T::Memory>{};
    else return std::type_identity<HostMemory>{};
}
}  // namespace detail::memory

/// The memory that a transport, a device or a queue works in: its member `Memory`, or the host's.
template <class T>
using memory_of = typename decltype(detail::memory::of_object<std::remove_cvref_t<T>>())::type;

template <class T>
concept InHostMemory = std::same_as<memory_of<T>, HostMemory>;

/// Whether a rank sends from the memory in which its device computes.
template <class Rank, class Device>
consteval bool explain_memory() {
    static_assert(
        std::same_as<memory_of<Rank>, memory_of<Device>> || InHostMemory<Rank>,
        "gx: this World sends from a GPU's memory, and its Device computes in the host's. Fix: "
        "name a device of GPUs, as in 'nccl::World<cuda::Device>', or train on a world of the "
        "host's, as 'Threads<2, onednn::Device>'.");
    static_assert(
        std::same_as<memory_of<Rank>, memory_of<Device>> || !InHostMemory<Rank>,
        "gx: this World sends from the host's memory, and its Device computes in a GPU's. Fix: "
        "train on a world of GPUs, as 'nccl::World<cuda::Device>', stage gradients in the host's "
        "memory, as 'mpi::World<cuda::Staged<cuda::Device>>', or name a device of the host's, as "
        "in 'Threads<2, onednn::Device>'.");
    return true;
}

/// Whether two views begin at the same element of one memory.
template <class T, class U>
[[nodiscard]] constexpr bool same_place(std::span<T> a, std::span<U> b) {
    return a.data() == b.data();
}
template <class T, class M>
[[nodiscard]] constexpr bool same_place(DeviceView<T, M> a, DeviceView<T, M> b) {
    return a.first(0) == b.first(0);
}

/// The bytes of a view.
template <class T>
[[nodiscard]] std::span<const std::byte> bytes_of(std::span<T> v) {
    return std::as_bytes(v);
}
template <class T>
    requires(!std::is_const_v<T>)
[[nodiscard]] std::span<std::byte> writable_bytes_of(std::span<T> v) {
    return std::as_writable_bytes(v);
}
template <class T, class M>
[[nodiscard]] DeviceView<const std::byte, M> bytes_of(DeviceView<T, M> v) {
    return M::bytes(DeviceView<const T, M>(v));
}
template <class T, class M>
    requires(!std::is_const_v<T>)
[[nodiscard]] DeviceView<std::byte, M> writable_bytes_of(DeviceView<T, M> v) {
    return M::writable_bytes(v);
}

}  // namespace gx
