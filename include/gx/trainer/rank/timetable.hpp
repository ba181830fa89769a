// Timetable: the epochs, steps and schedule of a run whose batch changes by phase.
#pragma once

#include <cstdint>  // int64_t
#include <vector>   // phases

#include <gx/core/decl.hpp>  // GX_HEADER_ONLY

namespace gx::detail::trainer {

/// Which phase, epoch and point of the schedule a step of a run lies in.
///
/// A schedule is one curve over the run, in steps of the first phase's batch: a step of any phase
/// asks it for its progress in the data. So options given in steps mean one thing all along, and
/// a run of one phase asks for its own steps.
/// Units: steps are counted from the start of the run, as if it had never been resumed.
class Timetable {
public:
    struct Entry {
        int first_epoch = 0;
        std::int64_t global_batch = 1;  ///< images of a full step
        bool operator==(const Entry&) const = default;
    };
    Timetable();
    /// The first entry begins at epoch 0, and each later than the one before.
    Timetable(std::int64_t images, std::vector<Entry> phases);

    [[nodiscard]] std::int64_t images() const { return images_; }  ///< in an epoch
    [[nodiscard]] int phases() const { return int(phases_.size()); }
    [[nodiscard]] std::int64_t global_batch(int phase) const { return at(phase).global_batch; }
    /// Steps of `count` images in a phase.
    [[nodiscard]] std::int64_t steps_of(std::int64_t count, int phase) const {
        return (count + global_batch(phase) - 1) / global_batch(phase);
    }
    [[nodiscard]] std::int64_t steps_per_epoch(int phase) const { return steps_of(images_, phase); }
    [[nodiscard]] int phase_of_epoch(int epoch) const {
        int p = phases() - 1;
        while (at(p).first_epoch > epoch) --p;
        return p;
    }
    [[nodiscard]] int phase_of_step(std::int64_t step) const {
        int p = phases() - 1;
        while (p > 0 && first_steps_[std::size_t(p)] > step) --p;
        return p;
    }
    [[nodiscard]] std::int64_t first_step_of_epoch(int epoch) const {
        const int p = phase_of_epoch(epoch);
        return first_steps_[std::size_t(p)] + (epoch - at(p).first_epoch) * steps_per_epoch(p);
    }
    /// The first image of `step`, counted from the start of epoch 0.
    [[nodiscard]] std::int64_t image_of(std::int64_t step) const {
        const int p = phase_of_step(step);
        const std::int64_t made = step - first_steps_[std::size_t(p)];
        const std::int64_t epoch = at(p).first_epoch + made / steps_per_epoch(p);
        return epoch * images_ + made % steps_per_epoch(p) * global_batch(p);
    }
    /// The step of a run of the first phase's batch that `image` lies in.
    [[nodiscard]] std::int64_t schedule_step_at(std::int64_t image) const {
        return image / images_ * steps_per_epoch(0) + image % images_ / global_batch(0);
    }
    [[nodiscard]] std::int64_t schedule_step(std::int64_t step) const {
        return schedule_step_at(image_of(step));
    }
    bool operator==(const Timetable&) const = default;

private:
    [[nodiscard]] const Entry& at(int phase) const { return phases_[std::size_t(phase)]; }

    std::int64_t images_;
    std::vector<Entry> phases_;
    std::vector<std::int64_t> first_steps_{};
};

}  // namespace gx::detail::trainer

#if defined(GX_HEADER_ONLY)
#include <gx/trainer/rank/impl/timetable.ipp>
#endif
