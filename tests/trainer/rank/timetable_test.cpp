#include <gx/trainer/rank/timetable.hpp>  // first, so the header is seen to stand alone

#include <vector>  // steps

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

using gx::detail::trainer::Timetable;

// ---- A case worked by hand ----------------------------------------------------------
TEST(Timetable, ChangesTheStepsOfAnEpoch) {  // 10 images; batch 4 for two epochs, then 3, then 10
    const Timetable t(10, {{0, 4}, {2, 3}, {3, 10}});
    EXPECT_EQ(t.steps_per_epoch(0), 3);
    EXPECT_EQ(t.steps_per_epoch(1), 4);
    EXPECT_EQ(t.steps_per_epoch(2), 1);
    const std::vector<int> phases{0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2};
    // Epoch 2 begins its images 0, 3, 6 and 9 within steps 0, 0, 1 and 2 of batch 4.
    const std::vector<std::int64_t> schedule{0, 1, 2, 3, 4, 5, 6, 6, 7, 8, 9, 12, 15};
    for (std::size_t i = 0; i < phases.size(); ++i) {
        EXPECT_EQ(t.phase_of_step(std::int64_t(i)), phases[i]) << i;
        EXPECT_EQ(t.schedule_step(std::int64_t(i)), schedule[i]) << i;
    }
    EXPECT_EQ(t.first_step_of_epoch(1), 3);
    EXPECT_EQ(t.first_step_of_epoch(3), 10);
    EXPECT_EQ(t.first_step_of_epoch(5), 12);
}

// ---- Properties, against a walk through the run ---------------------------------------
TEST(Timetable, IsAWalkThroughTheRun) {
    EXPECT_TRUE(rc::check([] {
        const std::int64_t images = *rc::gen::inRange(1, 60);
        std::vector<Timetable::Entry> phases;
        for (int epoch = 0, n = *rc::gen::inRange(1, 5); n > 0; --n) {
            phases.push_back({epoch, *rc::gen::inRange(1, 70)});
            epoch += *rc::gen::inRange(1, 4);
        }
        const Timetable t(images, phases);
        const std::int64_t batch_0 = phases[0].global_batch;
        const std::int64_t an_epoch = (images + batch_0 - 1) / batch_0;
        std::int64_t step = 0, before = -1;
        for (int epoch = 0; epoch < phases.back().first_epoch + 3; ++epoch) {
            int p = 0;
            while (p + 1 < int(phases.size()) && phases[std::size_t(p + 1)].first_epoch <= epoch)
                ++p;
            RC_ASSERT(t.phase_of_epoch(epoch) == p);
            RC_ASSERT(t.first_step_of_epoch(epoch) == step);
            std::int64_t in_epoch = 0;
            for (std::int64_t image = 0; image < images; ++step, ++in_epoch) {
                RC_ASSERT(t.phase_of_step(step) == p);
                RC_ASSERT(t.image_of(step) == epoch * images + image);
                RC_ASSERT(t.schedule_step(step) == epoch * an_epoch + image / batch_0);
                RC_ASSERT(t.schedule_step(step) >= before);
                before = t.schedule_step(step);
                if (phases.size() == 1) RC_ASSERT(t.schedule_step(step) == step);
                image += phases[std::size_t(p)].global_batch;
            }
            RC_ASSERT(in_epoch == t.steps_per_epoch(p));
        }
    }));
}

}  // namespace
