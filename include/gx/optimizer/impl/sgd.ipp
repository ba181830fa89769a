// Set-up and update of Sgd.
#pragma once

#include <gx/core/cold.hpp>              // GX_COLD
#include <gx/model/graph.hpp>            // Graph
#include <gx/optimizer/sgd.hpp>          // the declarations
#include <gx/optimizer/update_args.hpp>  // for_each_block

namespace gx {

GX_DECL Sgd::Sgd(Options o) : options_(o) { GX_EXPECT(check(o).empty(), check(o).first()); }

GX_COLD GX_DECL void Sgd::reserve(std::size_t elements, std::span<const ParameterSlice> slices,
                                  const Graph& graph) {
    elements_ = elements;
    decay_.clear();
    for (const Parameter& p : graph.parameters) decay_.push_back(decay_of(p.role));
    detail::optimizer::expect_slices(slices, elements, decay_.size());
}

namespace detail::optimizer {

template <bool nesterov>
[[gnu::always_inline]] inline void run(float* __restrict w, const float* __restrict g,
                                       float* __restrict v, std::size_t count, SgdRule f) {
    for (std::size_t i = 0; i < count; ++i) f.template update<nesterov>(w[i], g[i], v[i]);
}

}  // namespace detail::optimizer

GX_DECL void Sgd::update(const UpdateArgs& a) {
    using namespace detail::optimizer;
    expect_reserved(a, elements_, decay_.size(), state_names.size());
    for (const ParameterSlice& slice : a.slices) {
        const SgdRule f{a.unscale, decay_[static_cast<std::size_t>(slice.parameter)],
                        options_.momentum, a.rate};
        for_each_block(slice, [&](std::size_t i, std::size_t count) {
            float* const w = &a.parameters[i];
            const float* const g = &a.gradients[i];
            float* const v = &a.state[i];
            if (count == block) {  // a length that the compiler knows
                if (options_.nesterov) run<true>(w, g, v, block, f);
                else run<false>(w, g, v, block, f);
            } else {
                if (options_.nesterov) run<true>(w, g, v, count, f);
                else run<false>(w, g, v, count, f);
            }
        });
    }
}

}  // namespace gx
