// two_layers: the least network with a layer behind another, two images of it, and first weights.
#pragma once

#include <cstddef>  // size_t
#include <cstdint>  // labels
#include <span>     // parameters
#include <utility>  // move
#include <vector>   // images

#include <gx/core/device.hpp>  // Batch
#include <gx/model/graph.hpp>  // GraphBuilder

namespace testing_support {

/// 'first' has 20 weights and 5 biases, 'second' 15 and 3.
inline gx::Graph two_layers() {
    gx::GraphBuilder b("small", {1, 2, 2}, 3);
    int x = b.flatten(b.input(), "flatten");
    x = b.relu(b.linear(x, 5, true, "first"), "relu");
    (void)b.softmax_cross_entropy(b.linear(x, 3, true, "second"), 0, "loss");
    return std::move(b).finish();
}

struct TwoImages {
    std::vector<float> images = std::vector<float>(8, 0.5f);
    std::vector<std::int32_t> labels{0, 2};
    [[nodiscard]] gx::Batch batch() const { return {images, labels, 2, 0}; }
};

/// Weights of either sign.
inline constexpr auto fill_weights = [](std::span<float> p) {
    for (std::size_t i = 0; i < p.size(); ++i) p[i] = 0.01f * static_cast<float>(i % 7) - 0.02f;
};

}  // namespace testing_support
