// numbers: activations in memory, as floats or as bf16; kernels compute on them as floats.
#pragma once

#include <algorithm>  // min
#include <array>      // halves
#include <cstdint>    // uint16_t
#include <span>       // floats

#include <gx/core/convert.hpp>        // encode, decode
#include <gx/core/element.hpp>        // bf16, ElementType
#include <gx/onednn/detail/simd.hpp>  // Vector

namespace gx::onednn::detail {

/// The bits of a bf16 in memory.
using Bf16 = bf16::storage;

[[nodiscard]] constexpr int bytes_of(ElementType t) { return t == ElementType::fp32 ? 4 : 2; }

/// Calls f(float{}) or f(Bf16{}): the type whose numbers a buffer of `t` holds.
template <class F>
void with_number(ElementType t, F&& f) {
    t == ElementType::bf16 ? f(Bf16{}) : f(float{});
}

// One number. Rounding is to nearest, ties to even.
[[nodiscard]] constexpr float widen(float x) { return x; }
[[nodiscard]] constexpr float widen(Bf16 x) { return bf16::decode(x); }
template <class E>
[[nodiscard]] constexpr E narrow(float x) {
    if constexpr (sizeof(E) == sizeof(float)) return x;
    else return bf16::encode(x);
}

// B numbers from or to memory that is aligned as one number is. Vectors are passed by reference,
// because one that is returned has another ABI in each instruction set.
template <int B>
GX_ONEDNN_INLINE void load(const float* from, typename Vector<B>::type& to) {
    to = *reinterpret_cast<const typename Vector<B>::type*>(from);
}
template <int B>
GX_ONEDNN_INLINE void store(const typename Vector<B>::type& from, float* to) {
    *reinterpret_cast<typename Vector<B>::type*>(to) = from;
}
template <int B>
GX_ONEDNN_INLINE void load(const Bf16* from, typename Vector<B>::type& to) {
#if defined(__x86_64__) && !defined(__clang__)
    if constexpr (B == 16) {  // g++ 12 widens by halves of a register
        const auto& halves = *reinterpret_cast<const typename Vector<B>::halves*>(from);
        asm("vpmovzxwd %1, %0\n\tvpslld $16, %0, %0" : "=v"(to) : "m"(halves));
        return;
    }
#endif
    using Bits = typename Vector<B>::integers;
    const auto halves = *reinterpret_cast<const typename Vector<B>::halves*>(from);
    to = reinterpret_cast<const typename Vector<B>::type&>(
        static_cast<const Bits&>(__builtin_convertvector(halves, Bits) << 16));
}
#if defined(__x86_64__)
#if defined(__clang__)  // which has the registers only in a function that asks for them
[[gnu::target("avx512f")]]
#else
[[gnu::always_inline]]
#endif
inline void round_16(const Vector<16>::type& from, Bf16* to) {
    Vector<16>::halves rounded;  // by assembler, as the intrinsics' header takes long to compile
    asm("vcvtneps2bf16 %1, %0" : "=v"(rounded) : "v"(from));
    *reinterpret_cast<Vector<16>::halves*>(to) = rounded;
}
#endif
/// Order: as VCVTNEPS2BF16 rounds: a result below 2^-126 becomes 0, a NaN becomes quiet.
template <int B>
GX_ONEDNN_INLINE void store(const typename Vector<B>::type& from, Bf16* to) {
#if defined(__x86_64__)
    if constexpr (B == 16) return round_16(from, to);
#endif
    for (int i = 0; i < B; ++i) to[i] = bf16::encode(from[i]);
}
/// What a load would read after a store as E.
template <class E, int B>
GX_ONEDNN_INLINE void round_as(typename Vector<B>::type& x) {
    if constexpr (sizeof(E) == sizeof(float)) return;
    else {
        E stored[B];
        store<B>(x, stored);
        load<B>(stored, x);
    }
}

/// to = from, rounded.
struct Convert {
    struct Args {
        const float* from;
        Bf16* to;
        std::int64_t count;
    };
    using number = Bf16;
    template <int B>
    GX_ONEDNN_INLINE static void run(const Args& a) {
        std::int64_t i = 0;
        typename Vector<B>::type x;
        for (; i + B <= a.count; i += B) {
            load<B>(a.from + i, x);
            store<B>(x, a.to + i);
        }
        for (; i < a.count; ++i) a.to[i] = narrow<Bf16>(a.from[i]);
    }
};

/// How many of the numbers that are not 0 a rounding stored, and as 0.
struct Stored {
    std::int64_t all = 0, flushed = 0;
};
/// Each number becomes the fp16 nearest to it, ties to even, and stays a float in memory.
/// `counted`: where to count; null: nowhere.
inline void round_to_fp16(std::span<float> numbers, Stored* counted) {
    std::array<fp16::storage, 1024> halves;
    while (!numbers.empty()) {
        const auto part = numbers.first(std::min(numbers.size(), halves.size()));
        const auto rounded = std::span(halves).first(part.size());
        encode<fp16>(part, rounded);
        for (std::size_t i = 0; counted != nullptr && i < part.size(); ++i) {
            const bool is = part[i] != 0;
            counted->all += is;
            counted->flushed += is && (rounded[i] & 0x7fffu) == 0;
        }
        decode<fp16>(rounded, part);
        numbers = numbers.subspan(part.size());
    }
}

}  // namespace gx::onednn::detail
