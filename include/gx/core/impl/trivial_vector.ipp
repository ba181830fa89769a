// Memory of a TrivialVector: growth and moves, in bytes.
#pragma once

#include <algorithm>  // max
#include <cstdint>    // PTRDIFF_MAX
#include <cstring>    // memcpy, memmove
#include <new>        // operator new

#include <gx/core/trivial_vector.hpp>  // the declarations

namespace gx::detail::trivial_vector {

GX_DECL void Storage::release(Layout element) noexcept {
    if (element.alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__) return ::operator delete(data_);
    ::operator delete(data_, std::align_val_t(element.alignment));
}

GX_DECL void Storage::reserve(std::size_t count, Layout element) {
    if (count <= capacity_) return;
    if (count > PTRDIFF_MAX / element.bytes) throw std::bad_alloc();
    const std::size_t bytes = count * element.bytes;
    void* larger = element.alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__
                       ? ::operator new(bytes)
                       : ::operator new(bytes, std::align_val_t(element.alignment));
    if (count_ != 0) std::memcpy(larger, data_, count_ * element.bytes);
    release(element);
    data_ = larger;
    capacity_ = count;
}

GX_DECL void Storage::grow(std::size_t count, Layout element) {
    reserve(std::max(count, 2 * capacity_), element);
}

GX_DECL void Storage::assign(const void* from, std::size_t count, Layout element) {
    if (from == data_) return;
    count_ = 0;
    reserve(count, element);
    if (count != 0) std::memcpy(data_, from, count * element.bytes);
    count_ = count;
}

GX_DECL void Storage::open(std::size_t index, Layout element) {
    if (count_ == capacity_) grow(count_ + 1, element);
    auto* at = static_cast<std::byte*>(data_) + index * element.bytes;
    std::memmove(at + element.bytes, at, (count_++ - index) * element.bytes);
}

GX_DECL void Storage::close(std::size_t index, std::size_t count, Layout element) {
    if (count == 0) return;
    auto* at = static_cast<std::byte*>(data_) + index * element.bytes;
    std::memmove(at, at + count * element.bytes, (count_ - index - count) * element.bytes);
    count_ -= count;
}

}  // namespace gx::detail::trivial_vector
