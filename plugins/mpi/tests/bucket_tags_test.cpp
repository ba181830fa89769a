// Tags that tell a message's bucket: hand-worked cases, and a property.
#include <limits>
#include <optional>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/mpi/bucket_tags.hpp>

namespace {

gx::MessageBucket bucket_of(std::int64_t step, int index) {
    return gx::MessageBucket({"all-reduce", step, index});
}
constexpr int least_tag_max = 32'767, largest_tag_max = std::numeric_limits<int>::max();

TEST(MpiBucketTags, AreStepAndIndexModuloWhatFits) {
    const gx::mpi::BucketTags narrow(least_tag_max), wide(largest_tag_max);
    EXPECT_EQ(narrow.tag_of({}), 0);
    EXPECT_EQ(narrow.tag_of(bucket_of(0, 0)), 1);
    EXPECT_EQ(narrow.tag_of(bucket_of(1, 2)), 131);
    EXPECT_EQ(narrow.tag_of(bucket_of(254, 127)), 255 * 128);
    EXPECT_EQ(narrow.tag_of(bucket_of(255, 128)), 1);
    EXPECT_EQ(wide.tag_of(bucket_of(1, 2)), 1027);
    EXPECT_EQ(wide.tag_of(bucket_of(2'097'150, 1'023)), 2'097'151 * 1'024);

    EXPECT_EQ(narrow.other_than(bucket_of(1'000, 1), 0), std::nullopt) << "a message of none";
    EXPECT_EQ(narrow.other_than({}, 5), std::nullopt) << "a receive of none";
    const auto other = narrow.other_than(bucket_of(254, 1), narrow.tag_of(bucket_of(256, 0)));
    EXPECT_EQ(other, bucket_of(256, 0)) << "beyond where tags begin anew";
    EXPECT_EQ(narrow.other_than(bucket_of(7, 300), narrow.tag_of(bucket_of(7, 301))),
              bucket_of(7, 301))
        << "beyond the indices of tags";
    EXPECT_EQ(narrow.other_than(bucket_of(2, 1), narrow.tag_of(bucket_of(254, 1))),
              bucket_of(254, 1))
        << "no step is before 0";
}
TEST(MpiBucketTags, TellTheNearestIndex) {
    const gx::mpi::BucketTags narrow(least_tag_max), wide(largest_tag_max);
    for (const auto& [receive, send] : {std::pair{1'024, 1'023}, {1'023, 1'024}, {0, 1'000}}) {
        const int tag = wide.tag_of(bucket_of(7, send));
        EXPECT_EQ(wide.other_than(bucket_of(7, receive), tag), bucket_of(7, send));
    }
    EXPECT_EQ(narrow.other_than(bucket_of(7, 127), narrow.tag_of(bucket_of(7, 128))),
              bucket_of(7, 128));
}
RC_GTEST_PROP(MpiBucketTags, TellTheBucketOfAStepNearby, ()) {
    const int tag_max = *rc::gen::element(least_tag_max, 8'388'607, largest_tag_max);
    const gx::mpi::BucketTags tags(tag_max);
    const auto step = *rc::gen::inRange<std::int64_t>(0, std::int64_t{1} << 36);
    const auto other_step = std::max<std::int64_t>(0, step + *rc::gen::inRange(-127, 128));
    const int index = *rc::gen::inRange(0, 5'000);
    const auto receive = bucket_of(step, index);
    const auto send = bucket_of(other_step, std::max(0, index + *rc::gen::inRange(-63, 64)));
    const int tag = tags.tag_of(send);
    RC_ASSERT(tag > 0 && tag <= tag_max);
    const auto told = tags.other_than(receive, tag);
    RC_ASSERT(told.has_value() == !(send == receive));
    if (told) RC_ASSERT(*told == send);
}

}  // namespace
