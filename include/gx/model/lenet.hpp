// LeNet: LeNet-5 with ReLU and max pooling, 61,706 parameters.
#pragma once

#include <string_view>  // name

#include <gx/model/layers.hpp>  // Network, Conv, ...

namespace gx {

/// LeNet-5 as it is written today: the second convolution sees every channel, ReLU and max pooling
/// stand for tanh and trained subsampling, and a softmax for the radial units.
/// Source: LeCun, Bottou, Bengio, Haffner 1998, "Gradient-based learning applied to document
///         recognition", figure 2.
struct LeNet : Network<ImageShape{1, 28, 28}, 10,                        //
                       Named<"conv1", Conv<6, 5, 1, 2, Bias::yes>>,      // (6, 28, 28)
                       Named<"relu1", ReLU>,                             //
                       Named<"pool1", MaxPool<2>>,                       // (6, 14, 14)
                       Named<"conv2", Conv<16, 5, 1, 0, Bias::yes>>,     // (16, 10, 10)
                       Named<"relu2", ReLU>,                             //
                       Named<"pool2", MaxPool<2>>,                       // (16, 5, 5)
                       Named<"fc1", Linear<120>>, Named<"relu3", ReLU>,  //
                       Named<"fc2", Linear<84>>, Named<"relu4", ReLU>,   //
                       Named<"fc3", Classifier>> {
    static constexpr std::string_view name = "LeNet";
};

}  // namespace gx
