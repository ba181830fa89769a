#include <gx/reducer/native_all_reduce.hpp>

#include <vector>  // buckets

#include <gtest/gtest.h>

#include <gx/threads/mailbox.hpp>  // Endpoint

namespace {

using gx::detail::threads::Endpoint;
using gx::detail::threads::Mailbox;

struct Library : gx::NativeAllReduce<gx::fp32, gx::DivideSplit> {
    [[nodiscard]] static std::string name() { return spelled("Library<"); }
};
static_assert(gx::Reducer<Library>);

/// One rank, whose library adds as if a second one had the same values.
struct Doubling : gx::TransportOver<Endpoint> {
    using TransportOver::TransportOver;
    template <gx::Element E>
    gx::Delivery all_reduce(std::span<float> values) {
        for (float& x : values) x += x;
        return {};
    }
};

TEST(NativeAllReduce, IsOneCallOfTheTransportsOwn) {
    Mailbox mailbox({1, 1}, std::chrono::seconds(1));
    Endpoint endpoint(mailbox, 0);
    Library library;
    library.reserve(gx::ReducePlan::whole({1, 1}, 3));
    std::vector<float> bucket{1, 2, -3};
    Doubling link(endpoint);
    const gx::ReduceReport report = library.all_reduce(link, bucket);
    EXPECT_EQ(bucket, (std::vector<float>{2, 4, -6}));
    EXPECT_TRUE(report.complete());
    EXPECT_EQ(report.steps, 1);
    EXPECT_EQ(report.bytes_sent, 12);
    EXPECT_TRUE(library.all_reduce(endpoint, bucket).complete());
    EXPECT_EQ(bucket, (std::vector<float>{2, 4, -6})) << "elsewhere a ring's, here of one rank";
}
TEST(NativeAllReduceDeathTest, KnowsHowMuchItWasToldToReserve) {
    Mailbox mailbox({1, 1}, std::chrono::seconds(1));
    Endpoint endpoint(mailbox, 0);
    Doubling link(endpoint);
    Library library;
    library.reserve(gx::ReducePlan::whole({1, 1}, 3));
    std::vector<float> bucket(4);
    EXPECT_DEATH((void)library.all_reduce(link, bucket), "larger than was reserved");
}

}  // namespace
