// Network: the network of a job: a known one, by its graph, or the user's own, by a measured step.
#pragma once

#include <cstdint>
#include <string_view>

#include <gx/core/device.hpp>             // UpdateCost
#include <gx/model/graph.hpp>             // Graph
#include <gx/sim/compute/framework.hpp>   // Framework
#include <gx/sim/hardware/gpu.hpp>        // GpuSpec, Precision
#include <gx/sim/timing/step_replay.hpp>  // StepWork
#include <tools/plan/measured.hpp>        // MeasuredWork

namespace gx::tools::plan {

/// What a network takes of a GPU: time and memory of a pass.
///
/// Of a known one, both are its graph's: the roofline's kernels, and sim::memory_need. Of the
/// user's own, a pass of other batches takes the measured one's forward and backward in proportion,
/// an update that ranks share takes the measured one's in proportion to its bytes, and what fits
/// in memory is what was measured: passes over that batch and smaller ones.
class Network {
public:
    Network(const Graph& graph) : graph_(&graph) {}  ///< refers to it
    explicit Network(MeasuredWork own);

    [[nodiscard]] const Graph* graph() const { return graph_; }  ///< null: the user's own
    [[nodiscard]] std::int64_t parameters() const;

    /// Forward and backward over `batch` examples, and an update.
    [[nodiscard]] sim::StepWork pass(int batch, const sim::GpuSpec& gpu, sim::Precision precision,
                                     const sim::Framework& kernels, UpdateCost update) const;

    /// The largest batch up to `batch` of which a pass fits; 0 when none does.
    [[nodiscard]] int largest_batch(int batch, const sim::GpuSpec& gpu, sim::Precision precision,
                                    UpdateCost update) const;

    /// Errors: gx::Error with the batch that fits, where `batch` does not.
    void expect_fits(int batch, const sim::GpuSpec& gpu, sim::Precision precision,
                     UpdateCost update) const;

private:
    const Graph* graph_ = nullptr;
    MeasuredWork own_{};  ///< of the user's own
};

}  // namespace gx::tools::plan
