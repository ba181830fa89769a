// Observer: what a program sees of a run while it trains.
#pragma once

#include <cstdint>      // int64_t
#include <filesystem>   // checkpoints
#include <span>         // rows
#include <string>       // sentences
#include <string_view>  // the error

#include <gx/trainer/record.hpp>  // RunRecord, StepRow, EpochRow, LossRow, Breakdown

namespace gx {

/// A run that starts, or goes on from a checkpoint.
struct RunStart {
    const RunRecord& record;                 ///< what runs; its rows are those of parts before
    int first_epoch = 0;                     ///< to be made now
    std::int64_t first_step = 0;             ///< to be made now; 0 unless it was resumed
    std::int64_t first_schedule_step = 0;    ///< as StepDone::schedule_step
    std::int64_t schedule_steps = 0;         ///< of the whole run, in steps of its first phase
    std::span<const std::string> changes{};  ///< that this resume brings, a sentence each
};

/// A step whose loss the root's host has. Times are on the world's clock, and of rank 0. On a
/// device they are the host's: it queues a step and waits for the one before, but not for the first
/// of an epoch or behind a checkpoint, whose times are of queueing alone.
struct StepDone {
    std::int64_t step = 0;           ///< from 0 at the start of the run
    int epoch = 0, epochs = 0;       ///< its own, and those planned
    std::int64_t schedule_step = 0;  ///< of the schedule done with it, in the first phase's steps
    double training_seconds = 0;     ///< since the start of the run; StepRow::seconds
    double seconds = 0;              ///< of this step
    double loss_of_rank = 0;         ///< mean over rank 0's images, nats; EpochDone has all ranks'
    double rate = 0;                 ///< of the update made in it; 0 when there was none
    double loss_scale = 1;
    bool skipped = false;              ///< its mean overflowed: no update of this rank
    double images_per_second = 0;      ///< of all ranks
    Breakdown breakdown{};             ///< of `seconds`
    double sent_bytes_per_second = 0;  ///< by rank 0's reductions over `seconds`: the mean load of
                                       ///< its NIC, where ranks lie on machines of their own
};

/// An epoch and its test.
struct EpochDone {
    const EpochRow& row;
    std::span<const StepRow> steps;  ///< of the epoch, with the losses of all ranks; none of one
                                     ///< that is done again for its test alone
    bool tested = false;             ///< `row` has test metrics
};

/// A checkpoint that is whole on disk.
struct CheckpointWritten {
    const std::filesystem::path& file;
    std::int64_t step = 0;  ///< steps done in it
};

/// Ranks that a run has lost, and where it goes on: steps and epochs from there on that were seen
/// are made again.
struct RanksLost {
    const LossRow& row;
    int first_epoch = 0;  ///< to be made now; of one whose steps are all made, its end alone
    std::int64_t first_schedule_step = 0;  ///< as StepDone::schedule_step
    std::int64_t schedule_steps = 0;       ///< of the whole run, with the ranks that are left
};

/// What a program sees of a run while it trains: progress, curves, files. Derive from it, override
/// what is of interest, and name the observers in the Trainer's options:
///
///     struct Losses : gx::Observer {
///         std::vector<double> seen{};
///         void step_done(const gx::StepDone& s) override { seen.push_back(s.loss_of_rank); }
///     };
///     Losses losses;
///     const Trainer<ResNet50, Ring<fp32>> trainer({.batch = 32, .observers = {&losses}});
///
/// Only the process of rank 0 calls them, one call at a time, in the order of the list; those of
/// steps, epochs and checkpoints come from rank 0's thread, what a run that fails has left from the
/// caller's. An observer outlives train(), and is given values alone, so that it can't change what
/// a run computes. Its time is in no figure of a run, but other ranks wait for rank 0 meanwhile.
///
/// Order:  run_begins; then step_done and epoch_done in the order of steps, checkpoint_written when
///         the file is there, ranks_lost; at the end one of run_ended and run_failed, the latter
///         behind the checkpoints that the run has left and not reported before. A run that
///         does not begin, or has no epoch left to train or to test, calls nothing. On a device
///         whose work is queued, step_done of step t comes when step t + 1 is queued: no host waits
///         for it. A step that counts though a lost rank cut it short comes before ranks_lost, with
///         the time until then and without what is measured at a step's end.
/// Errors: an exception ends the run, as gx::Error that names the observer's type and the step; the
///         other observers whose run has begun and has not ended see run_failed. Those of
///         run_failed itself are dropped.
/// Cost:   an indirect call an event; the Trainer allocates nothing for step_done.
class Observer {
public:
    Observer() = default;
    Observer(const Observer&) = delete;
    Observer& operator=(const Observer&) = delete;
    virtual ~Observer() = default;

    virtual void run_begins(const RunStart&) {}
    virtual void step_done(const StepDone&) {}
    virtual void epoch_done(const EpochDone&) {}
    virtual void checkpoint_written(const CheckpointWritten&) {}
    /// The run goes on with fewer ranks.
    virtual void ranks_lost(const RanksLost&) {}
    virtual void run_ended(const RunRecord&) {}
    /// `error`: the sentence that train() throws.
    virtual void run_failed(std::string_view /*error*/) {}
};

}  // namespace gx
