// Conversions between float and an element, and what a ring adds at every hop.
#include <gx/cuda/kernels.hpp>

#include <gx/core/element.hpp>  // fp16, bf16

#include "arithmetic.hpp"
#include "elementwise.hpp"

namespace gx::cuda {
namespace {

template <class E>
struct Encode {
    constexpr void operator()(const float& from, typename E::storage& to) const {
        to = E::encode(from);
    }
};
template <class E>
struct Decode {
    constexpr void operator()(const typename E::storage& from, float& to) const {
        to = E::decode(from);
    }
};
template <class E>
struct EncodeScaled {
    float factor;
    constexpr void operator()(const float& from, typename E::storage& to) const {
        to = E::encode(product_of(from, factor));
    }
};
template <class E>
struct DecodeScaled {
    float factor;
    constexpr void operator()(const typename E::storage& from, float& to) const {
        to = product_of(E::decode(from), factor);
    }
};
template <class E>
struct Accumulate {
    constexpr void operator()(const typename E::storage& received,
                              typename E::storage& mine) const {
        mine = E::encode(sum_of(E::decode(mine), E::decode(received)));
    }
};
template <class E>
struct DecodeAdd {
    constexpr void operator()(const typename E::storage& received, float& mine) const {
        mine = sum_of(mine, E::decode(received));
    }
};

void expect_number(float factor) {
    GX_EXPECT(factor == factor, "a factor of NaN: scale by a number");
}

}  // namespace

template <class E>
void encode(cudaStream_t stream, DeviceSpan<const float> from, DeviceSpan<typename E::storage> to) {
    apply(stream, "encode", Encode<E>{}, from, to);
}
template <class E>
void decode(cudaStream_t stream, DeviceSpan<const typename E::storage> from, DeviceSpan<float> to) {
    apply(stream, "decode", Decode<E>{}, from, to);
}
template <class E>
void encode_scaled(cudaStream_t stream, DeviceSpan<const float> from, float factor,
                   DeviceSpan<typename E::storage> to) {
    expect_number(factor);
    apply(stream, "encode scaled", EncodeScaled<E>{factor}, from, to);
}
template <class E>
void decode_scaled(cudaStream_t stream, DeviceSpan<const typename E::storage> from, float factor,
                   DeviceSpan<float> to) {
    expect_number(factor);
    apply(stream, "decode scaled", DecodeScaled<E>{factor}, from, to);
}
template <class E>
void accumulate(cudaStream_t stream, DeviceSpan<const typename E::storage> received,
                DeviceSpan<typename E::storage> mine) {
    apply(stream, "accumulate", Accumulate<E>{}, received, mine);
}
template <class E>
void decode_add(cudaStream_t stream, DeviceSpan<const typename E::storage> received,
                DeviceSpan<float> mine) {
    apply(stream, "decode and add", DecodeAdd<E>{}, received, mine);
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
