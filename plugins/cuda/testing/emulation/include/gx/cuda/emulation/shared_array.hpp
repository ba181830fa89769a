// SharedArray: a variable in the shared memory of an emulated block, checked at each access.
#pragma once

#include <cstddef>          // size_t
#include <cstdint>          // int64_t
#include <source_location>  // the declaration
#include <type_traits>      // is_trivially_copyable_v

#include <gx/cuda/emulation/grid.hpp>  // use_shared

namespace gx::cuda::emulation {

/// Address of an element, for atomic functions.
template <class T>
struct SharedPointer {
    T* to;
    Index index;
};

/// One element: converts to its value, and is assigned to. Name the type of a copy:
/// `float x = s[i]`, since `auto x = s[i]` would be the element itself.
template <class T>
class SharedElement {
public:
    SharedElement(T* to, const Index& i) : to_(to), index_(i) {}

    operator T() const {  // NOLINT(google-explicit-constructor): reads as on a GPU
        use_shared(to_, SharedUse::reads, index_);
        return *to_;
    }
    const SharedElement& operator=(T value) const {
        use_shared(to_, SharedUse::writes, index_);
        *to_ = value;
        return *this;
    }
    SharedElement(const SharedElement&) = default;
    SharedElement& operator=(const SharedElement& other) {
        static_cast<const SharedElement&>(*this) = static_cast<T>(other);
        return *this;
    }
    const SharedElement& operator+=(T value) const { return *this = static_cast<T>(*this) + value; }
    const SharedElement& operator|=(T value) const { return *this = static_cast<T>(*this) | value; }
    SharedPointer<T> operator&() const { return {to_, index_}; }

private:
    T* to_;
    Index index_;
};

template <class T>
class SharedArray {
    static_assert(std::is_trivially_copyable_v<T>);

public:
    SharedArray(std::size_t count, const void* declaration,
                std::source_location at = std::source_location::current())
        : begin_(static_cast<T*>(shared_bytes(declaration, count * sizeof(T), at))),
          size_(static_cast<std::int64_t>(count)) {}

    SharedElement<T> operator[](Index i) const {
        if (i.value < 0 || i.value >= size_) out_of_range(i, size_, "shared memory");
        return {begin_ + i.value, i};
    }

private:
    T* begin_;
    std::int64_t size_;
};

}  // namespace gx::cuda::emulation
