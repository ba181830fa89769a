#include <gx/trainer/rank/course.hpp>  // first, so the header is seen to stand alone

#include <algorithm>  // min
#include <vector>     // starts

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

using gx::detail::trainer::Course;
using gx::detail::trainer::Timetable;

// ---- Cases worked by hand -----------------------------------------------------------
TEST(Course, BeginsWithinAnEpoch) {  // epochs of 37, from image 16 on in steps of 6
    const Course c{.timetable{37, {{0, 6}}}, .first_step = 2, .first_image = 16};
    const std::vector<std::int64_t> starts{16, 22, 28, 34, 37, 43, 49, 55, 61, 67, 73, 74};
    for (std::size_t i = 0; i < starts.size(); ++i)
        EXPECT_EQ(c.image_of(2 + std::int64_t(i)), starts[i]) << i;
    EXPECT_EQ(c.schedule_step(2), 2) << "image 16 is in step 2 of steps of 6";
    EXPECT_EQ(c.schedule_step(6), 7) << "the first step of the second epoch";
}
TEST(Course, ChangesItsStepsWithThePhase) {  // epochs of 20 in steps of 6, the second in those of 9
    const Course c{.timetable{20, {{0, 6}, {1, 9}, {2, 12}}}, .first_step = 5, .first_image = 17};
    const std::vector<std::int64_t> starts{17, 20, 29, 38, 40, 52, 60};
    const std::vector<int> phases{0, 1, 1, 1, 2, 2, 2};
    const std::vector<std::int64_t> schedule{2, 4, 5, 7, 8, 10, 12};  // steps of 6, 4 an epoch
    for (std::size_t i = 0; i < starts.size(); ++i) {
        EXPECT_EQ(c.image_of(5 + std::int64_t(i)), starts[i]) << i;
        EXPECT_EQ(c.phase_of(5 + std::int64_t(i)), phases[i]) << i;
        EXPECT_EQ(c.schedule_step(5 + std::int64_t(i)), schedule[i]) << i;
    }
    EXPECT_EQ(c.steps_after(0, 17), 1);
    EXPECT_EQ(c.steps_after(1, 18), 1);
    EXPECT_EQ(c.steps_after(1, 20), 0) << "the end of an epoch is repeated without a step";
}

// ---- Properties ---------------------------------------------------------------------
Timetable any_timetable(std::int64_t images) {
    std::vector<Timetable::Entry> phases;
    for (int epoch = 0, n = *rc::gen::inRange(1, 4); n > 0; --n) {
        phases.push_back({epoch, *rc::gen::inRange(1, 70)});
        epoch += *rc::gen::inRange(1, 3);
    }
    return {images, phases};
}
TEST(Course, FromTheStartIsAsTheTimetable) {
    EXPECT_TRUE(rc::check([] {
        const Course c{.timetable = any_timetable(*rc::gen::inRange(1, 60))};
        for (std::int64_t step = 0; step < 50; ++step) {
            RC_ASSERT(c.image_of(step) == c.timetable.image_of(step));
            RC_ASSERT(c.schedule_step(step) == c.timetable.schedule_step(step));
            RC_ASSERT(c.phase_of(step) == c.timetable.phase_of_step(step));
            if (c.timetable.phases() == 1) RC_ASSERT(c.schedule_step(step) == step);
        }
    }));
}
TEST(Course, StepsFollowEachOtherAndEpochsEndThem) {
    EXPECT_TRUE(rc::check([] {
        const std::int64_t images = *rc::gen::inRange(1, 60);
        const Course c{.timetable = any_timetable(images),
                       .first_step = *rc::gen::inRange(0, 9),
                       .first_image = *rc::gen::inRange<std::int64_t>(0, 3 * images)};
        RC_ASSERT(c.image_of(c.first_step) == c.first_image);
        for (std::int64_t step = c.first_step; step < c.first_step + 40; ++step) {
            const std::int64_t begin = c.image_of(step), end = c.image_of(step + 1);
            const int p = c.timetable.phase_of_epoch(int(begin / images));
            RC_ASSERT(c.phase_of(step) == p);
            const std::int64_t epoch_end = (begin / images + 1) * images;
            RC_ASSERT(end == std::min(begin + c.timetable.global_batch(p), epoch_end));
            RC_ASSERT(c.schedule_step(step + 1) >= c.schedule_step(step));
            const Course later{c.timetable, step, begin};
            RC_ASSERT(later.image_of(step + 1) == end);  // from wherever it begins
        }
    }));
}

}  // namespace
