// Set-up and update of AdamW.
#pragma once

#include <gx/core/cold.hpp>            // GX_COLD
#include <gx/core/contract.hpp>        // GX_EXPECT
#include <gx/model/graph.hpp>          // Graph
#include <gx/optimizer/adam_rule.hpp>  // adam
#include <gx/optimizer/adamw.hpp>      // the declarations
#include <gx/optimizer/roles.hpp>      // decays_of

namespace gx {

GX_DECL AdamW::AdamW(Options o) : options_(o) { GX_EXPECT(check(o).empty(), check(o).first()); }

GX_COLD GX_DECL void AdamW::reserve(std::size_t elements, std::span<const ParameterSlice> slices,
                                    const Graph& graph) {
    elements_ = elements;
    decay_ = detail::optimizer::decays_of(graph, options_);
    detail::optimizer::expect_slices(slices, elements, decay_.size());
}

GX_DECL void AdamW::update(const UpdateArgs& a) const {
    detail::optimizer::expect_reserved(a, elements_, decay_.size(), state_names.size());
    detail::optimizer::adam<false>(a, detail::optimizer::adam_rule(options_, a), decay_);
}

}  // namespace gx
