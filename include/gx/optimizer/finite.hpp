// all_finite: whether a flat vector holds neither infinities nor NaN; decides skipped steps.
#pragma once

#include <bit>      // bit_cast
#include <cstdint>  // uint32_t
#include <span>     // flat memory

#include <gx/optimizer/update_args.hpp>  // block

namespace gx {

namespace detail::optimizer {

template <std::size_t N>
[[nodiscard]] inline bool block_finite(const float* x) {
    std::uint32_t largest = 0;  // exponent bits of all ones sort above every finite number
    for (std::size_t i = 0; i < N; ++i) {
        const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(x[i]) & 0x7f800000u;
        largest |= static_cast<std::uint32_t>(magnitude == 0x7f800000u);
    }
    return largest == 0;
}

}  // namespace detail::optimizer

/// True when every element is a finite number; an empty vector is.
/// Cost: one pass; stops at the first block that is not finite.
[[nodiscard]] inline bool all_finite(std::span<const float> x) {
    constexpr std::size_t block = detail::optimizer::block;
    for (; x.size() >= block; x = x.subspan(block))
        if (!detail::optimizer::block_finite<block>(x.data())) return false;
    for (const float& last : x)
        if (!detail::optimizer::block_finite<1>(&last)) return false;
    return true;
}

}  // namespace gx
