// Vgg16: VGG with 16 weight layers, configuration D, 138,357,544 parameters at 1,000 classes.
#pragma once

#include <array>        // channels
#include <string_view>  // name

#include <gx/model/layers.hpp>  // append_linear, GridAvgPool

namespace gx {

/// Parameters are named as in torchvision: features.28.weight, classifier.6.bias.
/// Source: Simonyan, Zisserman 2014, arXiv:1409.1556, table 1, column D; torchvision/models/vgg.py.
struct Vgg16 {
    static constexpr std::string_view name = "VGG16";
    static constexpr ImageShape input{3, 224, 224};
    static constexpr int classes = 1000;

    static constexpr int describe(GraphBuilder& b, int x) {
        constexpr int pool = 0;  // between stages: halves the sides
        constexpr std::array<int, 18> channels{64,   64,  pool, 128, 128,  pool, 256, 256, 256,
                                               pool, 512, 512,  512, pool, 512,  512, 512, pool};
        const Label features = "features";
        int place = 0;
        for (const int c : channels) {
            if (c == pool) {
                x = b.max_pool(x, Window::square(2, 2), below(features, place++));
                continue;
            }
            x = b.conv2d(x, {.channels = c, .window = Window::square(3, 1, 1), .bias = true},
                         below(features, place++));
            x = b.relu(x, below(features, place++));
        }
        x = GridAvgPool<7>::describe(b, x, "avgpool");
        x = b.flatten(x, "flatten");
        return Sequential<Linear<4096>, ReLU, Dropout<0.5>, Linear<4096>, ReLU, Dropout<0.5>,
                          Classifier>::describe(b, x, "classifier");
    }
};

}  // namespace gx
