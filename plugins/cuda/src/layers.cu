// Dropout and images.
#include <gx/cuda/layer_kernels.hpp>

#include <gx/core/contract.hpp>  // GX_EXPECT
#include <gx/cuda/kernel.hpp>    // GX_KERNEL, launch

#include "block_sum.hpp"
#include "packs.hpp"

namespace gx::cuda {
namespace {

/// As reference::dropout: the product of doubles, rounded once.
template <class E>
GX_KERNEL dropout_kernel(PixelShape shape, Rng of_rank, DeviceSpan<const std::uint64_t> draw,
                         double rate, DeviceSpan<const typename E::storage> x,
                         DeviceSpan<typename E::storage> y) {
    const double kept = 1 / (1 - rate);
    const Rng draws = of_rank.at(draw[0]);
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
    pack_pixel_channels<E, V>(shape, to, padded_channels,
                              [&](int, std::int64_t i) { return images[i]; });
}
template <class E, int V>
GX_KERNEL pack_pixels_kernel(PixelShape shape, int padded_channels,
                             DeviceSpan<const std::uint8_t> pixels, DeviceSpan<const float> values,
                             DeviceSpan<Pack<E, V>> to) {
    pack_pixel_channels<E, V>(shape, to, padded_channels, [&](int c, std::int64_t i) {
        return values[std::int64_t{c} * 256 + pixels[i]];
    });
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

}  // namespace

template <class E>
void dropout(cudaStream_t stream, const PixelShape& shape, const Rng& of_rank,
             DeviceSpan<const std::uint64_t> draw, double rate,
             DeviceSpan<const typename E::storage> x, DeviceSpan<typename E::storage> y) {
    GX_EXPECT(rate >= 0 && rate < 1, "dropout drops less than all");
    GX_EXPECT(draw.size == 1, "one draw of a batch");
    const std::int64_t image = std::int64_t{shape.channels} * shape.pixels;
    GX_EXPECT(
        x.size == y.size && image > 0 && y.size % image == 0 && y.size / image >= shape.images,
        "x and y of dropout have whole images, those of the batch or more");
    launch("dropout", grid_for(stream, y.size), dropout_kernel<E>, shape, of_rank, draw, rate, x,
           y);
}

template <class E>
void pack_images(cudaStream_t stream, const PixelShape& shape, int padded_channels,
                 DeviceSpan<const float> images, DeviceSpan<typename E::storage> to) {
    expect_images(shape, padded_channels, images.size, to.size);
    with_packed(padded_channels, [&]<int V> {
        launch("pack images", grid_for(stream, to.size / V), pack_images_kernel<E, V>, shape,
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
        launch("pack pixels", grid_for(stream, to.size / V), pack_pixels_kernel<E, V>, shape,
               padded_channels, pixels, values, packs<E, V>(to));
    });
}

#define GX_LAYERS(E)                                                                            \
    template void dropout<E>(cudaStream_t, const PixelShape&, const Rng&,                       \
                             DeviceSpan<const std::uint64_t>, double,                           \
                             DeviceSpan<const E::storage>, DeviceSpan<E::storage>);             \
    template void pack_images<E>(cudaStream_t, const PixelShape&, int, DeviceSpan<const float>, \
                                 DeviceSpan<E::storage>);                                       \
    template void pack_pixels<E>(cudaStream_t, const PixelShape&, int,                          \
                                 DeviceSpan<const std::uint8_t>, DeviceSpan<const float>,       \
                                 DeviceSpan<E::storage>);
GX_LAYERS(fp32)
GX_LAYERS(fp16)
GX_LAYERS(bf16)

}  // namespace gx::cuda
