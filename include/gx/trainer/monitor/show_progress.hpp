// ShowProgress: observer that draws a run's progress on a terminal, or writes lines.
#pragma once

#include <cstdio>       // FILE
#include <optional>     // the bar of a run
#include <string>       // words
#include <string_view>  // the error

#include <gx/core/cold.hpp>                 // GX_COLD
#include <gx/core/decl.hpp>                 // GX_DECL
#include <gx/trainer/monitor/observer.hpp>  // Observer
#include <gx/trainer/progress.hpp>          // Progress

namespace gx {

/// Progress of a run: epoch, loss of rank 0's images, steps a second, time left. A Trainer without
/// one in its list shows a bar on a terminal (Progress::style_of), and nothing elsewhere
/// (TrainerOptions::progress).
///
///     ShowProgress lines(Progress::Style::lines);  // a line at each tenth, as logs want it
///
/// Cost: formats a line ten times a second, or ten times a run.
class ShowProgress final : public Observer {
public:
    explicit ShowProgress(Progress::Style style = Progress::style_of(stderr),
                          std::FILE* out = stderr)
        : style_(style), out_(out) {}

    GX_COLD GX_DECL void run_begins(const RunStart& run) override;
    GX_DECL void step_done(const StepDone& step) override;
    GX_COLD GX_DECL void ranks_lost(const RanksLost& lost) override;

private:
    Progress::Style style_;
    std::FILE* out_;
    std::optional<Progress> progress_{};
};

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/trainer/monitor/impl/show_progress.ipp>
#endif
