#include <gx/model/layers.hpp>  // first, so the header is seen to stand alone

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace {

using namespace gx;

// ---- What the type promises ---------------------------------------------------------
static_assert(Layer<Conv<8, 3>>);
static_assert(Layer<Residual<Conv<8, 3>, BatchNorm>>);
static_assert(Layer<Repeat<3, Sequential<Conv<8, 3, 1, 1>, ReLU>>>);
static_assert(!Layer<ImageShape>, "a shape appends nothing");
static_assert(!Layer<int>);

struct MyNet : Network<ImageShape{1, 28, 28}, 10,                          //
                       Conv<16, 3, 1, 1>, BatchNorm, ReLU, MaxPool<2>,     // (16, 14, 14)
                       Repeat<2, Residual<Conv<16, 3, 1, 1>, BatchNorm>>,  //
                       Residual<Conv<32, 3, 2, 1>, ZeroBatchNorm>, ReLU,   // (32, 7, 7)
                       GlobalAvgPool, Dropout<0.5>, Classifier> {
    static constexpr std::string_view name = "MyNet";
};
static_assert(Model<MyNet>);
static_assert(parameter_count<MyNet>() ==
              (16 * 9 + 32) + 2 * (16 * 16 * 9 + 32) + (16 * 32 * 9 + 64) + (16 * 32 + 64) + 330);
static_assert(mac_count<MyNet>() ==
              784 * 16 * 9 + 2 * (196 * 16 * 16 * 9) + 49 * 32 * 16 * 9 + 49 * 16 * 32 + 320);

std::vector<std::string> names(const Graph& g) {
    std::vector<std::string> all;
    for (const Parameter& p : g.parameters) all.emplace_back(p.name.view());
    return all;
}
ImageShape shape_behind(auto layer, ImageShape in) {
    GraphBuilder b("shape", in, 2);
    return b.shape(decltype(layer)::describe(b, b.input(), "x"));
}

// ---- Cases worked by hand -----------------------------------------------------------
TEST(Layers, NamesParametersByTheirPlaces) {
    const std::vector<std::string> expected{"0.weight",
                                            "1.weight",
                                            "1.bias",
                                            "4.0.0.weight",
                                            "4.0.1.weight",
                                            "4.0.1.bias",
                                            "4.1.0.weight",
                                            "4.1.1.weight",
                                            "4.1.1.bias",
                                            "5.0.weight",
                                            "5.1.weight",
                                            "5.1.bias",
                                            "5.downsample.0.weight",
                                            "5.downsample.1.weight",
                                            "5.downsample.1.bias",
                                            "9.weight",
                                            "9.bias"};
    EXPECT_EQ(names(graph<MyNet>()), expected);
}

TEST(Layers, StartsAGammaAtZeroOnlyWhereAsked) {
    for (const Parameter& p : graph<MyNet>().parameters)
        EXPECT_EQ(p.zero, p.name.view() == "5.1.weight") << p.name.view();
}

TEST(Layers, ShapesAsWorkedByHand) {
    EXPECT_EQ(shape_behind(MaxPool<3, 2, 1>{}, {4, 112, 112}), (ImageShape{4, 56, 56}));
    EXPECT_EQ(shape_behind(AvgPool<2>{}, {4, 7, 7}), (ImageShape{4, 3, 3}));
    EXPECT_EQ(shape_behind(GlobalAvgPool{}, {4, 7, 5}), (ImageShape{4, 1, 1}));
    EXPECT_EQ(shape_behind(GridAvgPool<3>{}, {4, 9, 9}), (ImageShape{4, 3, 3}));
    EXPECT_EQ(shape_behind(GridAvgPool<3>{}, {4, 3, 3}), (ImageShape{4, 3, 3}));
    EXPECT_EQ(shape_behind(Flatten{}, {4, 3, 2}), (ImageShape{24, 1, 1}));
    EXPECT_EQ(shape_behind(Residual<Conv<8, 3, 2, 1>>{}, {4, 7, 7}), (ImageShape{8, 4, 4}));
    EXPECT_EQ(shape_behind(Repeat<3, MaxPool<2>>{}, {4, 8, 8}), (ImageShape{4, 1, 1}));
}

TEST(Layers, LinearFlattensByItself) {
    GraphBuilder b("flat", {2, 3, 4}, 5);
    const int flat = Linear<6>::describe(b, b.input(), "fc1");
    const int logits = Classifier::describe(b, flat, "fc2");
    EXPECT_EQ(b.shape(logits), (ImageShape{5, 1, 1}));
    const Graph g = std::move(b).finish();
    ASSERT_EQ(g.ops.size(), 4u);  // input, flatten, linear, linear: flat inputs are left alone
    EXPECT_EQ(g.ops[1].kind, OpKind::flatten);
    EXPECT_EQ(g.parameters[0].shape, (std::array{6, 24, 1, 1}));
}

TEST(Layers, SaysWhenAGridDoesNotDivideTheImage) {
    GraphBuilder b("uneven", {1, 8, 8}, 2, GraphBuilder::Checks::trial);
    GridAvgPool<3>::describe(b, b.input(), "grid");
    EXPECT_EQ(b.trouble().fault, GraphFault::uneven_pool);
    EXPECT_EQ(b.trouble().at.view(), "grid");
}

// ---- A layer of one's own -----------------------------------------------------------
struct Twice {
    static constexpr int describe(GraphBuilder& b, int x, const Label& scope) {
        return b.add(x, x, scope);
    }
};
struct OwnNet : Network<ImageShape{1, 2, 2}, 3, Twice, Named<"head", Classifier>> {
    static constexpr std::string_view name = "OwnNet";
};
static_assert(parameter_count<OwnNet>() == 15);

TEST(Layers, TakesALayerThatIsNotOurs) {
    EXPECT_EQ(names(graph<OwnNet>()), (std::vector<std::string>{"head.weight", "head.bias"}));
    EXPECT_EQ(graph<OwnNet>().ops[1].inputs, (std::array{0, 0}));
}

}  // namespace
