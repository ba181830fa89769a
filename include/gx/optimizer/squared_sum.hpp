// SquaredSum: exact sum of squares of floats, the same in any order and any split.
#pragma once

#include <array>    // words
#include <cstddef>  // size_t
#include <span>     // values

#include <gx/core/decl.hpp>    // GX_DECL
#include <gx/core/device.hpp>  // ParameterSlice

namespace gx {

/// Sum of squares, without rounding until value() is read.
///
///     SquaredSum a, b;             // two parts of one tensor
///     a.add(first), b.add(second);
///     a.add(b);
///     double norm = std::sqrt(a.value());
///
/// A float is m * 2^(e - 149) with m < 2^24 and e < 254, so its square is an integer below 2^48
/// times 2^(2 e - 298): the sum is one integer of 576 bits, kept in words of 32. Each word is an
/// integer in a double, so parts on several ranks add up by adding words() in any order
/// (sum_over_ranks), exactly, on up to 2^20 ranks.
///
/// Errors: infinities and NaN are counted, and make value() a NaN.
/// Order:  none shows: order of elements, vector width, zeros between them (padding), slices and
///         ranks change no bit.
/// Cost:   add() makes one pass and allocates nothing; 152 bytes.
/// Source: Kulisch and Miranker 1986, SIAM Review 28(1), the long accumulator, indexed by exponent
///         as in Neal 2015, arXiv:1505.05571, section 3.
class SquaredSum {
public:
    static constexpr std::size_t word_count = 19;  ///< 18 of the sum, 1 of what is not finite

    /// Adds the squares of `values`.
    GX_DECL void add(std::span<const float> values);
    /// Adds the sum of another part.
    GX_DECL void add(const SquaredSum& part);

    /// The sum within 2^-51 of itself, a function of its exact value alone.
    [[nodiscard]] GX_DECL double value() const;

    /// Word k counts 2^(32 k - 298); to be added to another part's, word by word.
    [[nodiscard]] std::span<double, word_count> words() { return words_; }
    [[nodiscard]] std::span<const double, word_count> words() const { return words_; }

    /// Whether both are the same sum.
    [[nodiscard]] GX_DECL bool operator==(const SquaredSum& other) const;

private:
    GX_DECL void carry();

    std::array<double, word_count> words_{};
};

/// Adds to sums[i] the squares of the elements of values in slices[i]; padding is zero and adds
/// nothing.
/// Errors: other counts of slices and sums, or a slice outside of values, break the contract.
GX_DECL void squared_norms(std::span<const ParameterSlice> slices, std::span<const float> values,
                           std::span<SquaredSum> sums);

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/optimizer/impl/squared_sum.ipp>
#endif
