// check(MachineSpec), check(ClusterSpec): the bodies.
#pragma once

#include <string>  // sentences

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

/// A port leads to a socket, over links that carry something.
GX_COLD inline void port(const MachineSpec& m, const std::string& device, const PciePort& p) {
    const Wiring& w = m.wiring;
    if (!(p.rate.count > 0))
        throw Error(named(m) + device + " has a PCIe link of zero rate: give it a rate above 0");
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
            if (w.nvlinks[a][b] == w.nvlinks[b][a]) continue;
            throw Error(named(m) + "GPU " + std::to_string(a) + " has " +
                        std::to_string(w.nvlinks[a][b]) + " NVLinks to GPU " + std::to_string(b) +
                        ", which has " + std::to_string(w.nvlinks[b][a]) +
                        " back: a link has two ends");
        }
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
    if (w.sockets > 1 && !(w.socket_link.count > 0))
        throw Error(named(m) + "it is not connected: " + std::to_string(w.sockets) +
                    " sockets are joined by a link of zero rate");
    if (!(w.peer_penalty >= 1))
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
    if (m.gpus > 1 && !m.wiring.known && !(m.peer_bandwidth.count > 0))
        throw Error(named(m) + "its GPUs are joined by links of zero rate: set peer_bandwidth");
    if (c.machines == 1) return;
    if (m.nics < 1)
        throw Error(named(m) + "it is not connected: " + std::to_string(c.machines) +
                    " machines need a NIC each");
    if (!(c.nic_rate().count > 0))
        throw Error(named(m) + "a NIC of zero rate: a link needs a rate above 0");
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
