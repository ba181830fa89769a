// Bounds of the distance between cuda::Device and the reference device, as shares of a vector.
#pragma once

#include <cmath>  // sqrt

#include <gx/core/element.hpp>  // ElementType
#include <gx/model/graph.hpp>   // Graph

namespace gx::cuda_tests {

/// Half of the distance from 1 to the next number.
[[nodiscard]] inline double unit_of(ElementType e) {
    return e == ElementType::fp32 ? 0x1p-24 : e == ElementType::fp16 ? 0x1p-11 : 0x1p-8;
}

/// Of one step. Rounding errors of a sum of n products behave as independent ones: they grow as
/// sqrt(n) u, u = 2^-24, and exceed 8 times that with a chance below 1e-13 (Higham and Mary 2019,
/// "A new approach to probabilistic rounding error analysis", theorem 2.4). An operation adds such
/// errors once forward, once to the gradient of its input (fan_in terms each), and once to that of
/// its parameters (a term for each pixel of the batch). In fp16 and bf16 both devices round what
/// they store at the same places, so a sum that fell on the other side of a tie differs by 2 u of
/// E: for each tensor forward and backward, and for each parameter. Independent errors add as
/// squares.
[[nodiscard]] inline double step_bound(const Graph& g, int count, ElementType e) {
    constexpr double confidence = 8;
    double sums = 0;
    for (const Op& op : g.ops) {
        const ImageShape out = g.tensors[std::size_t(op.output)];
        const double fan_in =
            op.parameter_count > 0 ? g.parameters[std::size_t(op.first_parameter)].fan_in : 1;
        sums += 2 * fan_in + double(count) * out.height * out.width;
    }
    const double u = 0x1p-24, stored = e == ElementType::fp32 ? 0 : 2 * unit_of(e);
    const auto tensors = static_cast<double>(2 * g.tensors.size() + g.parameters.size());
    return confidence * std::sqrt(sums * u * u + tensors * stored * stored);
}

}  // namespace gx::cuda_tests
