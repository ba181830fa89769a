// read_measured_gpu: what ./gx gpu measured of a GPU; measured_gpu: that GPU at the measured rates.
#pragma once

#include <string>       // names
#include <string_view>  // texts
#include <vector>       // kinds

#include <gx/core/decl.hpp>                 // GX_DECL
#include <gx/sim/compute/step_kernels.hpp>  // KernelKind, MeasuredKernels
#include <gx/sim/hardware/gpu.hpp>          // GpuSpec, Precision

namespace gx::sim {

/// The kernels of one training step that ncu recorded on a GPU, and the rate of training there.
struct MeasuredGpu {
    struct Kind {
        std::string name{};  ///< of kernel_times.py; KernelKind's, or one that is not simulated
        int kernels = 0;
        double milliseconds = 0, dram_gigabytes = 0;
    };
    std::string name{};    ///< as its driver spells it
    GpuSpec data_sheet{};  ///< the catalog's GPU of that name
    std::string network{"ResNet-50"};
    Precision precision = Precision::mixed;
    int batch = 256;
    std::vector<Kind> kinds{};
    double images_per_second = 0;  ///< without a profiler, on one GPU; 0: not in the file

    [[nodiscard]] double milliseconds() const;  ///< of all kernels
    [[nodiscard]] MeasuredKernels sums() const;
};

/// What a caller expects to have been profiled; empty and 0: what the file holds.
struct ExpectedStep {
    std::string_view network{};
    int batch = 0;
};

/// Reads reference/measured/GPU.json, as `./gx gpu` writes it. Network, format and batch are those
/// of `profile`, else of the first of `training.cases` on one GPU, else as expected, else of
/// ResNet-50 in fp16 on 256 images.
/// Errors: gx::Error with file, line and field: not JSON; no profile, or one without kinds; a GPU
///         or network that the catalog does not have; another network or batch than expected; a
///         batch, count, time or rate that is not above 0.
[[nodiscard]] GX_DECL MeasuredGpu read_measured_gpu(std::string_view text, const std::string& file,
                                                    const ExpectedStep& expected = {});

/// The GPU of the file, with efficiencies that give its times. By them simulated products, and
/// simulated batch norms and pools, take the times measured of them. These sums are fitted: their
/// errors are in-sample. Shares are of simulated traffic: where a kernel moves less (statistics
/// summed by the convolution before them), the share of memory bandwidth is above the measured one.
/// Errors: those of read_measured_gpu, and with_measured(GpuSpec)'s with the file's name.
[[nodiscard]] GX_DECL GpuSpec measured_gpu(const MeasuredGpu& m, const std::string& file);

}  // namespace gx::sim

#if defined(GX_HEADER_ONLY)
#include <gx/sim/io/impl/measured_gpu.ipp>
#endif
