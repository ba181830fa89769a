// Bulk conversions between float and an element, and the sum at a ring's hop.
#pragma once

#include <algorithm>    // copy_n
#include <concepts>     // same_as
#include <cstddef>      // size_t
#include <span>         // views
#include <string_view>  // convert_path

#include <gx/core/contract.hpp>     // GX_EXPECT
#include <gx/core/convert_x86.hpp>  // avx2, avx512
#include <gx/core/cpu.hpp>          // Simd
#include <gx/core/decl.hpp>         // GX_COMPILED
#include <gx/core/element.hpp>      // Element

namespace gx {

namespace detail::convert {

template <class E>
concept Vectorised = std::same_as<E, fp32> || std::same_as<E, fp16> || std::same_as<E, bf16>;

template <class From, class To, Combining combining>
void portable(const typename From::storage* from, typename To::storage* to, std::size_t count,
              float factor) {
    for (std::size_t i = 0; i < count; ++i) {
        float x = From::decode(from[i]);
        if constexpr (combining == Combining::scale) x *= factor;
        if constexpr (combining == Combining::add) x = sum_of(To::decode(to[i]), x);
        to[i] = To::encode(x);
    }
}

template <class From, class To, Combining combining>
void run(std::span<const typename From::storage> from, std::span<typename To::storage> to,
         float factor, Simd simd) {
    GX_EXPECT(from.size() == to.size(), "a conversion fills as many elements as it reads");
    GX_EXPECT(factor == factor, "a factor of NaN: scale by a number");
    GX_EXPECT(supported(simd), "this processor lacks those instructions: use best_simd()");
    if constexpr (std::same_as<From, To> && combining == Combining::copy) {
        std::copy_n(from.data(), from.size(), to.data());
        return;
    }
    std::size_t done = 0;
#if defined(__x86_64__) && defined(__GNUC__)
    if constexpr (Vectorised<From> && Vectorised<To>) {
        if (simd >= Simd::avx512)
            done = avx512<From, To, combining>(from.data(), to.data(), from.size(), factor);
        if (simd == Simd::avx2)
            done = avx2<From, To, combining>(from.data(), to.data(), from.size(), factor);
    }
#endif
    portable<From, To, combining>(from.data() + done, to.data() + done, from.size() - done, factor);
}

/// to = (to * of_to + from * of_from) * of_sum in one pass. For the first elements of `to`; returns
/// their number. Products and sum are rounded each.
inline std::size_t add_products(std::span<const float> from, std::span<float> to, float of_from,
                                float of_to, float of_sum, Simd simd) {
    GX_EXPECT(from.size() == to.size(), "as many elements are added as there are");
#if defined(__x86_64__) && defined(__GNUC__)
    if (simd >= Simd::avx512)
        return add_products_avx512(from.data(), to.data(), to.size(), of_from, of_to, of_sum);
    if (simd == Simd::avx2)
        return add_products_avx2(from.data(), to.data(), to.size(), of_from, of_to, of_sum);
#endif
    return 0;
}

}  // namespace detail::convert

/// The loops that conversions run on this processor, as in "avx512".
[[nodiscard]] inline std::string_view convert_path() { return to_string(best_simd()); }

// For all that follows:
// Shapes: both spans have one length, any length from 0; they are the same memory or disjoint.
// Errors: unequal lengths, a factor of NaN, or a Simd that is not supported breaks the contract.
// Order:  every Simd gives the same bits, NaN payloads included, with the FPU rounding to nearest.
// Cost:   bound by memory above the caches; tests/benchmarks/convert_bench.cpp compares to memcpy.

/// to = encode(from).
template <Element E>
void encode(std::span<const float> from, std::span<typename E::storage> to,
            Simd simd = best_simd()) {
    detail::convert::run<fp32, E, detail::convert::Combining::copy>(from, to, 1, simd);
}

/// to = decode(from).
template <Element E>
void decode(std::span<const typename E::storage> from, std::span<float> to,
            Simd simd = best_simd()) {
    detail::convert::run<E, fp32, detail::convert::Combining::copy>(from, to, 1, simd);
}

/// to = encode(from * factor), the product rounded to float first.
template <Element E>
void encode_scaled(std::span<const float> from, float factor, std::span<typename E::storage> to,
                   Simd simd = best_simd()) {
    detail::convert::run<fp32, E, detail::convert::Combining::scale>(from, to, factor, simd);
}

/// to = decode(from) * factor.
template <Element E>
void decode_scaled(std::span<const typename E::storage> from, float factor, std::span<float> to,
                   Simd simd = best_simd()) {
    detail::convert::run<E, fp32, detail::convert::Combining::scale>(from, to, factor, simd);
}

/// mine = encode(decode(mine) + decode(received)): one hop of a ring. The sum is made in float;
/// of two NaNs mine stays.
template <Element E>
void accumulate(std::span<const typename E::storage> received, std::span<typename E::storage> mine,
                Simd simd = best_simd()) {
    detail::convert::run<E, E, detail::convert::Combining::add>(received, mine, 1, simd);
}

/// mine = mine + decode(received): sums that stay in float.
template <Element E>
void decode_add(std::span<const typename E::storage> received, std::span<float> mine,
                Simd simd = best_simd()) {
    detail::convert::run<E, fp32, detail::convert::Combining::add>(received, mine, 1, simd);
}

}  // namespace gx

// What all programs convert alike is generated once, in the libraries.
#define GX_CONVERSIONS(run)                                                                    \
    run(fp32, fp32, scale) run(fp32, fp32, add) run(fp32, fp16, copy) run(fp32, fp16, scale)   \
        run(fp16, fp32, copy) run(fp16, fp32, scale) run(fp16, fp32, add) run(fp16, fp16, add) \
            run(fp32, bf16, copy) run(fp32, bf16, scale) run(bf16, fp32, copy)                 \
                run(bf16, fp32, scale) run(bf16, fp32, add) run(bf16, bf16, add)
#if defined(GX_COMPILED)
#define GX_CONVERSION(from, to, combining)                                                 \
    extern template void                                                                   \
    gx::detail::convert::run<gx::from, gx::to, gx::detail::convert::Combining::combining>( \
        std::span<const gx::from::storage>, std::span<gx::to::storage>, float, gx::Simd);
GX_CONVERSIONS(GX_CONVERSION)
#undef GX_CONVERSION
#endif
