// AlexNet: the one-tower AlexNet of torchvision, 61,100,840 parameters at 1,000 classes.
#pragma once

#include <string_view>  // name

#include <gx/model/layers.hpp>  // Network, Conv, ...

namespace gx {

/// Parameters are named as in torchvision: features.0.weight, classifier.6.bias.
/// Source: Krizhevsky 2014, "One weird trick for parallelizing convolutional neural networks",
///         arXiv:1404.5997; torchvision/models/alexnet.py.
struct AlexNet
    : Network<ImageShape{3, 224, 224}, 1000,
              Named<"features",
                    Sequential<Conv<64, 11, 4, 2, Bias::yes>, ReLU, MaxPool<3, 2>,  // (64, 27, 27)
                               Conv<192, 5, 1, 2, Bias::yes>, ReLU, MaxPool<3, 2>,  // (192, 13, 13)
                               Conv<384, 3, 1, 1, Bias::yes>, ReLU,                 //
                               Conv<256, 3, 1, 1, Bias::yes>, ReLU,                 //
                               Conv<256, 3, 1, 1, Bias::yes>, ReLU, MaxPool<3, 2>>>,  // (256, 6, 6)
              Named<"avgpool", GridAvgPool<6>>, Named<"flatten", Flatten>,
              Named<"classifier", Sequential<Dropout<0.5>, Linear<4096>, ReLU,  //
                                             Dropout<0.5>, Linear<4096>, ReLU, Classifier>>> {
    static constexpr std::string_view name = "AlexNet";
};

}  // namespace gx
