// What trained networks of cuda::Device are compared by: weights beside the reference device's, on
// the doubles and on a GPU.
#pragma once

#include <gx/cuda/device.hpp>

#include <cmath>             // sqrt
#include <initializer_list>  // GPUs
#include <span>              // gradients
#include <string>            // names
#include <string_view>       // names
#include <vector>            // weights

#include <gtest/gtest.h>

#include <gx/core/rng.hpp>                // Rng
#include <gx/cuda_testing/gpu_world.hpp>  // GpuWorld
#include <gx/model/cifar_resnet.hpp>      // CifarResNet
#include <gx/model/compute.hpp>           // Compute
#include <gx/model/init.hpp>              // initial_parameters
#include <gx/reducer/ring.hpp>            // Ring
#include <gx/reference/device.hpp>        // the reference
#include <gx/scheduler/constant.hpp>      // Constant
#include <gx/trainer/checkpoint.hpp>      // read_checkpoint
#include <gx/trainer/trainer.hpp>         // Trainer
#include <trainer/small.hpp>              // threads, Folder

#include "../../../tests/small_maps.hpp"  // maps
#include "gpu_bounds.hpp"                 // step_bound
#include "gpu_step.hpp"                   // start

namespace gx::cuda_tests {

using cuda_testing::CudnnGpu;
using cuda_testing::GpuWorld;
using Gpus = GpuWorld<cuda::Device>;

/// Maps, a dropout of them, and one of flat maps.
struct DropoutNet {
    static constexpr std::string_view name = "DropoutNet";
    static constexpr ImageShape input{3, 8, 8};
    static constexpr int classes = 4;
    static constexpr int describe(GraphBuilder& b, int x) {
        x = b.relu(
            b.conv2d(x, {.channels = 8, .window = Window::square(3, 1, 1), .bias = true}, "conv"),
            "relu");
        x = b.dropout(b.max_pool(x, Window::square(2, 2), "pool"), 0.2, "drop1");
        x = b.relu(b.linear(b.flatten(x, "flatten"), 12, true, "fc1"), "relu1");
        return b.linear(b.dropout(x, 0.5, "drop2"), b.classes(), true, "fc2");
    }
};

template <class Model>
Graph graph_of() {
    return graph<Model>({.input = {3, 8, 8}, .classes = 4});
}

inline void begin(cuda_testing::StreamProgress progress, std::uint64_t seed = 1,
                  CudnnGpu gpu = CudnnGpu::h100) {
    start(gpu, progress, seed);
}

/// Weights after an epoch.
template <class T, class World>
std::vector<float> weights_after(typename T::Options o, World& world, const Split& data,
                                 const Graph& g) {
    const testing_support::Folder folder;
    o.output = folder.path;
    (void)T(o).train(world, data);
    return read_checkpoint(folder / "epoch-0001.safetensors", g).parameters;
}

/// Adds noise of `share` of its length to each gradient.
struct Noisy : reference::Device {
    using reference::Device::Device;
    static inline double share = 0;
    std::uint64_t steps = 0;
    void backward(float scale, std::span<float> gradients, GradientsReady ready) {
        reference::Device::backward(scale, gradients, [](std::size_t) {});
        double squares = 0;
        for (const float g : gradients) squares += double{g} * double{g};
        const Rng noise = Rng(7, "noise").at(steps++);
        const double each = share * std::sqrt(squares / double(gradients.size()));
        for (std::size_t i = 0; i < gradients.size(); ++i)
            gradients[i] += float(each * double{noise.normal(i)});
        ready(0);
    }
};

/// The distance of two runs' weights, as a share of what 20 steps changed. A run whose gradients
/// carry noise of a known share says how these steps enlarge an error; the device's are below
/// step_bound() in each. On a real GPU `gpus` are all that one.
template <class Model, class E, class... Policies>
void expect_weights(double share, int ranks = 2,
                    std::initializer_list<CudnnGpu> gpus = {CudnnGpu::h100}) {
    SCOPED_TRACE(std::string(Model::name) + " in " + std::string(E::name));
    using T = Trainer<Model, Ring<fp32>, Constant, Policies..., Compute<E>>;
    typename T::Options o{.batch = 2, .epochs = 1, .seed = 3, .evaluate = false};
    o.scheduler.peak_rate = 0.02f;
    const Split data = maps(std::int64_t{40} * ranks);
    const Graph g = graph_of<Model>();
    std::vector<float> start(std::size_t(g.parameter_elements()));
    initial_parameters(g, o.seed, start);
    const auto changes = [&](auto&& world) {
        auto w = weights_after<T>(o, world, data, g);
        for (std::size_t i = 0; i < w.size(); ++i) w[i] -= start[i];
        return w;
    };
    const auto expected = changes(testing_support::threads(ranks));
    Noisy::share = share;
    const double growth = apart(changes(testing_support::threads<Noisy>(ranks)), expected) / share;
    const double bound = growth * step_bound(g, 2, element_type<E>);
    EXPECT_GT(growth, 0.1);
    EXPECT_LT(bound, 1) << "a bound that nothing exceeds";
    for (const CudnnGpu gpu : gpus) {
        begin(cuda_testing::StreamProgress::late, 1, gpu);
        EXPECT_LE(apart(changes(Gpus({ranks, 1})), expected), bound)
            << (gpu == CudnnGpu::v100 ? "on a V100" : "on an H100");
        cuda_testing::expect_clean();
    }
}

}  // namespace gx::cuda_tests
