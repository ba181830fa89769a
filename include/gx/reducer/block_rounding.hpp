// BlockRounding<Bits>: block quantization to integers with one step: what hosts and GPUs share.
#pragma once

#include <bit>      // bit_cast
#include <cstddef>  // size_t
#include <cstdint>  // int8_t
#include <limits>   // max

namespace gx::detail::quantized {

template <int Bits>
consteval bool explain_bits() {
    static_assert(Bits == 8 || Bits == 4,
                  "gx: Quantized sends integers of 8 or of 4 bits. "
                  "Fix: write 'Quantized<8>' or 'Quantized<4>'.");
    return true;
}

/// A message of blocks of 256 values: a step as 4 bytes, then a code of Bits for each value. The
/// formulas: quantized/block_codec.hpp.
template <int Bits>
struct BlockRounding {
    static_assert(explain_bits<Bits>());
    static constexpr int levels = (1 << (Bits - 1)) - 1;
    static constexpr std::size_t block_values = 256;
    static constexpr std::size_t block_bytes = 4 + block_values * Bits / 8;

    [[nodiscard]] static constexpr std::size_t code_bytes(std::size_t values) {
        return (values * Bits + 7) / 8;
    }
    /// Bytes of a message of so many values.
    [[nodiscard]] static constexpr std::size_t bytes(std::size_t values) {
        const std::size_t rest = values % block_values;
        return values / block_values * block_bytes + (rest > 0 ? 4 + code_bytes(rest) : 0);
    }

    /// The step of a block whose largest magnitude is finite.
    [[nodiscard]] static constexpr float step(float largest) {
        constexpr float most = std::numeric_limits<float>::max();
        float s = largest / levels;
        if (double{s} * levels < double{largest})
            s = std::bit_cast<float>(std::bit_cast<std::uint32_t>(s) + 1);
        constexpr float top = most / top_levels;
        static_assert(double{top} * top_levels == double{most});
        return double{s} * levels > double{most} ? top : s;
    }
    /// The step of a block, given the largest of its magnitudes' bits: infinity and NaN are larger
    /// than those of all numbers.
    [[nodiscard]] static constexpr float step_of_bits(std::uint32_t largest) {
        if (largest >= 0x7f800000u) return std::numeric_limits<float>::quiet_NaN();
        return step(std::bit_cast<float>(largest));
    }
    /// floor(x + word / 2^32): 128 makes it positive, where a conversion rounds down.
    [[nodiscard]] static constexpr std::int8_t round(double x, std::uint32_t word) {
        return static_cast<std::int8_t>(static_cast<int>(x + 128 + word * 0x1p-32) - 128);
    }

private:
    /// The largest float is this many steps that are a float: 2^24 - 1 is a multiple of 63 and 7.
    static constexpr int top_levels = Bits == 8 ? 126 : 7;
};

}  // namespace gx::detail::quantized
