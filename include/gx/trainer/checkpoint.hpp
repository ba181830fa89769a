// Checkpoint: all that a run needs to go on unchanged, in one safetensors file.
#pragma once

#include <array>        // shape
#include <cstdint>      // int64_t
#include <filesystem>   // path
#include <optional>     // one that is found
#include <string>       // names
#include <string_view>  // mixed_clocks
#include <utility>      // pair
#include <vector>       // flat vectors

#include <gx/core/cold.hpp>           // GX_COLD
#include <gx/core/decl.hpp>           // GX_DECL
#include <gx/trainer/loss_scale.hpp>  // LossScaleState
#include <gx/trainer/record.hpp>      // StepRow

namespace gx {

struct Graph;

/// Value of Checkpoint::clock where parts of the training time were measured by different clocks.
inline constexpr std::string_view mixed_clocks = "mixed";

/// What a trained network expects of an image, and what its classes are called. A file keeps it of
/// the SourceInfo of the training set, whose name and count a network does not depend on.
struct InputFormat {
    std::array<int, 3> shape{};              ///< channels, height, width
    std::vector<float> mean{}, deviation{};  ///< of each channel, of pixels scaled to 0 ... 1
    int classes = 0;
    std::vector<std::string> class_names{};  ///< one a class, or none where they are not known
    bool operator==(const InputFormat&) const = default;
};

/// A run between two steps, most often between two epochs. Flat vectors are canonical (Graph's own
/// layout of parameters), so that a checkpoint depends on neither the device nor, but for per-rank
/// reducer state, the rank count. It keeps what a resume is compared with (TrainerOptions), and of
/// earlier resumes their notes.
struct Checkpoint {
    struct Pending {
        std::uint64_t index = 0;  ///< number of the gradient
        float loss_scale = 1;     ///< it was computed with
        float rate = 0;           ///< of its step, under the plan of the run that computed it
        std::vector<float> values;
    };
    struct Vector {
        std::string name;
        std::vector<float> values;
        bool operator==(const Vector&) const = default;
    };
    struct ReducerVector {
        std::string name;
        bool replicated = false;                ///< one for all ranks
        std::vector<std::vector<float>> ranks;  ///< of each rank, or the one
        bool operator==(const ReducerVector&) const = default;
    };
    struct Scalar {
        std::string name;
        double value = 0;
        bool operator==(const Scalar&) const = default;
    };

    /// An option that changes the trajectory: "scheduler.next.peak_rate", and its value as text.
    struct Option {
        std::string name, value;
        bool operator==(const Option&) const = default;
    };

    /// What a run has done of an epoch that it is within.
    struct Within {
        std::int64_t images = 0;     ///< of all ranks, in this epoch; 0: it is between two epochs
        double begin_seconds = 0;    ///< training time when the epoch began
        std::vector<double> sums{};  ///< of its steps: loss, hits and images over all ranks
        std::vector<std::int64_t> rank_images{};       ///< that each rank has seen of it
        std::vector<std::vector<float>> statistics{};  ///< running statistics of each rank
        bool operator==(const Within&) const = default;
    };

    std::string model{};
    std::string composition{};  ///< Trainer::name()
    std::uint64_t seed = 0;
    int ranks = 0, batch = 0;          ///< batch of one rank
    std::int64_t images = 0;           ///< in the training set
    std::uint64_t data_hash = 0;       ///< of the training set; 0: not known
    std::uint64_t test_data_hash = 0;  ///< of the test set; 0: not known, or none
    int epoch = 0;                     ///< epochs done; the present one where it is within one
    std::int64_t step = 0;             ///< steps done: gradients computed
    std::int64_t world_step = 0;       ///< step at which the last world of the run began anew
    std::int64_t updates = 0;          ///< gradients applied: neither pending nor skipped. Where
                                       ///< ranks update apart, a skipped one keeps its number
    std::int64_t skips_in_a_row = 0;   ///< at the floor of the loss scale, up to now
    std::string clock{};               ///< WorldInfo::clock of `seconds`, or mixed_clocks
    std::string timed_as{};            ///< WorldInfo::timed_as of the last part
    double seconds = 0;                ///< training time; NaN where clocks are mixed
    double undisturbed_seconds = 0;    ///< RunRecord's
    double dollars = 0;                ///< each part at its own price; NaN where clocks are mixed
    double timed_images = 0;           ///< RunRecord::images
    InputFormat input_format{};        ///< its shape is 0 in files of older versions
    LossScaleState loss_scale{};
    std::vector<float> parameters{}, statistics{};
    Within within{};                       ///< `statistics` is then the mean over the ranks
    std::vector<Vector> optimizer{};       ///< Optimizer::state(), one flat vector each
    std::vector<Scalar> scalars{};         ///< Optimizer::scalars()
    std::vector<Pending> pending{};        ///< averaged gradients that are not applied yet
    std::vector<ReducerVector> reducer{};  ///< Reducer::state()
    std::vector<Option> options{};         ///< of the last part
    std::vector<std::string> notes{};      ///< what each resume changed, a sentence each
    std::string record{};  ///< the rows as JSON: epochs so far, steps of the last epoch

    /// How far it is: epochs done, and images of the next. Steps are of batches, which may change.
    using Progress = std::pair<int, std::int64_t>;
    [[nodiscard]] Progress progress() const { return {epoch, within.images}; }
    [[nodiscard]] bool is_within() const { return within.images > 0; }
    /// "after epoch 3", or "within epoch 4, behind 640 of its images".
    GX_COLD [[nodiscard]] GX_DECL std::string place() const;
};

/// Name of the checkpoint after `epochs_done` epochs, in the output folder.
GX_COLD [[nodiscard]] GX_DECL std::string checkpoint_name(int epochs_done);
/// Name of a checkpoint within an epoch, after `steps_done` steps of the run.
GX_COLD [[nodiscard]] GX_DECL std::string step_checkpoint_name(std::int64_t steps_done);
/// Kind and number in the file name of a checkpoint.
struct CheckpointNumber {
    bool of_epoch = false;    ///< else of steps
    std::int64_t number = 0;  ///< of epochs or steps done, from 1 on
};
/// Of a name that one of these two gives; none of any other, such as "epoch-1.safetensors".
GX_COLD [[nodiscard]] GX_DECL std::optional<CheckpointNumber> checkpoint_number(
    std::string_view name);

/// Writes `c` whole or not at all. Weights carry their plain names, as other programs expect.
/// Errors: gx::Error naming the file; an older checkpoint of that name is then untouched.
GX_COLD GX_DECL void write_checkpoint(const std::filesystem::path& path, const Graph& graph,
                                      const Checkpoint& c);

/// Reads what write_checkpoint wrote; every field is validated.
/// Errors: gx::Error naming the file and the tensor or field that is missing or does not fit.
GX_COLD [[nodiscard]] GX_DECL Checkpoint read_checkpoint(const std::filesystem::path& path,
                                                         const Graph& graph);

/// The image format of a checkpoint, or of any file that has it in its metadata.
/// Errors: gx::Error naming the file, the field and what it expected, for one that is not as gx
///         writes it; as read_safetensors. A file without one gives a shape of 0.
GX_COLD [[nodiscard]] GX_DECL InputFormat read_input_format(const std::filesystem::path& path);
/// The model whose weights a file of gx holds; empty where it does not say.
GX_COLD [[nodiscard]] GX_DECL std::string read_model_name(const std::filesystem::path& path);
/// What follows the advice to take the model that wrote a file, of model `written`: that it may be
/// `model` itself, of an older gx, which is to be taken as `remedy` says; empty where it is not.
GX_COLD [[nodiscard]] GX_DECL std::string older_model_note(std::string_view written,
                                                           std::string_view model,
                                                           std::string_view remedy);
/// The text that read_input_format reads, for the metadata field "images".
GX_COLD [[nodiscard]] GX_DECL std::string to_json(const InputFormat& format);

/// A checkpoint to go on from, and what could not be used.
struct FoundCheckpoint {
    std::filesystem::path file{};  ///< empty: there is none
    std::optional<Checkpoint> checkpoint{};
    std::vector<std::string> errors{};  ///< of damaged files, as new or newer, the newest first;
                                        ///< and of those whose time is not known
};

/// The files in `folder` that are named as checkpoints, in no order; none where it is not there.
/// Errors: gx::Error for a folder that can't be listed.
GX_COLD [[nodiscard]] GX_DECL std::vector<std::filesystem::directory_entry> checkpoint_files(
    const std::filesystem::path& folder);

/// The newest checkpoint in `folder` that is whole, by the time it was written: of those with the
/// names that a run gives them; of several of one time the one of the most progress. Files of other
/// models count as damaged.
/// Errors: gx::Error for a folder that can't be listed.
/// Cost:   reads the files from the newest on, up to the first that is whole and those of its time.
GX_COLD [[nodiscard]] GX_DECL FoundCheckpoint latest_checkpoint(const std::filesystem::path& folder,
                                                                const Graph& graph);

/// Step rows of the epochs before the last of `c`. They are read from the checkpoints of the same
/// run that lie beside `path`; epochs whose checkpoint is missing or of another run are omitted.
/// Cost: each checkpoint keeps the step rows of one epoch, so that a run writes O(steps) of them.
GX_COLD [[nodiscard]] GX_DECL std::vector<StepRow> earlier_steps(const std::filesystem::path& path,
                                                                 const Checkpoint& c);

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/trainer/impl/checkpoint.ipp>
#else
extern template class std::vector<gx::Checkpoint::Vector>;
extern template class std::vector<gx::Checkpoint::Scalar>;
extern template class std::vector<gx::Checkpoint::Pending>;
extern template class std::vector<gx::Checkpoint::Option>;
extern template class std::vector<gx::Checkpoint::ReducerVector>;
#endif
