// TrivialVector: a std::vector for trivially copyable elements that is cheap to compile.
#pragma once

#include <cstddef>           // size_t
#include <initializer_list>  // elements
#include <new>               // placement new
#include <type_traits>       // is_trivially_copyable_v
#include <utility>           // swap

#include <gx/core/decl.hpp>  // GX_DECL

namespace gx {

namespace detail::trivial_vector {
struct Layout {  // of an element
    std::size_t bytes, alignment;
};
/// Memory of a TrivialVector: what needs no element type, so it is compiled once for all of them.
class Storage {
public:
    Storage() = default;
    Storage(const Storage&) = delete;
    Storage& operator=(const Storage&) = delete;

protected:
    ~Storage() = default;  // after release()
    void swap(Storage& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(count_, other.count_);
        std::swap(capacity_, other.capacity_);
    }
    void release(Layout element) noexcept;
    /// Makes room for exactly `count` elements; keeps those that are there.
    void reserve(std::size_t count, Layout element);
    /// Makes room for at least `count`, and for twice as many as there was.
    void grow(std::size_t count, Layout element);
    void assign(const void* from, std::size_t count, Layout element);
    /// Moves the elements from `index` on up by one.
    void open(std::size_t index, Layout element);
    /// Moves those from `index + count` on down to `index`.
    void close(std::size_t index, std::size_t count, Layout element);

    void* data_ = nullptr;
    std::size_t count_ = 0, capacity_ = 0;
};
}  // namespace detail::trivial_vector

/// The part of std::vector's interface that gx uses, with pointers for iterators.
///
/// GCC takes 30 to 90 ms for each element type of a std::vector that grows and is copied, and 3 to
/// 10 ms for one of these, as allocation, growth and copies are ordinary functions on bytes.
///
/// The first element lies on a multiple of `alignment` bytes.
///
/// Errors: as std::vector: an index that is not there is undefined; no memory: std::bad_alloc.
/// Cost:   as std::vector; a move is a swap.
template <class T, std::size_t alignment = alignof(T)>
class TrivialVector : detail::trivial_vector::Storage {
    static_assert(std::is_trivially_copyable_v<T>,
                  "gx: TrivialVector moves elements as bytes. "
                  "Fix: use std::vector for types that have a copy constructor or a destructor.");

public:
    using value_type = T;

    TrivialVector() = default;
    explicit TrivialVector(std::size_t count) { resize(count); }
    TrivialVector(std::size_t count, const T& value) { resize(count, value); }
    TrivialVector(std::initializer_list<T> list) {
        Storage::assign(list.begin(), list.size(), element);
    }
    TrivialVector(const TrivialVector& v) : Storage() {
        Storage::assign(v.data_, v.count_, element);
    }
    TrivialVector(TrivialVector&& v) noexcept { swap(v); }
    TrivialVector& operator=(const TrivialVector& v) {
        Storage::assign(v.data_, v.count_, element);
        return *this;
    }
    TrivialVector& operator=(TrivialVector&& v) noexcept {
        swap(v);
        return *this;
    }
    ~TrivialVector() { release(element); }

    [[nodiscard]] T* data() { return static_cast<T*>(data_); }
    [[nodiscard]] const T* data() const { return static_cast<const T*>(data_); }
    [[nodiscard]] std::size_t size() const { return count_; }
    [[nodiscard]] std::size_t capacity() const { return capacity_; }
    [[nodiscard]] bool empty() const { return count_ == 0; }
    [[nodiscard]] T* begin() { return data(); }
    [[nodiscard]] T* end() { return data() + count_; }
    [[nodiscard]] const T* begin() const { return data(); }
    [[nodiscard]] const T* end() const { return data() + count_; }
    [[nodiscard]] T& operator[](std::size_t i) { return data()[i]; }
    [[nodiscard]] const T& operator[](std::size_t i) const { return data()[i]; }
    [[nodiscard]] T& front() { return data()[0]; }
    [[nodiscard]] const T& front() const { return data()[0]; }
    [[nodiscard]] T& back() { return data()[count_ - 1]; }
    [[nodiscard]] const T& back() const { return data()[count_ - 1]; }

    void clear() { count_ = 0; }
    void reserve(std::size_t count) { Storage::reserve(count, element); }
    void resize(std::size_t count) { resize(count, T{}); }
    void resize(std::size_t count, const T& value) {
        const T copy = value;  // it may be one of ours
        if (count > capacity_) grow(count, element);
        for (std::size_t i = count_; i < count; ++i) ::new (data() + i) T(copy);
        count_ = count;
    }
    void assign(std::size_t count, const T& value) {
        const T copy = value;
        clear();
        resize(count, copy);
    }
    void push_back(const T& value) { emplace_back(value); }
    T& emplace_back(const T& value = T{}) {
        const T copy = value;
        if (count_ == capacity_) grow(count_ + 1, element);
        return *::new (data() + count_++) T(copy);
    }
    void pop_back() { --count_; }
    /// Puts `value` before the element at `place`, which may be end().
    void insert(const T* place, const T& value) {
        const T copy = value;
        const auto i = static_cast<std::size_t>(place - data());
        open(i, element);
        ::new (data() + i) T(copy);
    }
    void erase(const T* place) { erase(place, place + 1); }
    void erase(const T* first, const T* last) {
        close(static_cast<std::size_t>(first - data()), static_cast<std::size_t>(last - first),
              element);
    }

private:
    static constexpr detail::trivial_vector::Layout element{sizeof(T), alignment};
};

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/core/impl/trivial_vector.ipp>
#endif
