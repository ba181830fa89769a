#include <gx/sim/compute/vector_kernels.hpp>  // first, so the header is seen to stand alone

#include <algorithm>  // max

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/sim/catalog/find_gpu.hpp>      // known_gpus
#include <gx/sim/catalog/find_machine.hpp>  // machine_makers
#include <gx/sim/catalog/gpus.hpp>          // v100
#include <gx/sim/network/network.hpp>       // FlowNetwork
#include <gx/sim/topology/topology.hpp>     // Topology

namespace {

using namespace gx::literals;
using gx::Nanoseconds;
using gx::sim::VectorKernels;

/// 100 bytes a nanosecond, half of them achieved; a kernel every 3 us.
gx::sim::GpuSpec simple() {
    gx::sim::GpuSpec gpu;
    gpu.memory_bandwidth = 100_GBps;
    gpu.efficiency_fp32.memory = 0.5;
    gpu.efficiency_mixed.memory = 0.25;
    gpu.launch = 3_us;
    return gpu;
}

// ---- Cases worked by hand -----------------------------------------------------------
static_assert(VectorKernels({.memory_bandwidth = gx::BytesPerSecond{1e9}}).time({8}).count() == 8);
TEST(VectorKernels, ByHand) {
    const VectorKernels kernels(simple());
    EXPECT_EQ(kernels.time({50'000}), 3_us + 1_us) << "a launch, then 50 bytes a ns";
    EXPECT_EQ(kernels.time({1}), 3_us) << "rounded to the nearest nanosecond";
    EXPECT_EQ(kernels.time({0}).count(), 0) << "there is no kernel";
    EXPECT_NEAR(kernels.fused_rate().count, 50e9 / 3, 1);
}
TEST(VectorKernels, NeedNoChargeForOperations) {
    const auto expect_enough = [](const gx::sim::GpuSpec& gpu) {
        EXPECT_GE(gpu.fp32.count / gpu.memory_bandwidth.count, 9.0) << gpu.name.view();
    };
    for (const gx::sim::GpuSpec& gpu : gx::sim::known_gpus) expect_enough(gpu);
    for (const auto make : gx::sim::machine_makers) expect_enough(make().gpu);
}
TEST(VectorKernelsDeathTest, MovesAtLeastNothing) {
    EXPECT_DEATH((void)VectorKernels(simple()).time({-1}), "at least 0 bytes");
}

// ---- Properties ---------------------------------------------------------------------
RC_GTEST_PROP(VectorKernels, TimeGrowsWithTraffic, ()) {
    const VectorKernels kernels(simple());
    const auto less = *rc::gen::inRange<std::int64_t>(1, 1'000'000'000);
    const auto more = less + *rc::gen::inRange<std::int64_t>(50, 1'000'000'000);
    RC_ASSERT(kernels.time({less}) < kernels.time({more}));
    RC_ASSERT(kernels.time({less + more}) <
              kernels.time({less}) + kernels.time({more}));  // one launch is saved
}

// Sums inside of collectives are as fast as every link that is sold, so none of them is slower for
// what VectorKernels charges.
TEST(VectorKernels, MachinesSumFasterThanTheirLinks) {
    for (const auto& make : gx::sim::machine_makers) {
        gx::sim::ClusterSpec spec{.name = "two", .fabric = gx::sim::rails()};
        spec.machine = make();
        spec.machines = 2;
        gx::sim::Engine engine;
        gx::sim::FlowNetwork network(engine);
        const gx::sim::Topology topology(spec, network);
        EXPECT_GT(VectorKernels(spec.machine.gpu).fused_rate().count,
                  network.largest_capacity().count)
            << spec.machine.name.view();
    }
}

}  // namespace
