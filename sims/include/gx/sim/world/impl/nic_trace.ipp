// trace_links: names of NICs, and an observer of their rates.
#pragma once

#include <utility>  // move
#include <vector>   // names

#include <gx/core/label.hpp>             // Label
#include <gx/sim/world/nic_trace.hpp>    // trace_links
#include <gx/sim/network/network.hpp>    // FlowNetwork, RateObserver
#include <gx/sim/topology/topology.hpp>  // Topology

namespace gx::sim {

GX_DECL void trace_links(TraceSink& sink, const Topology& topology, FlowNetwork& network) {
    std::vector<Label> names(static_cast<std::size_t>(network.links()));
    std::vector<BytesPerSecond> capacities(names.size());
    const ClusterSpec& spec = topology.spec();
    const auto name = [&](int link, const Label& text) {
        names[static_cast<std::size_t>(link)] = text;
        capacities[static_cast<std::size_t>(link)] = network.capacity(link);
    };
    for (int m = 0; spec.machines > 1 && m < spec.machines; ++m) {
        const Label nic = Label("machine ") + m + " NIC ";
        for (int n = 0; n < spec.machine.nics; ++n) {
            const Label numbered = spec.machine.nics > 1 ? nic + n + " " : nic;
            name(topology.nic_out(m, n), numbered + "out");
            name(topology.nic_in(m, n), numbered + "in");
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
