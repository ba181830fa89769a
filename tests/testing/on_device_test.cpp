// Checks and mutants of host memory, on reducers whose buckets lie in far memory.
#include <gx/testing/on_device.hpp>

#include <cstdint>

#include <gtest/gtest.h>

#include <gx/reducer/multi_ring.hpp>
#include <gx/testing/conformance.hpp>
#include <gx/testing/far/world.hpp>
#include <gx/testing/mutants.hpp>

namespace {

using namespace gx;
using namespace gx::testing;

struct OnFar {
    std::uint64_t seed = 1;
    template <class F>
    void operator()(Placement placement, F f) const {
        FarWorld<>({.placement = placement, .seed = seed}).run(f);
    }
    [[nodiscard]] OnFar reordered(std::uint64_t s) const { return {s}; }
};
template <class R>
using Far = OnDevice<R, FarWorld<>::Rank>;
using R = MultiRing<2, fp16>;
static_assert(Reducer<Far<R>> && Far<R>::channels == 2);

TEST(OnDevice, ConformsAsOnThreads) {
    const ConformanceReport report = check<Far<R>>(OnFar{});
    EXPECT_TRUE(report.empty()) << report.text();
    EXPECT_TRUE(report.skipped.empty());
    EXPECT_GT(report.messages, 1000) << "groups of the device's transport are counted";
}
TEST(OnDevice, HasTheBitsOfThreads) {
    ConformanceReport report;
    check_worlds<Far<R>>(OnThreads{}, OnFar{}, 1, report);
    EXPECT_TRUE(report.empty()) << report.text();
}
TEST(OnDevice, SeededBugsAroundItAreRejected) {
    ConformanceReport means;
    check_means<IgnorePeers<Far<R>>>(OnFar{}, 1, means);
    EXPECT_TRUE(means.rejected_by("mean"));
    ConformanceReport report;
    check_agreement<MisreportTraffic<Far<R>>>(OnFar{}, 1, report);
    EXPECT_TRUE(report.rejected_by("traffic"));
    report = {};
    check_lost_rank<ClaimComplete<Far<R>>>(OnFar{}, 1, report);
    EXPECT_TRUE(report.rejected_by("lost rank"));
}

}  // namespace
