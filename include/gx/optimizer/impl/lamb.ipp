// Bodies of Lamb.
#pragma once

#include <algorithm>  // min
#include <array>      // updates
#include <cmath>      // sqrt

#include <gx/core/cold.hpp>            // GX_COLD
#include <gx/core/contract.hpp>        // GX_EXPECT
#include <gx/model/graph.hpp>          // Graph
#include <gx/optimizer/adam_rule.hpp>  // adam_rule
#include <gx/optimizer/lamb.hpp>       // the declarations
#include <gx/optimizer/roles.hpp>      // includes

namespace gx {

GX_DECL Lamb::Lamb(Options o) : options_(o) { GX_EXPECT(check(o).empty(), check(o).first()); }

GX_COLD GX_DECL void Lamb::reserve(std::size_t elements, std::span<const ParameterSlice> slices,
                                   const Graph& graph) {
    elements_ = elements;
    adapts_.clear();
    for (const Parameter& p : graph.parameters)
        adapts_.push_back(
            detail::optimizer::includes(p.role, options_.adapt_batch_norm, options_.adapt_bias));
    norms_.assign(adapts_.size(), Norms{});
    detail::optimizer::expect_slices(slices, elements, adapts_.size());
}

namespace detail::optimizer {

/// update[i] = u of each of at most `block` elements; the moments stay as they are.
[[gnu::always_inline]] inline void lamb_update(float* __restrict update, const float* __restrict w,
                                               const float* __restrict g, const float* __restrict m,
                                               const float* __restrict v, std::size_t count,
                                               const AdamRule f) {
    std::array<float, block> moments;  // the first loop fills it
    float* __restrict moment = moments.data();
    for (std::size_t i = 0; i < count; ++i) {
        float second = v[i];
        moment[i] = m[i];
        update[i] = f.moments(w[i], g[i], moment[i], second);
    }
    for (std::size_t i = 0; i < count; ++i) update[i] = std::sqrt(update[i]);
    for (std::size_t i = 0; i < count; ++i) update[i] = f.direction(w[i], moment[i], update[i]);
}

}  // namespace detail::optimizer

GX_DECL void Lamb::add_norms(const UpdateArgs& a, std::span<Norms> norms) const {
    using namespace detail::optimizer;
    expect_reserved(a, elements_, adapts_.size(), state_names.size());
    GX_EXPECT(norms.size() == adapts_.size(), "norms of every parameter of the graph");
    AdamRule f = adam_rule(options_, a, options_.correct_bias);
    f.decay = options_.weight_decay;
    std::array<float, 8 * block> updates;  // a SquaredSum takes many at once
    for (const ParameterSlice& slice : a.slices) {
        const auto index = static_cast<std::size_t>(slice.parameter);
        if (!adapts_[index]) continue;
        norms[index].parameter.add(a.parameters.subspan(slice.offset, slice.count));
        std::size_t ready = 0;
        const auto add = [&] {
            norms[index].update.add(std::span(updates).first(std::exchange(ready, 0)));
        };
        for_each_block(slice, [&](std::size_t i, auto count) {
            lamb_update(&updates[ready], &a.parameters[i], &a.gradients[i], &a.state[i],
                        &a.state[elements_ + i], count, f);
            ready += count;
            if (ready + block > updates.size()) add();
        });
        add();
    }
}

GX_DECL double Lamb::ratio(const Norms& norms) const {
    const double w = std::sqrt(norms.parameter.value()), u = std::sqrt(norms.update.value());
    const double ratio = w == 0 || u == 0 ? 1 : w / u;
    return options_.max_ratio > 0 ? std::min(ratio, double{options_.max_ratio}) : ratio;
}

GX_DECL void Lamb::update_with(const UpdateArgs& a, std::span<const Norms> norms) {
    using namespace detail::optimizer;
    expect_reserved(a, elements_, adapts_.size(), state_names.size());
    GX_EXPECT(norms.size() == adapts_.size(), "norms of every parameter of the graph");
    const AdamRule of_all = adam_rule(options_, a, options_.correct_bias);
    for (const ParameterSlice& slice : a.slices) {
        const auto index = static_cast<std::size_t>(slice.parameter);
        AdamRule f = of_all;
        if (adapts_[index]) {
            f.decay = options_.weight_decay;
            f.rate = static_cast<float>(double{a.rate} * ratio(norms[index]));
        }
        for_each_block(slice, [&](std::size_t i, auto count) {
            adam<false>(&a.parameters[i], &a.gradients[i], &a.state[i], &a.state[elements_ + i],
                        count, f);
        });
    }
}

}  // namespace gx
