// Every operation's gradients, and whole networks', against slopes of the loss.
#include <reference/finite_differences.hpp>  // check_gradients

#include <cstdio>  // printf

#include <gtest/gtest.h>

namespace {

using gx::Graph;
using gx::GraphBuilder;
using gx::ImageShape;
using gx::Window;
using gx::reference::testing::check_gradients;
using gx::reference::testing::Findings;
using gx::reference::testing::smooth_case;

constexpr int classes = 3;

/// `body` between an image and a linear layer with its loss.
template <class Body>
Graph network(ImageShape image, Body body, double smoothing = 0) {
    GraphBuilder b("net", image, classes);
    const int x = b.flatten(body(b, b.input()), "flat");
    b.softmax_cross_entropy(b.linear(x, classes, true, "head"), smoothing, "loss");
    return std::move(b).finish();
}

void expect_right(const Graph& graph, int count) {
    const Findings found = check_gradients(smooth_case(graph, count));
    EXPECT_EQ(found.trouble, "");
    EXPECT_EQ(found.compared, graph.parameter_elements() + count * graph.input.elements());
    std::printf("    %d gradients, largest error %.1e\n", found.compared, found.largest_error);
}

// ---- The check itself -----------------------------------------------------------------
TEST(FiniteDifferences, NoticeAGradientThatIsOffByOneInAThousand) {
    const auto c = smooth_case(network({2, 3, 3}, [](auto&, int x) { return x; }), 2);
    EXPECT_EQ(check_gradients(c).trouble, "");
    EXPECT_NE(check_gradients(c, 1.001).trouble, "");
}

TEST(FiniteDifferences, NoticeAKink) {
    auto c = smooth_case(network({1, 2, 2}, [](auto& b, int x) { return b.relu(x, "relu"); }), 1);
    c.images[2] = 0;
    EXPECT_NE(check_gradients(c).trouble, "");
}

// ---- Operations, one by one -----------------------------------------------------------
TEST(FiniteDifferences, LinearAndLoss) {
    expect_right(network({7, 1, 1}, [](auto&, int x) { return x; }), 4);
}

TEST(FiniteDifferences, LinearWithoutBias) {
    expect_right(network({5, 1, 1}, [](auto& b, int x) { return b.linear(x, 4, false, "fc"); }), 2);
}

TEST(FiniteDifferences, LabelSmoothing) {
    expect_right(network({7, 1, 1}, [](auto&, int x) { return x; }, 0.1), 4);
}

TEST(FiniteDifferences, ConvolutionPlain) {
    expect_right(network({2, 4, 5},
                         [](auto& b, int x) {
                             return b.conv2d(x, {.channels = 3, .window = Window::square(3)},
                                             "conv");
                         }),
                 2);
}

TEST(FiniteDifferences, ConvolutionWithStridePaddingGroupsAndBias) {
    expect_right(
        network({4, 5, 6},
                [](auto& b, int x) {
                    return b.conv2d(
                        x, {.channels = 6, .window = {3, 2, 2, 1, 1}, .groups = 2, .bias = true},
                        "conv");
                }),
        2);
}

TEST(FiniteDifferences, ConvolutionDepthwiseWithWidePadding) {
    expect_right(network({3, 3, 3},
                         [](auto& b, int x) {
                             return b.conv2d(
                                 x, {.channels = 3, .window = Window::square(3, 1, 2), .groups = 3},
                                 "conv");
                         }),
                 2);
}

TEST(FiniteDifferences, ConvolutionThatLeavesColumnsOver) {
    expect_right(network({1, 6, 7},
                         [](auto& b, int x) {
                             return b.conv2d(x, {.channels = 2, .window = {1, 2, 3, 0, 0}}, "conv");
                         }),
                 3);
}

TEST(FiniteDifferences, BatchNormOfMaps) {
    expect_right(network({3, 2, 3}, [](auto& b, int x) { return b.batch_norm(x, {}, "bn"); }), 3);
}

TEST(FiniteDifferences, BatchNormOfFeatures) {
    expect_right(
        network({4, 1, 1}, [](auto& b, int x) { return b.batch_norm(x, {.epsilon = 1e-3}, "bn"); }),
        5);
}

TEST(FiniteDifferences, Relu) {
    expect_right(network({2, 3, 3}, [](auto& b, int x) { return b.relu(x, "relu"); }), 2);
}

TEST(FiniteDifferences, MaxPoolOverlappingAndPadded) {
    expect_right(
        network({2, 5, 5},
                [](auto& b, int x) { return b.max_pool(x, Window::square(3, 2, 1), "pool"); }),
        2);
}

TEST(FiniteDifferences, AvgPoolOverlappingAndPadded) {
    expect_right(
        network({2, 5, 4}, [](auto& b, int x) { return b.avg_pool(x, {3, 2, 2, 1, 1}, "pool"); }),
        2);
}

TEST(FiniteDifferences, GlobalAvgPool) {
    expect_right(network({3, 4, 3}, [](auto& b, int x) { return b.global_avg_pool(x, "pool"); }),
                 2);
}

TEST(FiniteDifferences, AddOfTwoBranchesAndOfATensorToItself) {
    expect_right(network({2, 3, 3},
                         [](auto& b, int x) {
                             const int conv =
                                 b.conv2d(x, {.channels = 2, .window = Window::square(1)}, "conv");
                             const int sum = b.add(x, conv, "sum");
                             return b.add(sum, sum, "twice");
                         }),
                 2);
}

TEST(FiniteDifferences, DropoutWithItsMaskHeld) {
    expect_right(network({3, 3, 3}, [](auto& b, int x) { return b.dropout(x, 0.4, "drop"); }), 3);
}

// ---- Whole networks -------------------------------------------------------------------
TEST(FiniteDifferences, ResidualNetwork) {
    expect_right(
        network(
            {2, 6, 6},
            [](auto& b, int x) {
                x = b.conv2d(x, {.channels = 4, .window = Window::square(3, 1, 1)}, "stem");
                x = b.relu(b.batch_norm(x, {}, "stem.bn"), "stem.relu");
                int y = b.conv2d(x, {.channels = 4, .window = Window::square(3, 2, 1)}, "a");
                y = b.relu(b.batch_norm(y, {}, "a.bn"), "a.relu");
                y = b.conv2d(y, {.channels = 4, .window = Window::square(3, 1, 1)}, "b");
                y = b.batch_norm(y, {}, "b.bn");
                const int shortcut =
                    b.conv2d(x, {.channels = 4, .window = Window::square(1, 2)}, "down");
                x = b.relu(b.add(y, shortcut, "sum"), "relu");
                return b.global_avg_pool(x, "pool");
            },
            0.1),
        2);
}

TEST(FiniteDifferences, PlainNetworkWithPoolsAndDropout) {
    expect_right(
        network({1, 8, 8},
                [](auto& b, int x) {
                    x = b.conv2d(
                        x, {.channels = 3, .window = Window::square(3, 1, 1), .bias = true}, "c1");
                    x = b.relu(b.max_pool(x, Window::square(2, 2), "p1"), "r1");
                    x = b.conv2d(x, {.channels = 4, .window = Window::square(2), .bias = true},
                                 "c2");
                    x = b.avg_pool(b.relu(x, "r2"), Window::square(2, 1), "p2");
                    x = b.linear(b.flatten(x, "f"), 6, true, "fc1");
                    return b.dropout(b.relu(x, "r3"), 0.3, "drop");
                }),
        2);
}

}  // namespace
