// served_step_time: the state machine of one step through parameter servers.
#pragma once

#include <algorithm>  // max
#include <cstdint>    // int64_t
#include <vector>     // keys

#include <gx/collective/exchange.hpp>               // chunk_range
#include <gx/core/contract.hpp>                     // GX_EXPECT
#include <gx/sim/des/engine.hpp>                    // Engine
#include <gx/sim/network/network.hpp>               // FlowNetwork, Transfer
#include <gx/sim/timing/parameter_server_time.hpp>  // ParameterServers
#include <gx/sim/topology/topology.hpp>             // Topology

namespace gx::sim {

namespace detail {

/// The state machine of one step. A key is the parameters that become ready together.
///
///     ready:  GPUs of a machine send the key to its owner, GPU key mod G, which sums
///     push:   the owner sends each server its part; a server that has all workers' parts sums
///     pull:   servers send the parts back; the owner sends the whole key to the other GPUs
///
/// With one machine there are no servers: the owner sends the sum back at once.
class ServedStep {
public:
    ServedStep(const StepWork& work, const ClusterSpec& spec, const ParameterServers& how)
        : work_(work), spec_(spec), how_(how), network_(engine_), topology_(spec, network_) {
        GX_EXPECT(how.servers > 0, "there is at least one server");
        for (int s = 0; s < 2 * how.servers && how.own_nic.count > 0; ++s)
            server_links_.push_back(network_.add_link(how.own_nic));
        std::int64_t end = work.elements;
        for (const StepWork::Ready& r : work.ready) {
            if (r.watermark < end) keys_.push_back({end - r.watermark, r.after});
            end = r.watermark;
        }
        parts_.resize(keys_.size() * static_cast<std::size_t>(how.servers));
        places_.resize(keys_.size() * static_cast<std::size_t>(spec.machines));
    }

    [[nodiscard]] ServedStepTiming run() {
        for (std::size_t k = 0; k < keys_.size(); ++k)
            for (int m = 0; m < spec_.machines; ++m)
                engine_.at(work_.forward + work_.backward - backward_left(k), m,
                           {ready_event, this, place(m, k)});
        engine_.drain();
        GX_EXPECT(returned_ == places_.size(), "every key comes back to every machine");
        const Nanoseconds computed = work_.forward + work_.backward;
        const Nanoseconds end = std::max(engine_.now(), computed);
        ServedStepTiming t{.step = end + work_.update, .exposed = end - computed};
        for (int n = 0; n < spec_.machine.nics && spec_.machines > 1; ++n)
            t.sent_per_worker += network_.carried(topology_.nic_out(0, n));
        for (const int link : server_links_)
            t.server_load = std::max(t.server_load, network_.peak_load(link));
        return t;
    }

private:
    struct Key {
        std::int64_t elements = 0;
        Nanoseconds after{};  ///< the begin of backward
    };
    struct Place {     // a key on a machine
        int left = 0;  // messages until the present phase ends
    };
    struct Part {  // a key's part on a server
        int arrived = 0;
    };
    static ServedStep& self(void* me) { return *static_cast<ServedStep*>(me); }
    static void ready_event(void* me, std::uint64_t p) { self(me).gather(p); }
    static void gathered_event(void* me, std::uint64_t p) {
        if (--self(me).places_[p].left == 0) self(me).push(p);
    }
    static void pushed_event(void* me, std::uint64_t part) { self(me).pushed(part); }
    static void summed_event(void* me, std::uint64_t part) { self(me).pull(part); }
    static void pulled_event(void* me, std::uint64_t p) {
        if (--self(me).places_[p].left == 0) self(me).spread(p);
    }
    static void spread_event(void* me, std::uint64_t p) {
        if (--self(me).places_[p].left == 0) ++self(me).returned_;
    }

    [[nodiscard]] std::uint64_t place(int machine, std::size_t key) const {
        return static_cast<std::uint64_t>(machine) * keys_.size() + key;
    }
    [[nodiscard]] std::size_t key_of(std::uint64_t place) const { return place % keys_.size(); }
    [[nodiscard]] int machine_of(std::uint64_t place) const {
        return static_cast<int>(place / keys_.size());
    }
    [[nodiscard]] Nanoseconds backward_left(std::size_t k) const {
        return work_.backward - keys_[k].after;
    }
    [[nodiscard]] int rank_of(int machine, std::size_t gpu) const {
        return machine * spec_.machine.gpus + static_cast<int>(gpu);
    }
    [[nodiscard]] int owner(int machine, std::size_t key) const {
        return rank_of(machine, key % static_cast<std::size_t>(spec_.machine.gpus));
    }
    /// Elements of a key on server s; 0: the key is not there.
    [[nodiscard]] std::int64_t part_of(std::size_t k, int s) const {
        if (keys_[k].elements >= how_.split_from)
            return chunk_range(keys_[k].elements, how_.servers, s).size();
        return static_cast<int>(k % static_cast<std::size_t>(how_.servers)) == s ? keys_[k].elements
                                                                                 : 0;
    }
    [[nodiscard]] Bytes bytes(std::int64_t elements) const {
        return {elements * how_.element_bytes};
    }

    /// Between the GPUs of a machine, every one but the owner: to it, or from it.
    void inside(std::uint64_t p, bool to_owner, void (*done)(void*, std::uint64_t)) {
        const std::size_t k = key_of(p);
        const int machine = machine_of(p), own = owner(machine, k), gpus = spec_.machine.gpus;
        places_[p].left = gpus > 1 ? gpus - 1 : 1;
        if (gpus == 1) return engine_.at(engine_.now(), own, {done, this, p});
        for (int g = 0; g < gpus; ++g) {
            const int other = rank_of(machine, static_cast<std::size_t>(g));
            if (other == own) continue;
            const auto route = topology_.route(to_owner ? other : own, to_owner ? own : other);
            network_.start({.path = route.path,
                            .bytes = bytes(keys_[k].elements),
                            .latency = route.latency,
                            .cap = route.cap,
                            .rank = other,
                            .done = {done, this, p}});
        }
    }
    /// Between an owner and a server; parts that stay in the machine cross no link.
    void outside(std::uint64_t p, int server, bool up, Task done) {
        const int own = owner(machine_of(p), key_of(p));
        Topology::Route route{};
        if (how_.own_nic.count > 0) {
            const auto link = [&](int which) {
                return server_links_[static_cast<std::size_t>(2 * server + which)];
            };
            if (up) route.path.add(topology_.nic_out(machine_of(p)));
            route.path.add(link(up ? 0 : 1));
            if (!up) route.path.add(topology_.nic_in(machine_of(p)));
            route.latency = spec_.message_latency(LinkClass::net);
            route.cap = spec_.connection_cap();
        } else if (const int host = server % spec_.machines; host != machine_of(p)) {
            const int there = rank_of(host, 0);
            route = up ? topology_.route(own, there) : topology_.route(there, own);
        }
        network_.start({.path = route.path,
                        .bytes = bytes(part_of(key_of(p), server)),
                        .latency = route.latency,
                        .cap = route.cap,
                        .rank = own,
                        .done = done});
    }

    void gather(std::uint64_t p) { inside(p, true, gathered_event); }
    void push(std::uint64_t p) {
        if (spec_.machines == 1) return spread(p);
        const std::size_t k = key_of(p);
        for (int s = 0; s < how_.servers; ++s) {
            if (part_of(k, s) == 0) continue;
            ++places_[p].left;
            outside(p, s, true, {pushed_event, this, k * servers() + static_cast<std::size_t>(s)});
        }
    }
    void pushed(std::uint64_t part) {
        if (++parts_[part].arrived < spec_.machines) return;
        const std::int64_t all =
            part_of(part / servers(), static_cast<int>(part % servers())) * spec_.machines;
        const Nanoseconds sum =
            how_.sum_rate.count > 0 ? bytes(all) / how_.sum_rate : Nanoseconds(0);
        engine_.at(engine_.now() + sum, static_cast<int>(part % servers()),
                   {summed_event, this, part});
    }
    void pull(std::uint64_t part) {
        for (int m = 0; m < spec_.machines; ++m) {
            const std::uint64_t p = place(m, part / servers());
            outside(p, static_cast<int>(part % servers()), false, {pulled_event, this, p});
        }
    }
    void spread(std::uint64_t p) { inside(p, false, spread_event); }
    [[nodiscard]] std::size_t servers() const { return static_cast<std::size_t>(how_.servers); }

    const StepWork& work_;
    ClusterSpec spec_;
    ParameterServers how_;
    Engine engine_{};
    FlowNetwork network_;
    Topology topology_;
    std::vector<int> server_links_{};  // into server s, out of it
    std::vector<Key> keys_{};
    std::vector<Part> parts_;    // [key, server]
    std::vector<Place> places_;  // [machine, key]
    std::size_t returned_ = 0;
};

}  // namespace detail

GX_DECL ServedStepTiming served_step_time(const StepWork& work, const ClusterSpec& spec,
                                          const ParameterServers& how) {
    return detail::ServedStep(work, spec, how).run();
}

}  // namespace gx::sim
