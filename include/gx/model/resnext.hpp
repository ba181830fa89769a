// ResNeXt<Depth, Groups, Width>: ResNet's bottlenecks with their 3x3 convolutions in groups.
#pragma once

#include <string_view>  // name

#include <gx/model/resnet.hpp>  // Block, append_stages

namespace gx {

/// `Groups` paths of `Width` channels each in the first stage, twice as many in each next one; the
/// shapes between blocks, and the names, are those of ResNet<Depth>.
/// Source: Xie et al. 2016, arXiv:1611.05431, table 1; torchvision/models/resnet.py.
template <int Depth, int Groups, int Width, LastGamma Gamma>
struct ResNeXt {
    static_assert(Depth >= 50 && detail::resnet::blocks_of(Depth)[0] > 0,
                  "gx: no such ResNeXt: its depth is 50, 101 or 152. Only bottlenecks have groups. "
                  "Fix: choose one of these.");
    static constexpr Label label = (Label("ResNeXt") + Depth + "-" + Groups + "x" + Width) + "d";
    static constexpr std::string_view name = label.view();
    static constexpr ImageShape input{3, 224, 224};
    static constexpr int classes = 1000;

    static constexpr int describe(GraphBuilder& b, int x) {
        x = b.conv2d(x, {64, Window::square(7, 2, 3)}, "conv1");
        x = b.relu(b.batch_norm(x, {}, "bn1"), "relu");
        x = b.max_pool(x, Window::square(3, 2, 1), "maxpool");
        x = detail::resnet::append_stages(b, x, detail::resnet::blocks_of(Depth),
                                          {.width = 64,
                                           .bottleneck = true,
                                           .last_gamma = Gamma,
                                           .groups = Groups,
                                           .group_width = Width});
        x = b.flatten(b.global_avg_pool(x, "avgpool"), "flatten");
        return b.linear(x, b.classes(), true, "fc");
    }
};

}  // namespace gx
