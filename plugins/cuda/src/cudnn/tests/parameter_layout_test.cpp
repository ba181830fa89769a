#include "../parameter_layout.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>
#include <vector>

#include <model/random_network.hpp>

namespace {

using namespace gx;
using cuda::detail::ParameterLayout;

/// Two filters of 1 x 2 pixels and 3 channels with biases, and a linear layer.
Graph by_hand() {
    GraphBuilder b("hand", {3, 1, 2}, 2);
    const int x = b.conv2d(0, {.channels = 2, .window = {1, 2}, .bias = true}, "conv");
    b.softmax_cross_entropy(b.linear(x, 2, false, "fc"), 0, "loss");
    return std::move(b).finish();
}

TEST(ParameterLayout, AsWorkedByHand) {
    const Graph g = by_hand();
    const ParameterLayout fp32(g, ElementType::fp32), half(g, ElementType::fp16);
    EXPECT_EQ(fp32.elements(), 12u + 4 + 4);
    EXPECT_EQ(half.elements(), 16u + 8 + 8);
    EXPECT_EQ(half.slices()[1].offset, 16u);
    EXPECT_EQ(half.slices()[1].count, 8u);
    EXPECT_EQ(half.slices()[1].parameter, 1);
    std::vector<float> canonical(18), mine(20, -1.0f);
    std::iota(canonical.begin(), canonical.end(), 0.0f);
    fp32.from_canonical(canonical, mine);
    // (out, pixel, channel) of (out, channel, pixel)
    EXPECT_EQ(mine, (std::vector<float>{0, 2,  4,  1,  3, 5, 6,  8,  10, 7,
                                        9, 11, 12, 13, 0, 0, 14, 15, 16, 17}));
}

RC_GTEST_PROP(ParameterLayout, GoesThereAndBack, ()) {
    const Graph g = testing_support::random_network();
    for (const ElementType e : {ElementType::fp32, ElementType::bf16}) {
        const ParameterLayout layout(g, e);
        std::vector<float> canonical(std::size_t(g.parameter_elements())),
            mine(layout.elements(), -1.0f), back(canonical.size());
        std::iota(canonical.begin(), canonical.end(), 1.0f);
        layout.from_canonical(canonical, mine);
        layout.to_canonical(mine, back);
        RC_ASSERT(back == canonical);
        std::size_t end = 0;
        for (const ParameterSlice& s : layout.slices()) {
            RC_ASSERT(s.offset == end && s.offset * (e == ElementType::fp32 ? 4 : 2) % 16 == 0);
            end += s.count;
        }
        RC_ASSERT(end == mine.size());
    }
}
TEST(ParameterLayoutDeathTest, StopsAtVectorsOfOtherLengths) {
    const Graph g = by_hand();
    const ParameterLayout layout(g, ElementType::fp32);
    std::vector<float> canonical(18), mine(18);
    EXPECT_DEATH(layout.from_canonical(canonical, mine), "vectors of all parameters");
    EXPECT_DEATH(layout.to_canonical(mine, canonical), "vectors of all parameters");
}

}  // namespace
