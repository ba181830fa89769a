#include <gx/trainer/rank/course.hpp>  // first, so the header is seen to stand alone

#include <vector>  // starts

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

using gx::detail::trainer::Course;

// ---- A case worked by hand ----------------------------------------------------------
TEST(Course, BeginsWithinAnEpoch) {  // epochs of 37, from image 16 on in steps of 6
    constexpr Course c{.images = 37, .global_batch = 6, .first_step = 2, .first_image = 16};
    const std::vector<std::int64_t> starts{16, 22, 28, 34, 37, 43, 49, 55, 61, 67, 73, 74};
    for (std::size_t i = 0; i < starts.size(); ++i)
        EXPECT_EQ(c.image_of(2 + std::int64_t(i)), starts[i]) << i;
    EXPECT_EQ(c.schedule_step(2), 2) << "image 16 is in step 2 of steps of 6";
    EXPECT_EQ(c.schedule_step(6), 7) << "the first step of the second epoch";
}

// ---- Properties ---------------------------------------------------------------------
RC_GTEST_PROP(Course, FromTheStartIsAsASchedule, ()) {
    const Course c{.images = *rc::gen::inRange(1, 60), .global_batch = *rc::gen::inRange(1, 70)};
    for (std::int64_t step = 0; step < 50; ++step) RC_ASSERT(c.schedule_step(step) == step);
}
RC_GTEST_PROP(Course, StepsFollowEachOtherAndEpochsEndThem, ()) {
    const std::int64_t images = *rc::gen::inRange(1, 60);
    const Course c{.images = images,
                   .global_batch = *rc::gen::inRange(1, 70),
                   .first_step = *rc::gen::inRange(0, 9),
                   .first_image = *rc::gen::inRange<std::int64_t>(0, 3 * images)};
    RC_ASSERT(c.image_of(c.first_step) == c.first_image);
    for (std::int64_t step = c.first_step; step < c.first_step + 40; ++step) {
        const std::int64_t begin = c.image_of(step), end = c.image_of(step + 1);
        const std::int64_t epoch_end = (begin / images + 1) * images;
        RC_ASSERT(end == std::min(begin + c.global_batch, epoch_end));
        RC_ASSERT(c.schedule_step(step + 1) > c.schedule_step(step));
        const Course later{c.images, c.global_batch, step, begin};
        RC_ASSERT(later.image_of(step + 1) == end);  // from wherever it begins
    }
}

}  // namespace
