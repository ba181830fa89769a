// The conformance program of one plugin: its reducers on threads and on a simulated cluster, where
// they end with the same bits; and seeded bugs around each of them, which must be rejected.
#include GX_PLUGIN_REDUCERS

#include <gtest/gtest.h>

#include <gx/sim/testing/on_cluster.hpp>
#include <gx/testing/conformance.hpp>
#include <gx/testing/mutants.hpp>

namespace {

using gx::sim::OnCluster;
using gx::testing::ConformanceReport;
using gx::testing::OnThreads;

static_assert(ReducersUnderTest::count > 0, "a plugin's list of reducers is empty");

template <class R, class Worlds>
void expect_conformance(const Worlds& on, const char* world) {
    const ConformanceReport report = gx::testing::check<R>(on);
    std::printf("%s on %s: %s\n", gx::reducer_name<R>().c_str(), world, report.summary().c_str());
    EXPECT_TRUE(report.empty()) << report.text();
    EXPECT_TRUE(report.skipped.empty());
    EXPECT_GT(report.values, 1000);
}

template <class R>
class PluginOnThreads : public ::testing::Test {};
TYPED_TEST_SUITE(PluginOnThreads, ReducersUnderTest::as<::testing::Types>);
TYPED_TEST(PluginOnThreads, Conforms) { expect_conformance<TypeParam>(OnThreads{}, "threads"); }

TYPED_TEST(PluginOnThreads, SeededBugsAreRejected) {
    using R = TypeParam;
    if (gx::accuracy<R>() == gx::Accuracy::rounded) {
        ConformanceReport report;
        gx::testing::check_means<gx::testing::IgnorePeers<R>>(OnThreads{}, 1, report);
        EXPECT_TRUE(report.rejected_by("mean"));
        report = {};
        gx::testing::check_means<gx::testing::DropLastChunk<R>>(OnThreads{}, 1, report);
        EXPECT_TRUE(report.rejected_by("mean"));
    }
    ConformanceReport report;
    gx::testing::check_lost_rank<gx::testing::ClaimComplete<R>>(OnThreads{}, 1, report);
    EXPECT_TRUE(report.rejected_by("lost rank"));
}

template <class R>
class PluginOnCluster : public ::testing::Test {};
TYPED_TEST_SUITE(PluginOnCluster, ReducersUnderTest::as<::testing::Types>);
TYPED_TEST(PluginOnCluster, Conforms) {
    expect_conformance<TypeParam>(OnCluster{}, "a simulated cluster");
}
TYPED_TEST(PluginOnCluster, EndsWithTheBitsOfThreads) {
    ConformanceReport report;
    gx::testing::check_worlds<TypeParam>(OnThreads{}, OnCluster{}, 1, report);
    EXPECT_TRUE(report.empty()) << report.text();
}

}  // namespace
