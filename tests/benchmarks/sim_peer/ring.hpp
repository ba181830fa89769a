// The ring of traffic.hpp on gx's Engine and Network alone: no fibers, no collective, no topology.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include <gx/sim/network.hpp>

#include "traffic.hpp"

namespace traffic {

class Ring {
public:
    explicit Ring(const Case& c) : c_(c), leaf_(leaf_of_ranks(c)), members_(std::size_t(c.hosts)) {
        const gx::BytesPerSecond host{c.host_bytes_per_second};
        for (int r = 0; r < 2 * c.hosts; ++r) network_.add_link(host);
        if (c.leaf_hosts == 0) return;
        for (int l = 0; l < 2 * (c.hosts / c.leaf_hosts); ++l)
            network_.add_link(host * (c.leaf_hosts / oversubscription));
    }
    void run() {
        for (int r = 0; r < c_.hosts; ++r) go_on(r);
        engine_.drain();
    }
    [[nodiscard]] gx::Nanoseconds time() const { return engine_.now(); }
    [[nodiscard]] const gx::sim::Network& network() const { return network_; }
    [[nodiscard]] std::uint64_t events() const { return engine_.events(); }
    [[nodiscard]] std::uint64_t ends_hash() const { return ends_.value(); }

private:
    struct Member {
        int round = -1;    // that it is in
        int waits_for = 0; // its message out, its message in
    };
    static void enter_event(void* ring, std::uint64_t rank) {
        static_cast<Ring*>(ring)->enter(static_cast<int>(rank));
    }
    static void arrived_event(void* ring, std::uint64_t sender) {
        auto& self = *static_cast<Ring*>(ring);
        const int from = static_cast<int>(sender);
        self.ends_.add(self.engine_.now(), gx::sim::EventKind::message_arrived, from, 0, 0);
        self.met(from);
        self.met(self.after(from));
    }
    [[nodiscard]] int after(int r) const { return r + 1 == c_.hosts ? 0 : r + 1; }
    [[nodiscard]] int before(int r) const { return r == 0 ? c_.hosts - 1 : r - 1; }
    Member& at(int r) { return members_[std::size_t(r)]; }

    void go_on(int r) {
        if (at(r).round + 1 == c_.rounds) return;
        const std::int64_t sleep = sleep_ns(c_, r, at(r).round + 1);
        if (sleep == 0) return enter(r);
        engine_.at(engine_.now() + gx::Nanoseconds(sleep), r,
                   {enter_event, this, std::uint64_t(r)});
    }
    void enter(int r) {
        Member& self = at(r);
        ++self.round;
        self.waits_for = 2;
        if (at(after(r)).round == self.round) send(r);
        if (at(before(r)).round == self.round) send(before(r));
    }
    void met(int r) {
        if (--at(r).waits_for == 0) go_on(r);
    }
    void send(int r) {
        const int to = after(r), leaves = 2 * c_.hosts;
        gx::sim::Flow flow{.bytes = {std::int64_t(c_.bytes)},
                           .latency = gx::Nanoseconds(c_.latency_ns),
                           .rank = r,
                           .done = {arrived_event, this, std::uint64_t(r)}};
        flow.path.add(2 * r);
        if (c_.leaf_hosts > 0) {
            flow.path.add(leaves + 2 * leaf_[std::size_t(r)]);
            flow.path.add(leaves + 2 * leaf_[std::size_t(to)] + 1);
        }
        flow.path.add(2 * to + 1);
        network_.start(flow);
    }

    Case c_;
    gx::sim::Engine engine_{};
    gx::sim::Network network_{engine_};
    gx::sim::EventHash ends_{0};
    std::vector<int> leaf_;
    std::vector<Member> members_;
};

}  // namespace traffic
