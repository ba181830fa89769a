// Inputs of a plan: what was measured, and which assumption it replaces.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gx/core/device.hpp>           // UpdateCost
#include <gx/model/graph.hpp>           // Graph
#include <gx/sim/hardware/machine.hpp>  // ClusterSpec
#include <gx/sim/io/nccl_tests.hpp>     // NcclTests
#include <tools/plan/measured.hpp>      // MeasuredWork

namespace gx::tools::plan {

/// One line of what a plan rests on.
struct Input {
    std::string of{};       ///< "computation", "network", ...
    bool measured = false;  ///< else assumed
    std::string text{};     ///< from where, and in place of what
    std::string doubt{};    ///< why it may be of something else; empty: nothing is odd
};

/// A step as a user measured it on one GPU: its time, or a trace.
struct StepInput {
    double step_s = 0;         ///< 0: `images_s` or the trace
    double images_s = 0;       ///< 0: `step_s` or the trace
    std::string trace_file{};  ///< empty: none
    std::string trace{};       ///< its text
    int batch = 0;             ///< examples of it; 0: not said
    [[nodiscard]] bool given() const { return step_s > 0 || images_s > 0 || !trace_file.empty(); }
    [[nodiscard]] std::string option() const;  ///< that gave it
};

/// The work of a measured step.
/// Errors: gx::Error for a batch that is not said, machines of several GPUs, a trace of another
///         network or of a CPU, one that can't be read.
[[nodiscard]] MeasuredWork read_step(const StepInput& step, const Graph& graph,
                                     const std::vector<sim::ClusterSpec>& clusters);

/// The parts of a measured step of a network of the user's own: a trace's, else with_parts() of
/// one with so many parameters.
/// Errors: as read_step; gx::Error for a trace whose gradients have another number of elements than
///         `parameters`, unless that is 0, for no parameters where there is no trace, and for more
///         than fit in the GPU with 2 bytes for each, and for its gradient.
[[nodiscard]] MeasuredWork read_own_step(const StepInput& step, std::int64_t parameters,
                                         const std::vector<sim::ClusterSpec>& clusters,
                                         const UpdateCost& update);

/// Checks that a measured step takes no less than its products at the peak of the GPU: forward and
/// backward of cost.hpp, by Winograd's algorithm where the roofline has it, and at TF32 in fp32,
/// which frameworks take unasked.
/// Errors: gx::Error with both rates.
void expect_possible(const StepInput& step, const MeasuredWork& m, const Graph& graph,
                     const sim::GpuSpec& gpu, sim::Precision precision);

/// "measured 123.0 ms in place of the roofline's 98.1 ms ..." of the measured batch. Doubted where
/// one is more than five times the other.
[[nodiscard]] Input input_of(const StepInput& step, const MeasuredWork& m, Nanoseconds roofline);

/// "measured 123.0 ms ...; other batches in proportion ..." of a network of the user's own. Doubted
/// where its parameters are taken to `need` more than the GPU's memory.
[[nodiscard]] Input input_of_own(const StepInput& step, const MeasuredWork& m, Bytes need,
                                 const sim::GpuSpec& gpu);

/// What nccl-tests measured, beside a simulated ring on the cluster that it was given to. Doubted
/// where its GPU is not that of the machine.
[[nodiscard]] Input input_of(const sim::NcclTests& tests, const std::string& file,
                             const sim::ClusterSpec& cluster);

/// What nccl-tests' output leaves to data sheets: of one host alone, the network between machines,
/// unless a cluster file has it (`network_stated`); of several alone, the GPUs of a machine.
[[nodiscard]] std::vector<Input> assumed_beside(const std::vector<sim::NcclTests>& all,
                                                const sim::MachineSpec& machine,
                                                bool network_stated);

}  // namespace gx::tools::plan
