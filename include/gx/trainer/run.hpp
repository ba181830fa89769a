// Run: what all ranks of a run share; its start and resumption, compiled once.
#pragma once

#include <array>        // counts
#include <cstdint>      // uint64_t
#include <exception>    // exception_ptr
#include <filesystem>   // files
#include <functional>   // the policies' functions
#include <memory>       // shared_ptr, unique_ptr
#include <optional>     // resumed checkpoint
#include <string>       // names
#include <string_view>  // string_view
#include <vector>       // phases

#include <gx/core/cold.hpp>               // GX_COLD
#include <gx/core/decl.hpp>               // GX_DECL
#include <gx/core/element.hpp>            // ElementType
#include <gx/core/findings.hpp>           // Findings
#include <gx/core/trace.hpp>              // TraceSink
#include <gx/core/units.hpp>              // DollarsPerHour
#include <gx/core/world_info.hpp>         // WorldInfo, RunTerms
#include <gx/io/problems.hpp>             // Problems
#include <gx/loader/source.hpp>           // Sources
#include <gx/model/graph.hpp>             // Graph
#include <gx/scheduler/concept.hpp>       // Plan, Scheduler
#include <gx/trainer/checkpoint.hpp>      // Checkpoint
#include <gx/trainer/options.hpp>         // Phase
#include <gx/trainer/rank/timetable.hpp>  // Timetable
#include <gx/trainer/record.hpp>          // RunRecord, LossRow
#include <gx/trainer/run_phases.hpp>      // RunPhase
#include <gx/trainer/setup.hpp>           // RunOptions
#include <gx/trainer/weights.hpp>         // InitialWeights, Weights
#include <gx/trainer/worlds.hpp>          // Membership

namespace gx::detail {
class FolderLock;
}

namespace gx::detail::trainer {

class CheckpointWriter;
class StepGate;
class Watchers;

using Rate = std::function<float(Step)>;

/// A Scheduler with options completed from a plan: what is wrong with them, or how it is made.
struct Schedule {
    Findings findings{};
    std::function<Rate()> make{};  ///< empty where anything is wrong
};
template <Scheduler S>
[[nodiscard]] Schedule schedule_of(const typename S::Options& options, const Plan& plan) {
    const auto complete = complete_options<S>(options, plan);
    Schedule out{.findings = check_options<S>(complete)};
    if (out.findings.empty())
        out.make = [complete]() -> Rate {
            return [scheduler = std::shared_ptr<const S>(new S(complete))](Step step) {
                return scheduler->rate(step);
            };
        };
    return out;
}

/// What the start of a run asks of a composition.
struct RunComposition {
    std::string name{};     ///< of the composition, for checkpoints and comparison
    std::string reducer{};  ///< names of policies
    std::string loader{};
    std::string_view model{}, wire{};  ///< wire: its element
    Graph (*graph)(const GraphOptions&) = nullptr;
    GraphTrouble (*trouble)(const GraphOptions&) = nullptr;
    std::function<Schedule(const Plan&)> schedule{};
    std::function<void(Problems&, int ranks)> check_policies{};  ///< their own options
    std::vector<Checkpoint::Option> choices{};  ///< options that change the trajectory, as given
    ElementType compute = ElementType::fp32;    ///< of devices
    bool tf32 = false;                          ///< of products in fp32
    InitialWeights weights{};                   ///< that a run begins with
    bool loads_any_source = true;               ///< not only data sets in memory
    bool updates_apart = false;                 ///< each rank decides on its own updates
    bool survives = false;                      ///< it continues on survivors
    bool goes_back = false;                     ///< and does so from a checkpoint
};

/// What the start of a run asks of its world.
struct RunWorld {
    WorldInfo info{};
    std::string device{};
    int ranks = 1;
    int first_local_rank = 0;   ///< its record is that of this process
    bool takes_pixels = false;  ///< its devices do
    bool takes_second_labels = false;
    bool compares_data = false;  ///< each process has named its own
    bool in_one_process = true;  ///< with all ranks
};

/// What all ranks of a run share and none changes.
struct Run {
    GX_COLD GX_DECL Run(RunComposition composition_in, RunOptions options_in,
                        const Sources& data_in);
    GX_COLD GX_DECL Run(Run&&) noexcept;
    GX_COLD GX_DECL ~Run();

    RunComposition composition;
    RunOptions options;
    Sources data;
    std::array<std::int64_t, 2> skipped_before{};  ///< SourceRef::skipped of both, as it began
    std::vector<RunPhase> phases{};                ///< at least one
    Plan plan{};                                   ///< in steps of the first phase's batch
    Timetable timetable{};
    std::vector<Rate> rates{};             ///< of each phase
    std::optional<Weights> initial{};      ///< none: at random
    std::optional<Checkpoint> resume{};    ///< none: start anew
    std::filesystem::path resumed_from{};  ///< its file
    bool is_over = false;                  ///< it lies behind the last epoch: "latest" found it;
                                           ///< and nothing is left to test
    std::uint64_t data_hash = 0;           ///< of the training set, where checkpoints need it
    std::uint64_t test_data_hash = 0;      ///< of the last test set of the run; 0: none, or unknown
    std::string rescaled{};  ///< what changes with another rank count or batch; a sentence
    std::vector<std::string> changes{};    ///< all that this resume changes, as `rescaled`
    std::vector<std::string> notes{};      ///< of all resumes, this one included
    std::vector<std::string> warnings{};   ///< known before it starts
    bool mixed_clocks = false;             ///< an earlier part was measured by another clock
    bool compares_data = false;            ///< each process has named its own
    DollarsPerHour price{};                ///< of the world
    TraceSink* trace = nullptr;            ///< of the world, where it has one
    int first_local_rank = 0;              ///< it fills this process's record
    std::unique_ptr<Watchers> watchers{};  ///< the observers, on the root
    std::unique_ptr<StepGate> gate{};
    std::shared_ptr<const FolderLock> output{};  ///< held, by the process that writes there
    std::unique_ptr<CheckpointWriter> writer{};  ///< of that process
    bool in_one_process = true;                  ///< with all ranks
    LossRow loss{};              ///< that has led to this world; its `ranks` 0: it is the first
    Nanoseconds restart_time{};  ///< that passed before it

    /// Of the first phase; parameters are the same in all.
    [[nodiscard]] const Graph& graph() const { return phases[0].graph; }
    /// Of test images of another shape.
    /// Errors: gx::Error for a shape that the network does not take with these parameters.
    GX_COLD [[nodiscard]] GX_DECL Graph graph_at(ImageShape shape) const;
};

/// Checks everything and plans the run; reads the checkpoint that it goes on from.
/// Errors: one gx::Error that lists every problem.
GX_COLD [[nodiscard]] GX_DECL Run start_run(RunComposition composition, RunOptions options,
                                            const Sources& data, const RunWorld& world);

/// The record of a run that starts, with its notes: all but the optimizer's and scheduler's names.
GX_COLD [[nodiscard]] GX_DECL RunRecord record_of(const Run& run, const RunWorld& world);

/// Fills in what follows from the record of a run that has ended in a world `a`: throughput,
/// efficiency, warnings.
GX_COLD GX_DECL void summarise(RunRecord& record, const WorldInfo& a, const Run& run);

/// Tells the observers that the run has failed, after the checkpoints that it has left.
GX_COLD GX_DECL void fail(Run& run, const std::exception_ptr& error) noexcept;

/// Fills in what the checkpoint of a run that is over holds: rows, times, cost.
GX_COLD GX_DECL void restore_record(const Run& run, RunRecord& record);

/// The last epoch of a checkpoint that lies at the end of the run. Given where it is to be tested
/// and was not. A run that continues on survivors makes no test without training: none.
GX_COLD [[nodiscard]] GX_DECL std::optional<EpochRow> last_without_test(const Run& run);

/// What a rank compares with the others before it starts.
GX_COLD [[nodiscard]] GX_DECL RunTerms terms_of(const Run& run, int ranks);

/// Makes `run` that of a world that follows the loss of ranks.
/// Errors: gx::Error if the schedules can't go on with the ranks that are left.
GX_COLD GX_DECL void plan_for_survivors(Run& run, const RunWorld& world, Nanoseconds restart_time);

/// The newest whole checkpoint within epochs, where newer than the epochs' whole ones. `all` has
/// those within epochs in the order of their steps; notes what is wrong with newer ones. One that
/// could not be written, or is torn, costs no more than the steps since another. Waits until all
/// are written.
GX_COLD [[nodiscard]] GX_DECL WrittenStep newest_whole(const Run& run,
                                                       const std::vector<WrittenStep>& all,
                                                       RunRecord& record);

/// Makes all members of the next world go on from the newest checkpoint. It is of this run; where
/// there is none and the run began so, they go on anew. `record` keeps the rows of what it goes on
/// from. `begun`: epochs done before it; `written`: by the root, at the end of the world that has
/// lost ranks.
/// Errors: gx::Error where a run that was resumed has no checkpoint left that is whole.
GX_COLD GX_DECL void go_back(Run& run, Membership& members, int begun, Written written,
                             RunRecord& record);

}  // namespace gx::detail::trainer

#if defined(GX_HEADER_ONLY)
#include <gx/trainer/impl/run.ipp>
#endif
