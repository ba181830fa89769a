#include <gx/sim/world/device.hpp>  // first, so the header is seen to stand alone

#include <cmath>   // nextafter
#include <vector>  // images

#include <gtest/gtest.h>

#include <gx/core/error.hpp>                   // Error
#include <gx/model/mlp.hpp>                    // MLP
#include <gx/model/resnet.hpp>                 // ResNet50
#include <gx/reference/device.hpp>             // reference::Device
#include <gx/sim/catalog/simple_clusters.hpp>  // ethernet_10g
#include <gx/sim/compute/ready_points.hpp>     // ready_points
#include <gx/sim/network/network.hpp>          // FlowNetwork
#include <gx/sim/topology/topology.hpp>        // Topology
#include <sim/support/two_layers.hpp>          // two_layers

namespace {

using namespace testing_support;
using gx::Nanoseconds;
using World = gx::sim::Cluster<gx::reference::Device>;
using gx::sim::Precision;

// ---- What the type promises ---------------------------------------------------------
static_assert(gx::TrainingWorld<World>);
static_assert(gx::explain_training_world<World>());
static_assert(gx::explain_device<gx::sim::Device<gx::archetype::Device>>());

// ---- The numbers are the inner device's ---------------------------------------------
TEST(SimDevice, NumbersAreTheInnerDevicesAndTimeIsTheRoofline) {
    const gx::Graph graph = two_layers();
    const TwoImages data;
    gx::reference::Device alone(graph, {.batch = 2});
    alone.update(fill_weights);
    const auto expected = alone.forward(data.batch(), gx::Mode::train);
    std::vector<float> expected_gradients(alone.parameters().size());
    alone.backward(1.0f, expected_gradients, [](std::size_t) {});

    World world(gx::sim::ethernet_10g(2));
    world.run([&](auto& rank) {
        auto device = rank.make_device(graph, {.batch = 2, .rank = rank.rank()});
        device->update(fill_weights);
        Nanoseconds last = rank.now();
        const auto report = device->forward(data.batch(), gx::Mode::train);
        EXPECT_EQ(report.loss_sum, expected.loss_sum);
        EXPECT_EQ(rank.now() - last, device->times().forward(2));
        last = rank.now();
        std::vector<float> gradients(alone.parameters().size());
        std::vector<std::size_t> marks;
        std::vector<Nanoseconds> at;
        device->backward(1.0f, gradients, [&](std::size_t mark) {
            marks.push_back(mark);
            at.push_back(rank.now() - last);
        });
        EXPECT_EQ(gradients, expected_gradients);
        EXPECT_EQ(marks, (std::vector<std::size_t>{25, 0})) << "the second layer, then the first";
        EXPECT_EQ(rank.now() - last, device->times().backward(2));
        EXPECT_GT(at[0].count(), 0);
        EXPECT_LT(at[0], at[1]);
        EXPECT_EQ(rank.busy().compute, rank.now());
    });
}

// ---- The element is the inner device's ------------------------------------------------
static_assert(gx::computes_in<World::Rank::Device, gx::bf16>);
static_assert(!gx::computes_in<gx::sim::Device<gx::archetype::Device>, gx::bf16>);

TEST(SimDevice, ComputesInTheElementOfTheOptionsAndTimesMixedPrecision) {
    const gx::Graph graph = two_layers();
    const TwoImages data;
    const gx::DeviceOptions options{.batch = 2, .compute = gx::ElementType::bf16};
    gx::reference::Device alone(graph, options), exact(graph, {.batch = 2});
    alone.update(fill_weights);
    exact.update(fill_weights);
    const double expected = alone.forward(data.batch(), gx::Mode::train).loss_sum;
    EXPECT_NE(expected, exact.forward(data.batch(), gx::Mode::train).loss_sum);
    const auto run = [&](Precision timed) {
        World world(gx::sim::ethernet_10g(1), {.compute = timed});
        world.run([&](auto& rank) {
            const auto device = rank.make_device(graph, options);
            device->receive(fill_weights);
            EXPECT_EQ(device->forward(data.batch(), gx::Mode::train).loss_sum, expected);
        });
    };
    run(Precision::mixed);
    EXPECT_THROW(run(Precision::fp32), gx::Error);
    EXPECT_THROW(run(Precision::tf32), gx::Error);
}

// ---- Another graph is timed ---------------------------------------------------------
TEST(SimDevice, TimesALargerGraphAndStretchesItsMessages) {
    const gx::Graph graph = two_layers(), large = gx::graph<gx::ResNet50>();
    const TwoImages data;
    World world(gx::sim::ethernet_10g(2), {.timed_as = large, .timed_batch = 64});
    world.run([&](auto& rank) {
        auto device = rank.make_device(graph, {.batch = 2});
        (void)device->forward(data.batch(), gx::Mode::train);
        const gx::sim::TimedGraph times(large, gx::sim::v100(), Precision::fp32);
        EXPECT_EQ(rank.now(), times.forward(64));
        EXPECT_EQ(rank.timed_count(1), 32);
        EXPECT_EQ(rank.undisturbed_pass(2), times.forward(64) + times.backward(64));
        EXPECT_EQ(rank.undisturbed_update(), times.update());
        std::vector<float> gradients(device->parameters().size());
        std::size_t mark = gradients.size();
        Nanoseconds first_layer_ready{};
        device->backward(1.0f, gradients, [&](std::size_t m) {
            EXPECT_LT(m, mark);
            if (m == 0) EXPECT_GT(mark, 0u);
            else first_layer_ready = rank.now();
            mark = m;
        });
        EXPECT_EQ(mark, 0u);
        EXPECT_GT(rank.now(), first_layer_ready);

        auto bytes = std::as_writable_bytes(std::span(gradients));
        auto& link = rank.transport();
        const auto request = rank.rank() == 0 ? link.send(1, 0, bytes) : link.receive(0, 0, bytes);
        EXPECT_TRUE(link.wait(request).complete());
    });
    EXPECT_EQ(world.network().carried(world.topology().nic_out(0)).count, 4 * 25'557'032);
}

TEST(SimDevice, ProportionalWatermarksNeverComeEarly) {
    const gx::Graph timed = gx::graph<gx::ResNet50>();
    const auto points = gx::sim::ready_points(timed, 1000);
    const auto total = timed.parameter_elements();
    std::int64_t end = 0;
    for (std::size_t i = 0; i < timed.ops.size(); ++i) {
        EXPECT_GE(static_cast<std::int64_t>(points[i]) * total, 1000 * end) << i;
        EXPECT_LT((static_cast<std::int64_t>(points[i]) - 1) * total, 1000 * end + 1) << i;
        for (int p = 0; p < timed.ops[i].parameter_count; ++p) {
            const int parameter = timed.ops[i].first_parameter + p;
            end += timed.parameters[static_cast<std::size_t>(parameter)].count;
        }
    }
}

// ---- Jitter -------------------------------------------------------------------------
Nanoseconds forward_time(std::uint64_t seed, double jitter) {
    Nanoseconds time{};
    World world(gx::sim::ethernet_10g(1), {.seed = seed, .compute_jitter = jitter});
    world.run([&](auto& rank) {
        auto device = rank.make_device(two_layers(), {.batch = 2});
        (void)device->forward(TwoImages().batch(), gx::Mode::train);
        time = rank.now();
    });
    return time;
}
TEST(SimDevice, JitterComesFromTheSeedAlone) {
    EXPECT_EQ(forward_time(1, 0), forward_time(2, 0));
    EXPECT_EQ(forward_time(1, 0.2), forward_time(1, 0.2));
    EXPECT_NE(forward_time(1, 0.2), forward_time(2, 0.2));
    const double ratio = gx::seconds(forward_time(1, 0.2)) / gx::seconds(forward_time(1, 0));
    EXPECT_NEAR(ratio, 1.0, 0.2);
}

TEST(SimDevice, GpusThatDifferAndStragglersComeFromTheSeedAlone) {
    const auto time = [](std::uint64_t seed, gx::sim::GpuVariation variation) {
        Nanoseconds forward{};
        World world(gx::sim::ethernet_10g(1), {.seed = seed, .variation = variation});
        world.run([&](auto& rank) {
            auto device = rank.make_device(two_layers(), {.batch = 2});
            (void)device->forward(TwoImages().batch(), gx::Mode::train);
            forward = rank.now();
        });
        return forward;
    };
    const Nanoseconds plain = time(1, {});
    EXPECT_EQ(plain, forward_time(1, 0));
    const gx::sim::GpuVariation slow{.pass = gx::sim::Jitter::straggler(1.0, 3)};
    EXPECT_EQ(time(1, slow), 3 * plain);
    const gx::sim::GpuVariation chips{.gpu = gx::sim::Jitter::lognormal(0.1)};
    EXPECT_EQ(time(5, chips), time(5, chips));
    EXPECT_NE(time(5, chips), time(6, chips));
}
// With one stream for both the mean would be 1 + 0.5 * 0.5 / 3 = 1.083.
TEST(SimDevice, TheTwoKindsOfJitterAreDrawnApart) {
    const auto mean = [](double share, gx::sim::GpuVariation variation) {
        Nanoseconds all{};
        World world(gx::sim::ethernet_10g(1), {.compute_jitter = share, .variation = variation});
        world.run([&](auto& rank) {
            auto device = rank.make_device(two_layers(), {.batch = 2});
            for (int i = 0; i < 2000; ++i)
                (void)device->forward(TwoImages().batch(), gx::Mode::evaluate);
            all = rank.now();
        });
        return gx::seconds(all);
    };
    // Four standard deviations of a mean of 2000 products: 4 sqrt(2 / 12 + 1 / 144) / sqrt(2000).
    EXPECT_NEAR(mean(0.5, {.pass = gx::sim::Jitter::uniform(0.5)}) / mean(0, {}), 1.0, 0.038);
}
TEST(SimDevice, AGpuKeepsItsSpeedWhenOthersAreLost) {
    const auto time = [](World& world, int rank_of) {
        Nanoseconds forward{};
        world.run([&](auto& rank) {
            auto device = rank.make_device(two_layers(), {.batch = 2});
            const Nanoseconds begin = rank.now();
            (void)device->forward(TwoImages().batch(), gx::Mode::train);
            if (rank.rank() == rank_of) forward = rank.now() - begin;
        });
        return forward;
    };
    World world(gx::sim::ethernet_10g(4),
                {.seed = 3, .variation = {.gpu = gx::sim::Jitter::uniform(0.5)}});
    const Nanoseconds second = time(world, 1), last = time(world, 3);
    EXPECT_NE(second, last);
    const std::vector<int> lost{0}, then{1};
    auto three = world.survivors(lost, Nanoseconds(0));
    ASSERT_EQ(three.members, (std::vector<int>{1, 2, 3}));
    EXPECT_EQ(time(*three.world, 0), second);
    EXPECT_EQ(time(*three.world, 2), last);
    auto two = three.world->survivors(then, Nanoseconds(0));
    EXPECT_EQ(time(*two.world, 1), last);
    World slowest(gx::sim::ethernet_10g(2),
                  {.variation = {.gpu = gx::sim::Jitter::straggler(1, std::nextafter(1000.0, 0))}});
    slowest.run([](auto&) {});
    EXPECT_NO_THROW((void)slowest.survivors(lost, Nanoseconds(0)));
}
// A test at another image size has a device of its own, which comes and goes.
TEST(SimDevice, ARankAsksTheNewestOfItsDevices) {
    World world(gx::sim::ethernet_10g(1));
    world.run([](auto& rank) {
        auto first = rank.make_device(two_layers(), {.batch = 2});
        const Nanoseconds pass = rank.undisturbed_pass(2);
        auto second = rank.make_device(two_layers(), {.batch = 2});
        first.reset();
        EXPECT_EQ(rank.undisturbed_pass(2), pass);
        auto third = rank.make_device(two_layers(), {.batch = 4});
        third.reset();
        EXPECT_EQ(rank.undisturbed_pass(2), pass);
    });
}

// ---- Slowdown beside communication --------------------------------------------------
TEST(SimDevice, KernelsBesideTheStreamsWorkTakeTheirShareLonger) {
    const auto time = [](double share, bool communicates) {
        Nanoseconds forward{};
        World world(gx::sim::ethernet_10g(1), {.overlap_slowdown = {share}});
        world.run([&](auto& rank) {
            auto device = rank.make_device(two_layers(), {.batch = 2});
            const auto reduce = [](void* context, std::uint64_t) {
                auto& self = *static_cast<World::Rank*>(context);
                self.charge(std::chrono::seconds(1), "all-reduce", gx::sim::Activity::other);
            };
            gx::Event done{};
            if (communicates) done = rank.stream().enqueue({reduce, &rank});
            (void)device->forward(TwoImages().batch(), gx::Mode::train);
            forward = rank.now();
            if (communicates) rank.stream().wait(done);
        });
        return forward;
    };
    EXPECT_EQ(time(0.25, false), time(0, false));
    EXPECT_EQ(time(0, true), time(0, false));
    EXPECT_NEAR(gx::seconds(time(0.25, true)), 1.25 * gx::seconds(time(0, true)), 1e-8);
}
// ---- Inputs over PCIe ---------------------------------------------------------------
TEST(SimDevice, OnlyTheFirstBatchIsWaitedForWhereCopiesAreShorterThanSteps) {
    World world(gx::sim::ethernet_10g(1),
                {.timed_as = gx::graph<gx::ResNet50>(), .timed_batch = 64, .copy_inputs = true});
    Nanoseconds input_first{}, input_all{};
    world.run([&](auto& rank) {
        auto device = rank.make_device(two_layers(), {.batch = 2});
        std::vector<float> gradients(device->parameters().size());
        for (int step = 0; step < 3; ++step) {
            (void)device->forward(TwoImages().batch(), gx::Mode::train);
            device->backward(1.0f, gradients, [](std::size_t) {});
            if (step == 0) input_first = rank.busy().input;
        }
        input_all = rank.busy().input;
    });
    // 64 images of 3 x 224 x 224 floats at 12 GB/s.
    const auto expected = gx::Bytes{64 * 3 * 224 * 224 * 4} / gx::BytesPerSecond{12e9};
    EXPECT_EQ(input_first, expected);
    EXPECT_EQ(input_all, input_first) << "the others were copied beside the step before";
}
TEST(SimDevice, ABatchIsWaitedForOnce) {
    const auto times = [](bool await) {
        World world(gx::sim::ethernet_10g(1), {.copy_inputs = true});
        std::vector<Nanoseconds> ends;
        world.run([&](auto& rank) {
            auto device = rank.make_device(two_layers(), {.batch = 2});
            for (int step = 0; step < 3; ++step) {
                const TwoImages images;
                if (await) device->await(images.batch());
                if (await && step == 0) {
                    EXPECT_GT(rank.busy().input, Nanoseconds(0));
                }
                (void)device->forward(images.batch(), gx::Mode::train);
                ends.push_back(rank.now());
            }
            ends.push_back(rank.busy().input);
        });
        return ends;
    };
    EXPECT_EQ(times(true), times(false));
}
TEST(SimDevice, SaysWhichGpusAreSlower) {
    using gx::sim::Factor;
    const std::vector<Factor> factors{Factor::of(1), Factor::of(1.5), Factor::of(0.9)};
    const auto notes = World(gx::sim::ethernet_10g(3), {.gpu_factors = factors}).info().notes;
    EXPECT_EQ(std::ranges::count(
                  notes, "Kernels take 1.5 times as long on rank 1, 0.9 times as long on rank 2."),
              1);
}
TEST(SimDevice, SaysWhichOptionsCannotBe) {
    auto spec = gx::sim::ethernet_10g(2);
    spec.machine.gpu.copy_engines = 0;
    try {
        World world(spec, {.timed_as = gx::Graph{},
                           .framework = {.dispatch = Nanoseconds(-1)},
                           .gpu_factors = {gx::sim::Factor::of(1.5)},
                           .copy_inputs = true});
        FAIL() << "none of them can be";
    } catch (const gx::Error& e) {
        const std::string text = e.what();
        for (const char* part :
             {"timed_as is a graph without operations", "framework.dispatch is -1 ns",
              "gpu_factors has 1 numbers for 2 ranks", "the GPU has no copy engine"})
            EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
    }
}
TEST(SimDevice, SaysWhichVariationIsOutOfRange) {
    try {
        World world(gx::sim::ethernet_10g(1),
                    {.variation = {.pass = {gx::sim::Jitter::Kind::uniform, 1.5}},
                     .overlap_slowdown = {-1}});
        FAIL() << "neither can be";
    } catch (const gx::Error& e) {
        const std::string text = e.what();
        EXPECT_NE(text.find("variation: uniform jitter is a share"), std::string::npos) << text;
        EXPECT_NE(text.find("overlap_slowdown is -1"), std::string::npos) << text;
    }
}

// ---- Memory -------------------------------------------------------------------------
TEST(SimDevice, SaysWhichBatchFits) {
    World world(gx::sim::ethernet_10g(1),
                {.timed_as = gx::graph<gx::ResNet50>(), .timed_batch = 1024});
    try {
        world.run([&](auto& rank) { (void)rank.make_device(two_layers(), {.batch = 2}); });
        FAIL() << "1024 images at 224 px do not fit in 16 GB";
    } catch (const gx::Error& e) {
        EXPECT_NE(std::string(e.what()).find("a batch of 1024 images of ResNet50 does not fit"),
                  std::string::npos)
            << e.what();
    }
}

}  // namespace
