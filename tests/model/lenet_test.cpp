#include <gx/model/lenet.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>

namespace {

// ---- What the type promises ---------------------------------------------------------
// 156 + 2,416 + 48,120 + 10,164 + 850; LeCun's own has 60,000 for its sparser second layer.
static_assert(gx::Model<gx::LeNet>);
static_assert(gx::parameter_count<gx::LeNet>() == 61'706);
static_assert(gx::mac_count<gx::LeNet>() == 117'600 + 240'000 + 48'000 + 10'080 + 840);
static_assert(gx::fits<gx::LeNet>({1, 12, 12}));
static_assert(!gx::fits<gx::LeNet>({1, 11, 28}), "the second pooling finds a row of one");

// ---- A case worked by hand ----------------------------------------------------------
TEST(LeNet, HasTheShapesOfThePaper) {
    const gx::Graph g = gx::graph<gx::LeNet>();
    const auto shape = [&](std::string_view name) {
        for (const gx::Op& op : g.ops)
            if (op.name.view() == name) return g.tensors[static_cast<std::size_t>(op.output)];
        return gx::ImageShape{};
    };
    EXPECT_EQ(shape("conv1"), (gx::ImageShape{6, 28, 28}));
    EXPECT_EQ(shape("pool1"), (gx::ImageShape{6, 14, 14}));
    EXPECT_EQ(shape("conv2"), (gx::ImageShape{16, 10, 10}));
    EXPECT_EQ(shape("pool2"), (gx::ImageShape{16, 5, 5}));
    EXPECT_EQ(shape("fc2"), (gx::ImageShape{84, 1, 1}));
    EXPECT_EQ(shape("fc3"), (gx::ImageShape{10, 1, 1}));
}

}  // namespace
