#include <gx/core/detail/sleep.hpp>

#include <thread>

#include <gtest/gtest.h>

namespace {

using gx::detail::Patience;
using gx::detail::sleep_until;

TEST(SleepUntil, EndsThoughItsNotificationIsLost) {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    std::jthread other([&] {
        const std::lock_guard lock(mutex);
        done = true;  // and no notification
    });
    std::unique_lock lock(mutex);
    sleep_until(changed, lock, [&] { return done; });
    EXPECT_TRUE(done);
}
TEST(SleepUntil, SaysWhetherItWasDone) {
    std::mutex mutex;
    std::condition_variable changed;
    std::unique_lock lock(mutex);
    Patience none(std::chrono::nanoseconds(0));
    EXPECT_TRUE(sleep_until(changed, lock, none, [] { return true; }));
    EXPECT_FALSE(sleep_until(changed, lock, none, [] { return false; }));
    EXPECT_TRUE(lock.owns_lock());
}

}  // namespace
