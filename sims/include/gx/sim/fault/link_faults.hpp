// LinkFaults: injects faults of links, NICs and switches: slow, cut, flapping, lost.
#pragma once

#include <cstdint>   // uint64_t
#include <optional>  // failover
#include <vector>    // changes

#include <gx/core/decl.hpp>                      // GX_HEADER_ONLY
#include <gx/sim/topology/failover_routing.hpp>  // FailoverRouting
#include <gx/sim/des/engine.hpp>                 // Engine
#include <gx/sim/fault/fault_values.hpp>         // Fault
#include <gx/sim/network/network.hpp>            // FlowNetwork
#include <gx/sim/topology/topology.hpp>          // Topology
#include <gx/sim/world/matching.hpp>             // MessageMatcher

namespace gx::sim {

/// The links' part of a FaultInjector.
///
/// A failed NIC or switch is avoided once it is detected: later messages take another route
/// (FailoverRouting), and messages in flight over it are sent again, whole. A message without any
/// route left makes no progress until there is one.
///
/// Order: where several faults slow a link the slowest counts.
class LinkFaults {
public:
    /// Marks in `fired` the faults that have changed a link.
    LinkFaults(Engine& engine, FlowNetwork& network, const Topology& topology,
               MessageMatcher& matcher, std::vector<bool>& fired);
    LinkFaults(const LinkFaults&) = delete;  // events point at it
    LinkFaults& operator=(const LinkFaults&) = delete;

    void add(std::size_t i, const SlowLink& f) {
        slow(i, f.wire, links_of(f.wire), f.share, f.at, f.lasts);
    }
    void add(std::size_t i, const CutLink& f) {
        slow(i, f.wire, links_of(f.wire), 0, f.at, f.lasts);
    }
    void add(std::size_t i, const FlappingLink& f);
    void add(std::size_t i, const LostNic& f);
    void add(std::size_t i, const SlowSwitch& f) {
        slow(i, {}, links_of(f.which), f.share, f.at, f.lasts);
    }
    void add(std::size_t i, const LostSwitch& f);

    /// As FaultInterface says.
    [[nodiscard]] bool cut_off(int rank) const;
    [[nodiscard]] bool unreachable(int rank) const {
        return lost_ > 0 && failover_->isolated(rank / topology_.spec().machine.gpus);
    }
    [[nodiscard]] bool reroute(int from, int to, int channel, Path& path) const {
        return lost_ > 0 && failover_->route(from, to, channel, path);
    }

private:
    struct Change {  // from its event until it is undone, `share` of the link's rate is left
        std::size_t fault;
        int link;
        double share;
        Wire wire;  // that is cut; none for what is lost
        bool on = false;
    };
    struct Flap {
        Nanoseconds down, up, end;
        std::size_t first, count;  // in changes_
        bool is_down = false;
    };
    struct Loss {
        int machine = -1, nic = 0;
        Switch which{};  // where there is no machine
        std::vector<int> links{};
        bool on = false;
    };

    static LinkFaults& self(void* p) { return *static_cast<LinkFaults*>(p); }
    static Nanoseconds end(Nanoseconds at, Nanoseconds lasts) {
        return lasts >= forever - at ? forever : at + lasts;
    }
    FailoverRouting& failover() {
        if (!failover_) failover_.emplace(topology_);
        return *failover_;
    }
    void slow(std::size_t i, const Wire& wire, const std::vector<int>& links, double share,
              Nanoseconds at, Nanoseconds lasts);
    void lose(Loss loss, Nanoseconds at, Nanoseconds unnoticed, Nanoseconds lasts);
    [[nodiscard]] std::vector<int> links_of(const Wire& wire) const;
    [[nodiscard]] std::vector<int> links_of(Switch which);
    static void link_event(void* p, std::uint64_t change);
    static void flap_event(void* p, std::uint64_t flap);
    static void loss_event(void* p, std::uint64_t loss);
    void toggle(Change& change);
    void toggle(Loss& loss);

    Engine& engine_;
    FlowNetwork& network_;
    const Topology& topology_;
    MessageMatcher& matcher_;
    std::vector<bool>& fired_;
    std::vector<BytesPerSecond> rates_{};  // of whole links
    std::vector<Change> changes_{};
    std::vector<Flap> flaps_{};
    std::vector<Loss> losses_{};
    int lost_ = 0;  // losses that are on
    std::optional<FailoverRouting> failover_{};
};

}  // namespace gx::sim

#if defined(GX_HEADER_ONLY)
#include <gx/sim/fault/impl/link_faults.ipp>
#endif
