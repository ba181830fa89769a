// SpaceToDepth: a first convolution of stride 2, as one of stride 1 on blocks of 2 x 2 pixels.
#pragma once

#include <algorithm>  // count_if
#include <cstdint>    // int64_t
#include <optional>   // what is no such convolution

#include <gx/model/graph.hpp>  // Graph, Op

namespace gx::cuda {

/// A convolution of stride 2 on images of few channels computes the same products as one of stride
/// 1 on maps of half the height and width, whose channels are those of 2 x 2 pixels: channel
/// (dy * 2 + dx) * C + c is c of the pixel (dy, dx) of a block, and others are 0 up to a multiple
/// of 8. Its filters have (k + p % 2 + 1) / 2 taps; what the window lacks is 0. On an H100
/// ResNet-50's stem then takes 0.7 ms, and its weight gradient 0.5, instead of 1.5 and 1.2.
///
///     SpaceToDepth s = ...;                       // 7 x 7, stride 2, padding 3: 4 x 4 taps
///     // x (N, H / 2, W / 2, s.padded()), weight (out, s.taps_y(), s.taps_x(), s.padded()),
///     // s.before_y() and s.before_x() blocks of padding before, the rest behind
struct SpaceToDepth {
    int channels = 0, height = 0, width = 0;  ///< of the images; height and width are even
    int kernel_height = 0, kernel_width = 0, pad_height = 0, pad_width = 0;
    int filters = 0;

    [[nodiscard]] constexpr int padded() const { return (4 * channels + 7) / 8 * 8; }
    [[nodiscard]] constexpr int taps_y() const { return (kernel_height + pad_height % 2 + 1) / 2; }
    [[nodiscard]] constexpr int taps_x() const { return (kernel_width + pad_width % 2 + 1) / 2; }
    /// Blocks of padding before the first.
    [[nodiscard]] constexpr int before_y() const { return (pad_height + 1) / 2; }
    [[nodiscard]] constexpr int before_x() const { return (pad_width + 1) / 2; }
    /// And behind the last, for so many outputs.
    [[nodiscard]] constexpr int behind_y(int outputs) const {
        return outputs + taps_y() - 1 - height / 2 - before_y();
    }
    [[nodiscard]] constexpr int behind_x(int outputs) const {
        return outputs + taps_x() - 1 - width / 2 - before_x();
    }
    [[nodiscard]] constexpr std::int64_t weights() const {
        return std::int64_t{filters} * taps_y() * taps_x() * padded();
    }
    [[nodiscard]] constexpr std::int64_t elements() const {  ///< of an image
        return std::int64_t{height / 2} * (width / 2) * padded();
    }
    bool operator==(const SpaceToDepth&) const = default;
};

/// Of an operation that can be computed so: alone to read the graph's input, of at most 4 channels,
/// with stride 2, even height and width, one group and no bias. Its product's channels, 16 for 3,
/// suit tensor cores; fp32 has none, and does 1.7 times the products: see NetworkPlan.
[[nodiscard]] inline std::optional<SpaceToDepth> space_to_depth(const Graph& graph, const Op& op) {
    const auto reads = [](const Op& o) { return o.inputs[0] == 0 || o.inputs[1] == 0; };
    const ImageShape& in = graph.input;
    const Window& w = op.window;
    if (op.kind != OpKind::conv2d || op.inputs[0] != 0 || op.parameter_count != 1 ||
        op.groups != 1 || w.stride != 2 || in.channels > 4 || in.height % 2 != 0 ||
        in.width % 2 != 0 || std::ranges::count_if(graph.ops, reads) != 1)
        return std::nullopt;
    return SpaceToDepth{.channels = in.channels,
                        .height = in.height,
                        .width = in.width,
                        .kernel_height = w.height,
                        .kernel_width = w.width,
                        .pad_height = w.pad_height,
                        .pad_width = w.pad_width,
                        .filters = graph.tensors[static_cast<std::size_t>(op.output)].channels};
}

}  // namespace gx::cuda
