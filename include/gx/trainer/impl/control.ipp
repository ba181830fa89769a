// Bodies of control.hpp.
#pragma once

#include <algorithm>  // copy
#include <vector>     // what the others sent

#include <gx/trainer/control.hpp>

namespace gx {

namespace detail {

GX_DECL Delivery gather_all(ControlLink link, std::span<const std::byte> mine,
                            std::span<std::byte> all) {
    const auto of = [&](int rank) {
        return all.subspan(std::size_t(rank) * mine.size(), mine.size());
    };
    std::copy(mine.begin(), mine.end(), of(link.rank()).begin());
    const int root = 0;
    if (link.rank() != root) {
        if (auto d = link.send(root, mine); !d.complete()) return d;
        return link.receive(root, all);
    }
    for (int r = 1; r < link.ranks(); ++r)
        if (auto d = link.receive(r, of(r)); !d.complete()) return d;
    for (int r = 1; r < link.ranks(); ++r)
        if (auto d = link.send(r, all); !d.complete()) return d;
    return {};
}

GX_DECL Delivery gather_to_first(ControlLink link, std::span<const std::byte> mine,
                                 std::span<std::byte> all) {
    if (link.rank() != 0) return link.send(0, mine);
    std::copy(mine.begin(), mine.end(), all.begin());
    for (int r = 1; r < link.ranks(); ++r)
        if (auto d = link.receive(r, all.subspan(std::size_t(r) * mine.size(), mine.size()));
            !d.complete())
            return d;
    return {};
}

}  // namespace detail

GX_DECL Delivery sum_over_ranks(ControlLink link, std::span<double> values) {
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

GX_DECL Agreement agree(ControlLink link, std::uint64_t value) {
    std::vector<std::uint64_t> all(std::size_t(link.ranks()));
    const Delivery d = detail::gather_all(link, std::as_bytes(std::span(&value, 1)),
                                          std::as_writable_bytes(std::span(all)));
    if (!d.complete()) return {d, -1};
    for (std::size_t r = 0; r < all.size(); ++r)
        if (all[r] != all[0]) return {d, static_cast<int>(r)};
    return {d, -1};
}

}  // namespace gx
