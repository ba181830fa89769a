// The ring of traffic.hpp as a user of gx writes it: sim::Cluster, a fiber per rank, a transport.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include <gx/sim/world/cluster.hpp>

#include "traffic.hpp"

namespace traffic {

/// One GPU per machine, one machine per host of the case.
[[nodiscard]] inline gx::sim::ClusterSpec cluster_of(const Case& c) {
    gx::sim::ClusterSpec spec{.name = "benchmark", .machines = c.hosts};
    spec.machine.host_bandwidth = {10 * c.host_bytes_per_second};
    spec.machine.nic_line_rate = {c.host_bytes_per_second};
    spec.latency = gx::Nanoseconds(c.latency_ns);
    if (c.leaf_hosts > 0)
        spec.fabric = gx::sim::leaf_spine(
            {.machines_per_leaf = c.leaf_hosts, .oversubscription = oversubscription});
    return spec;
}
/// The machine at each position of the ring: gx numbers the machines of a leaf consecutively.
[[nodiscard]] inline std::vector<int> ring_order(const Case& c) {
    std::vector<int> order = leaf_of_ranks(c), used(order.size());
    for (int r = 0; r < c.hosts; ++r) {
        int& machine = order[std::size_t(r)];
        machine = c.leaf_hosts == 0 ? r : machine * c.leaf_hosts + used[std::size_t(machine)]++;
    }
    return order;
}

/// A message carries 8 bytes of payload, as many as SimGrid's pointer, and costs Case::bytes on the
/// wire. Receives are posted a round ahead, so that an eager message finds its receive.
inline void run_ring(gx::sim::Cluster<>& world, const Case& c, const std::vector<int>& order) {
    std::vector<int> position(order.size());
    for (int r = 0; r < c.hosts; ++r) position[std::size_t(order[std::size_t(r)])] = r;
    world.run([&](auto& rank) {
        const int self = position[std::size_t(rank.rank())];
        const int next = order[std::size_t((self + 1) % c.hosts)];
        const int previous = order[std::size_t((self + c.hosts - 1) % c.hosts)];
        rank.wire_scale({.timed = std::int64_t(c.bytes), .real = sizeof(std::int64_t)});
        std::array<std::int64_t, 2> inbox{};
        const auto post = [&](int round) {
            return rank.transport().receive(
                previous, 0, std::as_writable_bytes(std::span(&inbox[round % 2], 1)));
        };
        gx::Request received = post(0);
        for (int round = 0; round < c.rounds; ++round) {
            gx::Request ahead{};
            if (round + 1 < c.rounds) ahead = post(round + 1);
            const std::int64_t sleep = sleep_ns(c, self, round), payload = round;
            if (sleep > 0) rank.charge(gx::Nanoseconds(sleep), "jitter");
            const gx::Request sent =
                rank.transport().send(next, 0, std::as_bytes(std::span(&payload, 1)));
            if (!rank.transport().wait(received).complete()) std::abort();
            if (!rank.transport().wait(sent).complete()) std::abort();
            if (inbox[round % 2] != round) std::abort();
            received = ahead;
        }
    });
}

}  // namespace traffic
