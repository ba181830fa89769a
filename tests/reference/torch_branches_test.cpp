// The reference device against PyTorch in double: grouped and asymmetric convolutions, joins.
#include <gx/reference/device.hpp>

#include <gtest/gtest.h>

#include <gx/model/sequence.hpp>                 // concat
#include <reference/torch_branches_fixture.hpp>  // what PyTorch gave
#include <reference/torch_numbers.hpp>           // number, expect_equal

namespace {

using gx::GraphBuilder;
using gx::Window;
namespace fixture = gx::reference::testing::branches;
using gx::reference::testing::expect_equal;
using gx::reference::testing::number;

// The network, as reference/oracle/torch_branches_fixture.py has it.
gx::Graph network(int& logits) {
    GraphBuilder b("branches", {6, 7, 6}, 3);
    int x = b.conv2d(b.input(), {.channels = 12, .window = Window::square(3, 1, 1), .groups = 3},
                     "stem");
    x = b.relu(b.batch_norm(x, {.epsilon = 1e-3}, "bn"), "relu");
    const int one = b.conv2d(x, {.channels = 5}, "one");
    int tall = b.conv2d(x, {.channels = 4, .window = {1, 5, 1, 0, 2}, .bias = true}, "wide");
    tall =
        b.conv2d(b.relu(tall, "relu of wide"), {.channels = 6, .window = {5, 1, 1, 2, 0}}, "tall");
    const int mean =
        b.conv2d(b.avg_pool(x, {3, 3, 1, 1, 1, true}, "pool"), {.channels = 3}, "mean");
    int all = concat(b, one, tall, "first");
    all = concat(b, concat(b, all, mean, "second"), b.max_pool(x, Window::square(3, 1, 1), "max"),
                 "third");
    x = b.conv2d(all, {.channels = 4, .window = {3, 2, 2, 1, 0}, .groups = 2}, "last");
    logits = b.linear(b.flatten(b.global_avg_pool(x, "global"), "flat"), 3, true, "fc");
    b.softmax_cross_entropy(logits, 0, "loss");
    return std::move(b).finish();
}

// Sums of at most 3 * 42 * 8 terms below 2^5 through 12 operations, each within 2^-53 of the terms'
// sum on both sides: below 1e-10.
constexpr double same_mathematics = 1e-10;

TEST(ReferenceBranchesAgainstTorch, LogitsAndGradients) {
    int logits = 0;
    const gx::Graph graph = network(logits);
    gx::reference::Device device(graph, {.batch = 3});
    device.update([&](std::span<float> w) {
        for (int stream = 1; const gx::Parameter& p : graph.parameters) {
            for (std::int64_t i = 0; i < p.count; ++i)
                w[std::size_t(p.offset + i)] = number(i, stream) / 8;
            ++stream;
        }
    });
    std::vector<float> images;
    for (int i = 0; i < 3 * 6 * 7 * 6; ++i) images.push_back(number(i, 0));
    const std::vector<std::int32_t> labels{2, 0, 1};
    const auto report = device.forward({images, labels, 3}, gx::Mode::train);
    EXPECT_NEAR(report.loss_sum, fixture::loss, same_mathematics);
    expect_equal(device.activation(logits), fixture::logits, same_mathematics);
    std::vector<float> gradients(device.parameters().size());
    device.backward(1, gradients, [](std::size_t) {});
    expect_equal(device.parameter_gradient(), fixture::parameter_gradients, same_mathematics);
    expect_equal(device.activation_gradient(0), fixture::image_gradients, same_mathematics);
}

}  // namespace
