// Bodies of step_gate.hpp.
#pragma once

#include <cstring>  // sigabbrev_np
#include <string>   // sentences
#include <utility>  // move

#include <fmt/core.h>  // sentences

#include <gx/trainer/monitor/step_gate.hpp>
#include <gx/trainer/monitor/stop_request.hpp>  // StopRequest, Stopped

namespace gx::detail::trainer {

GX_DECL StepGate::StepGate(const StopRequest* stop, double every_minutes)
    : stop_(stop), period_(60 * every_minutes) {}

GX_DECL Ask StepGate::ask(std::int64_t step) {
    const std::scoped_lock lock(mutex_);
    if (step > latest_) {
        latest_ = step;
        const Ask what = sample();
        if (what != Ask::nothing) asked_.push_back({step, what});
        return what;
    }
    for (const Asked& a : asked_)
        if (a.step == step) return a.what;
    return Ask::nothing;
}

GX_DECL Ask StepGate::sample() {
    if (stop_ != nullptr && stop_->asked()) return Ask::stop;
    if (period_.count() <= 0) return Ask::nothing;
    const auto now = std::chrono::steady_clock::now();
    if (now - begin_ < period_) return Ask::nothing;
    begin_ = now;
    return Ask::checkpoint;
}

GX_DECL void StepGate::stopped(std::int64_t steps, std::filesystem::path file) {
    const std::scoped_lock lock(mutex_);  // the local ranks agree
    stopped_at_ = steps;
    file_ = std::move(file);
}

GX_DECL void StepGate::written(const std::filesystem::path& file) {
    const std::scoped_lock lock(mutex_);
    written_ = file;
}

GX_DECL void StepGate::expect_not_stopped(bool root) const {
    if (stopped_at_ < 0) return;
    const int signal = stop_ != nullptr ? stop_->signal() : 0;
    const char* const name = signal != 0 ? ::sigabbrev_np(signal) : nullptr;
    const bool written = !file_.empty() && (!root || written_ == file_);
    const std::string what =
        file_.empty() ? std::string("It has no output folder, so that nothing of it is kept.")
        : written     ? fmt::format("Go on from '{}', or with resume = \"latest\".", file_.string())
                  : fmt::format("Its checkpoint '{}' can't be written: go on from an older one.",
                                file_.string());
    throw Stopped(fmt::format("step {}: the run has stopped, as {} asked. {}", stopped_at_,
                              name ? fmt::format("SIG{}", name) : std::string("it was"), what),
                  stopped_at_, signal, written ? file_ : std::filesystem::path());
}

}  // namespace gx::detail::trainer
