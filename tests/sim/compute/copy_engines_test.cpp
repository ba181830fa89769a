#include <gx/sim/compute/copy_engines.hpp>  // first, so the header is seen to stand alone

#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

using gx::Nanoseconds;
using gx::sim::CopyEngines;
using gx::sim::CopyTo;
using namespace gx::literals;

// ---- Cases worked by hand -----------------------------------------------------------
TEST(CopyEngines, CopiesOfOneWayWaitForEachOther) {
    CopyEngines engines(2, 10_GBps, 5_us);
    EXPECT_EQ(engines.submit(0_us, 1_MB, CopyTo::gpu), 105_us);
    EXPECT_EQ(engines.submit(20_us, 1_MB, CopyTo::gpu), 210_us) << "behind the first";
    EXPECT_EQ(engines.submit(20_us, 1_MB, CopyTo::host), 125_us) << "beside both";
    EXPECT_EQ(engines.submit(500_us, 2_MB, CopyTo::gpu), 705_us) << "the engine was idle";
}
TEST(CopyEngines, ASingleEngineCopiesOneWayAtATime) {
    CopyEngines engine(1, 10_GBps);
    EXPECT_EQ(engine.submit(0_us, 1_MB, CopyTo::gpu), 100_us);
    EXPECT_EQ(engine.submit(0_us, 1_MB, CopyTo::host), 200_us);
}

// ---- A property ---------------------------------------------------------------------
RC_GTEST_PROP(CopyEngines, MoreEnginesNeverEndLaterAndNoCopyBeatsTheLink, ()) {
    CopyEngines one(1, 10_GBps), five(5, 10_GBps);
    Nanoseconds now{};
    for (int i = *rc::gen::inRange(1, 20); i-- > 0;) {
        now += Nanoseconds(*rc::gen::inRange(0, 1'000'000));
        const gx::Bytes bytes{*rc::gen::inRange<std::int64_t>(0, 10'000'000)};
        const CopyTo to = *rc::gen::element(CopyTo::gpu, CopyTo::host);
        const Nanoseconds slow = one.submit(now, bytes, to), fast = five.submit(now, bytes, to);
        RC_ASSERT(fast <= slow);
        RC_ASSERT(fast >= now + bytes / 10_GBps);
    }
}

}  // namespace
