// MeasuredWork: a step that was measured on one GPU, in place of the roofline's.
#pragma once

#include <cstdint>
#include <string>

#include <gx/core/device.hpp>             // UpdateCost
#include <gx/sim/hardware/gpu.hpp>        // GpuSpec
#include <gx/sim/timing/step_replay.hpp>  // StepWork
#include <tools/predict/trace.hpp>        // MeasuredStep

namespace gx::tools::plan {

/// Forward, backward and update of one pass over `batch` examples on one GPU.
struct MeasuredWork {
    int batch = 0;
    sim::StepWork step{};  ///< `elements` and `ready` of a trace; else empty
    bool parts = false;    ///< the three are measured apart; else their sum alone
};

/// Of a step without micro-batches that takes so long.
[[nodiscard]] MeasuredWork measured_whole(double step_s, int batch);

/// Of a trace of a step over `batch` examples. What a step takes beside its passes and the update
/// (input, gaps) is counted to forward.
/// Errors: gx::Error where `batch` has no such number of equal micro-batches.
[[nodiscard]] MeasuredWork measured_parts(const predict::MeasuredStep& trace, int batch,
                                          const std::string& file);

/// An update of so many parameters, or of a part of them where ranks share it: one kernel, as long
/// as the optimizer's bytes take.
[[nodiscard]] Nanoseconds update_time(std::int64_t parameters, const sim::GpuSpec& gpu,
                                      const UpdateCost& update);

/// Parts of a step that was measured as a whole, of a network of which no more is known: the update
/// is modelled, backward takes twice forward's time, and gradients become ready evenly in it.
/// Errors: gx::Error where the update alone takes that long; `option` gave the step.
[[nodiscard]] MeasuredWork with_parts(const MeasuredWork& whole, std::int64_t parameters,
                                      const sim::GpuSpec& gpu, const UpdateCost& update,
                                      const std::string& option);

/// The work of another batch, or of an update that ranks share: measured times by the ratio of the
/// roofline's, `there` over `here`; part by part where parts were measured. `here` is that of the
/// measured batch, with the whole update.
[[nodiscard]] sim::StepWork scaled(const MeasuredWork& m, const sim::StepWork& there,
                                   const sim::StepWork& here);

/// Step of `count` passes whose gradients are summed before one reduction, as the Trainer's
/// micro_batches: gradients are final in the last backward alone. `sum`: to add two of them.
[[nodiscard]] sim::StepWork in_micro_batches(sim::StepWork pass, int count, Nanoseconds sum);

}  // namespace gx::tools::plan
