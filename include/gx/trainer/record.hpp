// RunRecord: what one training run found, for the table, JSON file and report.
#pragma once

#include <cstdint>  // int64_t
#include <limits>   // NaN
#include <string>   // names
#include <vector>   // rows

#include <gx/core/decl.hpp>   // GX_COMPILED
#include <gx/core/trace.hpp>  // Span

namespace gx {

/// One optimiser step. Seconds are on the world's clock, from the start of the run; NaN in a part
/// that was resumed by another clock than an earlier part.
struct StepRow {
    std::int64_t step = 0;
    double seconds = 0;
    double loss = 0;  ///< mean over the global batch, nats
    double rate = 0;  ///< of the update made in this step; 0 when there was none to make
    double loss_scale = 1;
    bool skipped = false;  ///< the reduced gradient overflowed, so no rank stepped; where ranks
                           ///< update apart, at least one of them did not
};

/// One epoch: training metrics over its steps, test metrics at its end; NaN where it has no test.
struct EpochRow {
    static constexpr double untested = std::numeric_limits<double>::quiet_NaN();

    int epoch = 0;          ///< counted from 0
    std::int64_t step = 0;  ///< steps done by its end
    double seconds = 0;     ///< training time since the start, as StepRow's; no testing in it
    double train_loss = 0, train_accuracy_pct = 0;
    double test_loss = untested;  ///< its labels are smoothed as in training
    double test_accuracy_pct = untested;
    double test_top5_accuracy_pct = untested;  ///< labels among the five largest logits
                                               ///< (ForwardReport)
    double images_per_second = 0;              ///< of all ranks, in this epoch, by its own clock
};

/// A phase of a run whose batch or image size changes.
struct PhaseRow {
    int first_epoch = 0;
    int batch_per_rank = 0;
    int image_height = 0, image_width = 0;  ///< pixels
    std::int64_t steps_per_epoch = 0;       ///< with the ranks that the run began with
    bool operator==(const PhaseRow&) const = default;
};

/// Ranks that a run has lost, and where it went on without them (ContinueOnSurvivors).
struct LossRow {
    std::int64_t step = 0;    ///< the first step of the next world
    int world = 0;            ///< its number: that of the first is 0
    int ranks = 0;            ///< that are left
    std::vector<int> lost{};  ///< left out from then on, by their numbers in the first world
    std::string error{};      ///< the first survivor's; empty where none was told
    std::vector<std::string> state{};  ///< what is gone with them: the names of reducer state
};

/// Where the training time of rank 0 went, in seconds; the four add up to RunRecord::seconds.
struct Breakdown {
    double compute = 0;  ///< forward, backward, update; a device's whole step
    /// Waiting for a reduction with nothing else to do. On a device its queue waits, not the host,
    /// which then can't tell this time from compute.
    double exposed_communication = 0;
    double input = 0;  ///< waiting for the loader
    double idle = 0;   ///< the rest
};

/// One run of one composition in one world. If it was resumed by another clock than an earlier part
/// (wall or virtual), sums over both have no unit: seconds, breakdown, throughput, dollars and
/// efficiency are NaN, and a note says so.
struct RunRecord {
    // What ran.
    std::string composition{}, model{}, reducer{}, scheduler{}, optimizer{}, device{}, world{};
    std::string clock{};     ///< "virtual" or "wall"
    std::string timed_as{};  ///< what the clock was charged for, when that is not what was trained
    std::vector<std::string> notes{};  ///< profile, corrections, resumes; one sentence each
    int ranks = 0, batch_per_rank = 0, epochs_planned = 0;
    std::uint64_t seed = 0;
    // What it found.
    std::vector<StepRow> steps{};
    std::vector<EpochRow> epochs{};
    std::vector<LossRow> losses{};
    std::vector<PhaseRow> phases{};  ///< of TrainerOptions::phases; none: one for all epochs
    std::vector<Span> spans{};       ///< of the last `trace_steps` steps of the first epoch
    LinkRates link_rates{};          ///< of the same time, where the world is simulated
    Breakdown breakdown{};
    double seconds = 0;              ///< training time on the world's clock
    std::int64_t images = 0;         ///< trained on, all ranks; in units of each part's timed batch
    double images_per_second = 0;    ///< all ranks
    double undisturbed_seconds = 0;  ///< rank 0's kernels at their nominal speed; 0: unknown
    /// Throughput against the undisturbed single rank: 100 * undisturbed_seconds / seconds, at most
    /// 100, although jitter can make a GPU faster than nominal. NaN where the nominal speed is
    /// unknown, as it is on real hardware.
    double scaling_efficiency_pct = std::numeric_limits<double>::quiet_NaN();
    double exposed_communication_pct = 0;
    double dollars = 0;  ///< each part of a resumed run at the price of its own world
    std::int64_t bytes_sent_per_step = 0;  ///< by rank 0, on the wire, in the last step; with
                                           ///< LocalSgd that is one with a mean
    std::uint64_t event_hash = 0;          ///< of a simulated run; 0 elsewhere
    std::uint64_t weights_hash = 0;        ///< of the final parameters' bits, equal on all ranks
    double wall_seconds = 0;               ///< what the run cost here
    std::int64_t skipped_steps = 0;
    bool at_chance = false;               ///< last test accuracy within 3 deviations of chance
    std::vector<std::string> warnings{};  ///< what a reader must know, one sentence each

    /// Of the last epoch; NaN where it has no test.
    [[nodiscard]] double test_accuracy_pct() const {
        return epochs.empty() ? EpochRow::untested : epochs.back().test_accuracy_pct;
    }
    [[nodiscard]] double test_top5_accuracy_pct() const {
        return epochs.empty() ? EpochRow::untested : epochs.back().test_top5_accuracy_pct;
    }
};

}  // namespace gx

#if defined(GX_COMPILED)
extern template class std::vector<gx::StepRow>;
extern template class std::vector<gx::EpochRow>;
#endif
