// Conversions between float and an element, and what a ring adds at every hop.
#include <gx/cuda/kernels.hpp>

#include <bit>          // bit_cast
#include <cstdint>      // uint32_t
#include <type_traits>  // is_same_v

#include <gx/core/element.hpp>  // fp16, bf16

#include "arithmetic.hpp"
#include "elementwise.hpp"
#include "packs.hpp"

namespace gx::cuda {
namespace {

// E::encode and E::decode of NaNs: what a GPU's instructions make of them is another one.

template <class E>
GX_DEVICE typename E::storage encoded_nan(float nan) {
    const auto bits = std::bit_cast<std::uint32_t>(nan);
    if constexpr (std::is_same_v<E, fp16>)
        return static_cast<std::uint16_t>((bits >> 16 & 0x8000u) | 0x7e00u | (bits >> 13 & 0x3ffu));
    else if constexpr (std::is_same_v<E, bf16>)
        return static_cast<std::uint16_t>(bits >> 16 | 0x40u);
    else return nan;
}
template <class E>
GX_DEVICE float decoded_nan(typename E::storage nan) {
    if constexpr (std::is_same_v<E, fp16>)
        return std::bit_cast<float>((nan & 0x8000u) << 16 | 0x7fc00000u | (nan & 0x3ffu) << 13);
    else return E::decode(nan);
}
template <class E>
GX_DEVICE typename E::storage quieted_nan(typename E::storage nan) {
    if constexpr (std::is_same_v<E, fp32>) return quieted(nan);
    else return static_cast<std::uint16_t>(nan | (std::is_same_v<E, fp16> ? 0x200u : 0x40u));
}

template <class E>
GX_DEVICE typename E::storage encoded_bits(float x) {
    return x == x ? encoded<E>(x) : encoded_nan<E>(x);
}
template <class E>
GX_DEVICE float decoded_bits(typename E::storage x) {
    const float value = decoded<E>(x);
    return value == value ? value : decoded_nan<E>(x);
}

template <class E>
struct Encode {
    GX_DEVICE typename E::storage operator()(float from) const { return encoded_bits<E>(from); }
};
template <class E>
struct Decode {
    GX_DEVICE float operator()(typename E::storage from) const { return decoded_bits<E>(from); }
};
template <class E>
struct EncodeScaled {
    float factor;
    GX_DEVICE typename E::storage operator()(float from) const {
        return encoded_bits<E>(product_of(from, factor));
    }
};
template <class E>
struct DecodeScaled {
    float factor;
    GX_DEVICE float operator()(typename E::storage from) const {
        return product_of(decoded_bits<E>(from), factor);
    }
};
template <class E>
struct Accumulate {
    GX_DEVICE typename E::storage operator()(typename E::storage mine,
                                             typename E::storage received) const {
        const float a = decoded<E>(mine), b = decoded<E>(received), sum = a + b;
        const auto nan = a != a   ? quieted_nan<E>(mine)
                         : b != b ? quieted_nan<E>(received)
                                  : encoded_nan<E>(std::bit_cast<float>(invalid_bits));
        return sum == sum ? encoded<E>(sum) : nan;
    }
};
template <class E>
struct DecodeAdd {
    GX_DEVICE float operator()(float mine, typename E::storage received) const {
        return sum_of(mine, decoded_bits<E>(received));
    }
};

void expect_number(float factor) {
    GX_EXPECT(factor == factor, "a factor of NaN: scale by a number");
}

}  // namespace

template <class E>
void encode(cudaStream_t stream, DeviceSpan<const float> from, DeviceSpan<typename E::storage> to) {
    apply(stream, "encode", Encode<E>{}, to, from);
}
template <class E>
void decode(cudaStream_t stream, DeviceSpan<const typename E::storage> from, DeviceSpan<float> to) {
    apply(stream, "decode", Decode<E>{}, to, from);
}
template <class E>
void encode_scaled(cudaStream_t stream, DeviceSpan<const float> from, float factor,
                   DeviceSpan<typename E::storage> to) {
    expect_number(factor);
    apply(stream, "encode scaled", EncodeScaled<E>{factor}, to, from);
}
template <class E>
void decode_scaled(cudaStream_t stream, DeviceSpan<const typename E::storage> from, float factor,
                   DeviceSpan<float> to) {
    expect_number(factor);
    apply(stream, "decode scaled", DecodeScaled<E>{factor}, to, from);
}
template <class E>
void accumulate(cudaStream_t stream, DeviceSpan<const typename E::storage> received,
                DeviceSpan<typename E::storage> mine) {
    apply(stream, "accumulate", Accumulate<E>{}, mine, mine, received);
}
template <class E>
void decode_add(cudaStream_t stream, DeviceSpan<const typename E::storage> received,
                DeviceSpan<float> mine) {
    apply(stream, "decode and add", DecodeAdd<E>{}, mine, mine, received);
}

#define GX_CONVERSIONS_OF(E)                                                                \
    template void encode<E>(cudaStream_t, DeviceSpan<const float>, DeviceSpan<E::storage>); \
    template void decode<E>(cudaStream_t, DeviceSpan<const E::storage>, DeviceSpan<float>); \
    template void encode_scaled<E>(cudaStream_t, DeviceSpan<const float>, float,            \
                                   DeviceSpan<E::storage>);                                 \
    template void decode_scaled<E>(cudaStream_t, DeviceSpan<const E::storage>, float,       \
                                   DeviceSpan<float>);                                      \
    template void accumulate<E>(cudaStream_t, DeviceSpan<const E::storage>,                 \
                                DeviceSpan<E::storage>);                                    \
    template void decode_add<E>(cudaStream_t, DeviceSpan<const E::storage>, DeviceSpan<float>);
GX_CONVERSIONS_OF(fp32)
GX_CONVERSIONS_OF(fp16)
GX_CONVERSIONS_OF(bf16)

}  // namespace gx::cuda
