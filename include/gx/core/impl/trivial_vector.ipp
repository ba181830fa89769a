// Memory of a TrivialVector: growth and moves, in bytes.
#pragma once

#if defined(__linux__)
#include <sys/mman.h>  // madvise
#endif

#include <algorithm>  // max, min
#include <cstdint>    // PTRDIFF_MAX
#include <cstring>    // memcpy, memmove
#include <new>        // operator new

#include <gx/core/detail/sanitizers.hpp>  // GX_ADDRESS_SANITIZER
#include <gx/core/trivial_vector.hpp>     // the declarations

namespace gx::detail::trivial_vector {

#if GX_ADDRESS_SANITIZER
inline constexpr bool rounds_up = false;  // what lies behind the last element is seen then
#else
inline constexpr bool rounds_up = true;
#endif

/// Elements that lie on cache lines, as a model's parameters and gradients do, lie on pages of
/// 2 MiB where they are many: a pass over them misses fewer translations, and a message to another
/// process has fewer pages to be found. The nearest number of pages, so that at most half a page is
/// memory that holds nothing; 0: none.
inline constexpr std::size_t large_page = std::size_t{2} << 20;
inline std::size_t large_pages(std::size_t bytes, Layout element) {
    return element.alignment >= 64 ? bytes / large_page + (bytes % large_page >= large_page / 2)
                                   : 0;
}
inline std::size_t alignment_of(std::size_t bytes, Layout element) {
    return large_pages(bytes, element) > 0 ? large_page : element.alignment;
}

GX_DECL void Storage::release(Layout element) noexcept {
    const std::size_t alignment = alignment_of(capacity_ * element.bytes, element);
    if (alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__) return ::operator delete(data_);
    ::operator delete(data_, std::align_val_t(alignment));
}

GX_DECL void Storage::reserve(std::size_t count, Layout element) {
    if (count <= capacity_) return;
    if (count > PTRDIFF_MAX / element.bytes) throw std::bad_alloc();
    const std::size_t bytes = count * element.bytes, alignment = alignment_of(bytes, element);
    const std::size_t paged = large_pages(bytes, element) * large_page;
    const std::size_t taken = rounds_up ? std::max(bytes, paged) : bytes;
    void* larger = alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__
                       ? ::operator new(taken)
                       : ::operator new(taken, std::align_val_t(alignment));
#if defined(MADV_HUGEPAGE)
    if (paged > 0)  // a wish: where it fails, pages are smaller
        (void)::madvise(larger, std::min(taken, paged), MADV_HUGEPAGE);
#endif
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
