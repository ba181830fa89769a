// TrainerOptions: what a run may change; all problems are listed at the start.
#pragma once

#include <cstdint>     // uint64_t
#include <filesystem>  // output folder
#include <vector>      // phases

#include <gx/trainer/monitor/observer.hpp>  // Observer
#include <gx/trainer/weights.hpp>           // InitialWeights

namespace gx {

class StopRequest;  // of <gx/trainer/monitor/stop_request.hpp>

/// Batch and image size from `first_epoch` until the next phase begins. A list starts at epoch 0
/// and rises; the Trainer lists every problem of one at the start.
/// Source: image size by phase: Howard et al. 2018, fast.ai DAWNBench; batch size by phase: Smith
///         et al. 2017, arXiv:1711.00489.
struct Phase {
    int first_epoch = 0;
    int batch = 0;       ///< images of one rank in a step
    int image_side = 0;  ///< height and width in pixels
    constexpr bool operator==(const Phase&) const = default;
};

/// When a run writes checkpoints beside those of each epoch, and which it keeps. The run has an
/// output folder. A thread of the root writes them beside training, from a copy of the state; a run
/// returns when all are on disk. One within an epoch waits for the gradients in flight, which is
/// training time; the copy is none. A run that continues on survivors writes them after each epoch,
/// and one that goes back to checkpoints (Recovery::checkpoint) every so many steps, too.
struct CheckpointOptions {
    std::int64_t every_steps = 0;  ///< "step-00001000.safetensors"; 0: none within epochs
    double every_minutes = 0;      ///< the same, by the wall clock of any world; 0: none
    /// The newest so many, and the best by test accuracy; of the run's own names in its folder the
    /// others are deleted, earlier parts' included: before the first is written, and behind each.
    /// Those further than the checkpoint resumed from are deleted when the run has passed them.
    /// Step rows of an epoch lie in its checkpoint: a resumed run's record lacks those of epochs
    /// that are gone. 0: all.
    int keep = 0;
    bool stop_on_failure = true;  ///< where one can't be written; false: a warning in the record
    constexpr bool operator==(const CheckpointOptions&) const = default;
};

/// Options of the Trainer itself and of the policies it is composed of: an aggregate, filled by
/// designated initialisers or member by member, `Options o; o.batch = 64;`.
///
/// A run that resumes is compared with the one that wrote the checkpoint:
///
///     error    seed: order of the data and random draws; label_smoothing: what a loss means
///     note     batch, phases, and the rank count: it goes on by progress in the data
///     note     epochs, reducer, scheduler, optimizer, loss_scale: may be tuned in mid-run
///     note     micro_batches: the sums are rounded otherwise, and batch norm sees other images
///     note     deterministic, where it is false: no run repeats the other's bits
///     neither  weights: those of the checkpoint are in force; pixels, output, checkpoints, stop,
///              evaluate, trace_steps, observers, progress, most_skips, survival: no effect on the
///              weights
///
/// With `phases`, as in {{0, 64, 128}, {13, 32, 224}}, each phase has its own batch, which takes
/// the place of `batch`, and images of image_side x image_side pixels: Decoded decodes straight to
/// them, images of other sources are resized by the loader. The same holds for the test set. The
/// network's parameters must not depend on the image size. Between two phases weights, statistics,
/// optimizer state and gradients in flight stay as they are; the schedule is one curve over the
/// run, in steps of the first phase's batch.
///
/// LinearScaling rescales the rate at a phase's first step by its batch over that of the phase
/// before, as the source does: a mean over k times the images, of which a pass has 1 / k as many,
/// has k times the rate, so that a pass over the data changes the weights as much as before. The
/// momentum stays: Sgd's velocity holds gradients, not steps, and each update multiplies all of it
/// by the present rate, which is the momentum correction of Goyal et al. (rate_in_velocity, whose
/// velocity holds steps of the old rate, has none).
/// Source: Howard et al. 2018, "Training Imagenet in 3 hours for $25", fast.ai; bs_scale in
///         train.py of github.com/cybertronai/imagenet18; Goyal et al. 2017, arXiv:1706.02677.
///
/// With `micro_batches` K > 1 a device holds activations of batch / K images, and one vector more
/// of the parameters' size for the sum. The sum is of fp32, in the order of the images; the mean is
/// that of the whole batch, divided once, and so are loss scale, overflow check and skipped steps.
/// A tail of an epoch with fewer images has fewer parts, the last of the images that are left.
/// Steps, epochs, schedules and checkpoints are those of a run without it. What differs besides
/// rounding: batch norm takes the statistics of each part alone, as a run of that batch does, and
/// dropout draws for each part.
///
/// Units: batch in images of one rank and step; epochs in passes over the training set.
template <class ReducerOptions, class SchedulerOptions, class OptimizerOptions,
          class LossScaleOptions, class SurvivalOptions>
struct TrainerOptions {
    int batch = 32;
    int epochs = 1;
    /// Gradient accumulation: a rank's batch goes through the network in so many parts of one size,
    /// one after another, and their gradients are summed before one reduction and one update.
    /// 1: all at once. It divides the batch of every phase.
    int micro_batches = 1;
    std::vector<Phase> phases{};  ///< batch and image size by epoch; none: `batch`, as the data is
    bool pixels = false;  ///< batches cross to the device as 8-bit pixels, and it normalises them
    std::uint64_t seed = 1;
    double label_smoothing = 0;
    /// false: a device may take kernels whose sums change from run to run, where it has quicker
    /// ones: cuDNN's. CPUs have none. A run is then repeated and resumed to rounding only.
    bool deterministic = true;
    InitialWeights weights{};  ///< trained ones to start from; none: at random, by the seed
    ReducerOptions reducer{};  ///< NoOptions for most
    SchedulerOptions scheduler{};
    OptimizerOptions optimizer{};
    LossScaleOptions loss_scale{};
    SurvivalOptions survival{};      ///< NoOptions for StopOnLoss
    std::filesystem::path output{};  ///< folder of one run's checkpoints; empty writes none
    /// Checkpoint to go on from; empty starts anew. "latest": the newest whole one in `output`, or
    /// anew where there is none, so that one command starts a job and restarts it; where it lies
    /// behind the last epoch nothing is trained, and the record is what it holds, with the last
    /// test where that was not made (not by ContinueOnSurvivors, which warns). An error where
    /// there are some, and all are damaged or of another model, and where an older one of the same
    /// composition, data and seed is further.
    std::filesystem::path resume{};
    CheckpointOptions checkpoints{};
    const StopRequest* stop = nullptr;  ///< asked for a checkpoint and an end; it outlives the run
    bool evaluate = true;  ///< run the test set after each epoch; a loss of it that is not finite
                           ///< ends the run when the epoch's checkpoint is written
    int trace_steps = 3;   ///< steps at the end of the first epoch kept for the timeline
    std::vector<Observer*> observers{};  ///< of the run; they outlive it
    bool progress = true;  ///< show a bar where stderr is a terminal, unless an observer shows one
    int most_skips = 20;  ///< skipped steps in a row, the loss scale at its floor, that end the run
};

}  // namespace gx
