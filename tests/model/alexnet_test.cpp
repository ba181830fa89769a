#include <gx/model/alexnet.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>

namespace {

// ---- What the type promises ---------------------------------------------------------
// Source: torchvision/models/alexnet.py, num_params 61100840 and _ops 0.714 (G multiply-adds).
static_assert(gx::Model<gx::AlexNet>);
static_assert(gx::parameter_count<gx::AlexNet>() == 61'100'840);
static_assert((gx::mac_count<gx::AlexNet>() + 500'000) / 1'000'000 == 714);
static_assert(gx::trouble<gx::AlexNet>({.input = {3, 62, 62}}).fault ==
              gx::GraphFault::image_too_small);
static_assert(gx::trouble<gx::AlexNet>({.input = {3, 256, 256}}).fault ==
                  gx::GraphFault::uneven_pool,
              "7 x 7 does not divide into 6 x 6");

// ---- A case worked by hand ----------------------------------------------------------
TEST(AlexNet, NamesParametersAsTorchvision) {
    const gx::Graph g = gx::graph<gx::AlexNet>();
    std::vector<std::string_view> names;
    for (const gx::Parameter& p : g.parameters) names.push_back(p.name.view());
    const std::vector<std::string_view> expected{
        "features.0.weight",   "features.0.bias",   "features.3.weight",   "features.3.bias",
        "features.6.weight",   "features.6.bias",   "features.8.weight",   "features.8.bias",
        "features.10.weight",  "features.10.bias",  "classifier.1.weight", "classifier.1.bias",
        "classifier.4.weight", "classifier.4.bias", "classifier.6.weight", "classifier.6.bias"};
    EXPECT_EQ(names, expected);
    EXPECT_EQ(g.parameters[10].shape, (std::array{4096, 256 * 6 * 6, 1, 1}));
}

}  // namespace
