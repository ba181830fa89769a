// Set-up of Sgd.
#pragma once

#include <gx/core/cold.hpp>      // GX_COLD
#include <gx/model/graph.hpp>    // Graph
#include <gx/optimizer/sgd.hpp>  // the declarations

namespace gx {

GX_DECL Sgd::Sgd(Options o) : options_(o) { GX_EXPECT(check(o).empty(), check(o).first()); }

GX_COLD GX_DECL void Sgd::reserve(std::size_t elements, std::span<const ParameterSlice> slices,
                                  const Graph& graph) {
    velocity_.assign(elements, 0.0f);
    runs_.clear();
    for (const ParameterSlice& slice : slices) {
        GX_EXPECT(slice.offset + slice.count <= elements,
                  "a parameter lies outside of the flat vector");
        const auto index = static_cast<std::size_t>(slice.parameter);
        runs_.push_back({slice.offset, slice.count, decay_of(graph.parameters.at(index).role)});
    }
}

}  // namespace gx
