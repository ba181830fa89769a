// Set-up and update of AdamW.
#pragma once

#include <array>  // roots
#include <cmath>  // sqrt

#include <gx/core/cold.hpp>              // GX_COLD
#include <gx/core/contract.hpp>          // GX_EXPECT
#include <gx/model/graph.hpp>            // Graph
#include <gx/optimizer/adamw.hpp>        // the declarations
#include <gx/optimizer/roles.hpp>        // includes
#include <gx/optimizer/update_args.hpp>  // for_each_block

namespace gx {

GX_DECL AdamW::AdamW(Options o) : options_(o) { GX_EXPECT(check(o).empty(), check(o).first()); }

GX_COLD GX_DECL void AdamW::reserve(std::size_t elements, std::span<const ParameterSlice> slices,
                                    const Graph& graph) {
    elements_ = elements;
    decay_.clear();
    for (const Parameter& p : graph.parameters)
        decay_.push_back(
            detail::optimizer::includes(p.role, options_.decay_batch_norm, options_.decay_bias)
                ? options_.weight_decay
                : 0.0f);
    detail::optimizer::expect_slices(slices, elements, decay_.size());
}

GX_DECL AdamW::Rule AdamW::rule(const UpdateArgs& a) const {
    GX_EXPECT(a.step >= 0, "updates are counted from 0");
    const double beta1 = double{options_.beta1}, beta2 = double{options_.beta2};
    return {.unscale = a.unscale,
            .rate = a.rate,
            .beta1 = options_.beta1,
            .rest1 = static_cast<float>(1 - beta1),
            .beta2 = options_.beta2,
            .rest2 = static_cast<float>(1 - beta2),
            .correction1 = static_cast<float>(1 - detail::optimizer::power(beta1, a.step + 1)),
            .correction2 = static_cast<float>(1 - detail::optimizer::power(beta2, a.step + 1)),
            .epsilon = options_.epsilon};
}

namespace detail::optimizer {

// Three loops: that of sqrt checks for negative numbers and is not vectorised.
[[gnu::always_inline]] inline void run(float* __restrict w, const float* __restrict g,
                                       float* __restrict m, float* __restrict v, std::size_t count,
                                       const AdamWRule f) {
    std::array<float, block> roots;  // the first loop fills it
    float* __restrict root = roots.data();
    for (std::size_t i = 0; i < count; ++i) root[i] = f.moments(g[i], m[i], v[i]);
    for (std::size_t i = 0; i < count; ++i) root[i] = std::sqrt(root[i]);
    for (std::size_t i = 0; i < count; ++i) f.move(w[i], m[i], root[i]);
}

}  // namespace detail::optimizer

GX_DECL void AdamW::update(const UpdateArgs& a) {
    using namespace detail::optimizer;
    expect_reserved(a, elements_, decay_.size(), state_names.size());
    Rule f = rule(a);
    for (const ParameterSlice& slice : a.slices) {
        f.decay = decay_[static_cast<std::size_t>(slice.parameter)];
        for_each_block(slice, [&](std::size_t i, auto count) {
            run(&a.parameters[i], &a.gradients[i], &a.state[i], &a.state[elements_ + i], count, f);
        });
    }
}

}  // namespace gx
