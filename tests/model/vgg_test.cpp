#include <gx/model/vgg.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>

namespace {

// ---- What the type promises ---------------------------------------------------------
// Source: torchvision/models/vgg.py, VGG16: num_params 138357544 and _ops 15.47 (G multiply-adds).
static_assert(gx::Model<gx::Vgg16>);
static_assert(gx::parameter_count<gx::Vgg16>() == 138'357'544);
static_assert((gx::mac_count<gx::Vgg16>() + 5'000'000) / 10'000'000 == 1547);
static_assert(gx::fits<gx::Vgg16>({3, 448, 448}), "14 x 14 pooled to 7 x 7");
static_assert(!gx::fits<gx::Vgg16>({3, 31, 224}), "an image smaller than the network's stride");

// ---- A case worked by hand ----------------------------------------------------------
TEST(Vgg16, NamesItsLastLayersAsTorchvision) {
    const gx::Graph g = gx::graph<gx::Vgg16>();
    ASSERT_EQ(g.parameters.size(), 32u);  // 16 layers, a weight and a bias each
    EXPECT_EQ(g.parameters[2].name.view(), "features.2.weight");
    EXPECT_EQ(g.parameters[24].name.view(), "features.28.weight");
    EXPECT_EQ(g.parameters[26].name.view(), "classifier.0.weight");
    EXPECT_EQ(g.parameters[26].shape, (std::array{4096, 512 * 7 * 7, 1, 1}));
    EXPECT_EQ(g.parameters[31].name.view(), "classifier.6.bias");
}

TEST(Vgg16, KeepsItsParametersOnALargerImage) {
    EXPECT_EQ(gx::graph<gx::Vgg16>({.input = {3, 448, 448}}).parameter_elements(), 138'357'544);
}

}  // namespace
