// EpochMetrics: losses, hits and rows of one epoch's steps, as one rank saw them.
#pragma once

#include <cstdint>  // int64_t
#include <span>     // sums of one step
#include <vector>   // steps

#include <gx/core/decl.hpp>       // GX_DECL
#include <gx/trainer/record.hpp>  // StepRow, EpochRow

namespace gx::detail::trainer {

/// One rank's own sums, until they are added up over the ranks at the end of the epoch.
struct EpochMetrics {
    int epoch = -1;                              ///< -1: none
    std::int64_t first_step = 0;                 ///< of the epoch
    std::vector<double> sums{};                  ///< loss, hits and images of each step
    std::vector<StepRow> rows{};                 ///< of the steps so far
    double timed_images = 0, begin_seconds = 0;  ///< when it began

    /// Forgets what came before; room for the sums of `steps` steps.
    void begin(std::int64_t steps, double now_seconds);
    /// Loss, hits and images of a step, counted from 0 in each epoch.
    [[nodiscard]] std::span<double, 3> of_step(std::int64_t step) {
        return std::span<double, 3>(sums.data() + 3 * step, 3);
    }
    /// Mean loss of a step, in nats; 0 before it has images.
    [[nodiscard]] double loss(std::int64_t step) const;

    /// The step behind the last one.
    [[nodiscard]] std::int64_t end() const { return first_step + std::ssize(rows); }
    void cut_at(std::int64_t step);

    /// Once `sums` are those of all ranks: the losses of the rows, and loss and accuracy of `row`.
    /// Returns the images of the epoch.
    double finish(EpochRow& row);
};

}  // namespace gx::detail::trainer

#if defined(GX_HEADER_ONLY)
#include <gx/trainer/rank/impl/epoch_metrics.ipp>
#endif
