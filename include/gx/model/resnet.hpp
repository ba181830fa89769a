// ResNet18 ... ResNet152: residual networks for images of 224x224, as torchvision names them.
#pragma once

#include <array>        // blocks of each stage
#include <string_view>  // name

#include <gx/core/cold.hpp>     // GX_COLD
#include <gx/model/layers.hpp>  // append_shortcut, below

namespace gx {

namespace detail::resnet {

/// One residual block. Names below `scope`: conv1, bn1, ..., downsample.0, downsample.1.
struct Block {
    int width = 0;  ///< channels of the 3x3 convolutions
    int stride = 1;
    bool bottleneck = false;
    StrideAt stride_at = StrideAt::conv3x3;
    LastGamma last_gamma = LastGamma::zero;
    Label scope{};
    int groups = 1;        ///< of the 3x3 convolution
    int group_width = 64;  ///< its channels a group, in the first stage

    /// Convolution and batch norm number `i`; a ReLU behind all but the last.
    GX_COLD constexpr int unit(GraphBuilder& b, int x, int i, GraphBuilder::Conv conv,
                               bool last) const {
        x = b.conv2d(x, conv, below(scope, "conv") + i);
        x = b.batch_norm(x, {.zero_gamma = last && last_gamma == LastGamma::zero},
                         below(scope, "bn") + i);
        return last ? x : b.relu(x, below(scope, "relu") + i);
    }
    GX_COLD constexpr int branch(GraphBuilder& b, int x) const {
        if (!bottleneck) {
            x = unit(b, x, 1, {width, Window::square(3, stride, 1)}, false);
            return unit(b, x, 2, {width, Window::square(3, 1, 1)}, true);
        }
        const bool early = stride_at == StrideAt::conv1x1;
        const int inner = width * group_width / 64 * groups;
        x = unit(b, x, 1, {inner, Window::square(1, early ? stride : 1)}, false);
        x = unit(b, x, 2, {inner, Window::square(3, early ? 1 : stride, 1), groups}, false);
        return unit(b, x, 3, {4 * width, Window::square(1)}, true);
    }
    GX_COLD constexpr int append(GraphBuilder& b, int x) const {
        const int body = branch(b, x);
        const int shortcut = append_shortcut(b, x, b.shape(body), below(scope, "downsample"));
        return b.relu(b.add(body, shortcut, below(scope, "add")), below(scope, "relu"));
    }
};

/// Stages of blocks; the width doubles and the image halves where a stage begins, but the first.
template <std::size_t Stages>
constexpr int append_stages(GraphBuilder& b, int x, const std::array<int, Stages>& blocks,
                            Block block) {
    for (std::size_t stage = 0; stage < Stages; ++stage) {
        const Label layer = Label("layer") + static_cast<int>(stage + 1);
        for (int i = 0; i < blocks[stage]; ++i) {
            block.stride = stage > 0 && i == 0 ? 2 : 1;
            block.scope = below(layer, i);
            x = block.append(b, x);
        }
        block.width *= 2;
    }
    return x;
}

constexpr std::array<int, 4> blocks_of(int depth) {
    switch (depth) {
        case 18: return {2, 2, 2, 2};
        case 34:
        case 50: return {3, 4, 6, 3};
        case 101: return {3, 4, 23, 3};
        case 152: return {3, 8, 36, 3};
        default: return {0, 0, 0, 0};
    }
}

}  // namespace detail::resnet

/// Residual network for ImageNet. Parameters are named as in torchvision: conv1.weight,
/// layer1.0.bn1.running_mean, layer2.0.downsample.0.weight, fc.bias.
///
/// The last gamma of each branch starts at zero by default, unlike He et al. and like the
/// large-batch recipes.
/// Source: He et al. 2015, arXiv:1512.03385, table 1; Goyal et al. 2017, arXiv:1706.02677,
///         section 5.1 (stride at the 3x3, zero gamma); torchvision/models/resnet.py.
template <int Depth, StrideAt Stride, LastGamma Gamma>
struct ResNet {
    static_assert(detail::resnet::blocks_of(Depth)[0] > 0,
                  "gx: no such ResNet: its depth is 18, 34, 50, 101 or 152. Other depths have no "
                  "published stages. Fix: choose one of these, or CifarResNet for small images.");
    static constexpr Label label =
        (Label("ResNet") + Depth) + (Stride == StrideAt::conv1x1 && Depth >= 50 ? "v1" : "");
    static constexpr std::string_view name = label.view();
    static constexpr ImageShape input{3, 224, 224};
    static constexpr int classes = 1000;

    GX_COLD static constexpr int describe(GraphBuilder& b, int x) {
        x = b.conv2d(x, {64, Window::square(7, 2, 3)}, "conv1");
        x = b.relu(b.batch_norm(x, {}, "bn1"), "relu");
        x = b.max_pool(x, Window::square(3, 2, 1), "maxpool");
        x = detail::resnet::append_stages(
            b, x, detail::resnet::blocks_of(Depth),
            {.width = 64, .bottleneck = Depth >= 50, .stride_at = Stride, .last_gamma = Gamma});
        x = b.flatten(b.global_avg_pool(x, "avgpool"), "flatten");
        return b.linear(x, b.classes(), true, "fc");
    }
};

}  // namespace gx
