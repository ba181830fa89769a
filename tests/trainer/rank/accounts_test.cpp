#include <gx/trainer/rank/accounts.hpp>

#include <cmath>  // isnan

#include <gtest/gtest.h>

namespace {

using gx::Breakdown;
using gx::RunRecord;
using gx::detail::trainer::Accounts;
using std::chrono::seconds;

TEST(Accounts, AddUpToTheTimeWithTheRestIdle) {
    Accounts a{.price = {3600.0}};
    a.add(&Breakdown::input, seconds(0), seconds(1), "INPUT", 0);
    const auto now = a.add(&Breakdown::compute, seconds(1), seconds(4), "FORWARD", 0);
    EXPECT_EQ(now, seconds(4));
    a.seconds = 6;
    RunRecord r;
    a.write(r);
    EXPECT_EQ(r.breakdown.input, 1);
    EXPECT_EQ(r.breakdown.compute, 3);
    EXPECT_EQ(r.breakdown.idle, 2);
    EXPECT_EQ(r.seconds, 6);
    EXPECT_DOUBLE_EQ(r.dollars, 6);
}

TEST(Accounts, GoOnWithTheTimeAndDollarsOfACheckpoint) {
    gx::Checkpoint c;
    c.seconds = 10, c.undisturbed_seconds = 5, c.dollars = 2.5, c.timed_images = 64;
    Accounts a{.price = {3600.0}};
    a.resume(c);
    a.seconds += 1;  // only this part is paid at this world's price
    EXPECT_DOUBLE_EQ(a.dollars(), 3.5);
    RunRecord r;
    a.write(r);
    EXPECT_EQ(r.seconds, 11);
    EXPECT_EQ(r.undisturbed_seconds, 5);
    EXPECT_EQ(r.images, 64);
}

TEST(Accounts, HaveNoSumOverTwoClocks) {
    gx::Checkpoint c;
    c.seconds = 10, c.timed_images = 64;
    Accounts a{.mixed_clocks = true};
    a.resume(c);
    EXPECT_EQ(a.seconds, 0);
    RunRecord r;
    a.write(r);
    EXPECT_TRUE(std::isnan(r.seconds));
    EXPECT_TRUE(std::isnan(r.dollars));
    EXPECT_TRUE(std::isnan(r.breakdown.idle));
    EXPECT_EQ(r.images, 64);
}

TEST(Accounts, KeepSpansWhileTracing) {
    Accounts a{.rank = 2};
    a.add(&Breakdown::compute, seconds(0), seconds(1), "FORWARD", 0);
    a.trace(true, seconds(1));
    a.add(&Breakdown::compute, seconds(1), seconds(2), "BACKWARD", 7);
    a.trace(false, seconds(2));
    RunRecord r;
    a.write(r);
    a.write(r);
    ASSERT_EQ(r.spans.size(), 1U);
    EXPECT_EQ(r.spans[0].name.view(), "BACKWARD");
    EXPECT_EQ(r.spans[0].rank, 2);
    EXPECT_EQ(r.spans[0].index, 7);
}

TEST(Accounts, GiveSpansToTheWorldsSink) {
    gx::TraceSink sink;
    sink.recording = false;
    Accounts first{.rank = 0, .sink = &sink}, other{.rank = 1, .sink = &sink};
    first.trace(true, seconds(0));
    other.add(&Breakdown::compute, seconds(0), seconds(1), "UPDATE", 0);  // not yet
    EXPECT_TRUE(sink.spans.empty());
    other.trace(true, seconds(1));
    first.trace(false, seconds(1));
    other.add(&Breakdown::input, seconds(1), seconds(2), "INPUT", 1);
    first.add(&Breakdown::input, seconds(1), seconds(2), "INPUT", 1);
    ASSERT_EQ(sink.spans.size(), 1U);
    EXPECT_EQ(sink.spans[0].rank, 1);
    EXPECT_TRUE(other.spans.empty());
}

}  // namespace
