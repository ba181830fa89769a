// Quadratic: a convex quadratic with known gradients, minimum and limits of stability.
#pragma once

#include <cmath>    // sin
#include <cstddef>  // size_t
#include <numbers>  // pi
#include <span>     // parameters
#include <vector>   // centres

#include <gx/core/contract.hpp>  // GX_EXPECT

namespace gx::reference {

/// f(w) = sum over i of curvature[i] / 2 * (w[i] - centre[i])^2. Ranks with different centres have
/// different gradients; their mean is the gradient of the bowl at the mean centre.
struct Quadratic {
    std::vector<float> curvature{}, centre{};

    /// Units: those of f. Order: i upwards, in double.
    [[nodiscard]] double value(std::span<const float> w) const {
        double sum = 0;
        for (std::size_t i = 0; i < w.size(); ++i) {
            const double away = double{w[i]} - double{centre.at(i)};
            sum += 0.5 * double{curvature.at(i)} * away * away;
        }
        return sum;
    }

    /// curvature[i] * (w[i] - centre[i]), in float, the difference rounded first.
    [[nodiscard]] std::vector<float> gradient(std::span<const float> w) const {
        GX_EXPECT(w.size() == curvature.size() && w.size() == centre.size(),
                  "a quadratic has one curvature and one centre for each parameter");
        std::vector<float> g(w.size());
        for (std::size_t i = 0; i < w.size(); ++i) g[i] = curvature[i] * (w[i] - centre[i]);
        return g;
    }
};

/// Limit of rate times curvature for plain descent with gradients s updates late. Without momentum
/// it converges on a bowl of curvature a where rate * a lies between 0 and this limit: 2, 1, 0.618,
/// 0.445 for s = 0, 1, 2, 3.
/// Source: Levin and May 1976, "A note on difference-delay equations", Theoretical Population
///         Biology 9, for x[u+1] = x[u] - q x[u-s].
[[nodiscard]] inline double stable_rate_times_curvature(int staleness) {
    GX_EXPECT(staleness >= 0, "staleness counts from 0");
    return 2 * std::sin(std::numbers::pi / (2.0 * (2.0 * staleness + 1)));
}

}  // namespace gx::reference
