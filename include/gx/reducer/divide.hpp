// DivideAfter, DivideBefore, DivideSplit: where a sum over n ranks becomes a mean.
#pragma once

#include <concepts>     // same_as
#include <string_view>  // name

#include <gx/core/contract.hpp>  // GX_EXPECT

namespace gx {

/// Factors on every element: before(n) as it goes onto the wire, after(n) as it comes off.
template <class D>
concept DividePolicy = requires(int n) {
    { D::before(n) } -> std::same_as<float>;
    { D::after(n) } -> std::same_as<float>;
    { D::name } -> std::convertible_to<std::string_view>;
};

/// Sums, then multiplies by 1/n. Largest values on the wire: n times the mean, so fp16
/// overflows once a sum passes 65504.
/// Source: what Horovod and ChainerMN do by default.
struct DivideAfter {
    static constexpr std::string_view name = "DivideAfter";
    [[nodiscard]] static constexpr float before(int) { return 1.0f; }
    [[nodiscard]] static constexpr float after(int n) { return 1.0f / static_cast<float>(n); }
};

/// Multiplies by 1/n, then sums. Overflows where the mean does; loses the smallest values. For n
/// that is no power of two it rounds once more, by which a sum of nearly the wire's largest may
/// pass it.
struct DivideBefore {
    static constexpr std::string_view name = "DivideBefore";
    [[nodiscard]] static constexpr float before(int n) { return 1.0f / static_cast<float>(n); }
    [[nodiscard]] static constexpr float after(int) { return 1.0f; }
};

/// The default. Multiplies by 2^-h before, with h = ceil(log2(n) / 2), and by 2^h / n after: the
/// sum is at most sqrt(n) larger than the mean, and values lose at most h bits of the range below.
/// Before is an exact power of two, so where nothing overflows or becomes subnormal (fp32: always,
/// in practice) the bits are those of DivideAfter.
struct DivideSplit {
    static constexpr std::string_view name = "DivideSplit";
    [[nodiscard]] static constexpr float before(int n) { return 1.0f / half(n); }
    [[nodiscard]] static constexpr float after(int n) { return half(n) / static_cast<float>(n); }

private:
    /// 2^h: the smallest power of two whose square is at least n.
    [[nodiscard]] static constexpr float half(int n) {
        GX_EXPECT(n >= 1, "a mean is taken over at least one rank");
        float power = 1.0f;
        while (power * power < static_cast<float>(n)) power *= 2.0f;
        return power;
    }
};

static_assert(DividePolicy<DivideAfter> && DividePolicy<DivideBefore> && DividePolicy<DivideSplit>);

}  // namespace gx
