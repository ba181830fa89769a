// Set-up and update of Sgd.
#pragma once

#include <gx/core/cold.hpp>              // GX_COLD
#include <gx/model/graph.hpp>            // Graph
#include <gx/optimizer/roles.hpp>        // decays_of
#include <gx/optimizer/rules.hpp>        // SgdRule
#include <gx/optimizer/sgd.hpp>          // the declarations
#include <gx/optimizer/update_args.hpp>  // for_each_block

namespace gx {

GX_DECL Sgd::Sgd(Options o) : options_(o) { GX_EXPECT(check(o).empty(), check(o).first()); }

GX_COLD GX_DECL void Sgd::reserve(std::size_t elements, std::span<const ParameterSlice> slices,
                                  const Graph& graph) {
    elements_ = elements;
    decay_ = detail::optimizer::decays_of(graph, options_);
    detail::optimizer::expect_slices(slices, elements, decay_.size());
}

GX_DECL void Sgd::update(const UpdateArgs& a) const {
    using namespace detail::optimizer;
    expect_reserved(a, elements_, decay_.size(), state_names.size());
    for (const ParameterSlice& slice : a.slices) {
        const SgdRule f{a.unscale, decay_[static_cast<std::size_t>(slice.parameter)],
                        options_.momentum, a.rate};
        for_each_block(slice, [&](std::size_t i, auto count) {
            float* const w = &a.parameters[i];
            const float* const g = &a.gradients[i];
            float* const v = &a.state[i];
            if (options_.rate_in_velocity) {
                if (options_.nesterov) update_each<&SgdRule::update<true, true>>(w, g, v, count, f);
                else update_each<&SgdRule::update<false, true>>(w, g, v, count, f);
            } else {
                if (options_.nesterov) update_each<&SgdRule::update<true>>(w, g, v, count, f);
                else update_each<&SgdRule::update<false>>(w, g, v, count, f);
            }
        });
    }
}

}  // namespace gx
