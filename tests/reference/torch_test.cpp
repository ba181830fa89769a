// The reference device against PyTorch in double: one network with nearly every operation.
#include <gx/reference/device.hpp>

#include <gtest/gtest.h>

#include <reference/torch_fixture.hpp>  // what PyTorch gave
#include <reference/torch_numbers.hpp>  // number, expect_equal

namespace {

using gx::Batch;
using gx::GraphBuilder;
using gx::Mode;
using gx::Window;
using gx::reference::Device;
using gx::reference::testing::expect_equal;
using gx::reference::testing::number;
namespace fixture = gx::reference::testing::torch;

// The network and its numbers, as reference/oracle/torch_fixture.py has them.
gx::Graph network(int& logits) {
    GraphBuilder b("torch", {2, 9, 9}, 4);
    int x = b.conv2d(
        b.input(), {.channels = 4, .window = {3, 2, 2, 1, 1}, .groups = 2, .bias = true}, "conv1");
    x = b.batch_norm(x, {.epsilon = 0.125, .momentum = 0.25}, "bn1");
    x = b.max_pool(b.relu(x, "relu1"), Window::square(3, 2, 1), "pool1");
    int y = b.conv2d(x, {.channels = 4, .window = Window::square(1)}, "conv2");
    y = b.batch_norm(y, {.epsilon = 0.0625, .momentum = 0.5}, "bn2");
    x = b.relu(b.add(x, y, "sum"), "relu2");
    x = b.avg_pool(x, Window::square(2, 2, 1), "pool2");
    logits = b.linear(b.flatten(x, "flat"), 4, true, "fc");
    b.softmax_cross_entropy(logits, 0.125, "loss");
    return std::move(b).finish();
}

struct Prepared {
    int logits = 0;
    gx::Graph graph = network(logits);
    Device device{graph, {.batch = 3}};
    std::vector<float> images;
    std::vector<std::int32_t> labels{2, 0, 3};

    Prepared() {
        device.update([&](std::span<float> w) {
            for (int stream = 1; const gx::Parameter& p : graph.parameters) {
                for (std::int64_t i = 0; i < p.count; ++i)
                    w[std::size_t(p.offset + i)] = number(i, stream) / 4;
                ++stream;
            }
        });
        for (int i = 0; i < 3 * 2 * 9 * 9; ++i) images.push_back(number(i, 0));
    }
    [[nodiscard]] Batch batch() const { return {images, labels, 3}; }
};

// Both sides work in double with sums of at most 192 terms below 2^4, through 12 operations: each
// side is within 2^-53 * 192 * 2^4 * 12 < 5e-12, times what the layers above make of it; we allow
// 1e-11 in all.
constexpr double same_mathematics = 1e-11;

TEST(ReferenceDeviceAgainstTorch, Forward) {
    Prepared run;
    const auto report = run.device.forward(run.batch(), Mode::train);
    EXPECT_NEAR(report.loss_sum, fixture::loss, same_mathematics);
    expect_equal(run.device.activation(run.logits), fixture::logits, same_mathematics);
}

TEST(ReferenceDeviceAgainstTorch, RunningStatistics) {
    Prepared run;
    (void)run.device.forward(run.batch(), Mode::train);
    expect_equal(run.device.statistics(), fixture::statistics, 0x1p-24);  // rounded to float
}

TEST(ReferenceDeviceAgainstTorch, GradientsOfParametersAndImages) {
    Prepared run;
    (void)run.device.forward(run.batch(), Mode::train);
    std::vector<float> gradients(run.device.parameters().size());
    run.device.backward(1, gradients, [](std::size_t) {});
    expect_equal(run.device.parameter_gradient(), fixture::parameter_gradients, same_mathematics);
    expect_equal(gradients, fixture::parameter_gradients, 0x1p-24 + same_mathematics);
    expect_equal(run.device.activation_gradient(0), fixture::image_gradients, same_mathematics);
}

// Running statistics are float here and double there: they differ by 2^-24 of a number below 1,
// and the layers above multiply that by less than 2^4.
TEST(ReferenceDeviceAgainstTorch, Evaluation) {
    Prepared run;
    (void)run.device.forward(run.batch(), Mode::train);
    const auto report = run.device.forward(run.batch(), Mode::evaluate);
    EXPECT_NEAR(report.loss_sum, fixture::evaluated_loss, 0x1p-20);
    expect_equal(run.device.activation(run.logits), fixture::evaluated_logits, 0x1p-20);
}

}  // namespace
