// MetricsFile: an observer that writes a run's events as JSON, one object a line.
#pragma once

#include <cstdint>      // int64_t
#include <filesystem>   // path
#include <optional>     // the file of a run
#include <string>       // a line
#include <string_view>  // the error
#include <utility>      // move

#include <gx/core/decl.hpp>                 // GX_DECL
#include <gx/io/append_file.hpp>            // AppendFile
#include <gx/trainer/monitor/observer.hpp>  // Observer

namespace gx {

/// Writes a run's events as lines of JSON while it trains, as in "metrics.jsonl":
///
///     {"event":"start","step":0,"composition":"Trainer<...>","ranks":8,"batch_per_rank":32,...}
///     {"event":"step","step":0,"epoch":0,"training_seconds":0.5,"loss_of_rank_nats":2.5,...}
///     {"event":"epoch","step":1,"epoch":0,"train_loss_nats":2.5,"test_accuracy_pct":12.5,...}
///     {"event":"checkpoint","step":1,"file":"out/epoch-0001.safetensors"}
///     {"event":"lost","step":7,"ranks":7,"lost":[3],"error":"..."}
///     {"event":"end","step":9,"weights_hash":"0a2b..."}
///     {"event":"failed","step":7,"error":"..."}, in place of "end"
///
/// Keys:   `step` of a step is its number from 0, of all others the steps done by then. The other
///         keys are the members of StepDone, EpochRow and Breakdown, with the unit where the
///         member's name has none. A number that is not finite is null.
/// Order:  a run that is resumed at step s drops what the file has of steps from s on, and goes on
///         behind it, so that no step is there twice; so does one that has lost ranks. A run that
///         starts anew begins the file anew.
/// Errors: gx::Error as AppendFile's; it ends the run. A program that is killed leaves whole lines;
///         a torn line, as a power cut may leave, is dropped by the resumed run.
/// Cost:   one system call a line; a step allocates in the first ones only.
class MetricsFile final : public Observer {
public:
    explicit MetricsFile(std::filesystem::path path) : path_(std::move(path)) {}

    GX_DECL void run_begins(const RunStart& run) override;
    GX_DECL void step_done(const StepDone& step) override;
    GX_DECL void epoch_done(const EpochDone& epoch) override;
    GX_DECL void checkpoint_written(const CheckpointWritten& checkpoint) override;
    GX_DECL void ranks_lost(const RanksLost& lost) override;
    GX_DECL void run_ended(const RunRecord& record) override;
    GX_DECL void run_failed(std::string_view error) override;

private:
    void begin(std::string_view event, std::int64_t step);
    void end();
    /// Drops the lines of steps from `step` and of epochs from `epoch` on, and a torn one; keeps
    /// those of checkpoints until `step`, which stay valid.
    void cut_at(std::int64_t step, int epoch);

    std::filesystem::path path_;
    std::optional<AppendFile> file_{};
    std::string line_{};
    std::int64_t done_ = 0;  ///< steps
};

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/trainer/monitor/impl/metrics_file.ipp>
#endif
