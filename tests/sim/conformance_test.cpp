// Reducers keep their promises in the simulated world, and give the bits that threads give.
#include <gx/testing/conformance.hpp>

#include <gtest/gtest.h>

#include <gx/reducer/bucketed.hpp>         // Bucketed
#include <gx/reducer/double_buffered.hpp>  // DoubleBuffered
#include <gx/reducer/multi_ring.hpp>       // MultiRing
#include <gx/sim/cluster.hpp>              // Cluster
#include <gx/sim/machines.hpp>             // p3_16xlarge
#include <gx/sim/race_watch.hpp>           // detect_races

namespace {

using gx::testing::Findings;

/// Runs a rank function on simulated machines of any placement.
struct OnCluster {
    template <class F>
    void operator()(gx::Placement placement, F f) const {
        auto spec = gx::sim::p3_16xlarge(placement.machines);
        spec.machine.gpus = placement.ranks_per_machine;
        gx::sim::Cluster<>(spec, {.detect_races = true}).run(f);
    }
};

std::string told(const Findings& findings) {
    std::string text;
    for (const auto& f : findings) text += f.check + ": " + f.sentence + "\n";
    return text;
}

template <class R>
class OnSimulatedMachines : public ::testing::Test {};
using Reducers =
    ::testing::Types<gx::Ring<gx::fp32>, gx::Ring<gx::fp16>, gx::MultiRing<4, gx::fp16>,
                     gx::MultiRing<3, gx::fp32>, gx::Bucketed<gx::MultiRing<2, gx::fp16>, 32>,
                     gx::DoubleBuffered<gx::MultiRing<4, gx::fp16>>>;
TYPED_TEST_SUITE(OnSimulatedMachines, Reducers);

TYPED_TEST(OnSimulatedMachines, ReducersConform) {
    EXPECT_EQ(told(gx::testing::check<TypeParam>(OnCluster{})), "");
}
TYPED_TEST(OnSimulatedMachines, BitsAreThoseOfThreads) {
    Findings findings;
    gx::testing::check_worlds<TypeParam>(gx::testing::OnThreads{}, OnCluster{}, 1, findings);
    EXPECT_EQ(told(findings), "");
}

}  // namespace
