#include <gx/model/head.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>

#include <gx/core/error.hpp>       // Error
#include <gx/model/alexnet.hpp>    // AlexNet
#include <gx/model/inception.hpp>  // InceptionV3
#include <gx/model/resnet.hpp>     // ResNet18, ResNet152

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
