// Training on onednn::Device in bf16: the same bits in every world (in fp16 too), resuming, and the
// losses of ResNet-20 beside PyTorch's in double.
#include <gx/onednn/device.hpp>

#include <gtest/gtest.h>

#include <algorithm>  // max
#include <cmath>      // exp2, nearbyint
#include <cstdio>     // printf
#include <vector>     // parameters

#include <gx/model/cifar_resnet.hpp>           // ResNet20
#include <gx/model/compute.hpp>                // Compute
#include <gx/model/layers.hpp>                 // Network
#include <gx/onednn/detail/cpu_bf16.hpp>       // cpu_bf16
#include <gx/optimizer/sgd.hpp>                // Sgd
#include <gx/reducer/double_buffered.hpp>      // DoubleBuffered
#include <gx/reducer/ring.hpp>                 // Ring
#include <gx/scheduler/poly.hpp>               // Poly
#include <gx/scheduler/warmup.hpp>             // Warmup
#include <gx/sim/catalog/simple_clusters.hpp>  // ethernet_10g
#include <gx/sim/world/cluster.hpp>            // Cluster
#include <gx/sim/world/device.hpp>             // Device
#include <gx/trainer/trainer.hpp>              // Trainer
#include <trainer/small.hpp>                   // images, threads

#include "resnet20_losses.hpp"  // what PyTorch gave

namespace {

using namespace testing_support;
using gx::bf16;
using gx::Compute;
using gx::ElementType;
using gx::RunRecord;

class OneDnnTrainingInBf16 : public ::testing::Test {
protected:
    void SetUp() override {
        if (gx::onednn::detail::cpu_bf16().unit == gx::onednn::detail::Bf16Unit::none)
            GTEST_SKIP() << "this CPU has no instructions for bf16";
    }
};

struct Normed : gx::Network<gx::ImageShape{1, 4, 4}, 3, gx::Conv<4, 3, 1, 1>, gx::BatchNorm,
                            gx::ReLU, gx::GlobalAvgPool, gx::Classifier> {
    static constexpr std::string_view name = "Normed";
};
template <class E>
using Training = gx::Trainer<Normed, gx::DoubleBuffered<gx::Ring<gx::fp16>>,
                             gx::Warmup<gx::Poly<2>>, Compute<E>>;

template <class E>
void expect_same_bits_in_every_world() {
    const gx::Split data = images();
    const Training<E> trainer({.batch = 4, .epochs = 3, .seed = 3});
    auto wall = threads<gx::onednn::Device>(3);
    gx::sim::Cluster<gx::onednn::Device> virtual_time(gx::sim::ethernet_10g(3),
                                                      {.compute = gx::sim::Precision::mixed});
    const RunRecord a = trainer.train(wall, data);
    expect_same_learning(trainer.train(virtual_time, data), a);
    EXPECT_LT(a.epochs.back().train_loss, a.epochs.front().train_loss);
    auto fp32 = threads<gx::onednn::Device>(3);
    using Plain =
        gx::Trainer<Normed, gx::DoubleBuffered<gx::Ring<gx::fp16>>, gx::Warmup<gx::Poly<2>>>;
    EXPECT_NE(Plain({.batch = 4, .epochs = 3, .seed = 3}).train(fp32, data).weights_hash,
              a.weights_hash);
}
TEST_F(OneDnnTrainingInBf16, HasTheSameBitsInEveryWorld) {
    expect_same_bits_in_every_world<bf16>();
}
TEST(OneDnnTrainingInFp16, HasTheSameBitsInEveryWorld) {
    expect_same_bits_in_every_world<gx::fp16>();
}
TEST_F(OneDnnTrainingInBf16, ResumesAsIfItHadNotStopped) {
    const Folder folder;
    auto world = threads<gx::onednn::Device>(2);
    Training<bf16>::Options o{.batch = 4, .epochs = 4, .output = folder.path};
    const RunRecord whole = Training<bf16>(o).train(world, images());
    o.output.clear();
    for (const char* name : {"epoch-0001.safetensors", "epoch-0003.safetensors"}) {
        o.resume = folder / name;
        expect_same_learning(Training<bf16>(o).train(world, images()), whole);
    }
}

// ---- ResNet-20 beside PyTorch -----------------------------------------------------------------

namespace oracle = gx::testing::resnet20;

/// As reference/oracle/resnet20_losses.py draws them.
float uniform(std::uint64_t i, std::uint64_t stream) {
    std::uint64_t x = i + (stream << 32);
    for (const std::uint64_t factor : {0xbf58476d1ce4e5b9u, 0x94d049bb133111ebu})
        x = (x ^ (x >> 31)) * factor;
    return static_cast<float>(x >> 40) / 0x1p23f - 1;
}
std::vector<float> start(const gx::Graph& g) {
    std::vector<float> all(static_cast<std::size_t>(g.parameter_elements()));
    for (std::size_t p = 0; p < g.parameters.size(); ++p) {
        const gx::Parameter& q = g.parameters[p];
        const float factor = static_cast<float>(
            std::exp2(std::nearbyint(std::log2(2.5 / std::sqrt(static_cast<double>(q.fan_in))))));
        for (std::int64_t i = 0; i < q.count; ++i) {
            float& w = all[static_cast<std::size_t>(q.offset + i)];
            if (q.role == gx::ParameterRole::weight) w = factor * uniform(std::uint64_t(i), p);
            if (q.role == gx::ParameterRole::gamma) w = 1;
        }
    }
    return all;
}
/// The losses of as many steps as the oracle has, at `share` of its rate.
std::vector<double> losses(ElementType compute, float share = 1) {
    const gx::Graph g = gx::graph<gx::ResNet20>();
    gx::onednn::Device d(g, {.batch = oracle::batch, .compute = compute}, {.lanes = 2});
    const auto parameters = start(g);
    d.update([&](std::span<float> w) { d.from_canonical(parameters, w); });
    gx::Sgd sgd({.momentum = 0.9f, .weight_decay = 0});
    sgd.reserve(d.parameters().size(), d.slices(), g);
    std::vector<float> momentum(d.parameters().size()), gradients(momentum.size());
    std::vector<double> all;
    const auto image = static_cast<std::size_t>(g.input.elements());
    std::vector<float> images(image * oracle::batch * oracle::batches);
    std::vector<std::int32_t> labels(oracle::batch * oracle::batches);
    for (std::size_t i = 0; i < images.size(); ++i) images[i] = 2 * uniform(i, 1000);
    for (std::size_t n = 0; n < labels.size(); ++n) labels[n] = static_cast<int>(n * 7 % 10);
    for (std::size_t step = 0; step < std::size(oracle::losses); ++step) {
        const std::size_t first = step % oracle::batches * oracle::batch;
        const gx::Batch batch{std::span(images).subspan(first * image, image * oracle::batch),
                              std::span(labels).subspan(first, oracle::batch), oracle::batch};
        all.push_back(d.forward(batch, gx::Mode::train).loss_sum / oracle::batch);
        d.backward(1.0f / oracle::batch, gradients, [](std::size_t) {});
        d.update([&](std::span<float> w) {
            sgd.update({.parameters = w,
                        .gradients = gradients,
                        .state = momentum,
                        .slices = d.slices(),
                        .rate = share * 0.002f,
                        .step = static_cast<std::int64_t>(step)});
        });
    }
    return all;
}
/// The most that losses may be from the oracle's at each step.
///
/// The unit is how far the oracle's own losses are by then from those of weights that were rounded
/// once, when they were drawn: in these 200 steps errors of 2^-24 grow 100,000 times, to what those
/// of 2^-9 become, so that a bound has to know how errors grow. Rounding weights once is one error;
/// a run makes about three in each layer, forward and backward, and makes them anew at each step.
/// Independent errors add as squares, and what earlier ones grow to exceeds what later ones do, so
/// that a run is sqrt(3 layers) times as far. In fp32 Winograd's transforms lose up to three bits
/// more, and a run is no farther than one in bf16.
std::vector<double> bounds(ElementType compute) {
    const double errors =
        std::sqrt(3.0 * static_cast<double>(gx::graph<gx::ResNet20>().ops.size()));
    std::vector<double> all;
    double of_fp32 = 0, of_bf16 = 0;
    for (std::size_t i = 0; i < std::size(oracle::losses); ++i) {
        of_fp32 =
            std::max(of_fp32, std::abs(oracle::losses_of_fp32_weights[i] - oracle::losses[i]));
        of_bf16 =
            std::max(of_bf16, std::abs(oracle::losses_of_bf16_weights[i] - oracle::losses[i]));
        const double far = errors * of_bf16;
        all.push_back(compute == ElementType::fp32 ? std::min(8 * errors * of_fp32, far) : far);
    }
    return all;
}
/// The step at which losses are first farther from the oracle's than they may be; 200: at none.
std::size_t leaves_bounds(const std::vector<double>& mine, ElementType compute) {
    const auto most = bounds(compute);
    std::size_t i = 0;
    while (i < mine.size() && std::abs(mine[i] - oracle::losses[i]) <= most[i]) ++i;
    return i;
}
void expect_pytorchs_losses(ElementType compute) {
    const auto mine = losses(compute);
    double farthest = 0;
    for (std::size_t i = 0; i < mine.size(); ++i)
        farthest = std::max(farthest, std::abs(mine[i] - oracle::losses[i]));
    std::printf("farthest from PyTorch's losses: %.4f; the bound grows to %.4f\n", farthest,
                bounds(compute).back());
    EXPECT_EQ(leaves_bounds(mine, compute), 200u);
}
TEST(OneDnnTraining, FollowsPyTorchInDoubleOver200Steps) {
    expect_pytorchs_losses(ElementType::fp32);
}
TEST_F(OneDnnTrainingInBf16, FollowsPyTorchInDoubleOver200Steps) {
    expect_pytorchs_losses(ElementType::bf16);
}
// Faults that the bounds have to tell from rounding, in either type.
TEST(OneDnnTraining, OfAnotherRateOrThatStopsOrIsLostLeavesTheBounds) {
    const std::vector<double> right(std::begin(oracle::losses), std::end(oracle::losses));
    const auto slower = losses(ElementType::fp32, 0.75f);  // of the rate
    for (const ElementType compute : {ElementType::fp32, ElementType::bf16}) {
        EXPECT_EQ(leaves_bounds(right, compute), 200u);
        EXPECT_LT(leaves_bounds(slower, compute), 200u);
        for (std::size_t from = 32; from + 48 < right.size(); from += 16) {
            auto stops = right, lost = right;
            for (std::size_t i = from; i < right.size(); ++i) {
                stops[i] = right[i - 16 * ((i - from) / 16 + 1)];  // what it learned, no more
                lost[i] = 0;
            }
            EXPECT_LT(leaves_bounds(stops, compute), 200u) << "from step " << from;
            EXPECT_EQ(leaves_bounds(lost, compute), from);
        }
    }
}

}  // namespace
