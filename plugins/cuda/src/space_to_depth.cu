// Images, weights and their gradient in blocks of 2 x 2 pixels.
#include "space_to_depth.hpp"

#include <gx/core/contract.hpp>  // GX_EXPECT
#include <gx/core/element.hpp>   // fp16, bf16

#include "elementwise.hpp"
#include "network_kernels.hpp"
#include "packs.hpp"

namespace gx::cuda {
namespace {

constexpr int in_pack = 8;

/// Where element `channel` of a block is in an image (C, H, W); C < 0: nowhere.
struct PixelAt {
    int channel, y, x;
};
GX_DEVICE PixelAt pixel_at(const SpaceToDepth& s, int block_y, int block_x, int channel) {
    const int place = channel / s.channels;
    return {place < 4 ? channel % s.channels : -1, 2 * block_y + place / 2,
            2 * block_x + place % 2};
}

/// A pack of a block a thread; value(channel, element of the images).
template <class E, class Value>
GX_DEVICE void pack_block_channels(const SpaceToDepth& s, int images,
                                   DeviceSpan<Pack<E, in_pack>> to, Value value) {
    const int groups = s.padded() / in_pack, rows = s.height / 2, columns = s.width / 2;
    for (std::int64_t i = global_thread(); i < to.size; i += all_threads()) {
        const std::int64_t block = i / groups, image = block / (std::int64_t{rows} * columns);
        const auto in_image = static_cast<int>(block % (std::int64_t{rows} * columns));
        Pack<E, in_pack> pack{};
        GX_UNROLL for (int k = 0; k < in_pack; ++k) {
            const PixelAt p = pixel_at(s, in_image / columns, in_image % columns,
                                       static_cast<int>(i % groups) * in_pack + k);
            if (image < images && p.channel >= 0)
                pack.v[k] = encoded<E>(
                    value(p.channel,
                          ((image * s.channels + p.channel) * s.height + p.y) * s.width + p.x));
        }
        to[i] = pack;
    }
}
template <class E>
GX_KERNEL pack_blocks_kernel(SpaceToDepth s, int images, DeviceSpan<const float> from,
                             DeviceSpan<Pack<E, in_pack>> to) {
    pack_block_channels<E>(s, images, to, [&](int, std::int64_t i) { return from[i]; });
}
template <class E>
GX_KERNEL pack_pixel_blocks_kernel(SpaceToDepth s, int images,
                                   DeviceSpan<const std::uint8_t> pixels,
                                   DeviceSpan<const float> values,
                                   DeviceSpan<Pack<E, in_pack>> to) {
    pack_block_channels<E>(s, images, to, [&](int c, std::int64_t i) {
        return values[std::int64_t{c} * 256 + pixels[i]];
    });
}

/// Where element i of the weights in blocks is in the window; -1: what the window lacks.
GX_DEVICE std::int64_t weight_at(const SpaceToDepth& s, std::int64_t i) {
    const auto channel = static_cast<int>(i % s.padded());
    const std::int64_t taps = i / s.padded(), filter = taps / (s.taps_y() * s.taps_x());
    const auto tap = static_cast<int>(taps % (s.taps_y() * s.taps_x()));
    const PixelAt p = pixel_at(s, tap / s.taps_x(), tap % s.taps_x(), channel);
    const int y = p.y - s.pad_height % 2, x = p.x - s.pad_width % 2;
    if (p.channel < 0 || y < 0 || y >= s.kernel_height || x < 0 || x >= s.kernel_width) return -1;
    return ((filter * s.kernel_height + y) * s.kernel_width + x) * s.channels + p.channel;
}
template <class E>
GX_KERNEL weights_to_blocks_kernel(SpaceToDepth s, DeviceSpan<const typename E::storage> weight,
                                   DeviceSpan<typename E::storage> to) {
    for (std::int64_t i = global_thread(); i < to.size; i += all_threads()) {
        const std::int64_t at = weight_at(s, i);
        to[i] = at < 0 ? encoded<E>(0) : weight[at];
    }
}
template <class E>
GX_KERNEL gradient_from_blocks_kernel(SpaceToDepth s, DeviceSpan<const typename E::storage> from,
                                      DeviceSpan<float> gradient) {
    for (std::int64_t i = global_thread(); i < from.size; i += all_threads())
        if (const std::int64_t at = weight_at(s, i); at >= 0) gradient[at] = decoded<E>(from[i]);
}

void expect_blocks(const SpaceToDepth& s, int images, std::int64_t from, std::int64_t to) {
    GX_EXPECT(from == std::int64_t{images} * s.channels * s.height * s.width,
              "images or pixels are as many as the shape says");
    GX_EXPECT(to % s.elements() == 0 && to / s.elements() >= images,
              "packed images are whole, those of the batch or more");
}
void expect_weights(const SpaceToDepth& s, std::int64_t weight, std::int64_t in_blocks) {
    GX_EXPECT(weight == std::int64_t{s.filters} * s.kernel_height * s.kernel_width * s.channels &&
                  in_blocks == s.weights(),
              "weights and weights in blocks are those of one convolution");
}

}  // namespace

template <class E>
void pack_blocks(cudaStream_t stream, const SpaceToDepth& s, int images,
                 DeviceSpan<const float> from, DeviceSpan<typename E::storage> to) {
    expect_blocks(s, images, from.size, to.size);
    launch("pack blocks", grid_for(stream, to.size / in_pack), pack_blocks_kernel<E>, s, images,
           from, packs<E, in_pack>(to));
}
template <class E>
void pack_blocks_of_pixels(cudaStream_t stream, const SpaceToDepth& s, int images,
                           DeviceSpan<const std::uint8_t> pixels, DeviceSpan<const float> values,
                           DeviceSpan<typename E::storage> to) {
    expect_blocks(s, images, pixels.size, to.size);
    GX_EXPECT(values.size == std::int64_t{s.channels} * 256, "256 values a channel");
    launch("pack blocks of pixels", grid_for(stream, to.size / in_pack),
           pack_pixel_blocks_kernel<E>, s, images, pixels, values, packs<E, in_pack>(to));
}
template <class E>
void weights_to_blocks(cudaStream_t stream, const SpaceToDepth& s,
                       DeviceSpan<const typename E::storage> weight,
                       DeviceSpan<typename E::storage> to) {
    expect_weights(s, weight.size, to.size);
    launch("weights to blocks", grid_for(stream, to.size), weights_to_blocks_kernel<E>, s, weight,
           to);
}
template <class E>
void gradient_from_blocks(cudaStream_t stream, const SpaceToDepth& s,
                          DeviceSpan<const typename E::storage> from, DeviceSpan<float> gradient) {
    expect_weights(s, gradient.size, from.size);
    launch("gradient from blocks", grid_for(stream, from.size), gradient_from_blocks_kernel<E>, s,
           from, gradient);
}

#define GX_SPACE_TO_DEPTH(E)                                                                      \
    template void pack_blocks<E>(cudaStream_t, const SpaceToDepth&, int, DeviceSpan<const float>, \
                                 DeviceSpan<E::storage>);                                         \
    template void pack_blocks_of_pixels<E>(cudaStream_t, const SpaceToDepth&, int,                \
                                           DeviceSpan<const std::uint8_t>,                        \
                                           DeviceSpan<const float>, DeviceSpan<E::storage>);      \
    template void weights_to_blocks<E>(cudaStream_t, const SpaceToDepth&,                         \
                                       DeviceSpan<const E::storage>, DeviceSpan<E::storage>);     \
    template void gradient_from_blocks<E>(cudaStream_t, const SpaceToDepth&,                      \
                                          DeviceSpan<const E::storage>, DeviceSpan<float>);
GX_SPACE_TO_DEPTH(fp16)
GX_SPACE_TO_DEPTH(bf16)

}  // namespace gx::cuda
