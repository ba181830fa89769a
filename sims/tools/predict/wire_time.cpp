#include <tools/predict/wire_time.hpp>

#include <algorithm>  // max, min
#include <cmath>      // lround
#include <vector>     // links

#include <fmt/core.h>  // keys

#include <gx/collective/ring.hpp>             // Ring
#include <gx/sim/des/engine.hpp>              // Engine
#include <gx/sim/catalog/cluster_of.hpp>      // with_gpus
#include <gx/sim/catalog/find_machine.hpp>    // machines with wiring
#include <gx/sim/timing/nccl_model.hpp>       // nccl_all_reduce_time
#include <gx/sim/network/network.hpp>         // FlowNetwork
#include <gx/sim/timing/all_reduce_time.hpp>  // all_reduce_time

namespace gx::tools::predict {

namespace {

using namespace sim;

constexpr double small_mb = 1, large_mb = 64;

Bytes bytes(double mb) { return {static_cast<std::int64_t>(mb * 1e6)}; }
Task nothing() {
    return {[](void*, std::uint64_t) {}, nullptr, 0};
}

LinkClass link_of(const Hardware& h) {
    return h.inside.link == Inside::Link::pcie ? LinkClass::pci : LinkClass::nvlink;
}

/// All of a machine and network that the time of a transfer depends on. Measured clusters of one
/// name are one cluster, but for these rates.
std::string network_of(const Hardware& h) {
    std::string key =
        fmt::format("{} {} {} {} {} {}", static_cast<int>(h.inside.link), h.inside.bus.count,
                    h.inside.shared.count, h.nic.count, h.share, h.profile.name.view());
    if (const ClusterSpec* const c = h.measured)
        key += fmt::format(" {} {} {} {} {}", c->name.view(), c->latency.count(), c->flow_cap.count,
                           c->machine.peer_latency.count(), c->machine.peer_flow_cap.count);
    return key;
}
std::string key_of(const char* what, const Hardware& h, Group g) {
    return fmt::format("{} {} {} {}", what, g.machines, g.gpus, network_of(h));
}

/// The machine whose links join the owners of tensors: a measured one with its own wiring, else the
/// catalog's of these GPUs, else one without wiring.
MachineSpec owners_machine(const Hardware& h, int gpus, const MachineSpec& plain) {
    if (h.measured != nullptr)
        return h.measured->machine.wiring.known ? with_gpus(h.measured->machine, gpus) : plain;
    for (const auto make : machine_makers)
        if (const MachineSpec m = make();
            m.gpu.name == h.gpu.name && m.gpus >= gpus && m.gpus < 2 * gpus && m.gpus > 1)
            return m;
    return plain;
}

/// Machines to simulate instead of more: at most `most`, as many as the network joins. Leaves are
/// whole.
int joined_machines(const Hardware& h, int machines, int most) {
    if (machines <= most) return machines;
    const Fabric fabric = h.measured != nullptr ? h.measured->fabric : star();
    const bool whole = fabric.kind == Fabric::Kind::leaf_spine && most > fabric.machines_per_leaf;
    return whole ? most / fabric.machines_per_leaf * fabric.machines_per_leaf : most;
}

/// The line through the times of a small and a large message.
template <class F>
Line line_through(F&& time_ms) {
    const double a = time_ms(small_mb), b = time_ms(large_mb);
    const double slope = (b - a) / (large_mb - small_mb);
    return {std::max(0.0, a - slope * small_mb), slope};
}

}  // namespace

double FasterLine::at(double mb) const {
    return trees ? std::min(ring.at(mb), tree.at(mb)) : ring.at(mb);
}

FasterLine WireTime::all_reduce(const Hardware& h, Group g, double mb, std::string& algorithm) {
    if (g.ranks() < 2) return {};
    FasterLine f{.ring = long_ring(h, g)};
    f.trees = h.trees && g.machines > 2;
    if (f.trees) f.tree = tree(h, g);
    algorithm = f.is_tree(mb) ? "tree" : "ring";
    return f;
}

double WireTime::servers(const Hardware& h, int machines, int servers, double mb,
                         double server_gbps) {
    const double workers = double(machines) / servers;  // of one server
    int most_machines = machines;
    for (int some = servers; std::int64_t{most_machines} * some > most_flows && some > 1;)
        most_machines = (most_machines + 1) / 2, some = (some + 1) / 2;
    machines = joined_machines(h, machines, std::min(most_machines, most_flows));
    servers = std::max(1, static_cast<int>(std::lround(machines / workers)));
    const double more = workers * servers / machines;
    const auto key =
        fmt::format("s {} {} {} {} {} {}", machines, servers, mb, server_gbps, more, network_of(h));
    if (const auto at = times_.find(key); at != times_.end()) return at->second;
    Engine engine;
    FlowNetwork network(engine);
    const ClusterSpec spec = h.spec(machines, 1);
    const Topology topology(spec, network);
    std::vector<int> links;  // of the servers
    for (int s = 0; s < servers; ++s) links.push_back(network.add_link({server_gbps * 1e9 / 8}));
    for (int m = 0; m < machines; ++m)
        for (int s = 0; s < servers; ++s) {
            const int home = s % machines;
            const auto way = topology.route(m, home);
            Transfer f{.path = way.path,
                       .bytes = bytes(mb / servers),
                       .latency = spec.latency + h.profile.transport.latency,  // without NCCL's
                       .cap = way.cap,
                       .rank = m,
                       .done = nothing()};
            f.path.add(links[static_cast<std::size_t>(s)]);
            network.start(f);
        }
    engine.drain();
    simulated_ += network.messages();
    return times_[key] = 2 * seconds(engine.now()) * 1e3 * more;  // fetching mirrors sending
}

double WireTime::key_value(const Hardware& h, int gpus, double mb, double largest, double share) {
    const auto key = fmt::format("k {} {} {} {} {} {}", h.gpu.name.view(), gpus, mb, largest, share,
                                 network_of(h));
    if (const auto at = times_.find(key); at != times_.end()) return at->second;
    ClusterSpec spec = h.spec(1, gpus);
    spec.machine = owners_machine(h, gpus, spec.machine);
    Engine engine;
    FlowNetwork network(engine);
    const Topology topology(spec, network);
    for (int from = 0; from < gpus; ++from)
        for (int to = 0; to < gpus; ++to) {
            if (from == to) continue;
            const auto way = topology.route(from, to);
            const double part = (1 - largest) / gpus + (to == 0 ? largest : 0);
            network.start({.path = way.path,
                           .bytes = bytes(mb * part / share),
                           .latency = way.latency,
                           .cap = way.cap,
                           .rank = from,
                           .done = nothing()});
        }
    engine.drain();
    simulated_ += network.messages();
    return times_[key] = 2 * seconds(engine.now()) * 1e3;
}

/// A ring of more than 4,096 ranks: latency grows with its steps, the bytes of a link do not.
Line WireTime::long_ring(const Hardware& h, Group g) {
    const int machines = joined_machines(h, g.machines, std::max(2, most_ranks / g.gpus));
    if (machines >= g.machines) return ring(h, g);
    Line r = ring(h, {machines, g.gpus});
    r.latency_ms *= (g.ranks() - 1.0) / (machines * g.gpus - 1.0);
    return r;
}

Line WireTime::ring(const Hardware& h, Group g) {
    const std::string key = key_of("ring", h, g);
    if (const auto at = lines_.find(key); at != lines_.end()) return at->second;
    return lines_[key] = line_through([&](double mb) {
               const ClusterSpec spec = h.spec(g.machines, g.gpus);
               const collective::Ring ring(collective::MachineOrder(spec.placement(), 0));
               const auto base = h.profile.collective.base.ring.simple;
               const auto t = all_reduce_time(ring, spec, bytes(mb), Detail::collapsed);
               simulated_ += t.simulated;
               return seconds(t.time + base) * 1e3;
           });
}

Line WireTime::tree(const Hardware& h, Group g) {
    const std::string key = key_of("tree", h, g);
    if (const auto at = lines_.find(key); at != lines_.end()) return at->second;
    return lines_[key] = line_through([&](double mb) {
               const ClusterSpec spec = h.spec(g.machines, g.gpus);
               const BytesPerSecond bus = std::min(h.inside.bus_of(g.gpus), spec.nic_rate());
               return seconds(nccl_all_reduce_time(h.profile, {.machines = g.machines,
                                                               .ranks_per_machine = g.gpus,
                                                               .bytes = bytes(mb),
                                                               .algorithm = Algorithm::tree,
                                                               .protocol = Protocol::simple,
                                                               .bus_bandwidth = bus,
                                                               .channels = 16,
                                                               .inside = link_of(h)})
                                  .total()) *
                      1e3;
           });
}

}  // namespace gx::tools::predict
