// ResNet8 ... ResNet110: the small residual networks for images of 32x32 or 28x28.
#pragma once

#include <array>        // blocks of each stage
#include <string_view>  // name

#include <gx/model/resnet.hpp>  // append_stages, LastGamma

namespace gx {

/// Residual network of 6n + 2 weight layers: a 3x3 convolution, three stages of n basic blocks with
/// 16, 32 and 64 channels, a mean over the image, a linear layer. He et al. pad the shortcuts of
/// the two stages that halve the image with zeros (option A); here they are projected (option B),
/// which adds 2,752 parameters: ResNet-20 has 272,474, published as 0.27 M either way.
/// Source: He et al. 2015, arXiv:1512.03385, section 4.2 and table 6.
template <int Depth, int Channels, int Side, int Classes, LastGamma Gamma>
struct CifarResNet {
    static_assert(Depth >= 8 && Depth % 6 == 2,
                  "gx: no such CifarResNet: its depth is 6n + 2. Three stages of n blocks with two "
                  "convolutions each, and two layers more. Fix: use 8, 14, 20, 32, 44, 56 or 110.");
    static constexpr Label label = Channels == 3 && Side == 32
                                       ? Label("ResNet") + Depth
                                       : (Label("ResNet") + Depth + "-" + Channels) + "x" + Side;
    static constexpr std::string_view name = label.view();
    static constexpr ImageShape input{Channels, Side, Side};
    static constexpr int classes = Classes;

    static constexpr int describe(GraphBuilder& b, int x) {
        constexpr int n = (Depth - 2) / 6;
        x = b.conv2d(x, {16, Window::square(3, 1, 1)}, "conv1");
        x = b.relu(b.batch_norm(x, {}, "bn1"), "relu");
        x = detail::resnet::append_stages(b, x, std::array<int, 3>{n, n, n},
                                          {.width = 16, .last_gamma = Gamma});
        x = b.flatten(b.global_avg_pool(x, "avgpool"), "flatten");
        return b.linear(x, b.classes(), true, "fc");
    }
};

}  // namespace gx
