#include <gx/model/vgg.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>

namespace {

// ---- What the type promises ---------------------------------------------------------
// Source: torchvision/models/vgg.py: num_params, and _ops in G multiply-adds.
static_assert(gx::Model<gx::Vgg16> && gx::Model<gx::Vgg19Bn>);
template <class M>
constexpr bool has(std::int64_t parameters, std::int64_t hundredths_of_giga_macs) {
    return gx::parameter_count<M>() == parameters &&
           (gx::mac_count<M>() + 5'000'000) / 10'000'000 == hundredths_of_giga_macs;
}
static_assert(has<gx::Vgg11>(132'863'336, 761) && has<gx::Vgg11Bn>(132'868'840, 761));
static_assert(has<gx::Vgg13>(133'047'848, 1131) && has<gx::Vgg13Bn>(133'053'736, 1131));
static_assert(has<gx::Vgg16>(138'357'544, 1547) && has<gx::Vgg16Bn>(138'365'992, 1547));
static_assert(has<gx::Vgg19>(143'667'240, 1963) && has<gx::Vgg19Bn>(143'678'248, 1963));
static_assert(gx::Vgg16::name == "VGG16" && gx::Vgg16Bn::name == "VGG16-BN");
static_assert(gx::fits<gx::Vgg16>({3, 448, 448}), "14 x 14 pooled to 7 x 7");
static_assert(!gx::fits<gx::Vgg16>({3, 31, 224}), "an image too small for a window of the network");

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

TEST(Vgg16, NamesItsBatchNormsBetweenConvolutionAndReLU) {
    const gx::Graph g = gx::graph<gx::Vgg16Bn>();
    EXPECT_EQ(g.parameters[2].name.view(), "features.1.weight");
    EXPECT_EQ(g.parameters[4].name.view(), "features.3.weight");
    EXPECT_EQ(g.parameters[4].shape, (std::array{64, 64, 3, 3}));
}

TEST(Vgg16, KeepsItsParametersOnALargerImage) {
    EXPECT_EQ(gx::graph<gx::Vgg16>({.input = {3, 448, 448}}).parameter_elements(), 138'357'544);
}

}  // namespace
