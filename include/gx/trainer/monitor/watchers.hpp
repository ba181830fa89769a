// Watchers: observers of one run, called on the root; an exception ends the run.
#pragma once

#include <cstddef>      // size_t
#include <cstdint>      // int64_t
#include <exception>    // exception_ptr
#include <optional>     // the Trainer's own
#include <span>         // checkpoints
#include <string_view>  // events
#include <vector>       // observers

#include <gx/core/cold.hpp>                      // GX_COLD
#include <gx/core/decl.hpp>                      // GX_DECL
#include <gx/trainer/monitor/observer.hpp>       // Observer
#include <gx/trainer/monitor/show_progress.hpp>  // ShowProgress

namespace gx::detail::trainer {

/// No observer gets an event before its run_begins has returned, or one behind the end of its run.
///
/// Errors of each but failed(): gx::Error that names the observer's type, the step and the reason.
class Watchers {
public:
    /// Observers of a process that is the root; else there are none. `progress`: one of them shows
    /// progress where stderr is a terminal.
    GX_COLD GX_DECL Watchers(const std::vector<Observer*>& given, bool progress, bool root);

    [[nodiscard]] bool empty() const { return all_.empty(); }
    /// The first that has not been reported.
    [[nodiscard]] std::int64_t next_step() const { return next_step_; }
    GX_COLD GX_DECL void run_begins(const RunStart& run);
    GX_DECL void step_done(const StepDone& step);
    GX_COLD GX_DECL void epoch_done(const EpochDone& epoch);
    GX_COLD GX_DECL void checkpoint_written(const CheckpointWritten& checkpoint);
    GX_COLD GX_DECL void ranks_lost(const RanksLost& lost);
    GX_COLD GX_DECL void run_ended(const RunRecord& record);
    /// `left`: checkpoints on disk that were not reported; they come first.
    GX_COLD GX_DECL void run_failed(const std::exception_ptr& error,
                                    std::span<const CheckpointWritten> left = {}) noexcept;

private:
    template <class F>
    void call(Observer& o, F f, std::int64_t step);
    template <class F>
    void each(F f, std::int64_t step);

    std::optional<ShowProgress> own_{};
    std::vector<Observer*> all_{};
    const Observer* thrower_ = nullptr;  ///< it has ended the run
    std::size_t begun_ = 0, ended_ = 0;  ///< the first so many
    std::int64_t next_step_ = 0;
};

}  // namespace gx::detail::trainer

#if defined(GX_HEADER_ONLY)
#include <gx/trainer/monitor/impl/watchers.ipp>
#endif
