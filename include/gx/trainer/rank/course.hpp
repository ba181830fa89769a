// Course: the images of each step of a world that may begin within an epoch.
#pragma once

#include <cstdint>  // int64_t

#include <gx/trainer/rank/timetable.hpp>  // Timetable

namespace gx::detail::trainer {

/// Where the steps of one world begin in the endless order of images, epoch after epoch. Each epoch
/// is cut into steps of its phase's global batch from where the world begins in it; its last step
/// has the rest.
/// Units: images are counted from the start of epoch 0, steps from the start of the run.
struct Course {
    Timetable timetable{};         ///< of the world's rank count
    std::int64_t first_step = 0;   ///< of this world
    std::int64_t first_image = 0;  ///< of its first step

    /// Steps of an epoch from its image `done` on.
    [[nodiscard]] std::int64_t steps_after(int epoch, std::int64_t done) const {
        return timetable.steps_of(timetable.images() - done, timetable.phase_of_epoch(epoch));
    }
    /// The first image of `step`, which is `first_step` or later.
    [[nodiscard]] std::int64_t image_of(std::int64_t step) const {
        const int epoch = epoch_at(first_image);
        const std::int64_t made = step - first_step;
        const std::int64_t of_epoch = steps_after(epoch, first_image % timetable.images());
        if (made < of_epoch)
            return first_image + made * timetable.global_batch(timetable.phase_of_epoch(epoch));
        return timetable.image_of(timetable.first_step_of_epoch(epoch + 1) + made - of_epoch);
    }
    [[nodiscard]] int phase_of(std::int64_t step) const {
        return timetable.phase_of_epoch(epoch_at(image_of(step)));
    }
    /// The step that a schedule is evaluated at. In a run with this timetable from the start it is
    /// the one whose images are those of `step`, or the last to begin before them.
    [[nodiscard]] std::int64_t schedule_step(std::int64_t step) const {
        return timetable.schedule_step_at(image_of(step));
    }
    [[nodiscard]] int epoch_at(std::int64_t image) const { return int(image / timetable.images()); }
};

}  // namespace gx::detail::trainer
