#include <gx/sim/timing/step_time.hpp>  // first, so the header is seen to stand alone

#include <algorithm>  // max
#include <limits>     // never round
#include <vector>     // ends of steps

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/core/error.hpp>                   // Error
#include <gx/halving_doubling/reducer.hpp>     // HalvingDoubling
#include <gx/hierarchical/reducer.hpp>         // Hierarchical
#include <gx/model/resnet.hpp>                 // ResNet50
#include <gx/reducer/bucketed.hpp>             // Bucketed
#include <gx/reducer/double_buffered.hpp>      // DoubleBuffered
#include <gx/reducer/multi_ring.hpp>           // MultiRing, Ring
#include <gx/reducer/pipeline.hpp>             // Pipeline
#include <gx/reference/device.hpp>             // reference::Device
#include <gx/sim/world/cluster.hpp>            // Cluster: the same with payload
#include <gx/sim/world/device.hpp>             // Device
#include <gx/sim/catalog/cluster_of.hpp>       // cluster_of
#include <gx/sim/catalog/find_machine.hpp>     // machine_makers
#include <gx/sim/catalog/simple_clusters.hpp>  // plain_p3_16xlarge
#include <gx/trees/double_tree.hpp>            // DoubleTree
#include <gx/trees/tree.hpp>                   // Tree

namespace {

using gx::Nanoseconds;
using gx::collective::Ring;
using gx::sim::ClusterSpec;
using gx::sim::Detail;
using gx::sim::StepTiming;
using gx::sim::StepWork;
using namespace gx::literals;

// ---- A case worked by hand ----------------------------------------------------------
/// 2 ranks, 1 byte a ns, 100 ns a message; backward takes 4 us and gives half its gradient midway.
ClusterSpec two() {
    auto spec = gx::sim::ethernet_10g(2);
    spec.machine.nic_line_rate = 8_Gbps;
    spec.goodput = 1;
    spec.flow_cap = {0};
    spec.latency = Nanoseconds(100);
    return spec;
}
StepWork work() {
    return {.forward = 1_us,
            .backward = 4_us,
            .update = Nanoseconds(500),
            .elements = 1000,
            .ready = {{2_us, 500}, {4_us, 0}}};
}
StepTiming time_two(gx::sim::ReduceShape shape) {
    const Ring ring(2);
    return gx::sim::step_time(work(), std::span<const Ring>(&ring, 1), shape, two());
}
TEST(StepTime, ByHand) {
    // The whole gradient: 2 steps of 2,000 bytes behind backward, then the update.
    const StepTiming whole = time_two({.element_bytes = 4});
    EXPECT_EQ(whole.exposed.count(), 2 * (100 + 2'000));
    EXPECT_EQ(whole.step.count(), 5'000 + 4'200 + 500);
    EXPECT_EQ(whole.communication.count(), 4'200);
    EXPECT_EQ(whole.messages, 4u);
    EXPECT_EQ(whole.wire.count, 8'000);
    EXPECT_TRUE(whole.settled);
    // Two halves: the first goes out midway, 2 us before backward ends, and takes 2,200 ns; the
    // second follows it.
    const StepTiming halves = time_two({.bucket_elements = 500, .element_bytes = 4});
    EXPECT_EQ(halves.exposed.count(), 200 + 2'200);
    EXPECT_EQ(halves.step.count(), 5'000 + 2'400 + 500);
    // A step late, all of it fits behind the 5.5 us of the next.
    const StepTiming late = time_two({.staleness = 1, .element_bytes = 4});
    EXPECT_EQ(late.exposed.count(), 0);
    EXPECT_EQ(late.step.count(), 5'500);
    EXPECT_EQ(late.ends[0].count(), 5'000) << "the first step applies nothing";
    // Of elements of 8 bytes it does not: the stream is what repeats.
    const StepTiming wire_bound = time_two({.staleness = 1, .element_bytes = 8});
    EXPECT_EQ(wire_bound.step.count(), 2 * (100 + 4'000));
    EXPECT_EQ(wire_bound.floor.count(), 8'000) << "2 (n - 1) / n of 8,000 bytes";
}

/// A stream that takes a little longer for a gradient than a step computes falls behind by that in
/// every step, until one waits for it: long after the first steps.
RC_GTEST_PROP(StepTime, IsThatOfTheLongRunWhereGradientsAreLate, ()) {
    gx::sim::ReduceShape shape;
    shape.bucket_elements = *rc::gen::element(0, 500, 250);
    shape.staleness = *rc::gen::inRange(1, 3);
    shape.element_bytes = *rc::gen::inRange(4, 9);
    StepWork w = work();
    w.forward = Nanoseconds(*rc::gen::inRange(0, 6'000));
    const Ring ring(2);
    const auto time = [&](int steps) {
        return gx::sim::step_time(w, std::span<const Ring>(&ring, 1), shape, two(), steps);
    };
    const StepTiming found = time(0), long_run = time(400);
    RC_CLASSIFY(long_run.exposed.count() > 0);
    // In 400 steps a lag of a 400th of a step or more is made up for.
    const Nanoseconds lag = found.communication - (w.forward + w.backward + w.update);
    RC_PRE(lag.count() <= 0 || lag * 100 > found.communication);
    RC_ASSERT(found.step == long_run.step);
    RC_ASSERT(found.exposed == long_run.exposed);
}
TEST(StepTime, OfALagTooSmallToSimulateIsTheStreams) {
    StepWork w = work();
    const Ring ring(2);
    const gx::sim::ReduceShape shape{.staleness = 1, .bucket_elements = 500, .element_bytes = 6};
    const auto time = [&] {
        return gx::sim::step_time(w, std::span<const Ring>(&ring, 1), shape, two());
    };
    const Nanoseconds stream = time().communication;
    w.forward = stream - w.backward - w.update - Nanoseconds(1);  // a nanosecond less than it
    const StepTiming t = time();
    EXPECT_EQ(t.step, stream);
    EXPECT_EQ(t.exposed.count(), 1);
    EXPECT_FALSE(t.settled) << "not in the steps that were simulated";
}

/// Ranks that share a NIC drift apart, so that steps differ for good.
TEST(StepTime, OfLateGradientsThatDoNotSettleIsTheMean) {
    struct Drifting {
        int machines, parts;
        StepWork work;
    };
    for (Drifting d : {Drifting{12,
                                9,
                                {.forward = Nanoseconds(1'549'975),
                                 .backward = Nanoseconds(2'800'614),
                                 .elements = 4'263'840}},
                       Drifting{6,
                                10,
                                {.forward = Nanoseconds(1'980'773),
                                 .backward = Nanoseconds(1'125'800),
                                 .elements = 1'846'062}}}) {
        StepWork& w = d.work;
        for (int p = 1; p <= d.parts; ++p)
            w.ready.push_back({w.backward * p / d.parts, w.elements * (d.parts - p) / d.parts});
        const auto time = [&](int steps) {
            return gx::sim::step_time<gx::DoubleBuffered<gx::DoubleTree<8, gx::fp16>>>(
                w, gx::sim::cluster_of("p3.8xlarge", d.machines), {.steps = steps});
        };
        const auto ends = time(120).ends;
        const double mean = gx::seconds(ends[119] - ends[59]) / 60;
        const StepTiming t = time(0);
        EXPECT_NEAR(gx::seconds(t.step) / mean, 1, 0.005) << d.machines;
        EXPECT_EQ(t.exposed, t.step - w.total()) << d.machines;
        EXPECT_FALSE(t.settled) << d.machines;
    }
}

TEST(StepTime, KernelsOfAReducerByHand) {
    auto spec = two();  // 2 bytes a ns, a kernel every 10 ns
    spec.machine.gpu.memory_bandwidth = {4e9};
    spec.machine.gpu.efficiency_fp32.memory = 0.5;
    spec.machine.gpu.launch = Nanoseconds(10);
    spec.machine.nic_line_rate = 4_Gbps;  // half a byte a ns, below 2 / 3
    const Ring ring(2);
    const auto time = [&](gx::sim::ReduceShape shape) {
        return gx::sim::step_time(work(), std::span<const Ring>(&ring, 1), shape, spec);
    };
    // 1,000 elements: cast (4 + 2 bytes), 2 steps of 1,000 bytes, cast.
    const gx::sim::ReducerKernels casts{true, {6, 6}};
    const StepTiming whole = time({.element_bytes = 2, .kernels = casts});
    EXPECT_EQ(whole.exposed.count(), 3'010 + 2 * (100 + 2'000) + 3'010);
    EXPECT_EQ(whole.communication, whole.exposed);
    EXPECT_EQ(time({.element_bytes = 2, .kernels = {false, {6, 6}}}).exposed.count(), 4'200);
    EXPECT_EQ(time({.element_bytes = 2, .kernels = {true, {8, 0}}}).exposed.count(), 4'010 + 4'200);
    // Each rank decodes the half that it owns.
    EXPECT_EQ(time({.element_bytes = 2, .kernels = {true, {6, 6}, true}}).exposed.count(),
              3'010 + 4'200 + 1'510);
    // Two halves, the first midway: one stream casts, sends and casts them in turn.
    const StepTiming halves = time({.bucket_elements = 500, .element_bytes = 2, .kernels = casts});
    EXPECT_EQ(halves.exposed.count(), 2 * (1'510 + 2 * (100 + 1'000) + 1'510) - 2'000);
    // A link faster than sums: 2 / 3 of a byte a ns.
    spec.machine.nic_line_rate = 8_Gbps;
    EXPECT_EQ(time({.element_bytes = 2, .kernels = {true, {}}}).exposed.count(), 2 * (100 + 1'500));
}

// ---- The same nanosecond as with payload -----------------------------------------------
gx::Graph small(int width, int layers) {
    gx::GraphBuilder b("small", {1, 4, 4}, 3);
    int x = b.flatten(b.input(), "flatten");
    for (int i = 0; i < layers; ++i) x = b.relu(b.linear(x, width, true, "layer"), "relu");
    (void)b.softmax_cross_entropy(b.linear(x, 3, true, "last"), 0, "loss");
    return std::move(b).finish();
}
/// Ends of steps, on the rank that is last, with real gradients.
template <class R>
std::vector<Nanoseconds> with_payload(const gx::Graph& graph, const ClusterSpec& spec,
                                      std::int64_t bucket_bytes, std::size_t steps,
                                      const gx::sim::Slowness& slow = {}, bool charged = true) {
    constexpr auto element = static_cast<std::int64_t>(sizeof(typename R::wire_type::storage));
    std::vector<Nanoseconds> ends(steps);
    gx::sim::Cluster<gx::reference::Device> world(spec, {.seed = slow.seed,
                                                         .compute_jitter = slow.compute_jitter,
                                                         .variation = slow.variation,
                                                         .overlap_slowdown = slow.overlap,
                                                         .charge_reducer_kernels = charged});
    world.run([&](auto& rank) {
        auto device = rank.make_device(graph, {.batch = 2, .rank = rank.rank()});
        gx::Pipeline pipeline(
            rank.stream(), rank.transport(),
            {.elements = graph.parameter_elements(), .bucket_elements = bucket_bytes / element},
            R());
        const std::vector<float> images(32, 0.25f);
        const std::vector<std::int32_t> labels{0, 2};
        for (std::size_t t = 0; t < steps; ++t) {
            const auto gradients = pipeline.begin(t);
            (void)device->forward({images, labels, 2, 0}, gx::Mode::train);
            device->backward(1.0f, gradients,
                             [&](std::size_t watermark) { pipeline.ready(watermark); });
            if (pipeline.collect(t)) device->update([](std::span<float>) {});
            ends[t] = std::max(ends[t], rank.now());
        }
        while (pipeline.drain()) {
        }
    });
    return ends;
}
ClusterSpec machines_that_are_sold() {  // with PCIe trees and several NICs, 8 GPUs in all
    ClusterSpec spec{.name = "cluster", .fabric = gx::sim::rails()};
    do {
        const int which = *rc::gen::inRange(0, static_cast<int>(gx::sim::machine_makers.size()));
        spec.machine = gx::sim::machine_makers[static_cast<std::size_t>(which)]();
    } while (spec.machine.gpus > 8);
    spec.machines = std::max(1, 8 / spec.machine.gpus);
    const bool at_once = *rc::gen::inRange(0, 3) == 0;  // then much happens in one instant
    spec.latency = Nanoseconds(at_once ? 0 : *rc::gen::inRange(1, 50'000));
    spec.machine.peer_latency = Nanoseconds(at_once ? 0 : *rc::gen::inRange(1, 30'000));
    return spec;
}
ClusterSpec plain_cluster() {
    auto spec = gx::sim::plain_p3_16xlarge(*rc::gen::inRange(1, 5));
    spec.machine.gpus = spec.machines > 2 ? *rc::gen::inRange(1, 3) : *rc::gen::inRange(1, 5);
    spec.machine.nic_line_rate = {1e6 * *rc::gen::inRange(100, 5000)};
    spec.machine.host_bandwidth = {1e6 * *rc::gen::inRange(100, 5000)};
    spec.flow_cap = {1e6 * *rc::gen::inRange(0, 2000)};
    spec.latency = Nanoseconds(*rc::gen::inRange(0, 50'000));
    spec.machine.peer_latency = Nanoseconds(*rc::gen::inRange(0, 10'000));
    if (*rc::gen::inRange(0, 3) == 0)  // sums may be slower than links
        spec.machine.gpu.memory_bandwidth = {1e6 * *rc::gen::inRange(100, 20'000)};
    return spec;
}
ClusterSpec any_cluster() {
    return *rc::gen::inRange(0, 3) == 0 ? machines_that_are_sold() : plain_cluster();
}
template <class R>
class StepTimeOf : public ::testing::Test {};
using Reducers =
    ::testing::Types<gx::Ring<gx::fp32>, gx::Bucketed<gx::Ring<gx::fp16>, 1000>,
                     gx::MultiRing<4, gx::fp16>, gx::DoubleBuffered<gx::Ring<gx::fp32>>,
                     gx::DoubleBuffered<gx::Bucketed<gx::MultiRing<2, gx::fp16>, 4096>>,
                     gx::DoubleBuffered<gx::DoubleBuffered<gx::Ring<gx::fp16>>>, gx::Tree<gx::fp16>,
                     gx::HalvingDoubling<gx::fp32>, gx::Hierarchical<gx::fp16>,
                     gx::DoubleTree<3, gx::fp32>>;
TYPED_TEST_SUITE(StepTimeOf, Reducers);

TYPED_TEST(StepTimeOf, EqualsARunWithPayloadToTheNanosecond) {
    const bool holds = rc::check([] {
        const auto spec = any_cluster();
        const auto graph = small(*rc::gen::inRange(1, 60), *rc::gen::inRange(0, 5));
        const std::int64_t bucket = 4 * *rc::gen::inRange(0, 250);  // 0: what the reducer asks for
        const auto detail = *rc::gen::element(Detail::every_message, Detail::collapsed);
        const bool charged = *rc::gen::inRange(0, 4) > 0;
        const StepTiming t = gx::sim::step_time<TypeParam>(
            graph, spec,
            {.batch = 2,
             .bucket_bytes = bucket,
             .steps = 5,
             .detail = detail,
             .worth_simulating = std::numeric_limits<std::int64_t>::max(),
             .charge_reducer_kernels = charged});
        RC_ASSERT(!t.rounded);
        RC_ASSERT(t.ends == with_payload<TypeParam>(graph, spec, bucket, 5, {}, charged));
        // each message may end half a nanosecond early
        RC_ASSERT(!t.settled || t.step + Nanoseconds(std::int64_t(t.messages)) >= t.floor);
    });
    EXPECT_TRUE(holds);
}

TEST(StepTime, KernelsThatAreSlowedTakeAsLongAsWithPayload) {
    using R = gx::DoubleBuffered<gx::Bucketed<gx::MultiRing<2, gx::fp16>, 2048>>;
    const auto graph = small(50, 4);
    const auto spec = gx::sim::plain_p3_16xlarge(2);
    const gx::sim::Slowness each[] = {{.overlap = {0.25}},
                                      {.seed = 3, .compute_jitter = 0.2},
                                      {.seed = 3,
                                       .variation = {.gpu = gx::sim::Jitter::uniform(0.1),
                                                     .pass = gx::sim::Jitter::straggler(0.2, 3.0)}},
                                      {.seed = 5,
                                       .compute_jitter = 0.1,
                                       .variation = {.pass = gx::sim::Jitter::uniform(0.3)},
                                       .overlap = {0.5}}};
    const auto plain = gx::sim::step_time<R>(graph, spec, {.batch = 2, .steps = 6});
    for (const auto& slowness : each) {
        const auto t =
            gx::sim::step_time<R>(graph, spec, {.batch = 2, .steps = 6, .slowness = slowness});
        EXPECT_EQ(t.ends, with_payload<R>(graph, spec, 0, 6, slowness));
        EXPECT_NE(t.ends, plain.ends);
        if (!slowness.differs_by_rank()) continue;  // else a step is a sample, as it comes
        EXPECT_EQ(gx::sim::step_time<R>(graph, spec, {.batch = 2, .slowness = slowness}).ends,
                  t.ends);
    }
}

// ---- One machine for all -----------------------------------------------------------------
template <gx::Collective C>
void expect_the_same(const std::vector<C>& collectives, const ClusterSpec& spec) {
    const auto chunks = static_cast<std::int64_t>(collectives.size()) * spec.ranks();
    const std::int64_t bucket = chunks * *rc::gen::inRange(1, 400);
    const int buckets = *rc::gen::inRange(1, 5);
    StepWork w{.forward = Nanoseconds(*rc::gen::inRange(0, 1'000'000)),
               .backward = {},
               .update = Nanoseconds(*rc::gen::inRange(0, 100'000)),
               .elements = bucket * buckets,
               .ready = {}};
    for (std::int64_t mark = w.elements; mark > 0;) {
        mark = std::max<std::int64_t>(0, mark - *rc::gen::inRange<std::int64_t>(1, 2 * bucket));
        w.ready.push_back({w.backward += Nanoseconds(*rc::gen::inRange(0, 1'000'000)), mark});
    }
    const gx::KernelTraffic traffic{*rc::gen::inRange(0, 9), *rc::gen::inRange(0, 9)};
    const gx::sim::ReduceShape shape{
        *rc::gen::inRange(0, 3), bucket, 2, {*rc::gen::arbitrary<bool>(), traffic, false}};
    const std::span<const C> all(collectives);
    const auto whole = gx::sim::step_time(w, all, shape, spec, 5, Detail::every_message);
    const auto part = gx::sim::step_time(w, all, shape, spec, 5, Detail::collapsed);
    RC_ASSERT(part.collapsed && !part.rounded);
    RC_ASSERT(part.ends == whole.ends);
    RC_ASSERT(part.messages == whole.messages);
    RC_ASSERT(part.wire == whole.wire);
    RC_ASSERT(part.exposed == whole.exposed);
    RC_ASSERT(part.communication == whole.communication);
}
ClusterSpec larger_cluster() {
    auto spec = plain_cluster();
    spec.machines = *rc::gen::inRange(1, 12);
    spec.machine.gpus = *rc::gen::inRange(1, 9);
    return spec;
}
RC_GTEST_PROP(StepTime, OneMachineTakesTheTimeOfAllOnRings, ()) {
    const auto spec = larger_cluster();
    std::vector<Ring> rings;
    for (int k = *rc::gen::inRange(0, 3); k >= 0; --k)
        rings.push_back(gx::collective::machine_ring(spec.placement(), k));
    expect_the_same(rings, spec);
}
RC_GTEST_PROP(StepTime, OneMachineTakesTheTimeOfAllInAHierarchy, ()) {
    const auto spec = larger_cluster();
    expect_the_same(
        std::vector<gx::collective::Hierarchical>{gx::collective::Hierarchical(spec.placement())},
        spec);
}

// ---- Scale -------------------------------------------------------------------------------
TEST(StepTime, SixteenThousandGpusInLessThanAThousandMessages) {
    using R = gx::Bucketed<gx::Ring<gx::fp16>, 25'000'000>;
    const auto spec = gx::sim::plain_p3_16xlarge(2048);
    const auto t = gx::sim::step_time<R>(gx::graph<gx::ResNet50>(), spec,
                                         {.batch = 64, .precision = gx::sim::Precision::mixed});
    EXPECT_TRUE(t.collapsed && t.rounded && t.settled);
    EXPECT_LT(t.simulated, 1000u);
    EXPECT_EQ(t.messages, 3ull * 16384 * 2 * 16383) << "buckets, ranks, steps";
    EXPECT_GE(t.step, t.floor);
}

// ---- Bad input -----------------------------------------------------------------------------
TEST(StepTime, SaysWhichBatchFits) {
    try {
        (void)gx::sim::step_time<gx::Ring<>>(gx::graph<gx::ResNet50>(),
                                             gx::sim::plain_p3_16xlarge(1), {.batch = 1024});
        FAIL() << "1024 images at 224 px do not fit in 16 GB";
    } catch (const gx::Error& e) {
        EXPECT_NE(std::string(e.what()).find("a batch of 1024 images of ResNet50 does not fit"),
                  std::string::npos)
            << e.what();
    }
}
TEST(StepTimeDeathTest, NeedsABatchAndTwoStepsThatApply) {
    const auto graph = small(3, 1);
    EXPECT_DEATH((void)gx::sim::step_time<gx::Ring<>>(graph, two(), {}), "at least 1 image");
    EXPECT_DEATH((void)gx::sim::step_time<gx::DoubleBuffered<gx::Ring<>>>(graph, two(),
                                                                          {.batch = 1, .steps = 2}),
                 "two steps at least");
}

}  // namespace
