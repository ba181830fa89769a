// Outcome: what the host reads of a step, on devices once the next is queued.
#pragma once

#include <cstdint>  // int64_t

#include <gx/core/device.hpp>  // ForwardReport
#include <gx/core/stream.hpp>  // Event

namespace gx::detail::trainer {

/// What the host reads of a step.
struct Outcome {
    ForwardReport report{};
    float scale_of_step = 1;  ///< of its own gradient
    float loss_scale = 1;     ///< after the step
    bool applied = true;
    bool floor = true;  ///< the scale can't be lowered
    std::int64_t skipped = 0, skips_in_a_row = 0, updates = 0;
};

/// A step whose outcome the host has not read.
struct UnreadStep {
    std::int64_t step_of_epoch = -1;  ///< -1: a late update, of no step
    std::int64_t step = 0;
    std::int64_t gradient = -1;  ///< whose mean it collected; -1: none
    // On a device, what it waits for of the other ranks:
    Event reduced{};  ///< behind that mean
    Event agreed{};   ///< behind their agreement on the update of a shard

    [[nodiscard]] bool collected() const { return gradient >= 0; }
};

}  // namespace gx::detail::trainer
