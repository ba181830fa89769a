// trace_links: how fast the NICs of a simulated cluster send and receive, for a timeline.
#pragma once

#include <utility>  // move
#include <vector>   // names

#include <gx/core/cold.hpp>  // GX_COLD
#include <gx/core/label.hpp>      // Label
#include <gx/sim/network.hpp>     // Network, RateObserver
#include <gx/sim/topology.hpp>    // Topology
#include <gx/sim/trace.hpp>       // TraceSink

namespace gx::sim {

/// From here on `sink` is told of every change of a NIC's rate, in and out.
/// Links inside of machines and between switches keep an empty name, and are left out.
template <class T>
GX_COLD void trace_links(TraceSink& sink, const T& topology, Network& network) {
    std::vector<Label> names(static_cast<std::size_t>(network.links()));
    std::vector<BytesPerSecond> capacities(names.size());
    const auto& spec = topology.spec();
    const auto name = [&](int link, const Label& text) {
        names[static_cast<std::size_t>(link)] = text;
        capacities[static_cast<std::size_t>(link)] = network.capacity(link);
    };
    for (int m = 0; spec.machines > 1 && m < spec.machines; ++m) {
        const Label nic = Label("machine ") + m + " NIC ";
        if constexpr (requires { spec.machine.nics; }) {
            for (int n = 0; n < spec.machine.nics; ++n) {
                const Label numbered = spec.machine.nics > 1 ? nic + n + " " : nic;
                name(topology.nic_out(m, n), numbered + "out");
                name(topology.nic_in(m, n), numbered + "in");
            }
        } else {
            name(topology.nic_out(m), nic + "out");
            name(topology.nic_in(m), nic + "in");
        }
    }
    sink.name_links(std::move(names), std::move(capacities));
    network.observe({[](void* to, int link, Nanoseconds now, BytesPerSecond load) {
                         auto& s = *static_cast<TraceSink*>(to);
                         if (!s.rates.names[static_cast<std::size_t>(link)].view().empty())
                             s.set_rate(link, now, load);
                     },
                     &sink});
}

}  // namespace gx::sim
