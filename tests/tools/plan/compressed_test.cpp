#include <tools/plan/compressed.hpp>

#include <cmath>   // abs
#include <vector>  // rows

#include <gtest/gtest.h>

#include <gx/reducer/ring.hpp>                 // Ring
#include <gx/reflect/options_of.hpp>           // make_policy
#include <gx/sim/catalog/simple_clusters.hpp>  // ethernet_10g
#include <gx/sim/world/cluster.hpp>            // Cluster

namespace {

using gx::Nanoseconds;
using gx::sim::ClusterSpec;
using gx::sim::StepWork;
using gx::tools::plan::ReducerChoice;

constexpr std::int64_t elements = 1 << 20;

/// A gradient that is there at once.
StepWork gradient() { return {.elements = elements, .ready = {{Nanoseconds(0), 0}}}; }

/// Virtual time of R's reduction of whole gradients, with data.
template <class R>
Nanoseconds reduced(const ClusterSpec& spec, gx::options_of<R> options = {}) {
    gx::sim::Cluster<> world(spec);
    world.run([&](auto& rank) {
        std::vector<float> row(elements, static_cast<float>(rank.rank() + 1));
        R reducer = gx::make_policy<R>(options);
        reducer.reserve(gx::ReducePlan::whole(spec.placement(), elements));
        EXPECT_TRUE(reducer.all_reduce(rank.transport(), gx::Bucket(std::span(row))).complete());
    });
    return world.elapsed();
}
double apart_pct(Nanoseconds a, Nanoseconds b) {
    return 100 * std::abs(gx::seconds(a) / gx::seconds(b) - 1);
}

// ---- A step that only communicates, against the reducer itself ------------------------------
TEST(Compressed, TakesTheTimeOfTheReducer) {
    for (const int n : {2, 4, 8}) {
        const ClusterSpec spec = gx::sim::ethernet_10g(n);
        const auto timed = [&](const ReducerChoice& c) {
            return c.time(gradient(), spec, gx::Bytes{0}).step;
        };
        EXPECT_LT(apart_pct(timed(gx::tools::plan::top_k_choice<10>()),
                            reduced<gx::TopK>(spec, {.share = 0.01})),
                  2)
            << n;
        EXPECT_LT(apart_pct(timed(gx::tools::plan::quantized_choice<8>()),
                            reduced<gx::Quantized<8>>(spec)),
                  2)
            << n;
        EXPECT_LT(apart_pct(timed(gx::tools::plan::quantized_choice<4>()),
                            reduced<gx::Quantized<4>>(spec)),
                  2)
            << n;
    }
}

// ---- Kernels ------------------------------------------------------------------------------
TEST(Compressed, PaysForItsKernels) {
    // Links so fast that kernels are what is left: a selection reads and writes 32 bytes a value.
    ClusterSpec spec = gx::sim::ethernet_10g(2);
    spec.machine.nic_line_rate = spec.machine.host_bandwidth = {1e15};
    spec.latency = Nanoseconds(0);
    const auto c = gx::tools::plan::top_k_choice<10>();
    const gx::sim::VectorKernels kernels(spec.machine.gpu);
    EXPECT_GE(c.time(gradient(), spec, gx::Bytes{0}).step, kernels.time({44 * elements}));
    const ClusterSpec one = gx::sim::ethernet_10g(1);
    EXPECT_EQ(c.time(gradient(), one, gx::Bytes{0}).step.count(), 0) << "nothing is sent";
}

// ---- Buckets are whole when those of the gradient are --------------------------------------
TEST(Compressed, SendsBucketsAsTheyBecomeWhole) {
    const StepWork work{.elements = 1000, .ready = {{Nanoseconds(1), 650}, {Nanoseconds(2), 0}}};
    const gx::tools::plan::SentWork sent(work, 300, [](std::int64_t n) { return (n + 9) / 10; });
    EXPECT_EQ(sent.bucket, 30);
    EXPECT_EQ(sent.work.elements, 100);
    EXPECT_EQ(sent.work.ready[0].watermark, 70) << "one bucket of 300 lies above 650";
    EXPECT_EQ(sent.work.ready[1].watermark, 0);
}

// ---- A mean now and then --------------------------------------------------------------------
TEST(Compressed, LocalStepsShareAMean) {
    using R = gx::Ring<gx::fp32>;
    const ClusterSpec spec = gx::sim::ethernet_10g(4);
    StepWork work = gradient();
    work.forward = work.backward = Nanoseconds(1'000'000);
    const auto four = gx::tools::plan::local_choice<R, 4>("fp32", gx::sim::Algorithm::ring);
    EXPECT_EQ(four.name, "LocalSgd<Ring<fp32>, 4>");
    const auto t = four.time(work, spec, gx::Bytes{0});
    EXPECT_EQ(t.step, work.total() + t.exposed);
    EXPECT_LT(apart_pct(4 * t.exposed, reduced<R>(spec)), 0.1);
}

}  // namespace
