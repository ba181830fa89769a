// Passes over vectors that Adam, AdamW and Lamb share.
#pragma once

#include <array>    // roots
#include <cmath>    // sqrt
#include <cstddef>  // size_t
#include <cstdint>  // int64_t
#include <span>     // span

#include <gx/core/contract.hpp>          // GX_EXPECT
#include <gx/optimizer/roles.hpp>        // power
#include <gx/optimizer/rules.hpp>        // AdamRule
#include <gx/optimizer/update_args.hpp>  // UpdateArgs, block

namespace gx::detail::optimizer {

/// The rule of one update, before the decay of a parameter.
/// Options: beta1, beta2 and epsilon. `corrects`: moments are divided by what zeros leave of them.
template <class Options>
[[nodiscard]] AdamRule adam_rule(const Options& o, const UpdateArgs& a, bool corrects = true) {
    GX_EXPECT(a.step >= 0, "updates are counted from 0");
    const double beta1 = double{o.beta1}, beta2 = double{o.beta2};
    const auto correction = [&](double beta) {
        return corrects ? static_cast<float>(1 - power(beta, a.step + 1)) : 1.0f;
    };
    return {.unscale = a.unscale,
            .rate = a.rate,
            .beta1 = o.beta1,
            .rest1 = static_cast<float>(1 - beta1),
            .beta2 = o.beta2,
            .rest2 = static_cast<float>(1 - beta2),
            .correction1 = correction(beta1),
            .correction2 = correction(beta2),
            .epsilon = o.epsilon};
}

/// One update of at most `block` elements. Three loops: that of sqrt checks for negative numbers
/// and is not vectorised.
template <bool coupled>
[[gnu::always_inline]] inline void adam(float* __restrict w, const float* __restrict g,
                                        float* __restrict m, float* __restrict v, std::size_t count,
                                        const AdamRule f) {
    std::array<float, block> roots;  // the first loop fills it
    float* __restrict root = roots.data();
    for (std::size_t i = 0; i < count; ++i) root[i] = f.moments<coupled>(w[i], g[i], m[i], v[i]);
    for (std::size_t i = 0; i < count; ++i) root[i] = std::sqrt(root[i]);
    for (std::size_t i = 0; i < count; ++i) f.move<coupled>(w[i], m[i], root[i]);
}

/// The update of all slices. decays: of each parameter; state: m, then v.
template <bool coupled>
void adam(const UpdateArgs& a, AdamRule f, std::span<const float> decays) {
    const std::size_t elements = a.parameters.size();
    for (const ParameterSlice& slice : a.slices) {
        f.decay = decays[static_cast<std::size_t>(slice.parameter)];
        for_each_block(slice, [&](std::size_t i, auto count) {
            adam<coupled>(&a.parameters[i], &a.gradients[i], &a.state[i], &a.state[elements + i],
                          count, f);
        });
    }
}

}  // namespace gx::detail::optimizer
