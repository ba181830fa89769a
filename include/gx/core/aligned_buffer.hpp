// AlignedBuffer: a flat array on a cache line's boundary, zero at first, of one size for life.
#pragma once

#include <algorithm>    // fill_n
#include <cstdint>      // int64_t
#include <memory>       // unique_ptr
#include <new>          // aligned new
#include <span>         // the elements
#include <type_traits>  // is_trivially_copyable_v

#include <gx/core/contract.hpp>  // GX_EXPECT

namespace gx {

/// `count` elements of a plain number type, aligned to 64 bytes. Moves; does not copy or grow.
template <class T>
class AlignedBuffer {
    static_assert(std::is_trivially_copyable_v<T>, "gx: AlignedBuffer holds plain numbers only.");

public:
    AlignedBuffer() = default;
    explicit AlignedBuffer(std::int64_t count) {
        GX_EXPECT(count >= 0, "a buffer has at least 0 elements");
        if (count == 0) return;
        count_ = static_cast<std::size_t>(count);
        data_.reset(static_cast<T*>(::operator new(count_ * sizeof(T), alignment)));
        std::fill_n(data_.get(), count_, T{});
    }

    [[nodiscard]] std::span<T> span() { return {data_.get(), count_}; }
    [[nodiscard]] std::span<const T> span() const { return {data_.get(), count_}; }
    [[nodiscard]] std::size_t size() const { return count_; }

private:
    static constexpr std::align_val_t alignment{64};
    struct Free {
        void operator()(T* data) const { ::operator delete(data, alignment); }
    };
    std::unique_ptr<T, Free> data_;
    std::size_t count_ = 0;
};

}  // namespace gx
