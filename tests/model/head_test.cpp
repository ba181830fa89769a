#include <gx/model/head.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>

#include <gx/core/error.hpp>       // Error
#include <gx/model/alexnet.hpp>    // AlexNet
#include <gx/model/inception.hpp>  // InceptionV3
#include <gx/model/layers.hpp>     // AvgPool
#include <gx/model/resnet.hpp>     // ResNet18, ResNet152
#include <gx/model/vgg.hpp>        // Vgg16

namespace {

using namespace gx;

// ---- What the type promises ---------------------------------------------------------
using Last = Head<ResNet18, "fc">;
static_assert(Model<Last>);
static_assert(Last::name == "ResNet18 from fc" && Last::layer == "fc");
static_assert(Last::input == ImageShape{512, 1, 1});
static_assert(parameter_count<Last>() == 512 * 1000 + 1000);
static_assert(Head<ResNet18, "layer4">::input == ImageShape{256, 14, 14});
static_assert(fits<Head<ResNet18, "layer4">>({256, 5, 5}), "it pools over the whole of any image");
static_assert(Head<ResNet152, "fc">::input == ImageShape{2048, 1, 1});
static_assert(Head<AlexNet, "classifier">::input == ImageShape{9216, 1, 1});
static_assert(Head<InceptionV3, "Mixed_7b">::input == ImageShape{1280, 8, 8});

// ---- Cases worked by hand -----------------------------------------------------------
TEST(Head, AndPrefixAreTheWholeNetwork) {
    const Graph whole = graph<ResNet18>({.classes = 10});
    for (const std::string_view layer : {"layer2", "layer4", "fc"}) {
        const Graph head = layer == "fc"       ? graph<Head<ResNet18, "fc">>({.classes = 10})
                           : layer == "layer4" ? graph<Head<ResNet18, "layer4">>({.classes = 10})
                                               : graph<Head<ResNet18, "layer2">>({.classes = 10});
        const Graph prefix = prefix_of(whole, layer);
        EXPECT_EQ(prefix.parameter_elements() + head.parameter_elements(),
                  whole.parameter_elements());
        EXPECT_EQ(prefix.statistic_elements() + head.statistic_elements(),
                  whole.statistic_elements());
        EXPECT_EQ(prefix.macs() + head.macs(), whole.macs());
        EXPECT_EQ(prefix.classes, head.input.elements()) << "features are the prefix's logits";
        for (std::size_t i = 0; i < head.parameters.size(); ++i) {
            const Parameter &mine = head.parameters[i],
                            &its = whole.parameters[prefix.parameters.size() + i];
            EXPECT_EQ(mine.name, its.name);
            EXPECT_EQ(mine.shape, its.shape);
            EXPECT_EQ(mine.zero, its.zero);
            EXPECT_EQ(mine.role, its.role);
        }
    }
}

TEST(Head, KeepsWhatItsOperationsHave) {
    const Graph whole = graph<InceptionV3>(), head = graph<Head<InceptionV3, "Mixed_7b">>();
    const std::size_t behind = whole.ops.size() - head.ops.size();
    for (std::size_t i = 1; i < head.ops.size(); ++i) {
        const Op &mine = head.ops[i], &its = whole.ops[behind + i];
        EXPECT_EQ(mine.kind, its.kind);
        EXPECT_EQ(mine.name, its.name);
        EXPECT_EQ(mine.window, its.window) << its.name.view();
        EXPECT_EQ(mine.rate, its.rate) << its.name.view();
        EXPECT_EQ(mine.momentum, its.momentum);
        EXPECT_EQ(mine.macs, its.macs);
        EXPECT_EQ(head.tensors[std::size_t(mine.output)], whole.tensors[std::size_t(its.output)]);
    }
}

/// Behind the cut, `head` is `whole`: kinds, windows, parameters and tensors.
void expect_behind(const Graph& whole, const Graph& head) {
    ASSERT_LE(head.ops.size(), whole.ops.size());
    const std::size_t behind = whole.ops.size() - head.ops.size(),
                      before = whole.parameters.size() - head.parameters.size();
    for (std::size_t i = 1; i < head.ops.size(); ++i) {
        const Op &mine = head.ops[i], &its = whole.ops[behind + i];
        EXPECT_EQ(mine.kind, its.kind) << its.name.view();
        EXPECT_EQ(mine.window, its.window) << its.name.view();
        EXPECT_EQ(head.tensors[std::size_t(mine.output)], whole.tensors[std::size_t(its.output)])
            << its.name.view();
    }
    for (std::size_t i = 0; i < head.parameters.size(); ++i)
        EXPECT_EQ(head.parameters[i].shape, whole.parameters[before + i].shape);
}

// A padded pooling whose window is as large as its image is no pooling over the whole of it.
struct Padded : Network<ImageShape{1, 5, 5}, 3, Conv<4, 3>, ReLU, AvgPool<3, 1, 1>, ReLU,
                        Conv<4, 3, 1, 1>, ReLU, GlobalAvgPool, Classifier> {
    static constexpr std::string_view name = "Padded";
};
// Convolutions as large as its image, and of any larger one.
struct Whole : Network<ImageShape{1, 6, 6}, 3, Conv<4, 6>, ReLU, Conv<3, 1>, GlobalAvgPool> {
    static constexpr std::string_view name = "Whole";
};
// Images below 5 x 5 are too small for it, and of 5 x 5 its second part sees one number.
struct Unpadded : Network<ImageShape{1, 12, 12}, 3, Conv<4, 5>, ReLU, Conv<4, 3, 1, 1>, ReLU,
                          GlobalAvgPool, Classifier> {
    static constexpr std::string_view name = "Unpadded";
};
// An image whose sides differ has other troubles before its windows are too large.
struct Halved
    : Network<ImageShape{2, 20, 20}, 3, Conv<4, 3, 1, 1>, Residual<MaxPool<2>, Conv<6, 3, 1, 1>>,
              ReLU, Residual<Conv<8, 3, 3>>, Conv<4, 3, 1, 1>, GlobalAvgPool, Classifier> {
    static constexpr std::string_view name = "Halved";
};
// Its own image is smaller than its stride.
struct Sparse
    : Network<ImageShape{1, 3, 3}, 3, Conv<4, 1, 7>, ReLU, Conv<4, 1>, GlobalAvgPool, Classifier> {
    static constexpr std::string_view name = "Sparse";
};
// A pooling of 4 x 4 is one of 4 x 4 of any image.
struct Fixed
    : Network<ImageShape{1, 8, 8}, 3, Conv<4, 3, 2, 1>, ReLU, AvgPool<4>, Flatten, Classifier> {
    static constexpr std::string_view name = "Fixed";
};

TEST(Head, IsTheNetworkOfTheImageThatHasItsFeatures) {
    expect_behind(graph<Padded>(), graph<Head<Padded, "1">>());
    expect_behind(graph<Fixed>(), graph<Head<Fixed, "2">>());
    for (const int side : {16, 24})
        expect_behind(graph<Fixed>({.input = {1, side, side}}),
                      graph<Head<Fixed, "2">>({.input = {4, side / 2, side / 2}}));
    expect_behind(graph<Vgg16>({.input = {3, 448, 448}}),
                  graph<Head<Vgg16, "features.28">>({.input = {512, 28, 28}}));
    expect_behind(graph<ResNet18>({.input = {3, 160, 96}}),
                  graph<Head<ResNet18, "layer4">>({.input = {256, 10, 6}}));
    expect_behind(graph<InceptionV3>({.input = {3, 139, 203}}),
                  graph<Head<InceptionV3, "Mixed_7b">>({.input = {1280, 3, 5}}));
    expect_behind(graph<InceptionV3>({.input = {3, 75, 299}}),
                  graph<Head<InceptionV3, "Mixed_7b">>({.input = {1280, 1, 8}}));
    for (const int side : {5, 6, 7})
        expect_behind(graph<Unpadded>({.input = {1, side, 9}}),
                      graph<Head<Unpadded, "2">>({.input = {4, side - 4, 5}}));
    for (const int side : {6, 10, 28}) {
        const Graph whole = graph<Halved>({.input = {2, side, side}});
        const ImageShape features = whole.tensors[std::size_t(cut_before(whole, "4").tensor)];
        expect_behind(whole, graph<Head<Halved, "4">>({.input = features}));
    }
    expect_behind(graph<Sparse>({.input = {1, 200, 3}}),
                  graph<Head<Sparse, "2">>({.input = {4, 29, 1}}));
    EXPECT_EQ((Head<Fixed, "4">::input), (ImageShape{4, 1, 1})) << "behind the Flatten";
    expect_behind(graph<Whole>({.input = {1, 7, 9}}),
                  graph<Head<Whole, "2">>({.input = {4, 2, 4}}));
    for (const auto& [height, width] : {std::pair{24, 24}, {40, 40}, {16, 24}})
        expect_behind(graph<Fixed>({.input = {1, height, width}}),
                      graph<Head<Fixed, "4">>({.input = {height / 8 * (width / 8) * 4, 1, 1}}));
    expect_behind(graph<Fixed>({.input = {3, 16, 8}}),
                  graph<Head<Fixed, "0">>({.input = {3, 16, 8}}));
}
TEST(Head, RefusesFeaturesOfNoImage) {
    using Block = Head<Vgg16, "features.28">;
    const auto fault = [](ImageShape input) { return trouble<Block>({.input = input}).fault; };
    EXPECT_EQ(fault({512, 14, 14}), GraphFault::none);
    EXPECT_EQ(fault({512, 28, 28}), GraphFault::none);
    EXPECT_EQ(fault({512, 15, 15}), GraphFault::none) << "seven windows of two";
    EXPECT_EQ(fault({512, 20, 20}), GraphFault::uneven_pool) << "as VGG-16 of 320 x 320";
    EXPECT_EQ(fault({256, 14, 14}), GraphFault::not_its_features);
    EXPECT_EQ(trouble<Last>({.input = {512, 2, 2}}).fault, GraphFault::not_its_features);
    EXPECT_EQ(trouble<Last>({.input = {256, 1, 1}}).fault, GraphFault::not_its_features);
    EXPECT_EQ(fault({512, 40'000'000, 14}), GraphFault::not_its_features);
}

TEST(Head, IsCutWhereOneTensorCrosses) {
    const Graph g = graph<ResNet18>();
    EXPECT_EQ(cut_before(g, "layer9").first, -1);
    EXPECT_EQ(cut_before(g, "layer").first, -1) << "the beginning of a name is no layer";
    EXPECT_GT(cut_before(g, "layer1.0.conv2").first, 0);
    EXPECT_EQ(cut_before(g, "layer1.0.conv2").tensor, -1) << "the shortcut crosses it";
    const auto error = [&](const char* layer) {
        try {
            (void)prefix_of(g, layer);
        } catch (const Error& e) {
            return std::string(e.what());
        }
        return std::string("no error");
    };
    EXPECT_NE(error("layer9").find("'ResNet18' has no layer 'layer9' behind its input"),
              std::string::npos);
    EXPECT_NE(error("conv1").find("no error"), std::string::npos) << "a prefix of the image alone";
    EXPECT_NE(error("layer1.0.conv2").find("more than one tensor crosses the cut"),
              std::string::npos);
}

}  // namespace
