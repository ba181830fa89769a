#include <gx/model/cifar_resnet.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>

namespace {

using namespace gx;

// ---- What the type promises ---------------------------------------------------------
// Published with option A, whose shortcuts have no parameters: 269,722; 464,154; 658,586; 853,018;
// 1,727,962 (0.27, 0.46, 0.66, 0.85, 1.7 M in He et al. 2015, table 6; exact in Y. Idelbayev's
// re-implementation, github.com/akamaster/pytorch_resnet_cifar10). Two projections are added here.
constexpr long long projections = (16 * 32 + 2 * 32) + (32 * 64 + 2 * 64);
static_assert(projections == 2'752);
static_assert(parameter_count<ResNet20>() == 269'722 + projections);
static_assert(parameter_count<ResNet32>() == 464'154 + projections);
static_assert(parameter_count<ResNet44>() == 658'586 + projections);
static_assert(parameter_count<ResNet56>() == 853'018 + projections);
static_assert(parameter_count<ResNet110>() == 1'727'962 + projections);

// Multiply-adds, again without the projections: 40.55, 125.49 and 252.89 M, as papers on pruning
// print them (e.g. Lin et al. 2020, "HRank", arXiv:2002.10179, tables 1 and 2, for 56 and 110).
constexpr long long projected = 16 * 16 * 16 * 32 + 8 * 8 * 32 * 64;
static_assert((mac_count<ResNet20>() - projected + 5'000) / 10'000 == 40'55);
static_assert((mac_count<ResNet56>() - projected + 5'000) / 10'000 == 125'49);
static_assert((mac_count<ResNet110>() - projected + 5'000) / 10'000 == 252'89);

static_assert(Model<ResNet8> && Model<FashionResNet<20>>);
static_assert(ResNet20::name == "ResNet20" && FashionResNet<20>::name == "ResNet20-1x28");
static_assert(FashionResNet<20>::input == ImageShape{1, 28, 28});
static_assert(parameter_count<FashionResNet<20>>() == parameter_count<ResNet20>() - 2 * 16 * 9);
static_assert(CifarResNet<20, 3, 32, 100>::classes == 100);

// ---- Cases worked by hand -----------------------------------------------------------
TEST(CifarResNet, CountsItsWeightLayers) {
    const auto weight_layers = [](const Graph& g) {
        int count = 0;
        for (const Op& op : g.ops)
            count += op.macs > 0 && op.name.view().find("downsample") == std::string_view::npos;
        return count;
    };
    EXPECT_EQ(weight_layers(graph<ResNet8>()), 8);
    EXPECT_EQ(weight_layers(graph<ResNet20>()), 20);
    EXPECT_EQ(weight_layers(graph<ResNet110>()), 110);
}

TEST(CifarResNet, HalvesTheImageTwice) {
    const Graph g = graph<FashionResNet<8>>();
    std::vector<ImageShape> sums;
    for (const Op& op : g.ops)
        if (op.kind == OpKind::add) sums.push_back(g.tensors[static_cast<std::size_t>(op.output)]);
    EXPECT_EQ(sums, (std::vector<ImageShape>{{16, 28, 28}, {32, 14, 14}, {64, 7, 7}}));
}

TEST(CifarResNet, StartsTheLastGammaAsAsked) {
    const auto zeros = [](const Graph& g) {
        int count = 0;
        for (const Parameter& p : g.parameters) count += p.zero;
        return count;
    };
    EXPECT_EQ(zeros(graph<ResNet20>()), 9);
    EXPECT_EQ(zeros(graph<CifarResNet<20, 3, 32, 10, LastGamma::one>>()), 0);
}

}  // namespace
