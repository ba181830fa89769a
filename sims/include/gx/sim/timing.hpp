// all_reduce_time: every message of a collective through the simulated network, without payload.
#pragma once

#include <cstdint>  // uint64_t
#include <span>     // collectives
#include <vector>   // members

#include <gx/collective/exchange.hpp>  // Collective, Exchange, chunk_range
#include <gx/core/contract.hpp>        // GX_EXPECT
#include <gx/core/units.hpp>           // Bytes, Nanoseconds
#include <gx/sim/engine.hpp>           // Engine
#include <gx/sim/network.hpp>          // Network
#include <gx/sim/topology.hpp>         // ClusterSpec, Topology

namespace gx::sim {

struct CollectiveTiming {
    Nanoseconds time{};
    std::uint64_t messages = 0;
    std::uint64_t events = 0;     ///< of the engine, while simulating
    double peak_load = 0;         ///< of the fullest link, as a share of its capacity
    Bytes wire{};                 ///< carried by the links between machines, once a message
};

namespace detail {

/// Each rank of each collective is a member: a state machine that sends, receives, and goes on
/// when both are done, as collective::execute does. A message is done when it has arrived and its
/// receiver has come to that step; until then its sender waits, so one message a member is enough.
template <Collective C>
class TimedCollectives {
public:
    TimedCollectives(std::span<const C> collectives, const ClusterSpec& spec, Bytes bytes)
        : collectives_(collectives), network_(engine_), topology_(spec, network_), bytes_(bytes),
          ranks_(spec.ranks()), members_(collectives.size() * static_cast<std::size_t>(ranks_)) {
        for (const C& c : collectives)
            GX_EXPECT(c.ranks() == ranks_, "a collective of as many ranks as the cluster has");
    }

    [[nodiscard]] CollectiveTiming run() {
        for (std::size_t m = 0; m < members_.size(); ++m) go_on(m);
        engine_.drain();
        GX_EXPECT(ended_ == members_.size(), "the collective stops before its last step");
        CollectiveTiming timing{engine_.now(), network_.messages(), engine_.events()};
        for (int link = 0; link < network_.links(); ++link)
            timing.peak_load = std::max(timing.peak_load, network_.peak_load(link));
        if (topology_.spec().machines > 1)
            for (int m = 0; m < topology_.spec().machines; ++m)
                timing.wire += network_.carried(topology_.nic_out(m));
        return timing;
    }

private:
    struct Member {
        int step = -1, from = -1, to = -1;
        bool sending = false, receiving = false, arrived = false;
    };

    static void arrived_event(void* timer, std::uint64_t member) {
        static_cast<TimedCollectives*>(timer)->arrived(static_cast<std::size_t>(member));
    }
    /// The member of the same collective at another rank.
    [[nodiscard]] std::size_t at_rank(std::size_t member, int rank) const {
        const auto n = static_cast<std::size_t>(ranks_);
        return member / n * n + static_cast<std::size_t>(rank);
    }
    [[nodiscard]] std::int64_t size_of(std::size_t k, int chunk, int several) const {
        const auto share = chunk_range(bytes_.count, static_cast<int>(collectives_.size()),
                                       static_cast<int>(k));
        return chunk_range(share.size(), collectives_[k].chunks(), chunk, several).size();
    }

    void arrived(std::size_t sender) {
        members_[sender].arrived = true;
        const std::size_t receiver = at_rank(sender, members_[sender].to);
        if (members_[receiver].step != members_[sender].step) return;  // it will look when it comes
        deliver(sender, receiver);
        settle();
    }
    void deliver(std::size_t sender, std::size_t receiver) {
        members_[sender].sending = members_[sender].arrived = false;
        members_[receiver].receiving = false;
        ready_.push_back(sender);
        ready_.push_back(receiver);
    }
    void go_on(std::size_t member) {
        ready_.push_back(member);
        settle();
    }
    void settle() {  // a list, not recursion: one arrival can free a whole ring
        while (!ready_.empty()) {
            const std::size_t m = ready_.back();
            ready_.pop_back();
            while (!members_[m].sending && !members_[m].receiving && enter_next_step(m)) {
            }
        }
    }
    bool enter_next_step(std::size_t m);

    std::span<const C> collectives_;
    Engine engine_{};
    Network network_;
    Topology topology_;
    Bytes bytes_;
    int ranks_;
    std::vector<Member> members_;
    std::vector<std::size_t> ready_{};
    std::size_t ended_ = 0;
};

template <Collective C>
bool TimedCollectives<C>::enter_next_step(std::size_t m) {
    const std::size_t k = m / static_cast<std::size_t>(ranks_);
    const int rank = static_cast<int>(m % static_cast<std::size_t>(ranks_));
    Member& self = members_[m];
    if (self.step == collectives_[k].steps()) return false;
    if (++self.step == collectives_[k].steps()) {
        ++ended_;
        return false;
    }
    const Exchange e = collectives_[k].exchange(rank, self.step);
    const std::int64_t out = e.to >= 0 ? size_of(k, e.send_chunk, e.chunks) : 0;
    self.to = e.to;
    self.from = e.from;
    self.sending = out > 0;  // an empty chunk is empty on both sides: no message
    self.receiving = e.from >= 0 && size_of(k, e.receive_chunk, e.chunks) > 0;
    if (self.sending) {
        const Topology::Route route = topology_.route(rank, e.to);
        network_.start({.path = route.path, .bytes = {out}, .latency = route.latency,
                        .cap = route.cap, .rank = rank,
                        .done = {arrived_event, this, static_cast<std::uint64_t>(m)}});
    }
    if (self.receiving) {
        const std::size_t sender = at_rank(m, e.from);
        if (members_[sender].arrived && members_[sender].step == self.step) deliver(sender, m);
    }
    return true;
}

}  // namespace detail

/// How long K collectives take that share `bytes` between them and run side by side, all ranks
/// starting at once. Chunks are cut by bytes; execution with payload cuts by elements, and takes
/// the same time where both cut alike.
template <Collective C>
[[nodiscard]] CollectiveTiming all_reduce_time(std::span<const C> collectives,
                                               const ClusterSpec& spec, Bytes bytes) {
    return detail::TimedCollectives<C>(collectives, spec, bytes).run();
}
template <Collective C>
[[nodiscard]] CollectiveTiming all_reduce_time(const C& collective, const ClusterSpec& spec,
                                               Bytes bytes) {
    return all_reduce_time(std::span<const C>(&collective, 1), spec, bytes);
}

}  // namespace gx::sim
