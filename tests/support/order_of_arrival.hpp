// order_of_arrival: from which ranks rank 0 receives, in the order of its waits.
#pragma once

#include <cstddef>  // byte
#include <span>     // messages
#include <vector>   // the order

#include <gx/core/transport.hpp>  // Placement, Request

namespace testing_support {

/// On the worlds `on`, every rank but 0 sends `each` messages of one byte to rank 0, which waits
/// for any of them; returns the senders in that order.
std::vector<int> order_of_arrival(const auto& on, gx::Placement placement, int each) {
    std::vector<int> order;
    on(placement, [&](auto& rank) {
        auto& link = rank.transport();
        std::byte out{};
        if (rank.rank() > 0) {
            for (int m = 0; m < each; ++m) (void)link.wait(link.send(0, 0, std::span(&out, 1)));
            return;
        }
        std::vector<std::byte> in(std::size_t(each * placement.ranks()));
        std::vector<gx::Request> open;
        std::vector<int> from;
        for (int m = 0; m < each; ++m)
            for (int r = 1; r < placement.ranks(); ++r) {
                open.push_back(link.receive(r, 0, std::span(in).subspan(open.size(), 1)));
                from.push_back(r);
            }
        while (!open.empty()) {
            const auto i = std::ptrdiff_t(link.wait_any(open).index);
            order.push_back(from[std::size_t(i)]);
            open.erase(open.begin() + i);
            from.erase(from.begin() + i);
        }
    });
    return order;
}

}  // namespace testing_support
