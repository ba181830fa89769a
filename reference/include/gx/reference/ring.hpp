// ring_mean: the result of a ring all-reduce, element by element, with every rounding in place.
#pragma once

#include <cstdint>  // int64_t
#include <span>     // orders
#include <vector>   // rows

#include <gx/collective/exchange.hpp>  // chunk_range
#include <gx/core/contract.hpp>        // GX_EXPECT
#include <gx/core/element.hpp>         // Element
#include <gx/reference/sum.hpp>        // Rows

namespace gx::reference {

/// A rank at each position of a ring.
using RingOrder = std::vector<int>;

/// Calls visit(element, ranks) for each element of a bucket, `ranks` in the order in which a ring
/// adds them: that of chunk c starts at position c and goes once around.
template <class Visit>
void for_each_ring_sum(std::int64_t begin, std::int64_t end, const RingOrder& order, Visit visit) {
    const int n = static_cast<int>(order.size());
    for (int c = 0; c < n; ++c) {
        RingOrder ranks;
        for (int j = 0; j < n; ++j) ranks.push_back(order[std::size_t((c + j) % n)]);
        const ChunkRange chunk = chunk_range(end - begin, n, c);
        for (std::int64_t i = chunk.begin; i < chunk.end; ++i) visit(std::size_t(begin + i), ranks);
    }
}

/// The same for K rings: ring k works on part k of the bucket.
template <class Visit>
void for_each_multi_ring_sum(std::int64_t count, std::span<const RingOrder> orders, Visit visit) {
    const int rings = static_cast<int>(orders.size());
    for (int k = 0; k < rings; ++k) {
        const ChunkRange part = chunk_range(count, rings, k);
        for_each_ring_sum(part.begin, part.end, orders[std::size_t(k)], visit);
    }
}

/// The mean over the ranks as K rings with wire element E give it, on every rank alike:
///
///     onto the wire:   x[r] = encode(g[r] * Divide::before(n))
///     each hop:        sum = encode(decode(x[r]) + decode(sum)), from sum = x[first]
///     off the wire:    mean = decode(sum) * Divide::after(n)
///
/// Shapes: rows (ranks, elements); each order holds every rank once. One order is a single ring.
/// Order:  part k of K, and in it chunk c of n, by chunk_range; the ranks of chunk c in the order
///         of ring k from position c. Products and sums are made in float, each rounded on its own;
///         build with -ffp-contract=off where the target has fused multiply-add. Of two NaNs the
///         rank's own stays.
template <Element E, class Divide>
[[nodiscard]] std::vector<float> multi_ring_mean(const Rows& rows,
                                                 std::span<const RingOrder> orders) {
    const int n = static_cast<int>(rows.size());
    std::vector<float> result(rows.at(0).size());
    const auto on_the_wire = [&](int rank, std::size_t i) {
        return E::encode(rows[std::size_t(rank)].at(i) * Divide::before(n));
    };
    const auto reduce = [&](std::size_t i, const RingOrder& ranks) {
        GX_EXPECT(ranks.size() == rows.size(), "a ring passes every rank once");
        typename E::storage total = on_the_wire(ranks[0], i);
        for (std::size_t j = 1; j < ranks.size(); ++j) {
            const float mine = E::decode(on_the_wire(ranks[j], i));
            total = E::encode(mine != mine ? mine : mine + E::decode(total));
        }
        result[i] = E::decode(total) * Divide::after(n);
    };
    for_each_multi_ring_sum(std::int64_t(result.size()), orders, reduce);
    return result;
}

/// multi_ring_mean of a single ring.
template <Element E, class Divide>
[[nodiscard]] std::vector<float> ring_mean(const Rows& rows, const RingOrder& order) {
    return multi_ring_mean<E, Divide>(rows, std::span(&order, 1));
}

/// The ring 0, 1, ..., ranks - 1.
[[nodiscard]] inline RingOrder natural_order(int ranks) {
    RingOrder order;
    for (int r = 0; r < ranks; ++r) order.push_back(r);
    return order;
}

}  // namespace gx::reference
