// Course: the images of each step of a world that may begin within an epoch.
#pragma once

#include <cstdint>  // int64_t

namespace gx::detail::trainer {

/// Where the steps of one world begin in the endless order of images, epoch after epoch. Each epoch
/// is cut into steps of `global_batch` images from where the world begins in it; its last step has
/// the rest.
/// Units: images are counted from the start of epoch 0, steps from the start of the run.
struct Course {
    std::int64_t images = 1;        ///< in an epoch
    std::int64_t global_batch = 1;  ///< images of a full step
    std::int64_t first_step = 0;    ///< of this world
    std::int64_t first_image = 0;   ///< of its first step

    [[nodiscard]] constexpr std::int64_t steps_of(std::int64_t count) const {
        return (count + global_batch - 1) / global_batch;
    }
    /// The first image of `step`, which is `first_step` or later.
    [[nodiscard]] constexpr std::int64_t image_of(std::int64_t step) const {
        const std::int64_t made = step - first_step, into = first_image % images;
        const std::int64_t of_first_epoch = steps_of(images - into);
        if (made < of_first_epoch) return first_image + made * global_batch;
        const std::int64_t rest = made - of_first_epoch, an_epoch = steps_of(images);
        return first_image - into + (1 + rest / an_epoch) * images + rest % an_epoch * global_batch;
    }
    /// The step of a run with this global batch from the start whose images are those of `step`, or
    /// the last to begin before them: what a schedule asks for.
    [[nodiscard]] constexpr std::int64_t schedule_step(std::int64_t step) const {
        const std::int64_t image = image_of(step);
        return image / images * steps_of(images) + image % images / global_batch;
    }
    bool operator==(const Course&) const = default;
};

}  // namespace gx::detail::trainer
