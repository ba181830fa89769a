// Kernels on whole vectors that every memory has: conversions, sums, copies, tests.
#pragma once

#include <algorithm>    // copy, fill, swap_ranges
#include <cstddef>      // byte
#include <span>         // what they work on
#include <string_view>  // names

#include <gx/core/convert.hpp>   // encode_scaled, accumulate, decode_scaled
#include <gx/memory/memory.hpp>  // Flag

namespace gx::kernels {

// Shapes of all: spans of equal lengths, unless said otherwise. Bits: those of core/convert.hpp.
// `overwrites`: outputs are written and not read, for traffic_bytes().

/// to = encode(from * factor).
template <Element E>
struct EncodeScaled {
    static constexpr std::string_view name = "encode";
    static constexpr bool overwrites = true;
    float factor = 1;
    void operator()(std::span<const float> from, std::span<typename E::storage> to) const {
        encode_scaled<E>(from, factor, to);
    }
};

/// to = decode(from) * factor.
template <Element E>
struct DecodeScaled {
    static constexpr std::string_view name = "decode";
    static constexpr bool overwrites = true;
    float factor = 1;
    void operator()(std::span<const typename E::storage> from, std::span<float> to) const {
        decode_scaled<E>(from, factor, to);
    }
};

/// values = values * factor, in place.
struct Scale {
    static constexpr std::string_view name = "scale";
    float factor = 1;
    void operator()(std::span<float> values) const { encode_scaled<fp32>(values, factor, values); }
};

/// mine = encode(decode(mine) + decode(received)).
template <Element E>
struct Accumulate {
    static constexpr std::string_view name = "accumulate";
    void operator()(std::span<const typename E::storage> received,
                    std::span<typename E::storage> mine) const {
        accumulate<E>(received, mine);
    }
};

/// to = decode(from).
template <Element E>
struct Decode {
    static constexpr std::string_view name = "decode";
    static constexpr bool overwrites = true;
    void operator()(std::span<const typename E::storage> from, std::span<float> to) const {
        decode<E>(from, to);
    }
};

/// sum = sum + decode(received): sums that stay in float.
template <Element E>
struct DecodeAdd {
    static constexpr std::string_view name = "decode and add";
    void operator()(std::span<const typename E::storage> received, std::span<float> sum) const {
        decode_add<E>(received, sum);
    }
};

template <class T>
struct CopyValues {
    static constexpr std::string_view name = "copy";
    static constexpr bool overwrites = true;
    void operator()(std::span<const T> from, std::span<T> to) const {
        std::copy(from.begin(), from.end(), to.begin());
    }
};

/// Swaps `a` and `b` if the condition holds.
struct SwapIf {
    static constexpr std::string_view name = "swap if";
    void operator()(Flag condition, std::span<float> a, std::span<float> b) const {
        if (condition) std::swap_ranges(a.begin(), a.end(), b.begin());
    }
};

template <class T>
struct Fill {
    static constexpr std::string_view name = "fill";
    static constexpr bool overwrites = true;
    T value{};
    void operator()(std::span<T> to) const { std::fill(to.begin(), to.end(), value); }
};

}  // namespace gx::kernels
