// Vectors of spans and rates, and the start of a recording, once.
#pragma once

#include <algorithm>  // max
#include <cstddef>    // size_t
#include <utility>    // move
#include <vector>     // rates

#include <gx/core/trace.hpp>  // the types

namespace gx {

GX_DECL void TraceSink::record(int rank, bool on, Nanoseconds now) {
    if (recording || on == records(rank)) return;
    const auto r = static_cast<std::size_t>(rank);
    ranks.resize(std::max(ranks.size(), r + 1));
    ranks[r] = on;
    if (rank != 0) return;
    ranks[0] = true;
    for (std::size_t l = 0; l < present.size(); ++l)
        if (present[l].count > 0 || last[l] > 0) set_rate(static_cast<int>(l), now, present[l]);
    ranks[0] = on;
}

GX_COLD GX_DECL void TraceSink::name_links(std::vector<Label> names,
                                           std::vector<BytesPerSecond> capacities) {
    present.assign(names.size(), {0});
    last.assign(names.size(), 0);
    capacities.resize(names.size());
    rates = {std::move(names), std::move(capacities), {}};
}

GX_DECL void TraceSink::set_rate(int link, Nanoseconds now, BytesPerSecond rate) {
    const auto l = static_cast<std::size_t>(link);
    present[l] = rate;
    if (!records(0)) return;
    if (last[l] > 0 && rates.changes[last[l] - 1].at == now) {
        rates.changes[last[l] - 1].rate = rate;
        return;
    }
    rates.changes.push_back({link, now, rate});
    last[l] = rates.changes.size();
}

}  // namespace gx

#if defined(GX_COMPILED)
template class std::vector<gx::Span>;
template class std::vector<gx::LinkRates::Change>;
#endif
