// Bodies of show_progress.hpp.
#pragma once

#include <gx/trainer/monitor/show_progress.hpp>
#include <gx/trainer/setup.hpp>  // progress_words, note_of

namespace gx {

GX_DECL void ShowProgress::run_begins(const RunStart& run) {
    progress_.emplace("training", run.schedule_steps, "steps", style_, out_);
    progress_->resume_from(run.first_schedule_step);
    for (const std::string& change : run.changes) progress_->note(change);
}
GX_DECL void ShowProgress::step_done(const StepDone& s) {
    if (progress_->due(s.schedule_step))
        progress_->update(s.schedule_step,
                          detail::trainer::progress_words(s.epoch, s.epochs, s.loss_of_rank));
}
GX_DECL void ShowProgress::ranks_lost(const RanksLost& lost) {
    progress_->note(detail::trainer::note_of(lost.row));
    progress_->go_on(lost.first_schedule_step, lost.schedule_steps);
}

}  // namespace gx
