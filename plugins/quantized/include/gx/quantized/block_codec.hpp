// BlockCodec<Bits>: blocks of 256 values as integers and one fp32 step, by stochastic rounding.
#pragma once

#include <algorithm>  // fill, max, min
#include <array>      // codes, draws
#include <bit>        // bit_cast
#include <cstddef>    // byte
#include <cstdint>    // int8_t, int64_t
#include <cstring>    // memcpy
#include <limits>     // quiet_NaN
#include <span>       // values

#include <gx/core/contract.hpp>           // GX_EXPECT
#include <gx/core/rng.hpp>                // Rng
#include <gx/reducer/block_rounding.hpp>  // BlockRounding, explain_bits

namespace gx::detail::quantized {

/// The two roundings of a value: before the sum by each rank, and of the mean by its owner.
enum class Phase : std::uint8_t { gradient, mean };

/// A block of up to 256 values x as one step s and a code c for each:
///
///     L = 2^(Bits - 1) - 1          127 or 7
///     s = smallest float with L s >= max |x|
///     c = floor(x / s + u)          u uniform in [0, 1); from -L to L
///     decode(c) = c s               E[c s] = x
///
/// Special blocks:
///
///     all zero              s = 0, decodes to zeros
///     max |x| tiny          s is a multiple of the smallest subnormal, at least one
///     L s beyond any float  s = largest float / 126 for 8 bits, which is a float; for 4 bits,
///                           largest float / 7 is one
///     a value not finite    s = NaN and c = 0: all of the block decodes to the quiet NaN
///
/// Wire:   for each block s, then its codes: of 8 bits as int8, of 4 bits as c + 8, two a byte, the
///         first in the low half. Ranks share one order of bytes. A block that is not the last of
///         its message has 256 values.
/// Order:  u of a value is a word of Philox: it depends on the Rng and the value's offset.
/// Errors: |c s - x| < s, of variance at most s^2 / 4: c is one of two neighbours, and p (1 - p) is
///         at most 1/4. Bias below 2^-31 s: u is a multiple of 2^-32, and x / s + u is made in
///         double. decode() rounds c s to float.
///         s <= max |x| / L (1 + 2^-23) + 2^-149; for 8 bits max |x| / 126 (1 + 2^-22), where
///         max |x| is within 2^-22 of the largest float.
/// Cost:   encode(): a quarter of a Philox block and a division for each value. Allocates nothing.
template <int Bits>
struct BlockCodec : BlockRounding<Bits> {
    using BlockRounding<Bits>::block_values, BlockRounding<Bits>::block_bytes;
    using BlockRounding<Bits>::bytes, BlockRounding<Bits>::round;

    /// The stream of uniform words: independent for each rank, phase and gradient.
    [[nodiscard]] static constexpr Rng draws(std::uint64_t seed, std::uint64_t gradient, int rank,
                                             Phase phase) {
        return stream(seed).at(gradient).at(substream(rank, phase));
    }
    /// Of which draws() takes a substream of each gradient, and then one of rank and phase.
    [[nodiscard]] static constexpr Rng stream(std::uint64_t seed) {
        return Rng(seed, "gx::quantized");
    }
    [[nodiscard]] static constexpr std::uint64_t substream(int rank, Phase phase) {
        return 2 * static_cast<std::uint64_t>(rank) + static_cast<std::uint64_t>(phase);
    }

    /// Encodes values whose first is at `offset` in the gradient. `out` has bytes(values) bytes.
    static void encode(std::span<const float> values, std::int64_t offset, const Rng& draws,
                       std::span<std::byte> out) {
        GX_EXPECT(out.size() == bytes(values.size()), "a message of bytes(values) bytes");
        for (std::size_t done = 0; done < values.size(); done += block_values) {
            const auto block = values.subspan(done, std::min(block_values, values.size() - done));
            const auto message = out.subspan(done / block_values * block_bytes);
            std::array<std::int8_t, block_values> codes{};
            const float s = step_of(block);
            if (s > 0) {  // not zero, not NaN
                const auto first = static_cast<std::uint64_t>(offset) + done;
                const Words words = draw(draws, first / 4, first % 4 + block.size());
                for (std::size_t i = 0; i < block.size(); ++i)
                    codes[i] = round(double{block[i]} / double{s}, words[first % 4 + i]);
            }
            std::memcpy(message.data(), &s, sizeof s);
            pack(std::span(codes).first(block.size()), message.subspan(sizeof s));
        }
    }

    /// Replaces all values of a message.
    static void decode(std::span<const std::byte> message, std::span<float> values) {
        GX_EXPECT(message.size() == bytes(values.size()), "a message of bytes(values) bytes");
        for (std::size_t done = 0; done < values.size(); done += block_values) {
            const auto block = values.subspan(done, std::min(block_values, values.size() - done));
            std::array<std::int8_t, block_values> codes;
            const float s = unpack(message.subspan(done / block_values * block_bytes),
                                   std::span(codes).first(block.size()));
            if (s != s)
                std::fill(block.begin(), block.end(), std::numeric_limits<float>::quiet_NaN());
            else
                for (std::size_t i = 0; i < block.size(); ++i)
                    block[i] = s * static_cast<float>(codes[i]);
        }
    }

    /// Adds a block to sums; products are exact in double, so fused or not gives the same bits.
    static void add(std::span<const std::byte> block, std::span<double> sums) {
        std::array<std::int8_t, block_values> codes;
        const double s = unpack(block, std::span(codes).first(sums.size()));
        for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += s * codes[i];
    }

private:
    [[nodiscard]] static float step_of(std::span<const float> block) {
        std::uint32_t largest =
            0;  // magnitudes as integers: infinity and NaN sort above all others
        for (const float x : block)
            largest = std::max(largest, std::bit_cast<std::uint32_t>(x) & 0x7fffffffu);
        return BlockRounding<Bits>::step_of_bits(largest);
    }
    /// Words of a block of values, from the Philox block that has the first one's.
    using Words = std::array<std::uint32_t, block_values + 4>;
    [[nodiscard]] static Words draw(const Rng& rng, std::uint64_t first, std::size_t count) {
        Words words;  // NOLINT(cppcoreguidelines-pro-type-member-init)
        for (std::size_t i = 0; i < count; i += 4) {
            const auto four = rng.bits(first + i / 4);
            for (std::size_t w = 0; w < 4; ++w) words[i + w] = four[w];
        }
        return words;
    }
    static void pack(std::span<const std::int8_t> codes, std::span<std::byte> out) {
        if constexpr (Bits == 8) std::memcpy(out.data(), codes.data(), codes.size());
        else
            for (std::size_t i = 0; i < codes.size(); i += 2) {
                const int high = i + 1 < codes.size() ? codes[i + 1] : 0;
                out[i / 2] = static_cast<std::byte>((codes[i] + 8) | (high + 8) << 4);
            }
    }
    static float unpack(std::span<const std::byte> in, std::span<std::int8_t> codes) {
        float s = 0;
        std::memcpy(&s, in.data(), sizeof s);
        in = in.subspan(sizeof s);
        if constexpr (Bits == 8) std::memcpy(codes.data(), in.data(), codes.size());
        else
            for (std::size_t i = 0; i < codes.size(); ++i) {
                const int both = std::to_integer<int>(in[i / 2]);
                codes[i] = static_cast<std::int8_t>((i % 2 == 0 ? both & 15 : both >> 4) - 8);
            }
        return s;
    }
};

}  // namespace gx::detail::quantized
