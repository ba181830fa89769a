#include <gx/onednn/device.hpp>

#include <dlfcn.h>  // dladdr
#include <gtest/gtest.h>

#include <atomic>   // counts
#include <cstring>  // strstr

#include <gx/model/cifar_resnet.hpp>  // ResNet8
#include <gx/model/lenet.hpp>         // LeNet
#include <gx/onednn/detail/simd.hpp>  // cpu_block
#include <support/counted_new.hpp>    // note_allocation

#include "agreement.hpp"

// oneDNN puts the arguments of every call into a map of its own, some hundred bytes that live for
// the call; nobody can keep it from that. So allocations are told apart by who asks.
namespace {
std::atomic<bool> counting{false};
std::atomic<long> ours{0}, of_library{0}, largest_of_library{0};
}  // namespace

void testing_support::note_allocation(std::size_t bytes, const void* caller) noexcept {
    if (!counting.load()) return;
    counting = false;  // what dladdr may allocate is not of the step
    Dl_info info{};
    const bool library =
        dladdr(caller, &info) != 0 && std::strstr(info.dli_fname, "libdnnl") != nullptr;
    (library ? of_library : ours).fetch_add(1);
    if (library) largest_of_library = std::max(largest_of_library.load(), static_cast<long>(bytes));
    counting = true;
}

namespace {
template <class Model>
void expect_none() {
    const gx::Graph g = gx::graph<Model>();
    gx::onednn::Device d(g, {.batch = 6}, {.lanes = 2, .threads = 1});
    agreement::load(d, agreement::parameters(g, 1));
    const agreement::Data full(g, 6, 1), tail(g, 3, 2);
    std::vector<float> gradients(d.parameters().size());
    const auto step = [&](const agreement::Data& data) {
        static_cast<void>(d.forward(data.batch(), gx::Mode::train));
        d.backward(1, gradients, [](std::size_t) {});
        d.update([&](std::span<float> w) {
            for (std::size_t i = 0; i < w.size(); ++i) w[i] -= 0.01f * gradients[i];
        });
    };
    step(full), step(tail);  // each count is planned once
    ours = of_library = largest_of_library = 0;
    counting = true;
    for (int s = 0; s < 3; ++s) step(full), step(tail);
    counting = false;
    EXPECT_EQ(ours.load(), 0);
    EXPECT_GT(of_library.load(), 0) << "the counter sees nothing";
    EXPECT_LE(largest_of_library.load(), 1024) << "more than arguments";
    EXPECT_EQ(d.counters().allocations_in_step, 0);
    // Without AVX-512 one plain channel is brought into a block, once a step.
    const bool packs = gx::onednn::detail::cpu_block() != 16 && g.input.channels != 3;
    EXPECT_EQ(d.counters().activation_reorders_in_step, packs ? 8 : 0);
    EXPECT_EQ(d.counters().plans, 2);
    EXPECT_EQ(d.counters().steps, 8);
}
}  // namespace

TEST(OneDnnDevice, AllocatesNothingInAStepOfResNet8) { expect_none<gx::ResNet8>(); }
TEST(OneDnnDevice, AllocatesNothingInAStepOfLeNet) { expect_none<gx::LeNet>(); }
TEST(OneDnnDevice, CountsPassesThatOnlyChangeALayout) {
    gx::GraphBuilder b("packed", {5, 6, 6}, 3);
    int x = b.conv2d(0, {16, gx::Window::square(3, 1, 1)}, "conv");
    b.softmax_cross_entropy(b.linear(b.flatten(x, "f"), 3, true, "l"), 0, "loss");
    const gx::Graph g = std::move(b).finish();
    gx::onednn::Device d(g, {.batch = 2});
    const agreement::Data data(g, 2, 1);
    static_cast<void>(d.forward(data.batch(), gx::Mode::train));
    EXPECT_EQ(d.counters().activation_reorders_in_step, 1);  // five plain channels into a block
}
