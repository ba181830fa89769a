#include <gx/core/clock.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>

namespace {

static_assert(gx::Clock<gx::archetype::Clock>);
static_assert(!gx::Clock<int>);

struct InSeconds {
    gx::Seconds now() const;
};
static_assert(!gx::Clock<InSeconds>, "sums of doubles depend on their order");
struct Changes {
    gx::Nanoseconds now();
};
static_assert(!gx::Clock<Changes>, "asking the time is const");

// A loop written against the concept, on the least clock there is.
struct Manual {
    gx::Nanoseconds time{};
    gx::Nanoseconds now() const { return time; }
};
double elapsed_seconds(const gx::Clock auto& clock, gx::Nanoseconds since) {
    return gx::seconds(clock.now() - since);
}
TEST(Clock, DifferencesAreTimes) {
    EXPECT_EQ(elapsed_seconds(Manual{gx::nanoseconds(2.5)}, gx::nanoseconds(1.0)), 1.5);
}

}  // namespace
