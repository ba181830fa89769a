// What gx and its peer both simulate: a ring of ranks on a star or on an oversubscribed leaf-spine.
// Plain C++17 without gx, since the peer's program includes it too.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

namespace traffic {

/// A ring all-reduce cut to `rounds`: in each round a rank sleeps for its jitter, sends a message
/// to the next rank, receives one from the previous rank, and waits for both. Sends are eager: a
/// message starts when it is posted, pays `latency_ns`, then shares links; its sender's wait ends
/// when its last byte arrives.
///
///     leaf_hosts == 0   a star: host link out, host link in
///     else              host out, leaf up, leaf down, host in; leaf links carry a quarter of what
///                       the hosts of a leaf could send (4:1). Each lap of the ring visits the
///                       leaves in an order of its own, so that every message crosses the spine and
///                       all of them are one connected component.
struct Case {
    int hosts = 64, leaf_hosts = 0, rounds = 1;
    double bytes = 1e6, host_bytes_per_second = 1.25e9;
    std::int64_t latency_ns = 10'000, jitter_ns = 0;
};
inline constexpr double oversubscription = 4;

/// Source: the finaliser of SplitMix64 (Steele, Lea, Flood 2014).
inline std::uint64_t mix(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}
/// How long a rank sleeps before a round: from 0 to c.jitter_ns.
inline std::int64_t sleep_ns(const Case& c, int rank, int round) {
    if (c.jitter_ns == 0) return 0;
    const auto draw = mix(std::uint64_t(rank) << 32 | std::uint32_t(round));
    return std::int64_t(draw % std::uint64_t(c.jitter_ns + 1));
}
/// The leaf of each rank; hosts are numbered by rank.
inline std::vector<int> leaf_of_ranks(const Case& c) {
    if (c.leaf_hosts == 0) return std::vector<int>(std::size_t(c.hosts), 0);
    const int leaves = c.hosts / c.leaf_hosts;
    std::vector<int> leaf, order;
    for (int l = 0; l < leaves; ++l) order.push_back(l);
    for (int lap = 0; lap < c.leaf_hosts; ++lap) {
        const int last = order.back();
        for (std::size_t i = order.size() - 1; i > 0; --i)
            std::swap(order[i], order[mix(std::uint64_t(lap) << 32 | i) % (i + 1)]);
        if (order.front() == last) std::swap(order.front(), order.back());
        leaf.insert(leaf.end(), order.begin(), order.end());
    }
    if (leaf.front() == leaf.back()) std::swap(leaf.back(), leaf[leaf.size() - 2]);
    return leaf;
}
inline Case parse(char** words) {  // in the order of the peer's usage line
    Case c;
    c.hosts = std::atoi(words[0]);
    c.leaf_hosts = std::atoi(words[1]);
    c.rounds = std::atoi(words[2]);
    c.bytes = std::atof(words[3]);
    c.latency_ns = std::atoll(words[4]);
    c.jitter_ns = std::atoll(words[5]);
    c.host_bytes_per_second = std::atof(words[6]);
    return c;
}

}  // namespace traffic
