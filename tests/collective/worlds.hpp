// on_both_worlds, some_placement, wire_rows: what tests of executed collectives share.
#pragma once

#include <rapidcheck.h>

#include <gx/collective/exchange.hpp>     // ChunkRange
#include <gx/core/element.hpp>            // Element
#include <gx/core/transport.hpp>          // Placement
#include <gx/sim/testing/on_cluster.hpp>  // OnCluster
#include <gx/testing/worlds.hpp>          // OnThreads, Rows

/// Calls f(on) for the world of threads and for the simulated cluster.
template <class F>
void on_both_worlds(F f) {
    f(gx::testing::OnThreads{});
    f(gx::sim::OnCluster{});
}

/// 1 to 33 ranks, on machines of any size that divides them.
inline gx::Placement some_placement(int most = 33) {
    const int ranks = *rc::gen::inRange(1, most + 1);
    std::vector<int> divisors;
    for (int d = 1; d <= ranks; ++d)
        if (ranks % d == 0) divisors.push_back(d);
    const int gpus = *rc::gen::elementOf(divisors);
    return {ranks / gpus, gpus};
}

template <gx::Element E>
using WireRows = std::vector<std::vector<typename E::storage>>;

/// A row for each rank, of values whose sums depend on their order; lengths from 0, often below the
/// number of ranks.
template <gx::Element E>
WireRows<E> wire_rows(int ranks, std::int64_t count) {
    WireRows<E> wire(static_cast<std::size_t>(ranks));
    const auto rows =
        gx::testing::wide_magnitudes(*rc::gen::arbitrary<std::uint64_t>(), ranks, count);
    for (std::size_t r = 0; r < rows.size(); ++r)
        for (const float x : rows[r]) wire[r].push_back(E::encode(x));
    return wire;
}
inline std::int64_t some_length() {
    return *rc::gen::weightedOneOf<int>(
        {{1, rc::gen::inRange(0, 34)}, {2, rc::gen::inRange(0, 301)}});
}

/// The sum of element i over `ranks`, in their order, rounded to E at every addition.
template <gx::Element E>
typename E::storage serial_sum(const WireRows<E>& rows, const std::vector<int>& ranks,
                               std::size_t i) {
    const auto at = [&](int r) { return rows[static_cast<std::size_t>(r)][i]; };
    auto sum = at(ranks[0]);
    for (std::size_t k = 1; k < ranks.size(); ++k)
        sum = E::encode(E::decode(at(ranks[k])) + E::decode(sum));
    return sum;
}

/// [begin, end) of a row.
template <class Row>
auto part(Row& row, gx::ChunkRange range) {
    return std::span(row).subspan(static_cast<std::size_t>(range.begin),
                                  static_cast<std::size_t>(range.size()));
}
