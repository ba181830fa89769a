// RankRun: one rank's way through a run: its place and reports; compiled once.
#pragma once

#include <array>        // steps
#include <cstdint>      // int64_t
#include <memory>       // unique_ptr
#include <optional>     // layers
#include <string>       // sentences
#include <string_view>  // names
#include <vector>       // flat vectors

#include <gx/core/cold.hpp>                   // GX_COLD
#include <gx/core/decl.hpp>                   // GX_DECL
#include <gx/core/error.hpp>                  // Delivery, LostRank
#include <gx/core/function_ref.hpp>           // FunctionRef
#include <gx/core/units.hpp>                  // Nanoseconds
#include <gx/loader/concept.hpp>              // LoaderOptions
#include <gx/trainer/checkpoint.hpp>          // Checkpoint
#include <gx/trainer/control.hpp>             // ControlLink
#include <gx/trainer/monitor/watchers.hpp>    // Watchers
#include <gx/trainer/monitor/step_gate.hpp>   // StepGate, Ask
#include <gx/trainer/rank/accounts.hpp>       // Accounts
#include <gx/trainer/rank/course.hpp>         // Course
#include <gx/trainer/rank/epoch_metrics.hpp>  // EpochMetrics
#include <gx/trainer/rank/outcome.hpp>        // Outcome, UnreadStep
#include <gx/trainer/run.hpp>                 // Run

namespace gx::detail::trainer {

/// The part of RankTraining that no policy specialises: place in the run, learning rate, accounts,
/// metrics, record, control messages and errors.
class RankRun {
protected:
    /// `first_epoch`: whose phase it begins in.
    GX_COLD GX_DECL RankRun(const Run& run, ControlLink control, RunRecord& record,
                            int first_epoch);
    GX_COLD GX_DECL ~RankRun();

    /// Runs `f`. Errors: what it throws, with the rank and the step where a policy has not named
    /// them; a failed allocation as throw_no_memory() does.
    GX_COLD GX_DECL void naming_errors(FunctionRef<void()> f) const;

    [[nodiscard]] int rank() const { return control_.rank(); }
    [[nodiscard]] int ranks() const { return control_.ranks(); }
    [[nodiscard]] bool fills_record() const { return rank() == run_.first_local_rank; }
    [[nodiscard]] const RunPhase& phase() const { return run_.phases[std::size_t(phase_)]; }
    /// What a loader of the present phase gets.
    GX_COLD [[nodiscard]] GX_DECL LoaderOptions share(bool train) const;

    /// Throws on all ranks where processes have named different data.
    GX_COLD GX_DECL void compare_data();
    /// Takes the place in the run, the accounts and the rows of a checkpoint.
    GX_COLD GX_DECL void resume_from(const Checkpoint& c);

    /// The checkpoint within `epoch` that the run goes on from; nullptr: it begins that epoch.
    [[nodiscard]] const Checkpoint* within(int epoch) const {
        const bool goes_on = run_.resume && run_.resume->is_within() && epoch == run_.resume->epoch;
        return goes_on ? &*run_.resume : nullptr;
    }
    /// Takes what `c` has done of the epoch that the run goes on within; returns the steps left.
    GX_COLD [[nodiscard]] GX_DECL std::int64_t take_within(const Checkpoint& c);
    /// Rank 0 gets the metrics and running statistics of every rank, for a checkpoint within an
    /// epoch.
    GX_COLD GX_DECL void gather_within(const std::vector<float>& statistics);

    /// Learning rate of a gradient: by progress in the data, for the batch of its own phase. A
    /// gradient that was in flight at the checkpoint has the rate that is kept there.
    /// Errors: gx::Error for a Scheduler's rate that is no finite number from 0 on.
    [[nodiscard]] GX_DECL float rate(std::int64_t gradient) const;
    [[nodiscard]] GX_DECL float rate_of(const Rate& rate, Step step) const;
    [[nodiscard]] GX_DECL std::int64_t schedule_step(std::int64_t step) const;

    /// Reports the start of the run to the observers, where this is their rank.
    GX_COLD GX_DECL void report_start();
    /// Keeps the times of the step that was made until its loss is known. `before`: the breakdown
    /// at its begin; `images`: on the clock, of all ranks.
    GX_DECL void keep_times(double step_seconds, const Breakdown& before, double images,
                            bool collected);
    GX_DECL void report_step(const UnreadStep& of, const StepRow& row);
    /// Reports the steps that count, and that a lost rank has cut short.
    GX_COLD GX_DECL void report_unseen(const EpochMetrics& epoch);
    /// Takes what the host has read of a step whose loss is finite.
    GX_DECL void take(const UnreadStep& of, const Outcome& outcome);
    [[noreturn]] GX_COLD GX_DECL void stop_without_updates(float loss_scale) const;

    /// The row of an epoch once the sums are those of all ranks. `images`: of the epoch, lost ranks
    /// included; below 0: those of the sums. `timed`: images on the clock for each one trained.
    GX_COLD [[nodiscard]] GX_DECL EpochRow row_of(int epoch, double images, double timed);
    /// The mean of running statistics over the ranks, weighted by their images.
    GX_COLD GX_DECL void average(std::vector<float>& statistics);
    /// Of a reducer whose ranks update apart: what each has skipped since it was last shared counts
    /// in the rows and sums of all.
    GX_COLD GX_DECL void share_skips();
    /// Throws unless all ranks hold these weights.
    GX_COLD GX_DECL void compare_replicas(std::uint64_t weights_hash);
    /// Test loss and accuracies from this rank's sums of loss, hits, hits among five and images.
    /// Order: counts are whole numbers, added exactly for any number of ranks.
    GX_COLD GX_DECL void add_test(EpochRow& row, std::vector<double> sums);
    /// Rank 0 gets a vector of the reducer's state of every rank, for its checkpoint.
    GX_COLD GX_DECL void gather(std::string_view name, bool replicated,
                                const std::vector<float>& mine);
    /// Closes the books of an epoch, on the rank that fills the record.
    GX_COLD GX_DECL void record_epoch(const EpochRow& row);
    GX_COLD GX_DECL void write_record();
    /// A checkpoint without the state of the policies.
    GX_COLD [[nodiscard]] GX_DECL Checkpoint checkpoint(int epochs_done) const;
    GX_COLD GX_DECL void write(Checkpoint& c);
    /// On devices, in a run that goes back to checkpoints: all wait until rank 0 has copied one to
    /// its writer. The loss of a rank in a later step, which may stop copies, does not cost it.
    GX_COLD GX_DECL void wait_until_saved();
    /// Reports the checkpoints that are on disk by now, or can't be.
    GX_DECL void report_written();
    GX_COLD GX_DECL void take_news();
    GX_COLD GX_DECL void warn_of_checkpoint(std::int64_t step, const std::string& error);
    /// Warns where buckets of the timed model are too few of the trained one's elements. Ranks then
    /// can't share them as they would share those that are timed.
    GX_COLD GX_DECL void warn_of_small_buckets(std::int64_t elements, double wire_scale);
    /// At the end of the run: all are on disk.
    GX_COLD GX_DECL void finish_writing();
    /// What is to be done behind the step that was made; the same on all ranks.
    [[nodiscard]] GX_DECL Ask asked();
    /// The same, with what was due before: a checkpoint is not where this was the `last` step of
    /// its epoch, whose end writes one.
    [[nodiscard]] GX_DECL Ask due(bool last);
    /// Ends the run within an epoch, where this is what was due.
    [[nodiscard]] GX_DECL bool stops();

    /// Names what the next messages are for, on the transport too.
    GX_DECL void working_on(const char* operation);
    /// Throws LostRank with the operation in progress unless `d` is complete.
    void expect(Delivery d) const { expect(d, step_, operation_); }
    GX_DECL void expect(Delivery d, std::int64_t step, const char* operation) const;
    [[nodiscard]] GX_COLD GX_DECL LostRank::Where in_operation(std::int64_t step,
                                                               const char* operation) const;
    [[nodiscard]] GX_COLD GX_DECL LostRank::Where in_all_reduce(std::uint64_t gradient, int bucket,
                                                                int buckets) const;
    [[noreturn]] GX_COLD GX_DECL void stop_at_lost_rank(LostRank::Where where, Delivery d) const;
    [[noreturn]] GX_COLD GX_DECL void stop_at_bad_loss(std::int64_t step,
                                                       std::optional<std::string> layer) const;
    /// On all ranks: the loss of test images is not finite. `layer`: of this rank's, if it has any.
    GX_COLD GX_DECL void stop_at_bad_test(int epoch, const std::optional<std::string>& layer);

    const Run& run_;
    const RunOptions& o_;
    RunRecord& record_;
    ControlLink control_;
    const char* operation_ = "";      ///< beside the reductions
    const Course* course_ = nullptr;  ///< of a run that continues on survivors, or within an epoch
    Course course_within_{};          ///< from the checkpoint on, where that is within an epoch
    int phase_ = 0;
    Accounts accounts_;
    Watchers* watchers_ = nullptr;  ///< on rank 0, where the run has any
    struct StepTimes {
        double seconds = 0, training_seconds = 0, images = 0, sent_bytes = 0;
        Breakdown breakdown{};
    };
    std::array<StepTimes, 2> times_{};  ///< of the steps whose loss is not known, by their number
    int epoch_ = 0;                     ///< the present one
    EpochMetrics metrics_{};
    std::vector<Checkpoint::ReducerVector> reducer_state_{};  ///< of all ranks, on rank 0
    Checkpoint::Within within_{};                             ///< the same
    int first_epoch_ = 0;
    std::int64_t step_ = 0, skipped_ = 0, skipped_before_ = 0, bytes_sent_ = 0;
    std::int64_t updates_ = 0;        ///< as Checkpoint::updates
    bool any_update_ = false;         ///< of any rank, as far as this one knows
    std::size_t shared_skips_ = 0;    ///< rows of the epoch whose skips are those of all ranks
    std::int64_t images_ = 0;         ///< of this rank, in this epoch
    std::int64_t images_of_all_ = 0;  ///< of all ranks
    std::int64_t resumed_at_ = 0;     ///< step of the checkpoint
    std::int64_t shift_ = 0;          ///< steps done minus the schedule's step
    std::uint64_t weights_hash_ = 0;
    Ask due_ = Ask::nothing;
    std::vector<Ask> asks_{};      ///< of all ranks, where they are in several processes
    std::int64_t world_step_ = 0;  ///< at which the run has last begun without gradients in flight
};

}  // namespace gx::detail::trainer

#if defined(GX_HEADER_ONLY)
#include <gx/trainer/rank/impl/rank_run.ipp>
#endif
