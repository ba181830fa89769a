#include "parameter_layout.hpp"

#include <algorithm>  // fill

#include <gx/core/contract.hpp>  // GX_EXPECT

namespace gx::cuda::detail {

ParameterLayout::ParameterLayout(const Graph& graph, ElementType compute)
    : parameters_(graph.parameters) {
    const std::size_t step = compute == ElementType::fp32 ? 4 : 8;
    for (int i = 0; const Parameter& p : parameters_) {
        const auto count = (static_cast<std::size_t>(p.count) + step - 1) / step * step;
        slices_.push_back({elements_, count, i++});
        elements_ += count;
    }
}

/// Calls visit(canonical, mine) with the indices of each element.
template <class Visit>
void ParameterLayout::for_each(std::size_t canonical, std::size_t mine, Visit visit) const {
    const Parameter* const last = parameters_.empty() ? nullptr : &parameters_.back();
    GX_EXPECT(canonical == (last ? static_cast<std::size_t>(last->offset + last->count) : 0) &&
                  mine == elements_,
              "vectors of all parameters, in the graph's layout and in the device's");
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
        const Parameter& p = parameters_[i];
        const std::int64_t inputs = p.shape[1], pixels = std::int64_t{p.shape[2]} * p.shape[3];
        for (std::int64_t o = 0, from = p.offset; o < p.shape[0]; ++o)
            for (std::int64_t c = 0; c < inputs; ++c)
                for (std::int64_t k = 0; k < pixels; ++k)
                    visit(static_cast<std::size_t>(from++),
                          slices_[i].offset +
                              static_cast<std::size_t>((o * pixels + k) * inputs + c));
    }
}

void ParameterLayout::to_canonical(std::span<const float> mine, std::span<float> canonical) const {
    for_each(canonical.size(), mine.size(),
             [&](std::size_t to, std::size_t from) { canonical[to] = mine[from]; });
}

void ParameterLayout::from_canonical(std::span<const float> canonical,
                                     std::span<float> mine) const {
    std::ranges::fill(mine, 0.0f);
    for_each(canonical.size(), mine.size(),
             [&](std::size_t from, std::size_t to) { mine[to] = canonical[from]; });
}

}  // namespace gx::cuda::detail
