#include <gx/model/resnet.hpp>  // first, so the header is seen to stand alone

#include <algorithm>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace {

using namespace gx;

// ---- What the type promises ---------------------------------------------------------
// Source: torchvision/models/resnet.py, num_params of each set of weights.
static_assert(parameter_count<ResNet18>() == 11'689'512);
static_assert(parameter_count<ResNet34>() == 21'797'672);
static_assert(parameter_count<ResNet50>() == 25'557'032);
static_assert(parameter_count<ResNet101>() == 44'549'160);
static_assert(parameter_count<ResNet152>() == 60'192'808);

/// Multiply-adds in millions, rounded.
template <class M>
constexpr long long mmac = (mac_count<M>() + 500'000) / 1'000'000;

// Exact: fvcore's count of torchvision's networks, convolutions and the linear layer.
static_assert(mac_count<ResNet18>() == 1'814'073'344);
static_assert(mac_count<ResNet50>() == 4'089'184'256);
// To the digits of torchvision's _ops: 3.664, 7.801, 11.514 G.
static_assert(mmac<ResNet34> == 3'664);
static_assert(mmac<ResNet101> == 7'801);
static_assert(mmac<ResNet152> == 11'514);

// Stride at the 1x1, as published first: 3.86 G for 50 layers (the authors' Caffe network), 7.6 and
// 11.3 G for 101 and 152 (He et al. 2015, table 1). The same parameters.
template <int Depth>
using V1 = ResNet<Depth, StrideAt::conv1x1, LastGamma::one>;
static_assert((mac_count<V1<50>>() + 5'000'000) / 10'000'000 == 386);
static_assert((mac_count<V1<101>>() + 50'000'000) / 100'000'000 == 76);
static_assert((mac_count<V1<152>>() + 50'000'000) / 100'000'000 == 113);
static_assert(parameter_count<V1<50>>() == parameter_count<ResNet50>());
static_assert(V1<50>::name == "ResNet50v1" && ResNet50::name == "ResNet50");

static_assert(Model<ResNet50>);
static_assert(fits<ResNet50>({3, 128, 128}) && fits<ResNet50>({3, 288, 288}));
static_assert(fits<ResNet50>({3, 1, 1}), "every window is padded: nothing is too small");
static_assert(explain_model<WithInput<ResNet50, ImageShape{3, 160, 160}>>());

const Op* find(const Graph& g, std::string_view name) {
    const auto at = std::find_if(g.ops.begin(), g.ops.end(),
                                 [&](const Op& op) { return op.name.view() == name; });
    return at == g.ops.end() ? nullptr : &*at;
}

// ---- Cases worked by hand -----------------------------------------------------------
TEST(ResNet, NamesParametersAsTorchvision) {
    const Graph g = graph<ResNet50>();
    ASSERT_EQ(g.parameters.size(), 161u);
    ASSERT_EQ(g.statistics.size(), 106u);  // a mean and a variance for each of 53 batch norms
    const std::vector<std::string_view> expected{"conv1.weight",
                                                 "bn1.weight",
                                                 "bn1.bias",
                                                 "layer1.0.conv1.weight",
                                                 "layer1.0.bn1.weight",
                                                 "layer1.0.bn1.bias",
                                                 "layer1.0.conv2.weight",
                                                 "layer1.0.bn2.weight",
                                                 "layer1.0.bn2.bias",
                                                 "layer1.0.conv3.weight",
                                                 "layer1.0.bn3.weight",
                                                 "layer1.0.bn3.bias",
                                                 "layer1.0.downsample.0.weight",
                                                 "layer1.0.downsample.1.weight",
                                                 "layer1.0.downsample.1.bias",
                                                 "layer1.1.conv1.weight"};
    for (std::size_t i = 0; i < expected.size(); ++i)
        EXPECT_EQ(g.parameters[i].name.view(), expected[i]);
    EXPECT_EQ(g.parameters[158].name.view(), "layer4.2.bn3.bias");
    EXPECT_EQ(g.parameters[159].name.view(), "fc.weight");
    EXPECT_EQ(g.parameters[160].name.view(), "fc.bias");
    EXPECT_EQ(g.statistics[0].name.view(), "bn1.running_mean");
    EXPECT_EQ(g.statistics[1].name.view(), "bn1.running_var");
}

TEST(ResNet, CountsParameterTensorsAsTorchvision) {
    EXPECT_EQ(graph<ResNet18>().parameters.size(), 62u);
    EXPECT_EQ(graph<ResNet34>().parameters.size(), 110u);
    EXPECT_EQ(graph<ResNet101>().parameters.size(), 314u);
    EXPECT_EQ(graph<ResNet152>().parameters.size(), 467u);
}

TEST(ResNet, HalvesTheImageAtTheConvolutionThatWasAskedFor) {
    const Graph v15 = graph<ResNet50>(), v1 = graph<V1<50>>();
    EXPECT_EQ(find(v15, "layer2.0.conv1")->window.stride, 1);
    EXPECT_EQ(find(v15, "layer2.0.conv2")->window.stride, 2);
    EXPECT_EQ(find(v1, "layer2.0.conv1")->window.stride, 2);
    EXPECT_EQ(find(v1, "layer2.0.conv2")->window.stride, 1);
    EXPECT_EQ(find(v15, "layer1.0.downsample.0")->window.stride, 1);
    EXPECT_EQ(find(v15, "layer4.0.downsample.0")->window.stride, 2);
}

TEST(ResNet, StartsTheLastGammaOfEachBlockAtZeroUnlessToldOtherwise) {
    int zeros = 0;
    for (const Parameter& p : graph<ResNet50>().parameters) {
        EXPECT_EQ(p.zero, p.name.view().ends_with(".bn3.weight")) << p.name.view();
        zeros += p.zero;
    }
    EXPECT_EQ(zeros, 16);
    for (const Parameter& p : graph<V1<50>>().parameters) EXPECT_FALSE(p.zero);
}

TEST(ResNet, HasTheShapesOfThePaper) {
    for (const Graph& g : {graph<ResNet50>(), graph<V1<50>>()}) {
        const auto shape = [&](std::string_view name) {
            return g.tensors[static_cast<std::size_t>(find(g, name)->output)];
        };
        EXPECT_EQ(shape("conv1"), (ImageShape{64, 112, 112}));
        EXPECT_EQ(shape("maxpool"), (ImageShape{64, 56, 56}));
        EXPECT_EQ(shape("layer1.2.relu"), (ImageShape{256, 56, 56}));
        EXPECT_EQ(shape("layer2.3.relu"), (ImageShape{512, 28, 28}));
        EXPECT_EQ(shape("layer3.5.relu"), (ImageShape{1024, 14, 14}));
        EXPECT_EQ(shape("layer4.2.relu"), (ImageShape{2048, 7, 7}));
        EXPECT_EQ(shape("fc"), (ImageShape{1000, 1, 1}));
    }
}

TEST(ResNet, KeepsItsParametersOnEveryImage) {
    for (const int side : {96, 128, 160, 192, 224, 256, 288})
        EXPECT_EQ(graph<ResNet50>({.input = {3, side, side}}).parameter_elements(), 25'557'032);
}

}  // namespace
