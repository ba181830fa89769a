// Accounts: the bodies.
#pragma once

#include <algorithm>  // max
#include <cmath>      // llround
#include <limits>     // NaN

#include <gx/trainer/rank/accounts.hpp>  // Accounts

namespace gx::detail::trainer {

GX_DECL Nanoseconds Accounts::add(double Breakdown::* part, Nanoseconds begin, Nanoseconds now,
                                  const char* name, std::int64_t step) {
    breakdown.*part += gx::seconds(now - begin);
    const Span span{rank, Track::compute, name, begin, now, step};
    if (sink) sink->add(span);
    else if (tracing) spans.push_back(span);
    return now;
}

GX_DECL void Accounts::trace(bool on, Nanoseconds now) {
    tracing = on;
    if (sink) sink->record(rank, on, now);
}

GX_DECL double Accounts::over_all_parts(double sum) const {
    return mixed_clocks ? std::numeric_limits<double>::quiet_NaN() : sum;
}

GX_DECL void Accounts::resume(const Checkpoint& c) {
    timed_images = c.timed_images;
    if (mixed_clocks) return;
    seconds = seconds_before = c.seconds;
    undisturbed_seconds = c.undisturbed_seconds;
    dollars_before = c.dollars;
}

GX_DECL void Accounts::write(RunRecord& record) {
    breakdown.idle = std::max(
        0.0, seconds - breakdown.compute - breakdown.input - breakdown.exposed_communication);
    record.breakdown = {over_all_parts(breakdown.compute),
                        over_all_parts(breakdown.exposed_communication),
                        over_all_parts(breakdown.input), over_all_parts(breakdown.idle)};
    record.seconds = over_all_parts(seconds);
    record.dollars = over_all_parts(dollars());
    record.images = std::llround(timed_images);
    record.undisturbed_seconds = mixed_clocks ? 0.0 : undisturbed_seconds;
    record.spans.insert(record.spans.end(), spans.begin(), spans.end());
    spans.clear();
}

}  // namespace gx::detail::trainer
