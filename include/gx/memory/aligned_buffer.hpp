// AlignedBuffer: array of fixed size, zero at first, that begins on a cache line.
#pragma once

#include <cstdint>      // int64_t
#include <span>         // the elements
#include <type_traits>  // is_trivially_copyable_v

#include <gx/core/contract.hpp>        // GX_EXPECT
#include <gx/core/trivial_vector.hpp>  // the memory

namespace gx {

/// `count` elements of a plain number type, aligned to 64 bytes.
template <class T>
class AlignedBuffer {
    static_assert(std::is_trivially_copyable_v<T>, "gx: AlignedBuffer holds plain numbers only.");

public:
    AlignedBuffer() = default;
    explicit AlignedBuffer(std::int64_t count) {
        GX_EXPECT(count >= 0, "a buffer has at least 0 elements");
        values_.resize(static_cast<std::size_t>(count));
    }

    [[nodiscard]] std::span<T> span() { return {values_.data(), values_.size()}; }
    [[nodiscard]] std::span<const T> span() const { return {values_.data(), values_.size()}; }
    [[nodiscard]] std::size_t size() const { return values_.size(); }

private:
    TrivialVector<T, 64> values_{};
};

}  // namespace gx
