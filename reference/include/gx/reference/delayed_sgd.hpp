// delayed_sgd: stochastic gradient descent with gradients of a fixed staleness, serially.
#pragma once

#include <cstddef>      // size_t
#include <cstdint>      // uint64_t
#include <span>         // parameters
#include <type_traits>  // is_invocable_r_v
#include <utility>      // move
#include <vector>       // trajectory

#include <gx/core/contract.hpp>  // GX_EXPECT

namespace gx::reference {

struct DelayedSgdOptions {
    int staleness = 0;  ///< updates between computing a gradient and applying it
    float momentum = 0;
    bool nesterov = false;
    float unscale = 1;           ///< a factor on every gradient
    std::vector<float> decay{};  ///< weight decay of each parameter; empty: none
};

/// The parameters after 0, 1, ..., `updates` updates, from v = 0:
///
///     g      = gradient(u, w[max(0, u - staleness)]) * unscale + decay * w[u]
///     v      = momentum * v + g
///     w[u+1] = w[u] - rate(u) * (nesterov ? g + momentum * v : v)
///
/// So the first `staleness` + 1 gradients are computed on the initial parameters; N gradients make
/// N updates. gradient(u, w) returns the averaged gradient number u; rate(u) a float.
///
/// Order: parameters one after the other, in float, each product and each sum rounded on its own;
///        build with -ffp-contract=off where the target has fused multiply-add.
template <class Gradient, class Rate>
    requires std::is_invocable_r_v<std::vector<float>, Gradient&, std::uint64_t,
                                   std::span<const float>> &&
             std::is_invocable_r_v<float, Rate&, std::uint64_t>
[[nodiscard]] std::vector<std::vector<float>> delayed_sgd(std::vector<float> initial,
                                                          std::uint64_t updates,
                                                          const DelayedSgdOptions& o,
                                                          Gradient gradient, Rate rate) {
    GX_EXPECT(o.staleness >= 0, "a gradient is not applied before it is computed");
    GX_EXPECT(o.decay.empty() || o.decay.size() == initial.size(),
              "one weight decay for each parameter, or none at all");
    std::vector<std::vector<float>> w{initial};
    std::vector<float> v(initial.size(), 0.0f);
    const auto late = static_cast<std::uint64_t>(o.staleness);
    for (std::uint64_t u = 0; u < updates; ++u) {
        const std::span<const float> seen = w[u < late ? 0 : u - late];
        const std::vector<float> gradients = gradient(u, seen);
        const float r = rate(u);
        std::vector<float> next = w[u];
        for (std::size_t i = 0; i < next.size(); ++i) {
            const float decay = o.decay.empty() ? 0.0f : o.decay[i];
            const float g = gradients.at(i) * o.unscale + decay * w[u][i];
            v[i] = o.momentum * v[i] + g;
            next[i] = w[u][i] - r * (o.nesterov ? g + o.momentum * v[i] : v[i]);
        }
        w.push_back(std::move(next));
    }
    return w;
}

}  // namespace gx::reference
