#include <gx/model/graph.hpp>  // first, so the header is seen to stand alone

#include <model/random_network.hpp>  // any small graph

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

using gx::GraphBuilder;
using gx::GraphFault;
using gx::ImageShape;
using gx::Window;

// ---- What the type promises ---------------------------------------------------------
constexpr ImageShape convolved(ImageShape in, int channels, Window w) {
    GraphBuilder b("shape", in, 2);
    return b.shape(b.conv2d(b.input(), {channels, w}, "conv"));
}
static_assert(convolved({3, 224, 224}, 64, Window::square(7, 2, 3)) == ImageShape{64, 112, 112});
static_assert(convolved({3, 224, 224}, 64, Window::square(11, 4, 2)) == ImageShape{64, 55, 55});
static_assert(convolved({1, 5, 9}, 2, {3, 1, 2, 0, 0}) == ImageShape{2, 2, 5});
static_assert(convolved({1, 1, 1}, 2, Window::square(3, 1, 1)) == ImageShape{2, 1, 1});

template <class Describe>
constexpr gx::GraphTrouble trial(ImageShape image, Describe describe) {
    GraphBuilder b("trial", image, 2, GraphBuilder::Checks::trial);
    describe(b);
    return b.trouble();
}

// ---- A case worked by hand ----------------------------------------------------------
TEST(Graph, ListsAConvolutionAsWorkedByHand) {
    GraphBuilder b("hand", {4, 6, 6}, 2);
    const int y = b.conv2d(b.input(), {8, Window::square(3, 2, 1), 2, true}, "conv");
    const int z = b.batch_norm(y, {}, "bn");
    EXPECT_EQ(b.shape(z), (ImageShape{8, 3, 3}));
    const gx::Graph g = std::move(b).finish();
    ASSERT_EQ(g.parameters.size(), 4u);
    EXPECT_EQ(g.parameters[0].shape, (std::array{8, 2, 3, 3}));  // 4 channels in 2 groups
    EXPECT_EQ(g.parameters[0].fan_in, 18);
    EXPECT_EQ(g.parameters[0].name.view(), "conv.weight");
    EXPECT_EQ(g.parameters[1].offset, 144);
    EXPECT_EQ(g.parameters[2].role, gx::ParameterRole::gamma);
    EXPECT_EQ(g.parameters[3].name.view(), "bn.bias");
    EXPECT_EQ(g.parameter_elements(), 144 + 8 + 8 + 8);
    EXPECT_EQ(g.ops[1].macs, 8 * 3 * 3 * 18);
    EXPECT_EQ(g.ops[2].first_parameter, 2);
    EXPECT_EQ(g.ops[2].parameter_count, 2);
    EXPECT_EQ(g.statistics[1].name.view(), "bn.running_var");
    EXPECT_EQ(g.statistics[1].initial, 1.0f);
    EXPECT_EQ(g.statistic_elements(), 16);
}

TEST(Graph, NamesTheFirstFaultAndItsLayer) {
    const auto small = trial({1, 4, 4}, [](GraphBuilder& b) {
        const int x = b.conv2d(b.input(), {2, Window::square(3)}, "first");
        b.linear(b.conv2d(x, {2, Window::square(3)}, "second"), 2, true, "third");
    });
    EXPECT_EQ(small.fault, GraphFault::image_too_small);
    EXPECT_EQ(small.at.view(), "second");
    EXPECT_NE(gx::to_string(small.fault).find("too small for a window of the network"),
              std::string_view::npos);
}

TEST(Graph, TellsTheLayerItsKindAndTheSizesThatDoNotFit) {
    const auto t = trial({1, 4, 4}, [](GraphBuilder& b) {
        const int x = b.max_pool(b.input(), Window::square(2, 2), "a.0");
        b.max_pool(b.relu(b.max_pool(x, Window::square(2, 2), "a.1"), "a.2"), Window::square(2, 2),
                   "a.12");
    });
    EXPECT_EQ(t.where().view(), "layer 'a.12' (max_pool, operation 4): 1x1 input for a 2x2 window");
    EXPECT_EQ(t.kind, gx::OpKind::max_pool);
    EXPECT_TRUE(t.text().view().starts_with("the image is too small for a window of the network"));
    EXPECT_TRUE(t.text().view().ends_with(t.where().view()));

    const auto own = trial({1, 4, 4}, [](GraphBuilder& b) {  // a layer of another header
        b.relu(0, "r");
        b.require(false, GraphFault::bad_window, "own");
    });
    EXPECT_EQ(own.where().view(), "layer 'own' (operation 2)");
}

TEST(Graph, TellsAFlatInputFromASmallImage) {
    const auto behind = [](auto flatten) {
        return trial({4, 1, 1},
                     [&](GraphBuilder& b) {
                         const int x = b.dropout(b.relu(flatten(b), "r"), 0.5, "d");
                         b.conv2d(x, {2, Window::square(3)}, "x");
                     })
            .fault;
    };
    EXPECT_EQ(behind([](auto& b) { return b.linear(0, 4, true, "fc"); }),
              GraphFault::window_on_flat);
    EXPECT_EQ(behind([](auto& b) { return b.flatten(0, "f"); }), GraphFault::window_on_flat);
    EXPECT_EQ(behind([](auto& b) { return b.global_avg_pool(0, "g"); }),
              GraphFault::image_too_small);
    EXPECT_EQ(trial({4, 1, 1},
                    [](GraphBuilder& b) {
                        b.conv2d(b.linear(0, 4, true, "fc"), {2, Window::square(1)}, "x");
                    })
                  .fault,
              GraphFault::none)
        << "a window of one pixel fits";
}

TEST(Graph, FindsEveryKindOfFault) {
    const auto fault = [](auto describe) { return trial({2, 6, 6}, describe).fault; };
    EXPECT_EQ(fault([](auto& b) { b.linear(0, 2, true, "x"); }), GraphFault::input_not_flat);
    EXPECT_EQ(fault([](auto& b) { b.conv2d(0, {3, Window::square(1), 2}, "x"); }),
              GraphFault::bad_groups);
    EXPECT_EQ(fault([](auto& b) { b.conv2d(0, {2, Window::square(3, 0)}, "x"); }),
              GraphFault::bad_window);
    EXPECT_EQ(fault([](auto& b) { b.max_pool(0, Window::square(3, 1, 2), "x"); }),
              GraphFault::bad_window);
    EXPECT_EQ(fault([](auto& b) { b.add(0, b.max_pool(0, Window::square(2, 2), "p"), "x"); }),
              GraphFault::shapes_differ);
    EXPECT_EQ(fault([](auto& b) { b.dropout(0, 1.0, "x"); }), GraphFault::bad_rate);
    EXPECT_EQ(fault([](auto& b) { b.softmax_cross_entropy(0, 0, "x"); }),
              GraphFault::logits_not_classes);
    EXPECT_EQ(fault([](auto& b) { b.relu(0, "x"); }), GraphFault::none);
    EXPECT_EQ(GraphBuilder("n", {0, 2, 2}, 2, GraphBuilder::Checks::trial).trouble().fault,
              GraphFault::empty_image);
    EXPECT_EQ(GraphBuilder("n", {1, 2, 2}, 1, GraphBuilder::Checks::trial).trouble().fault,
              GraphFault::too_few_classes);
}

TEST(GraphDeathTest, StopsAtAFaultWhenStrict) {
    GraphBuilder b("strict", {1, 2, 2}, 2);
    EXPECT_DEATH(b.conv2d(0, {1, Window::square(3)}, "x"),
                 "too small for a window of the network.*layer 'x'.*2x2 input for a 3x3 window");
}

// ---- A property, for any network ----------------------------------------------------
RC_GTEST_PROP(Graph, ListsParametersInTheOrderOfOperationsWithoutHoles, ()) {
    const gx::Graph g = gx::testing_support::random_network();
    int next = 0;
    std::int64_t offset = 0;
    for (const gx::Op& op : g.ops) {
        if (op.parameter_count == 0) continue;
        RC_ASSERT(op.first_parameter == next);
        for (; next < op.first_parameter + op.parameter_count; ++next) {
            const gx::Parameter& p = g.parameters[static_cast<std::size_t>(next)];
            RC_ASSERT(p.offset == offset);
            offset += std::int64_t{p.shape[0]} * p.shape[1] * p.shape[2] * p.shape[3];
        }
    }
    RC_ASSERT(next == static_cast<int>(g.parameters.size()));
    RC_ASSERT(offset == g.parameter_elements());
}

RC_GTEST_PROP(Graph, ReadsOnlyTensorsThatAreWritten, ()) {
    const gx::Graph g = gx::testing_support::random_network();
    for (std::size_t i = 0; i < g.ops.size(); ++i) {
        RC_ASSERT(g.ops[i].output == static_cast<int>(i));  // each writes the next tensor
        for (const int input : g.ops[i].inputs) RC_ASSERT(input < static_cast<int>(i));
    }
    RC_ASSERT(g.ops.back().kind == gx::OpKind::softmax_cross_entropy);
}

}  // namespace
