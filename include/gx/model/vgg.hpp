// Vgg<Depth>: VGG with 11, 13, 16 or 19 weight layers, with and without batch norm.
#pragma once

#include <array>        // convolutions
#include <string_view>  // name

#include <gx/model/layers.hpp>  // append_linear, GridAvgPool

namespace gx {

namespace detail::vgg {
/// Convolutions of each stage; none for a depth that is not in the paper.
[[nodiscard]] constexpr std::array<int, 5> convolutions_of(int depth) {
    switch (depth) {
        case 11: return {1, 1, 2, 2, 2};
        case 13: return {2, 2, 2, 2, 2};
        case 16: return {2, 2, 3, 3, 3};
        case 19: return {2, 2, 4, 4, 4};
        default: return {};
    }
}
}  // namespace detail::vgg

/// Columns A, B, D and E of the paper's table; `BatchNorm`: one behind each convolution, which
/// keeps its bias, as torchvision's vgg16_bn. Vgg16 has 138,357,544 parameters at 1,000 classes.
/// Shapes: images whose sides are one multiple of 224: others, which torchvision pools unevenly,
///         are GraphFault::uneven_pool.
/// Parameters are named as in torchvision: features.28.weight, classifier.6.bias.
/// Source: Simonyan, Zisserman 2014, arXiv:1409.1556, table 1; torchvision/models/vgg.py.
template <int Depth, bool BatchNorm>
struct Vgg {
    static_assert(detail::vgg::convolutions_of(Depth)[0] > 0,
                  "gx: no such VGG: its depth is 11, 13, 16 or 19. Fix: choose one of these.");
    static constexpr Label label = (Label("VGG") + Depth) + (BatchNorm ? "-BN" : "");
    static constexpr std::string_view name = label.view();
    static constexpr ImageShape input{3, 224, 224};
    static constexpr int classes = 1000;

    static constexpr int describe(GraphBuilder& b, int x) {
        const Label features = "features";
        int place = 0, stage = 0;
        for (const int convolutions : detail::vgg::convolutions_of(Depth)) {
            const int channels = stage < 4 ? 64 << stage : 512;
            for (int i = 0; i < convolutions; ++i) {
                x = b.conv2d(
                    x, {.channels = channels, .window = Window::square(3, 1, 1), .bias = true},
                    below(features, place++));
                if constexpr (BatchNorm) x = b.batch_norm(x, {}, below(features, place++));
                x = b.relu(x, below(features, place++));
            }
            x = b.max_pool(x, Window::square(2, 2), below(features, place++));
            ++stage;
        }
        x = GridAvgPool<7>::describe(b, x, "avgpool");
        x = b.flatten(x, "flatten");
        return Sequential<Linear<4096>, ReLU, Dropout<0.5>, Linear<4096>, ReLU, Dropout<0.5>,
                          Classifier>::describe(b, x, "classifier");
    }
};

}  // namespace gx
