#include <gx/model/mlp.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>

namespace {

using gx::Mlp;

// ---- What the type promises ---------------------------------------------------------
static_assert(gx::Model<Mlp<>> && gx::Model<Mlp<300, 100>>);
static_assert(Mlp<>::name == "Mlp<>" && Mlp<7>::name == "Mlp<7>");
static_assert(Mlp<300, 100>::name == "Mlp<300, 100>" && Mlp<2147483647>::name == "Mlp<2147483647>");
static_assert(gx::parameter_count<Mlp<>>() == 784 * 10 + 10, "a linear classifier");
static_assert(gx::parameter_count<Mlp<300, 100>>() == 785 * 300 + 301 * 100 + 101 * 10);
static_assert(gx::mac_count<Mlp<300, 100>>() == 784 * 300 + 300 * 100 + 100 * 10);

// ---- A case worked by hand ----------------------------------------------------------
TEST(Mlp, HasAReluBetweenItsLayersAndNoneBehindTheLast) {
    const gx::Graph g = gx::graph<Mlp<30, 20>>();
    std::vector<std::string_view> names;
    for (const gx::Op& op : g.ops) names.push_back(op.name.view());
    const std::vector<std::string_view> expected{"input", "flatten", "fc1", "relu1",
                                                 "fc2",   "relu2",   "fc3", "loss"};
    EXPECT_EQ(names, expected);
    EXPECT_EQ(g.parameters[2].shape, (std::array{20, 30, 1, 1}));
}

TEST(Mlp, TakesAnyImage) {
    const gx::Graph g = gx::graph<Mlp<5>>({.input = {3, 2, 2}, .classes = 4});
    EXPECT_EQ(g.parameter_elements(), 13 * 5 + 6 * 4);
}

}  // namespace
