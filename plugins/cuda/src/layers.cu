// Dropout, images, casts of many tensors, and the search for values that are not finite.
#include <gx/cuda/layer_kernels.hpp>

#include <algorithm>  // min
#include <bit>        // bit_cast

#include <gx/core/contract.hpp>  // GX_EXPECT
#include <gx/cuda/kernel.hpp>    // GX_KERNEL, launch

#include "block_sum.hpp"
#include "packs.hpp"

namespace gx::cuda {
namespace {

constexpr unsigned layer_threads = 256, layer_blocks_max = 4096;

LaunchShape shape_of(cudaStream_t stream, std::int64_t threads) {
    const std::int64_t blocks = (threads + layer_threads - 1) / layer_threads;
    return {static_cast<unsigned>(std::min<std::int64_t>(blocks, layer_blocks_max)), layer_threads,
            stream};
}

/// As reference::dropout: the product of doubles, rounded once.
template <class E>
GX_KERNEL dropout_kernel(PixelShape shape, Rng draws, double rate,
                         DeviceSpan<const typename E::storage> x,
                         DeviceSpan<typename E::storage> y) {
    const double kept = 1 / (1 - rate);
    for (std::int64_t i = global_thread(); i < y.size; i += all_threads()) {
        const std::int64_t row = i / shape.channels, image = row / shape.pixels;
        if (image >= shape.images) {
            y[i] = encoded<E>(0);
            continue;
        }
        const std::int64_t number =
            (image * shape.channels + i % shape.channels) * shape.pixels + row % shape.pixels;
        const bool drops = double{draws.uniform(static_cast<std::uint64_t>(number))} < rate;
        y[i] = encoded_once<E>(double{decoded<E>(x[i])} * (drops ? 0.0 : kept));
    }
}

/// V elements of a pixel of `to` a thread, which V divides; value(channel, element of the images).
template <class E, int V, class Value>
GX_DEVICE void pack_pixel_channels(const PixelShape& shape, DeviceSpan<Pack<E, V>> to,
                                   int padded_channels, Value value) {
    const int groups = padded_channels / V;
    for (std::int64_t i = global_thread(); i < to.size; i += all_threads()) {
        const std::int64_t row = i / groups, image = row / shape.pixels;
        Pack<E, V> pack{};
        GX_UNROLL for (int k = 0; k < V; ++k) {
            const int c = static_cast<int>(i % groups) * V + k;
            if (image < shape.images && c < shape.channels)
                pack.v[k] = encoded<E>(
                    value(c, (image * shape.channels + c) * shape.pixels + row % shape.pixels));
        }
        to[i] = pack;
    }
}
template <class E, int V>
GX_KERNEL pack_images_kernel(PixelShape shape, int padded_channels, DeviceSpan<const float> images,
                             DeviceSpan<Pack<E, V>> to) {
    pack_pixel_channels(shape, to, padded_channels, [&](int, std::int64_t i) { return images[i]; });
}
template <class E, int V>
GX_KERNEL pack_pixels_kernel(PixelShape shape, int padded_channels,
                             DeviceSpan<const std::uint8_t> pixels, DeviceSpan<const float> values,
                             DeviceSpan<Pack<E, V>> to) {
    pack_pixel_channels(shape, to, padded_channels, [&](int c, std::int64_t i) {
        return values[std::int64_t{c} * 256 + pixels[i]];
    });
}

/// A block a piece: packs of eight where both of its offsets allow it, and then what is left.
template <class From, class To>
GX_KERNEL cast_kernel(DeviceSpan<const CastPiece> pieces,
                      DeviceSpan<const typename From::storage> from,
                      DeviceSpan<const Pack<From, 8>> from_packs,
                      DeviceSpan<typename To::storage> to, DeviceSpan<Pack<To, 8>> to_packs) {
    for (std::int64_t p = blockIdx.x; p < pieces.size; p += gridDim.x) {
        const CastPiece piece = pieces[p];
        const std::int32_t in_packs = (piece.from | piece.to) % 8 == 0 ? piece.count / 8 : 0;
        for (std::int64_t i = threadIdx.x; i < in_packs; i += blockDim.x) {
            const Pack<From, 8> x = from_packs[piece.from / 8 + i];
            Pack<To, 8> y;
            GX_UNROLL for (int k = 0; k < 8; ++k) y.v[k] = encoded<To>(decoded<From>(x.v[k]));
            to_packs[piece.to / 8 + i] = y;
        }
        for (std::int64_t i = 8 * std::int64_t{in_packs} + threadIdx.x; i < piece.count;
             i += blockDim.x)
            to[piece.to + i] = encoded<To>(decoded<From>(from[piece.from + i]));
    }
}

GX_DEVICE bool is_finite(float x) {
    constexpr std::uint32_t exponent = 0x7f800000u;
    return (std::bit_cast<std::uint32_t>(x) & exponent) != exponent;
}
template <class E>
GX_KERNEL find_non_finite_kernel(DeviceSpan<const typename E::storage> values,
                                 DeviceSpan<const Pack<E, 8>> in_packs, int operation,
                                 DeviceSpan<int> first) {
    bool finite = true;
    for (std::int64_t i = global_thread(); i < in_packs.size; i += all_threads()) {
        const Pack<E, 8> x = in_packs[i];
        GX_UNROLL for (int k = 0; k < 8; ++k) finite = finite && is_finite(decoded<E>(x.v[k]));
    }
    for (std::int64_t i = 8 * in_packs.size + global_thread(); i < values.size; i += all_threads())
        finite = finite && is_finite(decoded<E>(values[i]));
    if (!finite) atomicMin(&first[0], operation);
}

/// Elements of an image's pixel in `to`. Errors: what does not fit breaks the contract.
void expect_images(const PixelShape& shape, int padded_channels, std::int64_t from,
                   std::int64_t to) {
    GX_EXPECT(shape.channels > 0 && shape.pixels > 0, "an image has channels and pixels");
    GX_EXPECT(from == shape.images * shape.channels * shape.pixels,
              "images or pixels are as many as the shape says");
    GX_EXPECT(padded_channels >= shape.channels, "padding takes no channels away");
    const std::int64_t padded = std::int64_t{shape.pixels} * padded_channels;
    GX_EXPECT(to % padded == 0 && to / padded >= shape.images,
              "packed images are whole, those of the batch or more");
}

/// Calls body.operator()<V>() with the channels that a thread packs.
template <class Body>
void with_packed(int padded_channels, Body body) {
    if (padded_channels % 8 == 0) body.template operator()<8>();
    else if (padded_channels % 4 == 0) body.template operator()<4>();
    else body.template operator()<1>();
}

template <class From, class To>
void cast(cudaStream_t stream, DeviceSpan<const CastPiece> pieces,
          DeviceSpan<const typename From::storage> from, DeviceSpan<typename To::storage> to) {
    launch("cast",
           {static_cast<unsigned>(std::min<std::int64_t>(pieces.size, layer_blocks_max)),
            layer_threads, stream},
           cast_kernel<From, To>, pieces, from, packs<From, 8>(from), to, packs<To, 8>(to));
}

}  // namespace

template <class E>
void dropout(cudaStream_t stream, const PixelShape& shape, const Rng& draws, double rate,
             DeviceSpan<const typename E::storage> x, DeviceSpan<typename E::storage> y) {
    GX_EXPECT(rate >= 0 && rate < 1, "dropout drops less than all");
    const std::int64_t image = std::int64_t{shape.channels} * shape.pixels;
    GX_EXPECT(
        x.size == y.size && image > 0 && y.size % image == 0 && y.size / image >= shape.images,
        "x and y of dropout have whole images, those of the batch or more");
    launch("dropout", shape_of(stream, y.size), dropout_kernel<E>, shape, draws, rate, x, y);
}

template <class E>
void pack_images(cudaStream_t stream, const PixelShape& shape, int padded_channels,
                 DeviceSpan<const float> images, DeviceSpan<typename E::storage> to) {
    expect_images(shape, padded_channels, images.size, to.size);
    with_packed(padded_channels, [&]<int V> {
        launch("pack images", shape_of(stream, to.size / V), pack_images_kernel<E, V>, shape,
               padded_channels, images, packs<E, V>(to));
    });
}
template <class E>
void pack_pixels(cudaStream_t stream, const PixelShape& shape, int padded_channels,
                 DeviceSpan<const std::uint8_t> pixels, DeviceSpan<const float> values,
                 DeviceSpan<typename E::storage> to) {
    expect_images(shape, padded_channels, pixels.size, to.size);
    GX_EXPECT(values.size == std::int64_t{shape.channels} * 256, "256 values a channel");
    with_packed(padded_channels, [&]<int V> {
        launch("pack pixels", shape_of(stream, to.size / V), pack_pixels_kernel<E, V>, shape,
               padded_channels, pixels, values, packs<E, V>(to));
    });
}

std::vector<CastPiece> cast_pieces(std::span<const CastTensor> tensors) {
    std::vector<CastPiece> pieces;
    for (const CastTensor& t : tensors)
        for (std::int64_t at = 0; at < t.count; at += cast_elements_max)
            pieces.push_back({t.from + at, t.to + at,
                              static_cast<std::int32_t>(
                                  std::min<std::int64_t>(t.count - at, cast_elements_max))});
    return pieces;
}
template <class E>
void encode_tensors(cudaStream_t stream, DeviceSpan<const CastPiece> pieces,
                    DeviceSpan<const float> from, DeviceSpan<typename E::storage> to) {
    cast<fp32, E>(stream, pieces, from, to);
}
template <class E>
void decode_tensors(cudaStream_t stream, DeviceSpan<const CastPiece> pieces,
                    DeviceSpan<const typename E::storage> from, DeviceSpan<float> to) {
    cast<E, fp32>(stream, pieces, from, to);
}

template <class E>
void find_non_finite(cudaStream_t stream, DeviceSpan<const typename E::storage> values,
                     int operation, DeviceSpan<int> first) {
    GX_EXPECT(first.size == 1, "one operation is the first");
    launch("find non-finite", shape_of(stream, (values.size + 7) / 8), find_non_finite_kernel<E>,
           values, packs<E, 8>(values), operation, first);
}

#define GX_LAYERS(E)                                                                            \
    template void dropout<E>(cudaStream_t, const PixelShape&, const Rng&, double,               \
                             DeviceSpan<const E::storage>, DeviceSpan<E::storage>);             \
    template void pack_images<E>(cudaStream_t, const PixelShape&, int, DeviceSpan<const float>, \
                                 DeviceSpan<E::storage>);                                       \
    template void pack_pixels<E>(cudaStream_t, const PixelShape&, int,                          \
                                 DeviceSpan<const std::uint8_t>, DeviceSpan<const float>,       \
                                 DeviceSpan<E::storage>);                                       \
    template void encode_tensors<E>(cudaStream_t, DeviceSpan<const CastPiece>,                  \
                                    DeviceSpan<const float>, DeviceSpan<E::storage>);           \
    template void decode_tensors<E>(cudaStream_t, DeviceSpan<const CastPiece>,                  \
                                    DeviceSpan<const E::storage>, DeviceSpan<float>);           \
    template void find_non_finite<E>(cudaStream_t, DeviceSpan<const E::storage>, int,           \
                                     DeviceSpan<int>);
GX_LAYERS(fp32)
GX_LAYERS(fp16)
GX_LAYERS(bf16)

}  // namespace gx::cuda
