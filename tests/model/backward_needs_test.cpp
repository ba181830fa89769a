#include <gx/model/backward_needs.hpp>  // first, so the header is seen to stand alone

#include <gx/model/concept.hpp>
#include <gx/model/layers.hpp>
#include <model/random_network.hpp>  // any small graph

#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

using namespace gx;

struct Small : Network<ImageShape{2, 4, 4}, 3, Dropout<0.5>, Conv<4, 3, 1, 1>, BatchNorm, ReLU,
                       MaxPool<2>, AvgPool<2>, Classifier> {
    static constexpr std::string_view name = "Small";
};

// ---- What the type promises ---------------------------------------------------------
static_assert(gradient_tensors(graph<Small>()).size() == 9, "works in constants too");

// ---- Cases worked by hand -----------------------------------------------------------
TEST(BackwardNeeds, NoGradientBeforeTheFirstTrainedLayerNorOfTheLoss) {
    // input, dropout; conv, batch norm, relu, max and average pool, classifier; loss
    const std::vector<std::uint8_t> expected{0, 0, 1, 1, 1, 1, 1, 1, 0};
    EXPECT_EQ(gradient_tensors(graph<Small>()), expected);
}

TEST(BackwardNeeds, KeepsAsTheTableSays) {
    const Graph g = graph<Small>();
    const auto of = [&](OpKind kind) {
        for (const Op& op : g.ops)
            if (op.kind == kind) return kept(g, op);
        return Kept{};
    };
    EXPECT_TRUE(of(OpKind::conv2d).input && of(OpKind::linear).input);
    EXPECT_TRUE(of(OpKind::batch_norm).input && !of(OpKind::batch_norm).output);
    EXPECT_TRUE(of(OpKind::relu).output && !of(OpKind::relu).input);
    EXPECT_EQ(of(OpKind::batch_norm).bytes_per_batch, 2 * 4 * 4);  // two floats a channel
    EXPECT_EQ(of(OpKind::max_pool).bytes_per_image, 4 * 16);       // an int32 an output
    EXPECT_EQ(of(OpKind::dropout).bytes_per_image, 32);            // a byte an element
    EXPECT_EQ(of(OpKind::softmax_cross_entropy).bytes_per_image, 4 * 3);
    EXPECT_FALSE(of(OpKind::avg_pool).input || of(OpKind::avg_pool).output);
}

// ---- A property, for any network: what was found by going up from each tensor --------
bool trained_above(const Graph& g, int tensor) {
    const Op& op = g.ops[static_cast<std::size_t>(tensor)];  // op i writes tensor i
    if (op.parameter_count > 0) return true;
    for (const int input : op.inputs)
        if (input >= 0 && trained_above(g, input)) return true;
    return false;
}
RC_GTEST_PROP(BackwardNeeds, AGradientForAllThatDependsOnAParameter, ()) {
    const Graph g = testing_support::random_network();
    const std::vector<std::uint8_t> needed = gradient_tensors(g);
    for (std::size_t t = 0; t + 1 < needed.size(); ++t)
        RC_ASSERT((needed[t] == 1) == trained_above(g, static_cast<int>(t)));
    RC_ASSERT(needed.back() == 0);
}

}  // namespace
