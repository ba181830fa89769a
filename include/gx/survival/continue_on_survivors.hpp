// ContinueOnSurvivors: training that goes on with the ranks that are left.
#pragma once

#include <chrono>  // a year
#include <string>  // sentences

#include <gx/core/units.hpp>        // Nanoseconds
#include <gx/io/problems.hpp>       // Problems
#include <gx/survival/concept.hpp>  // Survival, Recovery

namespace gx {

/// Elastic data-parallel training: after the loss of ranks the run goes on with the others.
///
///     Trainer<Net, Ring<fp16>, Warmup<Poly<2>>, ContinueOnSurvivors> trainer(
///         {.batch = 32, .survival = {.fewest_ranks = 4}});
///     RunRecord record = trainer.train(world, data);      Threads, sim::Cluster, ... (Shrinks)
///     record.losses                                       who was lost, and where it went on
///
/// When a rank is lost every other rank gets an error that names it, and stops with the updates
/// that it has made. Survivors may differ by a few updates, because an averaged gradient may have
/// reached only some of them. The world gives the next one (Shrinks): a simulated cluster the
/// largest core of equal machines. There the member with the most updates sends its state to those
/// that are behind, with a hash; steps that no member applied are repeated. Nothing is lost or
/// applied twice.
///
///     parameters, optimizer,           those of the member with the most updates; members with as
///     loss scale, counters,            many hold the same bits, which is checked
///     replicated reducer state
///     a reducer's state of each rank   every survivor keeps its own; that of a lost rank is lost
///     running statistics               every survivor keeps its own, as of the last update that
///                                      counts; the mean at the end of the epoch is over survivors
///
/// The images of an epoch are cut into steps from where the history ends, so the final history has
/// each image once in an epoch, for any rank counts. Losses and accuracies of an epoch are over the
/// images of its survivors; a step of which no survivor had an image has the loss NaN. The learning
/// rate follows the progress in the data: the rate at the same image of a run with the present rank
/// count. So LinearScaling follows the global batch.
/// Phases begin at their epochs whatever was lost: with the batch of a rank and the image size that
/// they name. A loss goes on in the phase of the epoch that it goes back to.
/// Staleness restarts with each world: a gradient in flight at the end of one is applied or
/// computed again, never applied late in the next.
///
/// On devices the queues drop what waits for the lost rank (Abandons), and the host reads what they
/// have done: whole updates, up to the first that waits. The host settles the reducer's state for
/// those that the device has not settled; a reducer with a settle() must have an unsettled().
/// Queues that can drop nothing (Abandons::runs_abandoned_work), as CUDA's, go on from checkpoints.
///
/// Recovery::checkpoint goes back to the newest checkpoint in the output folder that is whole, as a
/// resumed run does; without one the run starts again, but stops if it was resumed itself. Such a
/// run may write them within epochs too, every so many steps (CheckpointOptions::every_steps): then
/// a loss costs those steps at most. A checkpoint written after a loss resumes like any other.
/// On devices no rank begins the next step before rank 0 holds the checkpoint: a later loss, which
/// may stop its copies from the device, does not cost it.
///
/// A reducer that owns the update, as Sharded and LocalSgd do, goes on in this way alone, and a run
/// with Recovery::survivors does not start: a part of the optimizer's state was on the lost rank
/// only, and an exchange that has not ended leaves replicas that differ. The state of parts, which
/// a checkpoint holds together, is cut for the ranks that are left. Of state that each rank has for
/// itself a survivor gets its own, as of the checkpoint.
///
/// Rows, notes, clock and dollars of the record cover all worlds, with the time that repeated and
/// broken steps took and that of restarts.
///
/// Order:  a run without a loss is that of StopOnLoss: equal bits, messages and events, but for
///         the control messages of that wait on devices. The final state depends only on the
///         history (which updates, over which ranks): a run that loses the same ranks after the
///         same updates in another way gives equal bits.
/// Errors: gx::Error with fewer than `fewest_ranks` left. Errors that are no loss of a rank (a loss
///         that is not a number, a full disk) end the run as they do elsewhere.
/// Cost:   a copy of the running statistics in each step; nothing else while no rank is lost. On a
///         device a kernel, and the copies of the last staleness + 3 steps lie in its memory. The
///         host waits for nothing.
class ContinueOnSurvivors {
public:
    static constexpr bool continues = true;

    struct Options {
        int fewest_ranks = 1;                     ///< with fewer ranks it stops
        Recovery recovery = Recovery::survivors;  ///< where the state comes from
        Nanoseconds restart_time{};               ///< to build a smaller world; on the run's clock
    };

    explicit ContinueOnSurvivors(Options o) : options_(o) {}

    /// Adds what is wrong with the options of a run; `writes`: it writes checkpoints.
    static void check(Problems& problems, const Options& o, int ranks, bool writes) {
        problems.check(o.fewest_ranks >= 1 && o.fewest_ranks <= ranks,
                       "fewest_ranks is " + std::to_string(o.fewest_ranks) + ": this world has " +
                           std::to_string(ranks) + " ranks; give 1 to as many");
        problems.check(o.restart_time.count() >= 0 && o.restart_time <= most_restart_time,
                       "restart_time is " + std::to_string(o.restart_time.count()) +
                           " ns: it must be from 0 to a year");
        problems.check(o.recovery == Recovery::survivors || writes,
                       "output is empty: recovery from checkpoints needs a folder for them");
    }

    [[nodiscard]] int fewest_ranks() const { return options_.fewest_ranks; }
    [[nodiscard]] Nanoseconds restart_time() const { return options_.restart_time; }
    [[nodiscard]] Recovery recovery() const { return options_.recovery; }

private:
    static constexpr Nanoseconds most_restart_time = std::chrono::hours(24 * 365);
    Options options_;
};
static_assert(explain_survival<ContinueOnSurvivors>());

}  // namespace gx
