// local_sgd: replicas that descend on their own gradients, averaged now and then.
#pragma once

#include <algorithm>    // fill
#include <cstddef>      // size_t
#include <cstdint>      // uint64_t
#include <functional>   // the end of an epoch
#include <span>         // parameters
#include <type_traits>  // is_invocable_r_v
#include <vector>       // replicas

#include <gx/core/contract.hpp>  // GX_EXPECT
#include <gx/reference/sum.hpp>  // Rows

namespace gx::reference {

/// What becomes of the momenta when the replicas are averaged.
enum class Momenta : unsigned char { kept, averaged, reset };

struct LocalSgdOptions {
    int period = 1;  ///< updates from one mean to the next
    float momentum = 0;
    bool nesterov = false;
    std::vector<float> decay{};  ///< weight decay of each parameter; empty: none
    Momenta at_mean = Momenta::kept;
    /// Whether update u is the last of its epoch: a mean follows, and the period begins anew.
    std::function<bool(std::uint64_t u)> last = [](std::uint64_t) { return false; };
};

/// The replicas after `updates` updates, from w[r] = initial and v[r] = 0 on every rank r:
///
///     g    = gradient(r, u, w[r]) + decay * w[r]
///     v[r] = momentum * v[r] + g
///     w[r] = w[r] - rate(u) * (nesterov ? g + momentum * v[r] : v[r])
///
/// and after each `period` of them, and the last of an epoch, w[r] = mean(w) on every rank r, where
/// mean() takes the replicas, in the order of the ranks, and returns what each of them gets.
///
/// Shapes: the result (ranks, parameters).
/// Order: ranks and parameters one after the other, in float, each product and each sum rounded on
///        its own; build with -ffp-contract=off where the target has fused multiply-add.
/// Source: Stich 2019, "Local SGD converges fast and communicates little", arXiv:1805.09767.
template <class Gradient, class Rate, class Mean>
    requires std::is_invocable_r_v<std::vector<float>, Gradient&, int, std::uint64_t,
                                   std::span<const float>> &&
             std::is_invocable_r_v<float, Rate&, std::uint64_t> &&
             std::is_invocable_r_v<std::vector<float>, Mean&, const Rows&>
[[nodiscard]] Rows local_sgd(const std::vector<float>& initial, int ranks, std::uint64_t updates,
                             const LocalSgdOptions& o, Gradient gradient, Rate rate, Mean mean) {
    GX_EXPECT(ranks >= 1 && o.period >= 1, "at least one rank, and one update between means");
    GX_EXPECT(o.decay.empty() || o.decay.size() == initial.size(),
              "one weight decay for each parameter, or none at all");
    Rows w(static_cast<std::size_t>(ranks), initial);
    Rows v(w.size(), std::vector<float>(initial.size(), 0.0f));
    int since = 0;
    for (std::uint64_t u = 0; u < updates; ++u) {
        const float r = rate(u);
        for (std::size_t rank = 0; rank < w.size(); ++rank) {
            const std::vector<float> gradients = gradient(static_cast<int>(rank), u, w[rank]);
            for (std::size_t i = 0; i < initial.size(); ++i) {
                const float decay = o.decay.empty() ? 0.0f : o.decay[i];
                const float g = gradients.at(i) + decay * w[rank][i];
                v[rank][i] = o.momentum * v[rank][i] + g;
                w[rank][i] =
                    w[rank][i] - r * (o.nesterov ? g + o.momentum * v[rank][i] : v[rank][i]);
            }
        }
        if (++since < o.period && !o.last(u)) continue;
        since = 0;
        std::fill(w.begin(), w.end(), std::vector<float>(mean(w)));
        if (o.at_mean == Momenta::averaged)
            std::fill(v.begin(), v.end(), std::vector<float>(mean(v)));
        if (o.at_mean == Momenta::reset)
            for (auto& row : v) std::fill(row.begin(), row.end(), 0.0f);
    }
    return w;
}

}  // namespace gx::reference
