// Control messages: small sums and comparisons over all ranks, for metrics and agreement.
#pragma once

#include <algorithm>  // copy
#include <cstddef>    // byte
#include <cstdint>    // uint64_t
#include <span>       // values
#include <vector>     // what the others sent

#include <gx/core/error.hpp>      // Delivery
#include <gx/core/transport.hpp>  // Transport, control_channel

namespace gx {

namespace detail {

/// Every rank's bytes, one after the other in rank order, on every rank; `all` has room for them.
Delivery gather_all(Transport auto& link, std::span<const std::byte> mine,
                    std::span<std::byte> all) {
    const auto of = [&](int rank) {
        return all.subspan(std::size_t(rank) * mine.size(), mine.size());
    };
    std::copy(mine.begin(), mine.end(), of(link.rank()).begin());
    const int root = 0;
    if (link.rank() != root) {
        if (auto d = link.wait(link.send(root, control_channel, mine)); !d.complete()) return d;
        return link.wait(link.receive(root, control_channel, all));
    }
    for (int r = 1; r < link.ranks(); ++r)
        if (auto d = link.wait(link.receive(r, control_channel, of(r))); !d.complete()) return d;
    for (int r = 1; r < link.ranks(); ++r)
        if (auto d = link.wait(link.send(r, control_channel, all)); !d.complete()) return d;
    return {};
}

/// Every rank's bytes, one after the other in rank order, on rank 0; `all` has room for them there.
Delivery gather_to_first(Transport auto& link, std::span<const std::byte> mine,
                         std::span<std::byte> all) {
    if (link.rank() != 0) return link.wait(link.send(0, control_channel, mine));
    std::copy(mine.begin(), mine.end(), all.begin());
    for (int r = 1; r < link.ranks(); ++r) {
        const auto from = all.subspan(std::size_t(r) * mine.size(), mine.size());
        if (auto d = link.wait(link.receive(r, control_channel, from)); !d.complete()) return d;
    }
    return {};
}

}  // namespace detail

/// Sums `values` over all ranks, in place. Every rank calls it with as many values.
/// Order: rank 0 first, in double: all ranks get equal bits, in every world.
/// Cost:  2 (n - 1) messages through rank 0; for metrics, never for gradients.
Delivery sum_over_ranks(Transport auto& link, std::span<double> values) {
    std::vector<double> all(values.size() * std::size_t(link.ranks()));
    if (auto d =
            detail::gather_all(link, std::as_bytes(values), std::as_writable_bytes(std::span(all)));
        !d.complete())
        return d;
    for (std::size_t i = 0; i < values.size(); ++i) {
        double sum = 0;
        for (std::size_t r = 0; r < std::size_t(link.ranks()); ++r)
            sum += all[r * values.size() + i];
        values[i] = sum;
    }
    return {};
}

struct Agreement {
    Delivery delivery;
    int differs = -1;  ///< the first rank whose value differs from that of rank 0, or -1
};
/// Compares one value of every rank; returns the same on all ranks.
/// Cost: as sum_over_ranks.
Agreement agree(Transport auto& link, std::uint64_t value) {
    std::vector<std::uint64_t> all(std::size_t(link.ranks()));
    const Delivery d = detail::gather_all(link, std::as_bytes(std::span(&value, 1)),
                                          std::as_writable_bytes(std::span(all)));
    if (!d.complete()) return {d, -1};
    for (std::size_t r = 0; r < all.size(); ++r)
        if (all[r] != all[0]) return {d, static_cast<int>(r)};
    return {d, -1};
}

}  // namespace gx
