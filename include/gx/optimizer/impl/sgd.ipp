// Set-up of Sgd.
#pragma once

#include <gx/core/cold.hpp>      // GX_COLD
#include <gx/model/graph.hpp>    // Graph
#include <gx/optimizer/sgd.hpp>  // the declarations

namespace gx {

GX_DECL Sgd::Sgd(Options o) : options_(o) { GX_EXPECT(check(o).empty(), check(o).first()); }

GX_COLD GX_DECL void Sgd::reserve(std::size_t elements, std::span<const ParameterSlice> slices,
                                  const Graph& graph) {
    elements_ = elements;
    decay_.clear();
    for (const Parameter& p : graph.parameters) decay_.push_back(decay_of(p.role));
    detail::optimizer::expect_slices(slices, elements, decay_.size());
}

}  // namespace gx
