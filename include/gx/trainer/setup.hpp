// Checks before a run and its summary after it: parts of Trainer without templates.
#pragma once

#include <array>        // texts
#include <cstdint>      // uint64_t
#include <filesystem>   // output folder
#include <span>         // texts of ranks
#include <string>       // sentences
#include <string_view>  // names
#include <vector>       // sentences

#include <gx/core/cold.hpp>           // GX_COLD
#include <gx/core/decl.hpp>           // GX_DECL
#include <gx/core/element.hpp>        // ElementType
#include <gx/core/function_ref.hpp>   // FunctionRef
#include <gx/core/world_info.hpp>     // WorldInfo
#include <gx/io/problems.hpp>         // Problems
#include <gx/loader/source.hpp>       // Sources
#include <gx/model/concept.hpp>       // GraphOptions
#include <gx/scheduler/concept.hpp>   // Plan
#include <gx/survival/concept.hpp>    // Recovery
#include <gx/trainer/checkpoint.hpp>  // Checkpoint
#include <gx/trainer/options.hpp>     // Phase
#include <gx/trainer/record.hpp>      // RunRecord

namespace gx::detail::trainer {

struct RunPhase;

/// TrainerOptions without those of the policies.
struct RunOptions {
    int batch = 0, epochs = 0;
    int micro_batches = 1;
    std::vector<Phase> phases{};
    bool pixels = false;
    std::uint64_t seed = 1;
    double label_smoothing = 0;
    bool deterministic = true;
    std::filesystem::path output{}, resume{};
    bool evaluate = true;
    int trace_steps = 0;
    CheckpointOptions checkpoints{};
    const StopRequest* stop = nullptr;
    std::vector<Observer*> observers{};
    bool progress = true;
    int most_skips = 1;
    bool writes = true;  ///< this process writes the output
};

/// Steps of a run over `images` training images.
GX_COLD [[nodiscard]] GX_DECL Plan plan_of(std::int64_t images, int ranks, int batch, int epochs);

/// Adds every problem of options, data and rank count; returns the plan (with a batch of 1 if it is
/// wrong, so that schedules can be checked too). `misfit`: why the model does not take the images.
GX_COLD GX_DECL Plan check_run(Problems& problems, const RunOptions& o, const Sources& data,
                               int ranks, const std::string& misfit);

/// Errors: gx::Error for mixed samples on a device that takes one label an image, and in a test.
GX_COLD GX_DECL void check_mixed(const Sources& data, bool evaluate, bool takes,
                                 const std::string& device);

/// Errors: gx::Error for 8-bit batches on a device that takes none.
GX_COLD GX_DECL void check_pixels(bool wanted, bool takes, const std::string& device);

/// Why `model` does not take images of this shape; empty if it does. With the layer where it ends,
/// and the height and width of the smallest square image that fits. `trouble`: that of the model.
GX_COLD [[nodiscard]] GX_DECL std::string misfit(std::string_view model,
                                                 GraphTrouble (*trouble)(const GraphOptions&),
                                                 ImageShape input);

/// Errors: gx::Error where survivors are to go on from what they hold, on queues that run abandoned
/// work: what they hold may be sums of what was never sent.
GX_COLD GX_DECL void expect_checkpoints(Recovery recovery);

/// The same of a reducer that owns the update, among the problems of a run.
GX_COLD GX_DECL void check_owner_recovers(Problems& problems, Recovery recovery,
                                          const std::string& reducer);

/// What a rank calls its data, for comparison: describe(info), and a hash of all that is known.
using DataText = std::array<char, 256>;
GX_COLD [[nodiscard]] GX_DECL DataText text_of(const SourceRef& source);
/// Hash of the samples and of their normalisation; 0 where the samples' is not known.
[[nodiscard]] GX_DECL std::uint64_t data_hash(const SourceRef& source);
/// Both texts, or that of the training set where the run does not test.
GX_COLD [[nodiscard]] GX_DECL std::string description(const Sources& data, bool evaluate);
/// Sentence that names the first rank whose text differs from that of rank 0, and both; else empty.
GX_COLD [[nodiscard]] GX_DECL std::string other_data(const char* role,
                                                     std::span<const DataText> of_ranks);

/// Names of the policies that a checkpoint must fit.
struct Names {
    std::string composition, reducer;
    bool survives = false;
    bool latest = false;  ///< it may lie behind the last epoch
};
/// Checkpoint to go on from. `data_hash`: that of `data.train`.
/// Errors: gx::Error if the run would not be the one that wrote it; lists every reason.
GX_COLD [[nodiscard]] GX_DECL Checkpoint resumable(const RunOptions& o, const Graph& graph,
                                                   const Names& names, const Sources& data,
                                                   std::uint64_t data_hash, int ranks);

/// What another rank count or batch changes, as a sentence without its period; else empty.
/// `batch`, `steps_per_epoch`: at present, of the phase that wrote `c`; `plan`: of the first phase.
GX_COLD [[nodiscard]] GX_DECL std::string rescaled(const Checkpoint& c, const Plan& plan, int batch,
                                                   std::int64_t steps_per_epoch);

/// What this part of a run changes against the part that wrote `c`, each as `rescaled`: options,
/// clock, and what is timed.
GX_COLD [[nodiscard]] GX_DECL std::vector<std::string> changes(
    const Checkpoint& c, const std::vector<Checkpoint::Option>& options, const WorldInfo& world);

/// Errors: gx::Error if the world has returned before rank 0 had recorded the last epoch, as when
///         all ranks of a cluster died and none was left to name another.
GX_COLD GX_DECL void expect_whole(const RunRecord& r, int epochs);

/// Error of a run that would continue, and has fewer ranks left than are worth it.
GX_COLD [[noreturn]] GX_DECL void throw_too_few(const LossRow& loss, int fewest,
                                                const std::string& error);

/// Takes the rows of `c` into `r`, and those of earlier epochs from the checkpoints beside it.
GX_COLD GX_DECL void restore_rows(RunRecord& r, const Checkpoint& c,
                                  const std::filesystem::path& path);

/// Error of a loader that begins at an epoch's first image, where a run goes on behind `done`.
GX_COLD [[noreturn]] GX_DECL void throw_not_within(const std::string& loader, std::int64_t done,
                                                   std::int64_t global_batch);

/// Rows that a checkpoint keeps: the epochs of `r`, and the `steps` of the last one.
GX_COLD [[nodiscard]] GX_DECL std::string rows_to_keep(const RunRecord& r,
                                                       const std::vector<StepRow>& steps);

/// What the loss of ranks has changed, one sentence.
GX_COLD [[nodiscard]] GX_DECL std::string note_of(const LossRow& row);

/// "epoch 1/3  loss 0.250", for the progress bar.
GX_COLD [[nodiscard]] GX_DECL std::string progress_words(int epoch, int epochs, double loss);

// Errors of a run; each throws gx::Error.
GX_COLD [[noreturn]] GX_DECL void throw_bad_loss(int rank, std::int64_t step,
                                                 const std::string& layer, float rate);
/// `saved`: the epoch's checkpoint; empty: none.
GX_COLD [[noreturn]] GX_DECL void throw_bad_test(int rank, int epoch, const std::string& layer,
                                                 const std::string& saved);
/// Of a step whose queued work is not that of the steps that it repeats.
GX_COLD [[noreturn]] GX_DECL void throw_not_repeated(int rank, std::int64_t step,
                                                     const std::string& reducer,
                                                     const char* difference);
/// `in_a_row` 0: every step of the run. `apart`: ranks decide on their own updates.
GX_COLD [[noreturn]] GX_DECL void throw_skips(int rank, std::int64_t step, std::int64_t in_a_row,
                                              float loss_scale, std::string_view wire,
                                              ElementType compute, const std::string& reducer,
                                              bool apart);
GX_COLD [[noreturn]] GX_DECL void throw_no_memory(int rank, int batch, int micro_batch,
                                                  const Graph& graph);
GX_COLD [[noreturn]] GX_DECL void throw_replicas_differ(std::int64_t step, int rank);
GX_COLD [[noreturn]] GX_DECL void throw_survivors_differ(std::int64_t step, int rank, int other);
GX_COLD [[noreturn]] GX_DECL void throw_states_differ(std::int64_t step, int rank,
                                                      const std::string& reducer,
                                                      std::string_view name);

/// Runs `f`; an allocation that fails in it throws the bytes that a rank needs in the RunPhase that
/// phase() then returns.
GX_COLD GX_DECL void with_memory(int rank, FunctionRef<const RunPhase&()> phase,
                                 FunctionRef<void()> f);

}  // namespace gx::detail::trainer

#if defined(GX_HEADER_ONLY)
#include <gx/trainer/impl/setup.ipp>
#endif
