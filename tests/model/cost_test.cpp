#include <gx/model/cost.hpp>  // first, so the header is seen to stand alone

#include <gx/model/cifar_resnet.hpp>
#include <gx/model/resnet.hpp>
#include <model/random_network.hpp>  // any small graph

#include <cmath>
#include <string_view>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

using namespace gx;

double training_gflop(const Graph& g) { return total_cost(g).flops() / 1e9; }

// ---- What the type promises ---------------------------------------------------------
static_assert(total_cost(graph<ResNet8>()).forward_flops == 2.0 * mac_count<ResNet8>());

// ---- Cases worked by hand -----------------------------------------------------------
TEST(Cost, TrainsResNet50At24GigaflopAnImage) {
    constexpr double first_layer = 112.0 * 112 * 64 * (7 * 7 * 3);  // has no data gradient
    EXPECT_EQ(training_gflop(graph<ResNet50>()), (6.0 * 4'089'184'256 - 2 * first_layer) / 1e9);
    EXPECT_EQ(std::round(training_gflop(graph<ResNet50>()) * 10), 243);
    EXPECT_EQ(std::round(training_gflop(graph<ResNet18>()) * 100), 1065);
    EXPECT_EQ(std::round(training_gflop(graph<ResNet20>()) * 100), 24);
}

TEST(Cost, CountsWhatResNet50MovesAnImage) {
    const Graph g = graph<ResNet50>();
    std::int64_t convolved_in = 0, convolved_out = 0, added = 0;
    for (const Op& op : g.ops) {
        const OpCost c = cost(g, op);
        if (op.kind == OpKind::add) added += c.elements_out;
        if (op.kind != OpKind::conv2d) continue;
        convolved_in += c.elements_in;
        convolved_out += c.elements_out;
    }
    // 10.66, 11.11 and 5.52 million, summed over the table of the paper by another program
    EXPECT_EQ(std::lround(static_cast<double>(convolved_in) / 1e4), 1066);
    EXPECT_EQ(std::lround(static_cast<double>(convolved_out) / 1e4), 1111);
    EXPECT_EQ(std::lround(static_cast<double>(added) / 1e4), 552);
}

TEST(Cost, MovesElementsAsTheTableSays) {
    GraphBuilder b("hand", {2, 4, 4}, 3);
    int x = b.conv2d(b.input(), {3, Window::square(1), 1, true}, "conv");  // 32 to 48
    x = b.relu(b.batch_norm(x, {}, "bn"), "relu");
    x = b.max_pool(b.add(x, x, "add"), Window::square(2, 2), "pool");  // 48 to 12
    x = b.dropout(b.flatten(x, "flatten"), 0.5, "dropout");
    b.softmax_cross_entropy(b.linear(x, 3, false, "fc"), 0, "loss");
    const std::vector<OpCost> c = costs(std::move(b).finish());
    const auto moves = [&](std::size_t op, std::int64_t forward, std::int64_t backward) {
        EXPECT_EQ(c[op].forward_traffic, forward) << op;
        EXPECT_EQ(c[op].backward_traffic, backward) << op;
    };
    moves(0, 0, 0);
    moves(1, 32 + 48, 32 + 48);  // the image needs no gradient
    moves(2, 3 * 48, 5 * 48);
    moves(3, 2 * 48, 3 * 48);
    moves(4, 3 * 48, 3 * 48);
    moves(5, 48 + 12 + 12, 12 + 12 + 48);
    moves(6, 0, 0);
    moves(7, 3 * 12, 3 * 12);
    moves(8, 12 + 3, 2 * (12 + 3));
    moves(9, 2 * 3, 2 * 3);
    EXPECT_EQ(c[1].parameters, 2 * 3 + 3);
    EXPECT_EQ(c[1].backward_data_flops, 0);
    EXPECT_EQ(c[8].backward_data_flops, 2 * 12 * 3);
    EXPECT_EQ(c[4].elements_in, 96);
}

TEST(Cost, NeedsNoDataGradientBehindAFlattenedImage) {
    GraphBuilder b("flat", {1, 4, 4}, 2);
    const int x = b.linear(b.flatten(b.input(), "flatten"), 2, true, "fc");
    b.softmax_cross_entropy(x, 0, "loss");
    EXPECT_EQ(total_cost(std::move(b).finish()).flops(), 2 * 2 * 16 * 2);
}

// ---- A property, for any network ----------------------------------------------------
RC_GTEST_PROP(Cost, CountsEveryMultiplyAddAndParameterOnce, ()) {
    const Graph g = testing_support::random_network();
    const OpCost sum = total_cost(g);
    RC_ASSERT(sum.forward_flops == 2.0 * static_cast<double>(g.macs()));
    RC_ASSERT(sum.backward_weight_flops == sum.forward_flops);
    RC_ASSERT(sum.backward_data_flops <= sum.forward_flops);
    RC_ASSERT(sum.parameters == g.parameter_elements());
    RC_ASSERT(sum.backward_traffic > 0);
}

}  // namespace
