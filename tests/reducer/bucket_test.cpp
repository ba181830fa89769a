#include <gx/reducer/bucket.hpp>
#include <gx/reducer/bucket_slices.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

using gx::Bucket;
using gx::ParameterSlice;

/// Slices of random lengths one after the other, gaps between some.
std::vector<ParameterSlice> random_slices() {
    std::vector<ParameterSlice> slices;
    std::size_t end = 0;
    for (int n = *rc::gen::inRange(0, 8), p = 0; p < n; ++p) {
        const auto offset = end + *rc::gen::inRange<std::size_t>(0, 3);
        const auto count = *rc::gen::inRange<std::size_t>(1, 9);
        slices.push_back({offset, count, p});
        end = offset + count;
    }
    return slices;
}

RC_GTEST_PROP(Bucket, HasTheSlicesThatMeetIt, ()) {
    const auto slices = random_slices();
    const auto begin = *rc::gen::inRange<std::int64_t>(0, 60);
    const auto end = begin + *rc::gen::inRange<std::int64_t>(1, 30);
    std::vector<int> meet, found;
    for (const ParameterSlice& s : slices)
        for (std::size_t e = s.offset; e < s.offset + s.count; ++e)
            if (std::int64_t(e) >= begin && std::int64_t(e) < end &&
                (meet.empty() || meet.back() != s.parameter))
                meet.push_back(s.parameter);
    for (const ParameterSlice& s : Bucket::slices_in(slices, begin, end))
        found.push_back(s.parameter);
    RC_ASSERT(found == meet);
}

TEST(Bucket, PartsKeepTheirPlace) {
    std::vector<float> values(10);
    const std::vector<ParameterSlice> slices{{0, 104, 0}, {104, 3, 1}, {107, 50, 2}};
    Bucket b(values);
    b.offset = 100;
    b.index = 2;
    b.count = 5;
    b.gradient = 9;
    b.loss_scale = 64;
    b.slices = slices;
    const Bucket part = b.part(5, 2);  // elements 105 and 106
    EXPECT_EQ(part.data(), values.data() + 5);
    EXPECT_EQ(part.size(), 2u);
    EXPECT_EQ(part.offset, 105);
    EXPECT_EQ(part.index, 2);
    EXPECT_EQ(part.count, 5);
    EXPECT_EQ(part.gradient, 9u);
    EXPECT_EQ(part.loss_scale, 64);
    ASSERT_EQ(part.slices.size(), 1u);
    EXPECT_EQ(part.slices[0].parameter, 1);
    EXPECT_TRUE(b.part(10, 0).empty());
}

// 20 elements in buckets of 8 from the end: [12, 20), [4, 12), [0, 4); slices in any order.
TEST(BucketSlices, CountFromTheEndOfTheVector) {
    const std::vector<ParameterSlice> slices{{15, 5, 2}, {0, 6, 0}, {6, 9, 1}};
    const gx::detail::reducer::BucketSlices buckets(slices, 20, 8);
    const auto parameters = [](std::span<const ParameterSlice> some) {
        std::vector<int> list;
        for (const ParameterSlice& s : some) list.push_back(s.parameter);
        return list;
    };
    EXPECT_EQ(parameters(buckets.all()), (std::vector{0, 1, 2}));
    EXPECT_EQ(parameters(buckets.of(0)), (std::vector{1, 2}));
    EXPECT_EQ(parameters(buckets.of(1)), (std::vector{0, 1}));
    EXPECT_EQ(parameters(buckets.of(2)), (std::vector{0}));
}

}  // namespace
