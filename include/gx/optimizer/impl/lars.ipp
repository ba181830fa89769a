// Bodies of Lars.
#pragma once

#include <cmath>  // sqrt, abs

#include <gx/core/cold.hpp>        // GX_COLD
#include <gx/core/contract.hpp>    // GX_EXPECT
#include <gx/model/graph.hpp>      // Graph
#include <gx/optimizer/lars.hpp>   // the declarations
#include <gx/optimizer/roles.hpp>  // includes
#include <gx/optimizer/rules.hpp>  // LarsRule

namespace gx {

GX_DECL Lars::Lars(Options o) : options_(o) { GX_EXPECT(check(o).empty(), check(o).first()); }

GX_COLD GX_DECL void Lars::reserve(std::size_t elements, std::span<const ParameterSlice> slices,
                                   const Graph& graph) {
    elements_ = elements;
    adapts_.clear();
    for (const Parameter& p : graph.parameters)
        adapts_.push_back(
            detail::optimizer::includes(p.role, options_.adapt_batch_norm, options_.adapt_bias));
    norms_.assign(adapts_.size(), Norms{});
    detail::optimizer::expect_slices(slices, elements, adapts_.size());
}

GX_DECL void Lars::add_norms(const UpdateArgs& a, std::span<Norms> norms) const {
    detail::optimizer::expect_reserved(a, elements_, adapts_.size(), state_names.size());
    GX_EXPECT(norms.size() == adapts_.size(), "norms of every parameter of the graph");
    for (const ParameterSlice& slice : a.slices) {
        const auto index = static_cast<std::size_t>(slice.parameter);
        if (!adapts_[index]) continue;
        squared_norms({&slice, 1}, a.parameters, {&norms[index].parameter, 1});
        squared_norms({&slice, 1}, a.gradients, {&norms[index].gradient, 1});
    }
}

GX_DECL double Lars::ratio(const Norms& norms, float unscale) const {
    const double w = std::sqrt(norms.parameter.value());
    const double g = std::sqrt(norms.gradient.value()) * double{std::abs(unscale)};
    const double below = g + double{options_.weight_decay} * w + double{options_.epsilon};
    return w == 0 || below == 0 ? 1 : double{options_.trust} * w / below;
}

GX_DECL void Lars::update_with(const UpdateArgs& a, std::span<const Norms> norms) {
    detail::optimizer::expect_reserved(a, elements_, adapts_.size(), state_names.size());
    GX_EXPECT(norms.size() == adapts_.size(), "norms of every parameter of the graph");
    for (const ParameterSlice& slice : a.slices) {
        const auto index = static_cast<std::size_t>(slice.parameter);
        detail::optimizer::LarsRule f{a.unscale, 0, options_.momentum, a.rate};
        if (adapts_[index]) {
            f.decay = options_.weight_decay;
            f.rate = static_cast<float>(double{a.rate} * ratio(norms[index], a.unscale));
        }
        detail::optimizer::for_each_block(slice, [&](std::size_t i, auto count) {
            detail::optimizer::update_each<&detail::optimizer::LarsRule::update>(
                &a.parameters[i], &a.gradients[i], &a.state[i], count, f);
        });
    }
}

}  // namespace gx
