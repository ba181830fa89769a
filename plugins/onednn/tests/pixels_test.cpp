// Batches of 8-bit pixels: the bits of normalised floats, forward and backward.
#include <gx/onednn/device.hpp>

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include <gx/loader/in_memory.hpp>  // InMemory
#include <gx/loader/synthetic.hpp>  // synthetic
#include <gx/model/cifar_resnet.hpp>
#include <gx/model/concept.hpp>
#include <gx/model/init.hpp>

namespace {

using namespace gx;
static_assert(TakesPixels<onednn::Device>);

struct Pass {
    double loss = 0;
    std::vector<float> gradients{};
};
Pass pass(const Graph& graph, const Batch& batch) {
    onednn::Device device(graph, {.batch = 8}, {.lanes = 2});
    std::vector<float> canonical(std::size_t(graph.parameter_elements()));
    initial_parameters(graph, 1, canonical);
    device.update([&](std::span<float> mine) { device.from_canonical(canonical, mine); });
    Pass out;
    out.loss = device.forward(batch, Mode::train).loss_sum;
    out.gradients.resize(device.parameters().size());
    device.backward(1.0f, out.gradients, [](std::size_t) {});
    return out;
}
TEST(Pixels, HaveTheBitsOfFloats) {
    const Split data = synthetic({.shape = {3, 16, 16}, .classes = 4, .train_count = 8});
    const Graph graph = gx::graph<CifarResNet<8>>({.input = {3, 16, 16}, .classes = 4});
    LoaderOptions o{.batch = 8};
    InMemory<> floats(data.train, o);
    o.pixels = true;
    InMemory<> bytes(data.train, o);
    floats.begin_epoch(0);
    bytes.begin_epoch(0);
    const Pass a = pass(graph, floats.next().batch), b = pass(graph, bytes.next().batch);
    EXPECT_GT(a.loss, 0);
    EXPECT_TRUE(std::isfinite(a.loss));
    EXPECT_EQ(a.loss, b.loss);
    EXPECT_EQ(a.gradients, b.gradients);
}

}  // namespace
