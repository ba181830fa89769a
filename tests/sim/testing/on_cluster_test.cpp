// Reducers keep their promises in the simulated world, with the bits of threads.
#include <gx/sim/testing/on_cluster.hpp>

#include <set>

#include <gtest/gtest.h>

#include <gx/reducer/bucketed.hpp>         // Bucketed
#include <gx/reducer/double_buffered.hpp>  // DoubleBuffered
#include <gx/reducer/multi_ring.hpp>       // MultiRing
#include <gx/testing/conformance.hpp>      // check
#include <gx/testing/error_feedback.hpp>   // ErrorFeedback
#include <support/order_of_arrival.hpp>    // order_of_arrival

namespace {

using gx::sim::OnCluster;
using gx::testing::ConformanceReport;

// ---- A case worked by hand: the order of arrival -----------------------------------------
/// Of one message from each of ranks 1 to 4.
std::vector<int> arrivals(const auto& on) {
    return testing_support::order_of_arrival(on, {5, 1}, 1);
}
TEST(Reordered, EachSeedHasItsOrder) {
    std::set<std::vector<int>> on_cluster, on_threads;
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
        EXPECT_EQ(arrivals(OnCluster{}.reordered(seed)), arrivals(OnCluster{}.reordered(seed)));
        const gx::testing::OnThreads threads;
        EXPECT_EQ(arrivals(threads.reordered(seed)), arrivals(threads.reordered(seed)));
        on_cluster.insert(arrivals(OnCluster{}.reordered(seed)));
        on_threads.insert(arrivals(threads.reordered(seed)));
    }
    EXPECT_GT(on_cluster.size(), 12u) << "of 24";
    EXPECT_GT(on_threads.size(), 12u) << "of 24";
    EXPECT_EQ(arrivals(OnCluster{}), (std::vector<int>{1, 2, 3, 4}));
}

// ---- Every reducer of the core conforms --------------------------------------------------
template <class R>
class OnSimulatedMachines : public ::testing::Test {};
using Reducers =
    ::testing::Types<gx::Ring<gx::fp32>, gx::Ring<gx::fp16>, gx::MultiRing<4, gx::fp16>,
                     gx::MultiRing<3, gx::fp32>, gx::Bucketed<gx::MultiRing<2, gx::fp16>, 32>,
                     gx::DoubleBuffered<gx::MultiRing<4, gx::fp16>>,
                     gx::testing::ErrorFeedback<gx::Ring<gx::fp32>>,
                     gx::testing::StochasticRounding<gx::Ring<gx::fp32>>>;
TYPED_TEST_SUITE(OnSimulatedMachines, Reducers);

TYPED_TEST(OnSimulatedMachines, ReducersConform) {
    const ConformanceReport report = gx::testing::check<TypeParam>(OnCluster{});
    std::printf("%s on a simulated cluster: %s\n", gx::reducer_name<TypeParam>().c_str(),
                report.summary().c_str());
    EXPECT_TRUE(report.empty()) << report.text();
    EXPECT_TRUE(report.skipped.empty());
    EXPECT_GT(report.values, 1000);
}
TYPED_TEST(OnSimulatedMachines, BitsAreThoseOfThreads) {
    ConformanceReport report;
    gx::testing::check_worlds<TypeParam>(gx::testing::OnThreads{}, OnCluster{}, 1, report);
    EXPECT_TRUE(report.empty()) << report.text();
}

}  // namespace
