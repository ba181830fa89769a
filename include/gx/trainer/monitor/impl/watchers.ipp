// Bodies of watchers.hpp.
#pragma once

#include <algorithm>  // min
#include <string>     // names
#include <typeinfo>   // typeid

#include <fmt/core.h>  // sentences

#include <gx/core/detail/rethrow_named.hpp>  // readable_name, name_of_exception
#include <gx/core/error.hpp>                 // Error
#include <gx/trainer/monitor/watchers.hpp>

namespace gx::detail::trainer {

GX_DECL Watchers::Watchers(const std::vector<Observer*>& given, bool progress, bool root) {
    if (!root) return;
    all_ = given;
    for (Observer* const o : given)
        if (dynamic_cast<const ShowProgress*>(o) != nullptr) progress = false;
    if (progress && Progress::style_of(stderr) == Progress::Style::bar)
        all_.push_back(&own_.emplace(Progress::Style::bar));
}

template <class F>
void Watchers::call(Observer& o, F f, std::int64_t step) {
    const auto stop = [&](std::string_view what) {
        thrower_ = &o;
        if (what.ends_with('.')) what.remove_suffix(1);
        throw Error(
            fmt::format("step {}: observer {} threw: {}. Mend it, or leave it out of 'observers'.",
                        step, gx::detail::readable_name(typeid(o)), what));
    };
    try {
        f(o);
    } catch (const std::exception& e) {
        stop(e.what());
    } catch (...) {
        stop(gx::detail::name_of_exception());
    }
}
template <class F>
void Watchers::each(F f, std::int64_t step) {
    for (std::size_t i = 0; i < begun_; ++i) call(*all_[i], f, step);
}

GX_DECL void Watchers::run_begins(const RunStart& run) {
    if (begun_ > 0) return;  // a later world of the run
    next_step_ = run.first_step;
    for (Observer* const o : all_) {
        call(*o, [&](Observer& one) { one.run_begins(run); }, run.first_step);
        ++begun_;
    }
}
GX_DECL void Watchers::step_done(const StepDone& step) {
    each([&](Observer& o) { o.step_done(step); }, step.step);
    next_step_ = step.step + 1;
}
GX_DECL void Watchers::epoch_done(const EpochDone& epoch) {
    each([&](Observer& o) { o.epoch_done(epoch); }, epoch.row.step);
}
GX_DECL void Watchers::checkpoint_written(const CheckpointWritten& checkpoint) {
    std::exception_ptr first;  // the others are told of it, too: it is not told again
    for (std::size_t i = 0; i < begun_; ++i) {
        try {
            call(*all_[i], [&](Observer& o) { o.checkpoint_written(checkpoint); }, checkpoint.step);
        } catch (...) {
            if (!first) first = std::current_exception();
        }
    }
    if (first) std::rethrow_exception(first);
}
GX_DECL void Watchers::ranks_lost(const RanksLost& lost) {
    next_step_ = std::min(next_step_, lost.row.step);
    each([&](Observer& o) { o.ranks_lost(lost); }, lost.row.step);
}
GX_DECL void Watchers::run_ended(const RunRecord& record) {
    const std::int64_t step = record.epochs.empty() ? 0 : record.epochs.back().step;
    try {
        each(
            [&](Observer& o) {
                ++ended_;
                o.run_ended(record);
            },
            step);
    } catch (...) {
        run_failed(std::current_exception());
        throw;
    }
}

GX_DECL void Watchers::run_failed(const std::exception_ptr& error,
                                  std::span<const CheckpointWritten> left) noexcept {
    if (begun_ == ended_) return;
    std::string sentence;
    try {
        std::rethrow_exception(error);
    } catch (const std::exception& e) {
        sentence = e.what();
    } catch (...) {
        sentence = gx::detail::name_of_exception();
    }
    for (; ended_ < begun_; ++ended_) {
        if (all_[ended_] == thrower_) continue;
        for (const CheckpointWritten& one : left) {
            try {
                all_[ended_]->checkpoint_written(one);
            } catch (...) {  // the run has its error
            }
        }
        try {
            all_[ended_]->run_failed(sentence);
        } catch (...) {  // the run has its error
        }
    }
}

}  // namespace gx::detail::trainer
