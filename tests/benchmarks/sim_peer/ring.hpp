// The ring of traffic.hpp as callbacks on gx's Engine and Network: no ranks, transport or payload.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include <gx/sim/network/network.hpp>

#include "traffic.hpp"

namespace traffic {

/// The floor of gx: a state machine written for this traffic.
class CallbackRing {
public:
    explicit CallbackRing(const Case& c)
        : c_(c), leaf_(leaf_of_ranks(c)), members_(std::size_t(c.hosts)) {
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
    [[nodiscard]] const gx::sim::FlowNetwork& network() const { return network_; }

private:
    struct Member {
        int round = -1;    // that it is in
        int arrived = 0;   // messages from the previous rank
        bool sent = true;  // the message of this round
    };
    static void send_event(void* ring, std::uint64_t rank) {
        static_cast<CallbackRing*>(ring)->send(static_cast<int>(rank));
    }
    static void arrived_event(void* ring, std::uint64_t sender) {
        auto& self = *static_cast<CallbackRing*>(ring);
        const int from = static_cast<int>(sender), to = self.after(from);
        self.at(from).sent = true;
        ++self.at(to).arrived;
        self.go_on(from);
        self.go_on(to);
    }
    [[nodiscard]] int after(int r) const { return r + 1 == c_.hosts ? 0 : r + 1; }
    Member& at(int r) { return members_[std::size_t(r)]; }

    void go_on(int r) {
        Member& self = at(r);
        if (!self.sent || self.arrived <= self.round || self.round + 1 == c_.rounds) return;
        self.sent = false;
        ++self.round;
        const std::int64_t sleep = sleep_ns(c_, r, self.round);
        if (sleep == 0) return send(r);
        engine_.at(engine_.now() + gx::Nanoseconds(sleep), r, {send_event, this, std::uint64_t(r)});
    }
    void send(int r) {
        const int to = after(r), leaves = 2 * c_.hosts;
        gx::sim::Transfer flow{.bytes = {std::int64_t(c_.bytes)},
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
    gx::sim::FlowNetwork network_{engine_};
    std::vector<int> leaf_;
    std::vector<Member> members_;
};

}  // namespace traffic
