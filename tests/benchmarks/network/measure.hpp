// measure(): rates and latency between hosts; Lockstep: what ranks do together around it.
#pragma once

#include <algorithm>    // max, min
#include <chrono>       // seconds
#include <cstddef>      // byte
#include <cstdint>      // int64_t
#include <span>         // messages
#include <string>       // sentences
#include <type_traits>  // remove_reference_t
#include <utility>      // declval
#include <vector>       // hosts

#include <gx/collective/dissemination_barrier.hpp>  // barrier
#include <gx/core/error.hpp>                        // Error
#include <gx/core/transport.hpp>                    // control_channel
#include <gx/core/units.hpp>                        // Nanoseconds

#include "../median.hpp"  // median
#include "cluster.hpp"    // Network

namespace gx::bench {

/// Messages of one rank, on a control channel, timed by its world's clock.
template <class Rank>
class Lockstep {
public:
    explicit Lockstep(Rank& rank) : rank_(rank), link_(rank.transport()) {}

    [[nodiscard]] int rank() const { return link_.rank(); }
    [[nodiscard]] int ranks() const { return link_.ranks(); }
    void barrier() { expect(collective::barrier(link_, channel).delivery); }
    /// The value of each rank, on all ranks.
    [[nodiscard]] std::vector<double> gather(double mine) {
        std::vector<double> all(std::size_t(ranks()), mine);
        std::vector<Request> posted;
        for (int r = 0; r < ranks(); ++r) {
            if (r == rank()) continue;
            posted.push_back(link_.receive(r, channel, bytes_of(all[std::size_t(r)])));
            posted.push_back(link_.send(r, channel, bytes_of(mine)));
        }
        for (const Request request : posted) expect(link_.wait(request));
        return all;
    }
    /// The value of one rank, on all ranks.
    [[nodiscard]] double of(int rank, double mine) { return gather(mine)[std::size_t(rank)]; }

    /// Seconds until `bytes` are at each of `to`, which acknowledge them; on rank `from`. Others
    /// return 0. All ranks call it.
    double send(int from, const std::vector<int>& to, std::size_t bytes) {
        message_.resize(std::max(message_.size(), bytes));
        const std::span<std::byte> message(message_.data(), bytes);
        std::vector<std::byte> acknowledged(to.size());
        if (std::find(to.begin(), to.end(), rank()) != to.end()) {
            expect(link_.wait(link_.receive(from, channel, message)));
            std::byte done{};
            expect(link_.wait(link_.send(from, channel, {&done, 1})));
        }
        if (rank() != from) return 0;
        std::vector<Request> posted;
        const Nanoseconds begin = rank_.now();
        for (std::size_t i = 0; i < to.size(); ++i) {
            posted.push_back(link_.receive(to[i], channel, {&acknowledged[i], 1}));
            posted.push_back(link_.send(to[i], channel, message));
        }
        for (const Request request : posted) expect(link_.wait(request));
        return std::chrono::duration<double>(rank_.now() - begin).count();
    }

    static void expect(const Delivery& delivery) {
        if (!delivery.complete()) throw Error("a message did not arrive; a rank is lost or late");
    }

private:
    static constexpr int channel = control_channel;
    static std::span<std::byte> bytes_of(double& x) {
        return std::as_writable_bytes(std::span<double>(&x, 1));
    }

    Rank& rank_;
    std::remove_reference_t<decltype(std::declval<Rank&>().transport())>& link_;
    std::vector<std::byte> message_{};
};

/// Rate of a transfer: the slope between `bytes` and three times as many, so that neither the
/// handshakes of a message count nor what a limiter lets through at once. Each is the
/// least of 4: what else the hosts do can only delay them.
/// `seconds(bytes)`: a transfer, the same number on all ranks.
template <class Seconds>
[[nodiscard]] double rate_of(std::size_t bytes, double times, Seconds seconds) {
    const auto least = [&](std::size_t b) {
        double s = seconds(b);
        for (int i = 1; i < 4; ++i) s = std::min(s, seconds(b));
        return s;
    };
    const double once = least(bytes), thrice = least(3 * bytes);
    if (thrice <= once)
        throw Error("a message of " + std::to_string(3 * bytes) +
                    " bytes took no longer than one of " + std::to_string(bytes) +
                    ": the network can't be measured; is another program using it?");
    return times * 2.0 * static_cast<double>(bytes) / (thrice - once);
}

/// Measures the network between ranks, one a host, by the messages that reducers send. All ranks
/// call it and get the same. `hosts_per_leaf`: hosts k m ... (k + 1) m - 1 are on one switch; 0:
/// all are.
/// Cost: about 3 s for each host.
template <class Rank>
[[nodiscard]] Network measure(Rank& rank, const std::string& fabric, int hosts_per_leaf) {
    Lockstep together(rank);
    const int n = together.ranks();
    Network found{.fabric = fabric, .hosts = n, .hosts_per_leaf = hosts_per_leaf};
    const auto timed = [&](int from, const std::vector<int>& to, std::size_t bytes) {
        together.barrier();
        return together.of(from, together.send(from, to, bytes));
    };
    const auto after = [&](int host) { return (host + 1) % n; };

    std::vector<double> trips;  // the least of each pair
    for (int from = 0; from < n; ++from) {
        trips.push_back(timed(from, {after(from)}, 8) / 2);
        for (int i = 0; i < 20; ++i)
            trips.back() = std::min(trips.back(), timed(from, {after(from)}, 8) / 2);
    }
    found.latency_s = median(trips);

    constexpr double aim_s = 0.1;
    const double first_s = timed(0, {1}, 256 << 10);
    const auto bytes = static_cast<std::size_t>(
        std::clamp(double(256 << 10) * aim_s / first_s, double(256 << 10), double(64 << 20)));
    std::vector<double> pair(std::size_t(n), 0.0), all(std::size_t(n), 0.0);
    for (int from = 0; from < n; ++from) {
        pair[std::size_t(from)] =
            rate_of(bytes, 1, [&](std::size_t b) { return timed(from, {after(from)}, b); });
        std::vector<int> others;
        for (int to = 0; to < n; ++to)
            if (to != from) others.push_back(to);
        if (n > 2)
            all[std::size_t(from)] = rate_of(bytes / others.size() + 1, double(others.size()),
                                             [&](std::size_t b) { return timed(from, others, b); });
    }
    found.pair_bytes_per_s = median(pair);
    // A host's own rate: the faster of its two neighbours does not narrow it.
    std::vector<double> host;
    for (int h = 0; h < n; ++h)
        host.push_back(std::max({pair[std::size_t(h)], pair[std::size_t((h + n - 1) % n)]}));
    found.host_bytes_per_s = found.pair_bytes_per_s = median(host);
    if (n > 2 && median(all) > 1.1 * found.pair_bytes_per_s) found.host_bytes_per_s = median(all);
    for (int h = 0; h < n; ++h)
        if (const double share = host[std::size_t(h)] / median(host); share < 0.9)
            found.slow.push_back({h, share});

    if (hosts_per_leaf > 0 && hosts_per_leaf < n) {
        const int crossing = std::min(hosts_per_leaf, n - hosts_per_leaf);
        found.trunk_bytes_per_s = rate_of(bytes, crossing, [&](std::size_t b) {
            double mine = 0;
            together.barrier();
            for (int h = 0; h < crossing; ++h)
                if (together.rank() == h || together.rank() == hosts_per_leaf + h)
                    mine = together.send(h, {hosts_per_leaf + h}, b);
            const std::vector<double> took = together.gather(mine);
            return *std::max_element(took.begin(), took.end());
        });
    }
    return found;
}

}  // namespace gx::bench
