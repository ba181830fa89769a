#include <gx/model/concept.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>

/// Each lacks one thing.
namespace lacking {
struct Nameless {
    static constexpr gx::ImageShape input{1, 2, 2};
    static constexpr int classes = 2;
    static constexpr int describe(gx::GraphBuilder&, int x) { return x; }
};
struct Shapeless {
    static constexpr std::string_view name = "no input";
    static constexpr int classes = 2;
    static constexpr int describe(gx::GraphBuilder&, int x) { return x; }
};
struct Silent {
    static constexpr std::string_view name = "no describe";
    static constexpr gx::ImageShape input{1, 2, 2};
    static constexpr int classes = 2;
};
}  // namespace lacking

namespace {

// ---- What the type promises ---------------------------------------------------------
using Least = gx::archetype::Model;
static_assert(gx::Model<Least>);
static_assert(gx::parameter_count<Least>() == 2 * 4 + 2);
static_assert(gx::mac_count<Least>() == 8);

static_assert(!gx::Model<lacking::Nameless>);
static_assert(!gx::Model<lacking::Shapeless>);
static_assert(!gx::Model<lacking::Silent>);
static_assert(!gx::Model<gx::ImageShape>, "a shape is not a network");

/// Three strided convolutions: an image of 8 is the least that passes.
struct Stride8 {
    static constexpr std::string_view name = "Stride8";
    static constexpr gx::ImageShape input{1, 8, 8};
    static constexpr int classes = 2;
    static constexpr int describe(gx::GraphBuilder& b, int x) {
        for (int i = 0; i < 3; ++i)
            x = b.conv2d(x, {2, gx::Window::square(2, 2)}, gx::Label("conv") + i);
        return b.linear(b.flatten(x, "flatten"), b.classes(), true, "fc");
    }
};
static_assert(gx::fits<Stride8>({1, 8, 8}));
static_assert(gx::fits<Stride8>({1, 8, 17}));
static_assert(!gx::fits<Stride8>({1, 7, 8}), "an image too small for a window of the network");
static_assert(!gx::fits<Stride8>({0, 8, 8}), "an image without channels");
static_assert(gx::trouble<Stride8>({.input = {1, 7, 7}}).fault == gx::GraphFault::image_too_small);
static_assert(gx::trouble<Stride8>({.label_smoothing = 1.0}).fault == gx::GraphFault::bad_rate);
static_assert(gx::explain_model<gx::WithInput<Stride8, gx::ImageShape{1, 9, 9}>>());

// ---- A case worked by hand ----------------------------------------------------------
TEST(Model, LowersToAGraphThatEndsInItsLoss) {
    constexpr std::size_t ops = gx::graph<Least>().ops.size();  // a constant all along
    EXPECT_EQ(ops, 4u);
    const gx::Graph g = gx::graph<Least>({.label_smoothing = 0.1});
    EXPECT_EQ(g.name.view(), "archetype");
    EXPECT_EQ(g.ops.back().kind, gx::OpKind::softmax_cross_entropy);
    EXPECT_EQ(g.ops.back().rate, 0.1);
    EXPECT_EQ(g.classes, 2);
}

TEST(Model, TakesAnotherImageAndOtherClasses) {
    const gx::Graph g = gx::graph<Stride8>({.input = {3, 16, 24}, .classes = 7});
    EXPECT_EQ(g.input, (gx::ImageShape{3, 16, 24}));
    EXPECT_EQ(g.classes, 7);
    EXPECT_EQ(g.parameter_elements(), 2 * 3 * 4 + 2 * (2 * 2 * 4) + 7 * (2 * 2 * 3) + 7);
}

// ---- Bad input ----------------------------------------------------------------------
TEST(Model, SaysWhichLayerFindsTheImageTooSmall) {
    const gx::GraphTrouble t = gx::trouble<Stride8>({.input = {1, 4, 4}});
    EXPECT_EQ(t.fault, gx::GraphFault::image_too_small);
    EXPECT_EQ(t.at.view(), "conv2");
}

TEST(ModelDeathTest, StopsWhenAnImageFromOutsideIsTooSmall) {
    EXPECT_DEATH((void)gx::graph<Stride8>({.input = {1, 4, 4}}),
                 "image is too small for a window of the network");
}

}  // namespace
