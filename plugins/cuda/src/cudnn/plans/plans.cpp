// Plans layers of ResNets with the library that is linked, for GPUs that need not be there.
// Run:  plans.real   with libcudnn: a layer of each kind, for which 20 s are enough
//       plans.real --gtest_also_run_disabled_tests   whole networks: 2 minutes of one core
//       plans        with the double: all
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <stdexcept>
#include <string>

#include <gx/model/cifar_resnet.hpp>
#include <gx/model/concept.hpp>
#include <gx/model/resnet.hpp>

#include "../../../testing/cudnn/contract/devices.hpp"
#include "../../space_to_depth.hpp"
#include "dnn.hpp"

namespace {

using namespace gx;

/// Whether all of the graph's layers get plans: in fp16 those of cuda::Device, whose weight
/// gradients are fp16 too. In a process of its own, as heuristics of 9.10 may divide by zero where
/// there is no device.
bool plans_all(const Graph& graph, const char* device, ElementType compute, int batch) {
    const pid_t child = ::fork();
    if (child == 0) {
        try {
            cuda::Dnn dnn(
                std::string(device),
                {.compute = compute, .fp32_weight_gradients = compute != ElementType::fp16});
            int in_fp32 = 0, layers = 0;
            for (const Op& op : graph.ops) {
                const auto layer = dnn.layer(graph, op, batch, op.inputs[0] != 0);
                if (const auto blocks = cuda::space_to_depth(graph, op);
                    blocks && compute != ElementType::fp32) {
                    const auto stem = dnn.convolution_of_blocks(graph, op, batch, *blocks);
                    if (stem.forward == nullptr || stem.weight_gradient == nullptr)
                        throw std::runtime_error("no plan of the stem in blocks of pixels");
                }
                if (layer.weight_gradient == nullptr) continue;
                ++layers;
                in_fp32 += layer.weight_gradient_type == ElementType::fp32;
            }
            std::printf("%s, %s: workspace %lld, %d of %d weight gradients in fp32\n",
                        std::string(graph.name.view()).c_str(),
                        std::string(to_string(compute)).c_str(),
                        static_cast<long long>(dnn.workspace_bytes()), in_fp32, layers);
        } catch (const std::exception& e) {
            std::printf("%s\n", e.what());
            std::fflush(stdout);
            ::_exit(1);
        }
        std::fflush(stdout);
        ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void expect_plans(const Graph& graph, int batch) {
    const auto version = cudnnGetVersion() / 100;
    if (version != 910 && version != 919)
        GTEST_SKIP() << "plans of cuDNN " << cudnnGetVersion() << " are not known";
    const bool is_h100 = version == 919;
    const char* const device = is_h100 ? backend::h100_json : backend::v100_json;
    EXPECT_TRUE(plans_all(graph, device, ElementType::fp16, batch));
    EXPECT_TRUE(plans_all(graph, device, ElementType::fp32, batch));
    EXPECT_EQ(plans_all(graph, device, ElementType::bf16, batch), is_h100) << "bf16 is Ampere's";
}

/// One layer of each kind and shape that matters: three channels, strides, odd rows, ten classes.
Graph one_of_each() {
    GraphBuilder b("one of each", {3, 32, 32}, 10);
    int x = b.conv2d(0, {.channels = 64, .window = Window::square(7, 2, 3)}, "stem");
    x = b.max_pool(b.relu(x, "relu"), Window::square(3, 2, 1), "pool");
    const int skip = x;
    x = b.conv2d(x, {.channels = 64, .window = Window::square(3, 1, 1)}, "3x3");
    x = b.conv2d(b.add(x, skip, "add"), {.channels = 128, .window = Window::square(1, 2)}, "1x1");
    x = b.flatten(b.global_avg_pool(x, "mean"), "flatten");
    b.softmax_cross_entropy(b.linear(x, 10, true, "fc"), 0, "loss");
    return std::move(b).finish();
}

/// One image of one channel and pixel: windows, biases and their gradients' sums of one element.
Graph smallest() {
    GraphBuilder b("smallest", {1, 1, 1}, 2);
    int x = b.conv2d(0, {.channels = 1, .bias = true}, "first");
    x = b.max_pool(b.relu(x, "relu"), Window::square(1), "pool");
    x = b.conv2d(b.add(x, 0, "add"), {.channels = 1, .window = Window::square(3, 1, 1)}, "second");
    b.softmax_cross_entropy(b.linear(b.flatten(x, "flatten"), 2, true, "fc"), 0, "loss");
    return std::move(b).finish();
}

#ifdef GX_CUDNN_DOUBLED
#define GX_LONG(name) name
#else
#define GX_LONG(name) DISABLED_##name
#endif

TEST(DnnPlans, OfOneLayerOfEachKind) { expect_plans(one_of_each(), 8); }
TEST(DnnPlans, OfTheSmallestMaps) {
    if (cudnnGetVersion() / 100 != 919) GTEST_SKIP() << "known of cuDNN 9.19 alone";
    expect_plans(smallest(), 1);
}
TEST(DnnPlans, GX_LONG(OfResNet20)) { expect_plans(graph<CifarResNet<20>>(), 32); }
TEST(DnnPlans, GX_LONG(OfResNet50)) { expect_plans(graph<ResNet50>(), 32); }

}  // namespace
