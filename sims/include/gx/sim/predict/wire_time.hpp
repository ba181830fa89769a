// WireTime: how long gradients are on the wire, from the simulated network.
#pragma once

#include <algorithm>  // max, min
#include <cstdint>    // int64_t
#include <map>        // what was simulated before
#include <string>     // keys

#include <fmt/core.h>  // keys

#include <gx/collective/ring.hpp>         // Ring
#include <gx/sim/engine.hpp>              // Engine
#include <gx/sim/find_machine.hpp>        // machines with wiring
#include <gx/sim/nccl_cost.hpp>           // nccl_all_reduce_time
#include <gx/sim/network.hpp>             // Network
#include <gx/sim/predict/hardware.hpp>    // Hardware
#include <gx/sim/timing.hpp>              // all_reduce_time

namespace gx::sim::predict {

/// Time of a message or collective by its size: milliseconds and megabytes.
struct Line {
    double latency_ms = 0, ms_per_mb = 0;
    [[nodiscard]] double at(double mb) const { return latency_ms + ms_per_mb * mb; }
};

/// The time of an all-reduce whose library takes, call by call, the faster of two algorithms.
struct FasterLine {
    Line ring{}, tree{};
    bool trees = false;
    [[nodiscard]] double at(double mb) const {
        return trees ? std::min(ring.at(mb), tree.at(mb)) : ring.at(mb);
    }
    [[nodiscard]] bool is_tree(double mb) const { return trees && tree.at(mb) < ring.at(mb); }
};

/// Simulates each question once. Rings run through the fluid network message by message, collapsed
/// where that gives the same nanosecond; parameter servers and kvstores are flows on NICs and PCIe.
/// Trees are NCCL's own estimate (nccl_all_reduce_time): its pipelined trees are not simulated.
class WireTime {
public:
    struct Group {
        int machines = 1, gpus = 1;  ///< of each machine
        [[nodiscard]] int ranks() const { return machines * gpus; }
    };

    /// All-reduces of any size; `algorithm` says which is faster for `mb`.
    [[nodiscard]] FasterLine all_reduce(const Hardware& h, Group g, double mb,
                                        std::string& algorithm) {
        if (g.ranks() < 2) return {};
        FasterLine f{.ring = long_ring(h, g)};
        f.trees = h.trees && g.machines > 2;
        if (f.trees) f.tree = tree(h, g);
        algorithm = f.is_tree(mb) ? "tree" : "ring";
        return f;
    }

    /// Every machine sends `mb`, cut over `servers` on the first machines, and fetches as much.
    /// Of very many, as many workers for each server are simulated.
    [[nodiscard]] double servers(const Hardware& h, int machines, int servers, double mb,
                                 double server_gbps) {
        while (std::int64_t{machines} * servers > most_flows && servers > 1)
            machines = (machines + 1) / 2, servers = (servers + 1) / 2;
        const auto key = fmt::format("s {} {} {} {} {}", machines, servers, mb, h.nic.count,
                                     server_gbps);
        if (const auto at = times_.find(key); at != times_.end()) return at->second;
        Engine engine;
        Network network(engine);
        const BytesPerSecond line = h.spec(machines, 1).nic_rate();
        for (int m = 0; m < 2 * machines; ++m) (void)network.add_link(line);
        for (int s = 0; s < servers; ++s) (void)network.add_link({server_gbps * 1e9 / 8});
        for (int m = 0; m < machines; ++m)
            for (int s = 0; s < servers; ++s) {
                const int home = s % machines;
                Flow f{.bytes = bytes(mb / servers), .latency = h.profile.transport.latency,
                       .rank = m, .done = nothing()};
                if (home != m) f.path.add(m), f.path.add(machines + home);
                f.path.add(2 * machines + s);
                network.start(f);
            }
        engine.drain();
        return times_[key] = 2 * seconds(engine.now()) * 1e3;  // fetching mirrors sending
    }

    /// Tensors of `mb` in all, the largest a share `largest`, summed at their owners among the
    /// GPUs of one machine and sent back. Owners of all but the largest share alike.
    [[nodiscard]] double key_value(const Hardware& h, int gpus, double mb, double largest,
                                   double share) {
        const auto key = fmt::format("k {} {} {} {} {}", h.machine, gpus, mb, largest, share);
        if (const auto at = times_.find(key); at != times_.end()) return at->second;
        ClusterSpec spec = h.spec(1, gpus);
        for (const auto make : machine_makers)
            if (const MachineSpec m = make();
                m.gpu.name == h.gpu.name && m.gpus >= gpus && m.gpus < 2 * gpus && m.gpus > 1)
                spec.machine = m;
        Engine engine;
        Network network(engine);
        const Topology topology(spec, network);
        for (int from = 0; from < gpus; ++from)
            for (int to = 0; to < gpus; ++to) {
                if (from == to) continue;
                const auto way = topology.route(from, to);
                const double part = (1 - largest) / gpus + (to == 0 ? largest : 0);
                network.start({.path = way.path, .bytes = bytes(mb * part / share),
                               .latency = way.latency, .cap = way.cap, .rank = from,
                               .done = nothing()});
            }
        engine.drain();
        return times_[key] = 2 * seconds(engine.now()) * 1e3;
    }

private:
    static Bytes bytes(double mb) { return {static_cast<std::int64_t>(mb * 1e6)}; }
    static Task nothing() { return {[](void*, std::uint64_t) {}, nullptr, 0}; }
    static constexpr double small_mb = 1, large_mb = 64;
    static constexpr int most_ranks = 4096, most_flows = 1 << 14;

    template <class F>
    Line line(const std::string& key, F&& time_ms) {
        if (const auto at = lines_.find(key); at != lines_.end()) return at->second;
        const double a = time_ms(small_mb), b = time_ms(large_mb);
        const double slope = (b - a) / (large_mb - small_mb);
        return lines_[key] = {std::max(0.0, a - slope * small_mb), slope};
    }
    static std::string key_of(const char* what, const Hardware& h, Group g) {
        return fmt::format("{} {} {} {} {} {} {}", what, g.machines, g.gpus, h.inside.bus.count,
                           h.nic.count, h.share, h.profile.name.view());
    }
    /// A ring of more than 4,096 ranks: latency grows with its steps, the bytes of a link do not.
    [[nodiscard]] Line long_ring(const Hardware& h, Group g) {
        const int machines = std::min(g.machines, std::max(2, most_ranks / g.gpus));
        if (machines >= g.machines) return ring(h, g);
        Line r = ring(h, {machines, g.gpus});
        r.latency_ms *= (g.ranks() - 1.0) / (machines * g.gpus - 1.0);
        return r;
    }
    static LinkClass link_of(const Hardware& h) {
        return h.inside.link == Inside::Link::pcie ? LinkClass::pci : LinkClass::nvlink;
    }
    [[nodiscard]] Line ring(const Hardware& h, Group g) {
        return line(key_of("ring", h, g), [&](double mb) {
            const ClusterSpec spec = h.spec(g.machines, g.gpus);
            const collective::Ring ring(collective::MachineOrder(spec.placement(), 0));
            const auto base = h.profile.collective.base.ring.simple;
            const auto t = all_reduce_time(ring, spec, bytes(mb), Detail::collapsed).time;
            return seconds(t + base) * 1e3;
        });
    }
    [[nodiscard]] Line tree(const Hardware& h, Group g) {
        return line(key_of("tree", h, g), [&](double mb) {
            const ClusterSpec spec = h.spec(g.machines, g.gpus);
            const BytesPerSecond bus = std::min(h.inside.bus, spec.nic_rate());
            return seconds(nccl_all_reduce_time(
                               h.profile,
                               {.machines = g.machines, .ranks_per_machine = g.gpus,
                                .bytes = bytes(mb), .algorithm = Algorithm::tree,
                                .protocol = Protocol::simple, .bus_bandwidth = bus,
                                .channels = 16, .inside = link_of(h)})
                               .total()) * 1e3;
        });
    }

    std::map<std::string, Line> lines_{};
    std::map<std::string, double> times_{};
};

}  // namespace gx::sim::predict
