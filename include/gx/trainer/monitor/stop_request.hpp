// StopRequest: request to stop a run behind its present step; StopOnSignals: by signals.
#pragma once

#include <atomic>            // a flag for handlers of signals
#include <chrono>            // signals of one request
#include <csignal>           // signals
#include <cstdint>           // int64_t
#include <filesystem>        // the checkpoint
#include <initializer_list>  // signals
#include <string>            // the sentence
#include <utility>           // move
#include <vector>            // handlers before

#include <gx/core/decl.hpp>   // GX_DECL
#include <gx/core/error.hpp>  // Error

namespace gx {

/// Asks a run to write a checkpoint and to stop: `.stop = &request` in the Trainer's options. A run
/// that stops throws Stopped. All ranks stop behind one step, which may be some steps later, as a
/// rank may be ahead of the one that asks. A request lasts: resume with another one.
/// Threads: any thread may ask, and a handler of signals.
class StopRequest {
public:
    StopRequest() = default;
    StopRequest(const StopRequest&) = delete;
    StopRequest& operator=(const StopRequest&) = delete;

    /// `signal`: what has asked, for the sentence; 0: the program.
    void ask(int signal = 0) noexcept { asked_.store(signal + 1); }
    [[nodiscard]] bool asked() const noexcept { return asked_.load() != 0; }
    /// That has asked; 0: none.
    [[nodiscard]] int signal() const noexcept { return asked() ? asked_.load() - 1 : 0; }

private:
    static_assert(std::atomic<int>::is_always_lock_free);
    std::atomic<int> asked_ = 0;
};

/// A run that was asked to stop, and has. What() names the checkpoint to resume from.
class Stopped : public Error {
public:
    Stopped(const std::string& sentence, std::int64_t step, int signal,
            std::filesystem::path checkpoint)
        : Error(sentence), step_(step), signal_(signal), checkpoint_(std::move(checkpoint)) {}

    [[nodiscard]] std::int64_t step() const { return step_; }  ///< steps done
    [[nodiscard]] int signal() const { return signal_; }       ///< 0: the program has asked
    /// Empty where the run has no output folder.
    [[nodiscard]] const std::filesystem::path& checkpoint() const { return checkpoint_; }

private:
    std::int64_t step_;
    int signal_;
    std::filesystem::path checkpoint_;
};

/// Exit status of gx's programs that a signal has stopped, their checkpoint on disk: EX_TEMPFAIL of
/// sysexits.h, "try again". A batch system may restart the job with `--resume latest`.
inline constexpr int stopped_exit_status = 75;

/// While it lives, signals ask runs of this process to stop: SIGTERM and SIGINT, and SIGUSR1 as
/// Slurm sends it ahead of a time limit (`sbatch --signal=USR1@60`). Another of these signals, a
/// second or more behind the first, ends the program at once, as it would without a guard; earlier
/// ones are the same request, as timeout(1) and launchers send one to a process and to its group.
/// The handlers from before are there again when it is gone. A program holds one in main(); a
/// library leaves signals alone.
///
///     gx::StopOnSignals signals;
///     const Trainer<ResNet50, Ring<fp32>> trainer({.output = "out", .stop = &signals});
///     try { ... trainer.train(world, data) ... }
///     catch (const gx::Stopped& e) { std::puts(e.what()); return gx::stopped_exit_status; }
///
/// Errors: a second guard beside the first breaks the contract.
class StopOnSignals : public StopRequest {
public:
    /// `together`: signals so soon behind the first are one request with it.
    GX_DECL explicit StopOnSignals(std::initializer_list<int> signals = {SIGTERM, SIGINT, SIGUSR1},
                                   std::chrono::nanoseconds together = std::chrono::seconds(1));
    GX_DECL ~StopOnSignals();

private:
    struct Before {
        int signal;
        struct sigaction action;
    };
    std::vector<Before> before_{};
};

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/trainer/monitor/impl/stop_request.ipp>
#endif
