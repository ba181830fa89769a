// check(MachineSpec), check(ClusterSpec): the bodies.
#pragma once

#include <cstdio>   // snprintf
#include <string>   // sentences
#include <utility>  // move

#include <gx/core/error.hpp>             // Error
#include <gx/sim/hardware/validate.hpp>  // check

namespace gx::sim {

namespace detail::check {

GX_COLD [[nodiscard]] inline std::string named(const MachineSpec& m) {
    return "machine '" + std::string(m.name.view()) + "': ";
}
GX_COLD [[nodiscard]] inline std::string gbps(BytesPerSecond r) {
    std::string text = std::to_string(r.count * 8e-9);
    while (text.back() == '0') text.pop_back();
    if (text.back() == '.') text.pop_back();
    return text + " Gb/s";
}

/// Ranges of a specification's numbers, at least as wide as a machine file's; a NaN is in none.
class Numbers {
public:
    explicit Numbers(std::string of) : of_(std::move(of)) {}
    void within(const char* field, double value, double least, double most,
                const char* unit = "") const {
        if (value >= least && value <= most) return;
        throw Error(of_ + field + " is " + text(value) + ": give a number from " + text(least) +
                    " to " + text(most) + unit);
    }
    void rate(const char* field, BytesPerSecond r) const {
        within(field, r.count, 0, most_link_rate.count,
               " bytes per second; 0 where there is no limit or link");
    }
    void latency(const char* field, Nanoseconds t) const {
        within(field, static_cast<double>(t.count()), 0, 1e9, " ns");
    }
    void price(const char* field, double dollars) const {
        within(field, dollars, 0, 1e9, " dollars; 0 where it is unknown");
    }
    void shares(const char* field, const Efficiency& e) const {
        for (const double share : {e.convolution, e.linear, e.memory})
            within(field, share, 0, 1, ", shares of the peak");
    }

private:
    static std::string text(double x) {
        char buffer[32];
        std::snprintf(buffer, sizeof buffer, "%g", x);
        return buffer;
    }
    std::string of_;
};

GX_COLD inline void numbers(const GpuSpec& g) {
    const Numbers of("GPU '" + std::string(g.name.view()) + "': ");
    of.within("fp32", g.fp32.count, 0, 1e18, " operations per second");
    of.within("tensor_fp16", g.tensor_fp16.count, 0, 1e18, " operations per second");
    of.within("tf32", g.tf32.count, 0, 1e18, " operations per second");
    of.within("fp16", g.fp16.count, 0, 1e18, " operations per second");
    of.within("memory", static_cast<double>(g.memory.count), 0, 1e15, " bytes");
    of.rate("memory_bandwidth", g.memory_bandwidth);
    of.latency("launch", g.launch);
    of.shares("efficiency_fp32", g.efficiency_fp32);
    of.shares("efficiency_mixed", g.efficiency_mixed);
    of.shares("efficiency_tf32", g.efficiency_tf32);
    of.within("winograd", g.winograd, 1, 10);
    of.within("multiprocessors", g.multiprocessors, 0, 10'000);
    of.within("copy_engines", g.copy_engines, 0, 100);
}
GX_COLD inline void numbers(const MachineSpec& m) {
    const Numbers of(named(m));
    of.within("gpus", m.gpus, 1, 1024);
    of.within("nics", m.nics, 0, 1024);
    of.rate("peer_bandwidth", m.peer_bandwidth);
    of.rate("peer_flow_cap", m.peer_flow_cap);
    of.latency("peer_latency", m.peer_latency);
    of.rate("host_bandwidth", m.host_bandwidth);
    of.rate("nic_line_rate", m.nic_line_rate);
    of.price("price", m.price.count);
    of.price("spot_price", m.spot_price.count);
    of.price("purchase_price", m.purchase_price.count);
}
GX_COLD inline void numbers(const ClusterSpec& c) {
    const Numbers of("cluster '" + std::string(c.name.view()) + "': ");
    of.within("machines", c.machines, 1, 1e6);
    of.within("machines times gpus", 1.0 * c.machines * c.machine.gpus, 1, 2e9, " ranks");
    of.latency("latency", c.latency);
    of.rate("flow_cap", c.flow_cap);
    of.within("goodput", c.goodput, 1e-6, 1);
}

/// A port leads to a socket, over links that carry something.
GX_COLD inline void port(const MachineSpec& m, const std::string& device, const PciePort& p) {
    const Wiring& w = m.wiring;
    if (!(p.rate.count > 0))
        throw Error(named(m) + device + " has a PCIe link of zero rate: give it a rate above 0");
    Numbers(named(m) + device + ": ").rate("PCIe rate", p.rate);
    PciePort at = p;
    for (int steps = 0; at.under >= 0; ++steps) {
        if (at.under >= w.switches)
            throw Error(named(m) + "it is not connected: " + device + " is under PCIe switch " +
                        std::to_string(at.under) + ", and there are " + std::to_string(w.switches));
        if (steps > w.switches)
            throw Error(named(m) + "cycle in a tree: the PCIe switches above " + device +
                        " are under each other; one must be at a socket");
        at = w.pcie_switch[static_cast<std::size_t>(at.under)];
    }
    if (at.socket < 0 || at.socket >= w.sockets)
        throw Error(named(m) + "it is not connected: " + device + " leads to socket " +
                    std::to_string(at.socket) + ", and there are " + std::to_string(w.sockets));
}

GX_COLD inline void nvlink(const MachineSpec& m) {
    const Wiring& w = m.wiring;
    bool any = w.nvswitch_links > 0;
    for (std::size_t a = 0; a < static_cast<std::size_t>(m.gpus); ++a)
        for (std::size_t b = 0; b < static_cast<std::size_t>(m.gpus); ++b) {
            any = any || w.nvlinks[a][b] > 0;
            if (a == b && w.nvlinks[a][b] > 0)
                throw Error(named(m) + "GPU " + std::to_string(a) + " has " +
                            std::to_string(w.nvlinks[a][b]) + " NVLinks to itself: expected 0");
            if (w.nvlinks[a][b] == w.nvlinks[b][a]) continue;
            throw Error(named(m) + "GPU " + std::to_string(a) + " has " +
                        std::to_string(w.nvlinks[a][b]) + " NVLinks to GPU " + std::to_string(b) +
                        ", which has " + std::to_string(w.nvlinks[b][a]) +
                        " back: a link has two ends");
        }
    Numbers(named(m)).rate("nvlink", w.nvlink);
    if (any && !(w.nvlink.count > 0))
        throw Error(named(m) + "NVLinks of zero rate: give the rate of one link");
}

GX_COLD inline void rings(const MachineSpec& m) {
    for (int k = 0; k < m.wiring.ring_count; ++k) {
        unsigned seen = 0;
        for (std::size_t i = 0; i < static_cast<std::size_t>(m.gpus); ++i)
            seen |= 1u << m.wiring.rings[static_cast<std::size_t>(k)][i];
        if (seen != (1u << m.gpus) - 1)
            throw Error(named(m) + "ring " + std::to_string(k) + " does not visit each of the " +
                        std::to_string(m.gpus) + " GPUs once");
    }
}

}  // namespace detail::check

GX_DECL void check(const MachineSpec& m) {
    using detail::check::named;
    const Wiring& w = m.wiring;
    if (m.gpus < 1) throw Error(named(m) + "a machine has at least one GPU");
    if (m.nics < 0) throw Error(named(m) + "a machine has 0 NICs or more");
    detail::check::numbers(m.gpu);
    detail::check::numbers(m);
    if (!w.known) return;
    const auto most = [&](const char* what, int count, int limit) {
        if (count > limit)
            throw Error(named(m) + std::to_string(count) + " " + what + ": at most " +
                        std::to_string(limit) + " are described");
    };
    most("GPUs", m.gpus, Wiring::most_gpus);
    most("NICs", m.nics, Wiring::most_nics);
    most("PCIe switches", w.switches, Wiring::most_switches);
    most("sockets", w.sockets, Wiring::most_sockets);
    const auto each = [&](const char* what, const auto& ports, int count) {
        for (int i = 0; i < count; ++i)
            detail::check::port(m, what + std::to_string(i), ports[static_cast<std::size_t>(i)]);
    };
    each("PCIe switch ", w.pcie_switch, w.switches);
    each("GPU ", w.gpu, m.gpus);
    each("NIC ", w.nic, m.nics);
    detail::check::Numbers(named(m)).rate("socket_link", w.socket_link);
    if (w.sockets > 1 && !(w.socket_link.count > 0))
        throw Error(named(m) + "it is not connected: " + std::to_string(w.sockets) +
                    " sockets are joined by a link of zero rate");
    if (!(w.peer_penalty >= 1 && w.peer_penalty <= 1e3))
        throw Error(named(m) + "peer_penalty is a factor of 1 or more on the time of a message");
    detail::check::nvlink(m);
    detail::check::rings(m);
}

GX_DECL void check(const ClusterSpec& c) {
    using detail::check::gbps;
    using detail::check::named;
    const MachineSpec& m = c.machine;
    check(m);
    if (c.machines < 1) throw Error("a cluster has at least one machine");
    detail::check::numbers(c);
    if (m.gpus > 1 && !m.wiring.known && !(m.peer_bandwidth.count > 0))
        throw Error(named(m) + "its GPUs are joined by links of zero rate: set peer_bandwidth");
    if (c.machines == 1) return;
    if (m.nics < 1)
        throw Error(named(m) + "it is not connected: " + std::to_string(c.machines) +
                    " machines need a NIC each");
    if (!(c.nic_rate().count > 0))
        throw Error(named(m) + "NICs of zero rate: set nic_line_rate, nic_gbps in a file, above 0");
    if (!m.wiring.known && !(m.host_bandwidth.count > 0))
        throw Error(named(m) + "its NICs are behind a link of zero rate: set host_bandwidth");
    for (int n = 0; n < m.nics && m.wiring.known; ++n) {
        const BytesPerSecond port = m.wiring.nic[static_cast<std::size_t>(n)].rate;
        // PCIe signals up to 1.3 times what it carries: such a NIC runs at its port's rate.
        if (c.nic_rate() > port * 1.3)
            throw Error(named(m) + "NIC " + std::to_string(n) + " carries " + gbps(c.nic_rate()) +
                        " and its PCIe only " + gbps(port) +
                        ": lower the NIC's rate or widen its port");
    }
    check(c.fabric, c.machines);
}

}  // namespace gx::sim
