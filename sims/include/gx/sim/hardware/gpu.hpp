// GpuSpec: data-sheet peaks of a GPU and the fraction of them that kernels achieve.
#pragma once

#include <string_view>  // names of precisions

#include <gx/core/label.hpp>  // Label
#include <gx/core/units.hpp>  // units

namespace gx::sim {

/// Element type of activations and GEMMs; parameters and sums are fp32 in all of them.
enum class Precision : unsigned char {
    fp32,
    mixed,  ///< activations and products in fp16, on tensor cores where the GPU has them
    tf32    ///< numbers of 4 bytes, products on tensor cores; fp32 where the GPU has no TF32
};
[[nodiscard]] constexpr std::string_view to_string(Precision p) {
    return p == Precision::fp32 ? "fp32" : p == Precision::mixed ? "mixed" : "tf32";
}

/// Fraction of the peak that a kind of kernel achieves when it fills the GPU.
struct Efficiency {
    double convolution = 1, linear = 1, memory = 1;
};

/// Data-sheet peaks and the fraction of them that kernels achieve.
///
/// `multiprocessors` = 0 is an ideal GPU whose products run at their rate whatever their size.
struct GpuSpec {
    Label name{};
    FlopsPerSecond fp32{};         ///< peak
    FlopsPerSecond tensor_fp16{};  ///< peak of the tensor cores; the fp16 peak where there are none
    Bytes memory{};
    BytesPerSecond memory_bandwidth{};
    Nanoseconds launch{};  ///< from one kernel to the next
    Efficiency efficiency_fp32{}, efficiency_mixed{};
    Efficiency efficiency_tf32{};
    FlopsPerSecond tf32{};  ///< peak of the tensor cores; 0: the GPU has no TF32
    FlopsPerSecond fp16{};  ///< peak beside the tensor cores; 0: as fp32
    double winograd = 1;    ///< gain of fp32 convolutions of 3x3 and stride 1 by it
    int multiprocessors = 0;
    int copy_engines = 2;  ///< copies to and from the host that run beside kernels

    [[nodiscard]] constexpr bool has_tensor_cores() const {
        return tensor_fp16.count > 2.5 * fp32.count;
    }
    [[nodiscard]] constexpr bool tensor_cores(Precision p) const {
        return p == Precision::mixed ? has_tensor_cores() : p == Precision::tf32 && tf32.count > 0;
    }
    [[nodiscard]] constexpr const Efficiency& efficiency(Precision p) const {
        if (p == Precision::tf32 && tf32.count > 0) return efficiency_tf32;
        return p == Precision::mixed ? efficiency_mixed : efficiency_fp32;
    }
    /// Peak of products. `regular`: their shape suits the tensor cores.
    [[nodiscard]] constexpr FlopsPerSecond peak(Precision p, bool regular = true) const {
        if (p == Precision::tf32 && tf32.count > 0) return regular ? tf32 : fp32;
        if (p != Precision::mixed) return fp32;
        if (regular || !has_tensor_cores()) return tensor_fp16;
        return fp16.count > 0 ? fp16 : fp32;
    }
};

}  // namespace gx::sim
