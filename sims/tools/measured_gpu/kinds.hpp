// KindRow: simulated kernels of a step beside the measured ones, by kind, as rows and as text.
#pragma once

#include <string>
#include <vector>

#include <gx/sim/io/measured_gpu.hpp>  // MeasuredGpu

namespace gx::tools {

/// Kernels of one kind. 0 where one side has none.
struct KindRow {
    struct Side {
        int kernels = 0;
        double ms = 0, gb = 0;
    };
    std::string name{};
    bool product = false;
    Side simulated{}, measured{};
};

/// Rows in the file's order, then kinds that are simulated alone. Products that the file does not
/// tell apart are one row. `gpu` runs the file's step with sim::fused_kernels.
[[nodiscard]] std::vector<KindRow> kind_rows(const sim::MeasuredGpu& m, const sim::GpuSpec& gpu);

/// The table of kind_rows, their sums, and the step: the simulated one beside the rate of training.
[[nodiscard]] std::string kind_table(const sim::MeasuredGpu& m, const sim::GpuSpec& gpu);

/// The efficiencies that measured_gpu() changed, as the field `gpu` of a machine file.
[[nodiscard]] std::string gpu_field(const sim::MeasuredGpu& m, const sim::GpuSpec& fitted);

}  // namespace gx::tools
