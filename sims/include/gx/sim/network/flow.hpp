// Transfer: a message for the network, and Path: the links that it crosses.
#pragma once

#include <array>    // paths
#include <cstddef>  // size_t
#include <cstdint>  // int32_t
#include <span>     // paths

#include <gx/core/contract.hpp>  // GX_EXPECT
#include <gx/core/stream.hpp>    // Task
#include <gx/core/units.hpp>     // Bytes, BytesPerSecond, Nanoseconds

namespace gx::sim {

/// Sequence of at most 16 links that a message crosses: PCIe, sockets, NICs and switches.
struct Path {
    static constexpr int most_links = 16;
    std::array<int, most_links> links{};
    int count = 0;

    constexpr void add(int link) {
        GX_EXPECT(count < most_links, "a path crosses at most 16 links");
        links[static_cast<std::size_t>(count++)] = link;
    }
    [[nodiscard]] constexpr std::span<const int> view() const {
        return {links.data(), static_cast<std::size_t>(count)};
    }
};

/// The lower of two caps on a flow, each 0 where there is none.
[[nodiscard]] constexpr BytesPerSecond lower_cap(BytesPerSecond a, BytesPerSecond b) {
    if (a.count == 0 || b.count == 0) return a.count == 0 ? b : a;
    return a.count < b.count ? a : b;
}

/// A message: after `latency` its bytes flow along `path` at the fair rate, never above `cap`.
struct Transfer {
    Path path{};
    Bytes bytes{};
    Nanoseconds latency{};
    BytesPerSecond cap{0};    ///< 0: no cap
    std::int32_t weight = 1;  ///< shares a link like this many flows
    int rank = 0;             ///< orders events of one instant
    Task done{};              ///< run when the last byte arrives
};

}  // namespace gx::sim
