// Bodies of watchers.hpp.
#pragma once

#include <cxxabi.h>  // __cxa_demangle

#include <cstdlib>   // free
#include <memory>    // unique_ptr
#include <string>    // names
#include <typeinfo>  // typeid
#include <utility>   // exchange

#include <fmt/core.h>  // sentences

#include <gx/core/error.hpp>  // Error
#include <gx/trainer/monitor/watchers.hpp>

namespace gx::detail::trainer {

/// The name of an observer's type.
[[nodiscard]] GX_COLD GX_DECL std::string name_of(const Observer& observer) {
    int status = 0;
    const std::type_info& type = typeid(observer);
    const std::unique_ptr<char, void (*)(void*)> name(
        abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), &std::free);
    return status == 0 && name ? name.get() : type.name();
}

GX_DECL Watchers::Watchers(const std::vector<Observer*>& given, bool progress, bool root) {
    if (!root) return;
    all_ = given;
    for (Observer* const o : given)
        if (dynamic_cast<const ShowProgress*>(o) != nullptr) progress = false;
    if (progress && Progress::style_of(stderr) == Progress::Style::bar)
        all_.push_back(&own_.emplace(Progress::Style::bar));
}

template <class F>
void Watchers::each(F f, std::int64_t step) {
    for (Observer* const o : all_) {
        const auto stop = [&](std::string_view what) {
            thrower_ = o;
            if (what.ends_with('.')) what.remove_suffix(1);
            throw Error(fmt::format(
                "step {}: observer {} threw: {}. Mend it, or leave it out of 'observers'.", step,
                name_of(*o), what));
        };
        try {
            f(*o);
        } catch (const std::exception& e) {
            stop(e.what());
        } catch (...) {
            stop("an exception without a sentence");
        }
    }
}

GX_DECL void Watchers::run_begins(const RunStart& run) {
    if (std::exchange(begun_, true)) return;  // a later world of the run
    each([&](Observer& o) { o.run_begins(run); }, run.first_step);
}
GX_DECL void Watchers::step_done(const StepDone& step) {
    each([&](Observer& o) { o.step_done(step); }, step.step);
}
GX_DECL void Watchers::epoch_done(const EpochDone& epoch) {
    each([&](Observer& o) { o.epoch_done(epoch); }, epoch.row.step);
}
GX_DECL void Watchers::checkpoint_written(const CheckpointWritten& checkpoint) {
    each([&](Observer& o) { o.checkpoint_written(checkpoint); }, checkpoint.step);
}
GX_DECL void Watchers::ranks_lost(const LossRow& loss) {
    each([&](Observer& o) { o.ranks_lost(loss); }, loss.step);
}
GX_DECL void Watchers::run_ended(const RunRecord& record) {
    if (!begun_) return;  // nothing was left to train
    const std::int64_t step = record.epochs.empty() ? 0 : record.epochs.back().step;
    each([&](Observer& o) { o.run_ended(record); }, step);
}

GX_DECL void Watchers::run_failed(const std::exception_ptr& error) noexcept {
    if (!begun_) return;
    std::string sentence = "an exception without a sentence";
    try {
        std::rethrow_exception(error);
    } catch (const std::exception& e) {
        sentence = e.what();
    } catch (...) {
    }
    for (Observer* const o : all_) {
        if (o == thrower_) continue;
        try {
            o->run_failed(sentence);
        } catch (...) {  // the run has its error
        }
    }
}

}  // namespace gx::detail::trainer
