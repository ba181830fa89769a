// EpochMetrics: the bodies.
#pragma once

#include <algorithm>  // max

#include <gx/trainer/rank/epoch_metrics.hpp>  // EpochMetrics

namespace gx::detail::trainer {

GX_DECL double EpochMetrics::loss(std::int64_t step) const {
    const auto at = 3 * std::size_t(step);
    return sums[at] / std::max(1.0, sums[at + 2]);
}

GX_DECL double EpochMetrics::finish(EpochRow& row) {
    double loss = 0, correct = 0, count = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        rows[i].loss = sums[3 * i] / sums[3 * i + 2];
        loss += sums[3 * i];
        correct += sums[3 * i + 1];
        count += sums[3 * i + 2];
    }
    row.train_loss = loss / count;
    row.train_accuracy_pct = 100 * correct / count;
    return count;
}

GX_DECL void EpochMetrics::begin(std::int64_t steps, double now_seconds) {
    sums.assign(3 * std::size_t(steps), 0.0);
    rows.clear();
    rows.reserve(std::size_t(steps));
    begin_seconds = now_seconds;
}

GX_DECL void EpochMetrics::cut_at(std::int64_t step) {
    rows.resize(std::size_t(step - first_step));
    sums.resize(3 * rows.size());
}

}  // namespace gx::detail::trainer
