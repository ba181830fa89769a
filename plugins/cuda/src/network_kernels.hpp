// Kernels of a network that no other program needs: flatten, channels, blocks of pixels, the check
// of activations.
#pragma once

#include <cstdint>  // int64_t

#include <cuda_runtime_api.h>  // cudaStream_t

#include <gx/core/device.hpp>         // ForwardReport
#include <gx/cuda/device_span.hpp>    // DeviceSpan
#include <gx/cuda/kernels.hpp>        // PixelShape
#include <gx/cuda/layer_kernels.hpp>  // ChannelNorm

#include "space_to_depth.hpp"

namespace gx::cuda {

/// to[image, c, pixel] = from[image, pixel, c]: flatten.
/// Shapes: from (images, H * W, C); to (images, C, H * W). T is float or std::uint16_t.
template <class T>
void channels_to_front(cudaStream_t stream, const PixelShape& shape, DeviceSpan<const T> from,
                       DeviceSpan<T> to);
/// The gradient of flatten. Shapes: from (images, C, H * W); to (images, H * W, C).
template <class T>
void channels_to_back(cudaStream_t stream, const PixelShape& shape, DeviceSpan<const T> from,
                      DeviceSpan<T> to);

/// Channels of each pixel from `first` on. Shapes: maps (images * H * W, channels).
template <class T>
struct ChannelsFrom {
    DeviceSpan<T> maps{};
    std::int64_t channels = 0;
    std::int64_t first = 0;
};
/// to[pixel, c] = from[pixel, c] for `count` channels of both: concat, and its gradient.
/// Shapes: as many pixels on both sides. T is float or std::uint16_t.
/// Errors: channels that one side does not have, and pixels of another number, break the contract.
/// Cost:   reads and writes `count` channels once; 16 bytes a thread at a time where both sides'
///         channels are in words of them, else one element.
template <class T>
void copy_channels(cudaStream_t stream, std::int64_t count, const ChannelsFrom<const T>& from,
                   const ChannelsFrom<T>& to);

// ---- A first convolution on blocks of pixels: space_to_depth.hpp --------------------------------

// Shapes: images, pixels and values as pack_images and pack_pixels have them; to
//         (images or more, s.elements()), 0 behind the batch's images.
// Units:  as pack_images and pack_pixels.
// Cost:   traffic 4 or 1 bytes read an element of the images, and to written once.
template <class E>
void pack_blocks(cudaStream_t stream, const SpaceToDepth& s, int images,
                 DeviceSpan<const float> from, DeviceSpan<typename E::storage> to);
template <class E>
void pack_blocks_of_pixels(cudaStream_t stream, const SpaceToDepth& s, int images,
                           DeviceSpan<const std::uint8_t> pixels, DeviceSpan<const float> values,
                           DeviceSpan<typename E::storage> to);

/// Shapes: weight (filters, kernel_height, kernel_width, channels); to (s.weights()).
template <class E>
void weights_to_blocks(cudaStream_t stream, const SpaceToDepth& s,
                       DeviceSpan<const typename E::storage> weight,
                       DeviceSpan<typename E::storage> to);
/// The gradient of the weights, decoded. Shapes: from (s.weights()); gradient as the weight.
template <class E>
void gradient_from_blocks(cudaStream_t stream, const SpaceToDepth& s,
                          DeviceSpan<const typename E::storage> from, DeviceSpan<float> gradient);

// ---- Of any layer ------------------------------------------------------------------------------

/// value = decode(encode(value)).
template <class E>
void round_to(cudaStream_t stream, DeviceSpan<float> values);

/// Elements of an activation in the arena; with norms, what these make of it is checked.
struct CheckedActivation {
    std::int64_t first = 0, count_per_image = 0;
    std::int64_t first_norm = 0;  ///< in the arena, in ChannelNorms
    std::int64_t channels = 0;    ///< 0: no norms
};
/// Where the loss is not finite, and none was before: counts the elements of each activation that
/// are not finite, and then sets `found`.
/// Shapes: report, found (1); counts as activations; found and counts are 0 at first; norms: the
///         arena.
/// Cost:   two launches that end at once where the loss is finite.
template <class E>
void check_activations(cudaStream_t stream, DeviceSpan<const ForwardReport> report, int images,
                       DeviceSpan<const CheckedActivation> activations,
                       DeviceSpan<const typename E::storage> arena,
                       DeviceSpan<const ChannelNorm> norms, DeviceSpan<std::uint32_t> counts,
                       DeviceSpan<std::uint32_t> found);

}  // namespace gx::cuda
