// TensorBoard: an observer that writes a run's curves for TensorBoard.
#pragma once

#include <filesystem>   // folder
#include <functional>   // the clock
#include <optional>     // the file of a run
#include <string_view>  // the error

#include <gx/core/decl.hpp>                   // GX_DECL
#include <gx/trainer/monitor/event_file.hpp>  // EventFile
#include <gx/trainer/monitor/observer.hpp>    // Observer

namespace gx {

/// Writes a run's curves into a folder that `tensorboard --logdir` watches. Each run, and each part
/// of a resumed one, has a file of its own; of steps that are made again, by a resumed run or by
/// one begun anew in the folder, TensorBoard shows what was made last.
///
///     TensorBoard board("out/run-1");
///     const Trainer<ResNet50, Ring<fp32>> trainer({.batch = 32, .observers = {&board}});
///
/// Tags:
///
///     step/loss_of_rank, rate, loss_scale, skipped   as StepDone's, at each step
///     step/images_per_second, sent_bytes_per_second
///     step_ms/compute, exposed_communication, input, idle
///     epoch/train_loss, train_accuracy_pct, ...      as EpochRow's, at the epoch's last step; test
///                                                    metrics where the run tests
///
/// Units:  as StepDone's and EpochRow's; of the breakdown milliseconds. The times of events, as the
///         horizontal axes WALL and RELATIVE show them, are this machine's, also where the world's
///         clock is virtual. Values are rounded to 32 bits.
/// Errors: gx::Error as EventFile's; it ends the run.
/// Cost:   one system call a step, and no allocation but in the first.
class TensorBoard final : public Observer {
public:
    /// Makes the folder when a run begins. `unix_seconds`: the clock of events, for tests.
    GX_DECL explicit TensorBoard(std::filesystem::path folder,
                                 std::function<double()> unix_seconds = {});

    /// The present file; empty before a run.
    [[nodiscard]] GX_DECL std::filesystem::path file() const;

    GX_DECL void run_begins(const RunStart& run) override;
    GX_DECL void step_done(const StepDone& step) override;
    GX_DECL void epoch_done(const EpochDone& epoch) override;
    GX_DECL void ranks_lost(const RanksLost& lost) override;

private:
    std::filesystem::path folder_;
    std::function<double()> now_;
    std::optional<EventFile> file_{};
    StepDone last_{}, epoch_end_{};  ///< the newest step, and the last of an epoch that is done
    int epochs_done_ = 0;
};

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/trainer/monitor/impl/tensor_board.ipp>
#endif
