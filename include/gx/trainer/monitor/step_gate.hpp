// StepGate: what wall clock and signals ask of a run, sampled once a step.
#pragma once

#include <chrono>      // minutes
#include <cstdint>     // int64_t
#include <filesystem>  // the checkpoint
#include <mutex>       // one lock
#include <vector>      // steps

#include <gx/core/cold.hpp>  // GX_COLD
#include <gx/core/decl.hpp>  // GX_DECL

namespace gx {
class StopRequest;
}

namespace gx::detail::trainer {

/// What is to be done behind a step.
enum class Ask : unsigned char { nothing, checkpoint, stop };

/// The ranks of a process ask it behind each step, and all get one answer for a step: that of the
/// rank which comes first. So they need no message to decide alike, and in a simulated world no
/// time. Ranks of other processes compare their answers by messages.
class StepGate {
public:
    /// `every_minutes` 0: the clock asks for nothing.
    GX_COLD GX_DECL StepGate(const StopRequest* stop, double every_minutes);

    /// Whether anything may be asked but by the number of steps; the same in all processes.
    [[nodiscard]] bool armed() const { return stop_ != nullptr || period_.count() > 0; }
    /// Behind step `step`. A rank may be some steps ahead of others.
    [[nodiscard]] GX_DECL Ask ask(std::int64_t step);

    /// The run has stopped with so many steps done; `file` is empty where there is no checkpoint.
    GX_COLD GX_DECL void stopped(std::int64_t steps, std::filesystem::path file);
    /// A checkpoint of this process is whole on disk.
    GX_COLD GX_DECL void written(const std::filesystem::path& file);
    /// Throws Stopped where the run has stopped. `root`: this process has written the checkpoint.
    GX_COLD GX_DECL void expect_not_stopped(bool root) const;

private:
    struct Asked {
        std::int64_t step;
        Ask what;
    };
    [[nodiscard]] Ask sample();

    const StopRequest* stop_;
    std::chrono::duration<double> period_;
    std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
    std::mutex mutex_{};
    std::int64_t latest_ = -1;    ///< sampled
    std::vector<Asked> asked_{};  ///< of the steps that anything was asked behind
    std::int64_t stopped_at_ = -1;
    std::filesystem::path file_{}, written_{};  ///< of the stop; the newest on disk
};

}  // namespace gx::detail::trainer

#if defined(GX_HEADER_ONLY)
#include <gx/trainer/monitor/impl/step_gate.ipp>
#endif
