#include <gx/model/inception.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>

#include <gx/model/cost.hpp>  // costs

namespace {

using namespace gx;

// ---- What the type promises ---------------------------------------------------------
// Source: torchvision/models/inception.py, num_params of its weights, and _ops: 5.713 G.
static_assert(parameter_count<InceptionV3>() == 23'834'568);
static_assert(parameter_count<Inception<Auxiliary::yes>>() == 27'161'264);
static_assert((mac_count<InceptionV3>() + 500'000) / 1'000'000 == 5'713);
static_assert(fits<InceptionV3>({3, 299, 299}) && fits<InceptionV3>({3, 75, 75}));
static_assert(trouble<InceptionV3>({.input = {3, 40, 40}}).fault == GraphFault::image_too_small);

// ---- Cases worked by hand -----------------------------------------------------------
TEST(Inception, HasTheShapesOfThePaper) {
    const Graph g = graph<InceptionV3>();
    const auto shape_behind = [&](std::string_view name) {
        for (const Op& op : g.ops)
            if (op.name.view() == name) return g.tensors[static_cast<std::size_t>(op.output)];
        return ImageShape{};
    };
    EXPECT_EQ(shape_behind("maxpool1"), (ImageShape{64, 73, 73}));
    EXPECT_EQ(shape_behind("maxpool2"), (ImageShape{192, 35, 35}));
    ImageShape joined{};
    std::vector<ImageShape> modules;
    for (const Op& op : g.ops) {
        const bool join = op.kind == OpKind::concat;
        if (join) joined = g.tensors[static_cast<std::size_t>(op.output)];
        if (!join && joined != ImageShape{} && op.name.view().ends_with("branch1x1.conv"))
            modules.push_back(g.tensors[static_cast<std::size_t>(op.inputs[0])]);
    }
    // Table 1 of the paper: 35 x 35 x 288, 17 x 17 x 768, 8 x 8 x 2048 (first input 1280).
    EXPECT_EQ(modules, (std::vector<ImageShape>{{256, 35, 35},
                                                {288, 35, 35},
                                                {768, 17, 17},
                                                {768, 17, 17},
                                                {768, 17, 17},
                                                {768, 17, 17},
                                                {1280, 8, 8},
                                                {2048, 8, 8}}));
}

TEST(Inception, JoinsAListOfBranchesAtTheCostOfOneCopy) {
    GraphBuilder b("joins", {2, 3, 3}, 2);
    const int x = b.conv2d(b.input(), {.channels = 4, .window = Window::square(1)}, "conv");
    const int two = concat(b, x, x, "list");
    const int three = concat(b, two, x, "list");
    b.softmax_cross_entropy(
        b.linear(b.flatten(b.global_avg_pool(three, "pool"), "flatten"), 2, true, "fc"), 0, "loss");
    EXPECT_EQ(b.shape(three), (ImageShape{12, 3, 3}));
    const auto all = costs(std::move(b).finish());
    EXPECT_EQ(all[2].forward_traffic, 2 * (36 + 36));
    EXPECT_EQ(all[3].forward_traffic, 2 * 36) << "what is joined already stays where it is";
    EXPECT_EQ(all[3].backward_traffic, 2 * 36);
}

TEST(Inception, DoesNotJoinImagesOfTwoSizes) {
    GraphBuilder b("joins", {2, 4, 4}, 2, GraphBuilder::Checks::trial);
    concat(b, b.input(), b.max_pool(b.input(), Window::square(2, 2), "pool"), "join");
    EXPECT_EQ(b.trouble().fault, GraphFault::shapes_differ);
    EXPECT_EQ(b.trouble().at, Label("join"));
}

}  // namespace
