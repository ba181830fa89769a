#include <gx/model/resnext.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>

namespace {

using namespace gx;

// ---- What the type promises ---------------------------------------------------------
// Source: torchvision/models/resnet.py, num_params and _ops: 4.230 G and 16.414 G.
static_assert(parameter_count<ResNeXt50>() == 25'028'904);
static_assert(parameter_count<ResNeXt101>() == 88'791'336);
static_assert((mac_count<ResNeXt50>() + 500'000) / 1'000'000 == 4'230);
static_assert((mac_count<ResNeXt101>() + 500'000) / 1'000'000 == 16'414);
static_assert(ResNeXt50::name == "ResNeXt50-32x4d");
static_assert(parameter_count<ResNeXt<50, 1, 64>>() == parameter_count<ResNet50>(),
              "one group of 64 channels is ResNet");
static_assert(mac_count<ResNeXt<50, 1, 64>>() == mac_count<ResNet50>());

// ---- A case worked by hand ----------------------------------------------------------
TEST(ResNeXt, SplitsItsMiddleConvolutionInto32Groups) {
    const Graph g = graph<ResNeXt50>();
    int grouped = 0;
    for (const Op& op : g.ops)
        if (op.groups == 32) {
            ++grouped;
            const Parameter& weight = g.parameters[static_cast<std::size_t>(op.first_parameter)];
            EXPECT_EQ(weight.shape[1] * 32, weight.shape[0]) << op.name.view();
            EXPECT_EQ(weight.shape[2], 3);
        }
    EXPECT_EQ(grouped, 16);
}

}  // namespace
