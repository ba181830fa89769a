// MessageMatcher: posting and matching, arrival, waits, and delivery under faults.
#pragma once

#include <algorithm>  // lower_bound, swap
#include <array>      // ends
#include <cstring>    // memcpy, memcmp

#include <gx/core/contract.hpp>                 // GX_EXPECT
#include <gx/core/detail/message_mismatch.hpp>  // unequal_buckets, unequal_lengths
#include <gx/sim/network/network.hpp>           // FlowNetwork
#include <gx/sim/topology/topology.hpp>         // Topology
#include <gx/sim/world/matching.hpp>            // MessageMatcher

namespace gx::sim {

GX_DECL MessageMatcher::MessageMatcher(Engine& engine, FlowNetwork& network,
                                       const Topology& topology, Nanoseconds deadline,
                                       TraceSink* trace)
    : engine_(engine),
      network_(network),
      topology_(topology),
      deadline_(deadline),
      trace_(trace),
      requests_(topology.spec().ranks()),
      lanes_(static_cast<std::size_t>(topology.spec().ranks())),
      waits_for_(lanes_.size(), none),
      ended_(lanes_.size(), false) {}

GX_DECL void MessageMatcher::cap_gradients(BytesPerSecond rate) {
    const bool binds = rate.count < network_.largest_capacity().count;
    fused_rate_ = binds ? rate : BytesPerSecond{0};  // else no flow needs it
}

// ---- Posting and matching ---------------------------------------------------------------

GX_DECL Request MessageMatcher::send(int from, int to, int channel,
                                     std::span<const std::byte> message, MessageBucket bucket) {
    const int slot = post(true, from, to, channel, message.size());
    requests_[slot].bucket = bucket;
    requests_[slot].out = message.data();
    requests_[slot].message = ++messages_;
    if (races_) races_->sends(from, slot, to, message);
    transmit(slot);
    match(slot);
    return requests_.ticket(slot);
}

GX_DECL Request MessageMatcher::receive(int to, int from, int channel, std::span<std::byte> message,
                                        MessageBucket bucket) {
    const int slot = post(false, from, to, channel, message.size());
    requests_[slot].bucket = bucket;
    requests_[slot].in = message.data();
    if (races_) races_->receives(to, slot, from, message);
    match(slot);
    return requests_.ticket(slot);
}

GX_DECL int MessageMatcher::post(bool is_send, int from, int to, int channel, std::size_t bytes) {
    const int ranks = static_cast<int>(lanes_.size());
    GX_EXPECT(from >= 0 && from < ranks && to >= 0 && to < ranks, "a message is between two ranks");
    GX_EXPECT(channel >= 0, "a channel is at least 0");
    return requests_.open(is_send, from, to, channel, bytes, engine_.now());
}

GX_DECL MessageMatcher::Lane& MessageMatcher::lane(int from, int to, int channel) {
    auto& lanes = lanes_[static_cast<std::size_t>(to)];
    const std::uint64_t key =
        std::uint64_t{static_cast<std::uint32_t>(from)} << 32 | static_cast<std::uint32_t>(channel);
    const auto at = std::lower_bound(lanes.begin(), lanes.end(), key,
                                     [](const Lane& l, std::uint64_t k) { return l.key < k; });
    if (at != lanes.end() && at->key == key) return *at;
    return *lanes.insert(at, {key});
}

// Joins a request with the oldest open one of the other kind, or queues it.
GX_DECL void MessageMatcher::match(int slot) {
    PostedRequest& p = requests_[slot];
    Lane& l = lane(p.from, p.to, p.channel);
    if (l.head == none || requests_[l.head].is_send == p.is_send) {
        if (l.head == none) l.head = slot;
        else requests_[l.tail].next = slot;
        l.tail = slot;
        return;
    }
    const int other = l.head;
    const int send = p.is_send ? slot : other, receive = p.is_send ? other : slot;
    PostedRequest& out = requests_[send];
    PostedRequest& in = requests_[receive];
    if (!meet(out.bucket, in.bucket) || out.bytes != in.bytes) {
        GX_EXPECT(meet(out.bucket, in.bucket) || engine_.cancelled(),
                  gx::detail::unequal_buckets(p.from, p.to, p.channel, out.bucket, in.bucket));
        GX_EXPECT(
            engine_.cancelled(),
            gx::detail::unequal_lengths(p.from, p.to, p.channel, out.bytes, in.bytes, out.bucket));
        return;  // a reduction that was given up left the other one
    }
    l.head = requests_[other].next;
    out.partner = receive;
    in.partner = send;
    if (!out.flowing) complete(send);
}

GX_DECL void MessageMatcher::transmit(int slot) {
    PostedRequest& p = requests_[slot];
    Topology::Route route = topology_.route(p.from, p.to, p.channel);
    if (faults_ && rules_.reroute) (void)faults_->reroute(p.from, p.to, p.channel, route.path);
    const Bytes wire = p.channel < control_channel ? wire_scale_(p.bytes)
                                                   : Bytes{static_cast<std::int64_t>(p.bytes)};
    engine_.note(EventKind::message_posted, p.from,
                 std::uint64_t{static_cast<std::uint32_t>(p.to)} << 32 |
                     static_cast<std::uint32_t>(p.channel),
                 static_cast<std::uint64_t>(wire.count));
    if (p.channel < control_channel) route.cap = lower_cap(route.cap, fused_rate_);
    p.flowing = true;
    Transfer transfer{.path = route.path,
                      .bytes = wire,
                      .latency = route.latency,
                      .cap = route.cap,
                      .rank = p.from,
                      .done = {arrived_event, this, static_cast<std::uint64_t>(slot)}};
    if (!faults_) return network_.start(transfer);
    p.number = lane(p.from, p.to, p.channel).posted++;
    const FaultInterface::Fate fate = faults_->fate(p.from, p.to);
    transfer.latency += fate.delay;
    network_.start(transfer);
    if (!fate.twice) return;
    copies_.push_back({p.from, p.to, p.channel, p.number, {}});
    if (!rules_.discard_duplicates) copies_.back().payload.assign(p.out, p.out + p.bytes);
    transfer.done = {copy_event, this, copies_.size() - 1};
    network_.start(transfer);
}

// ---- Arrival ----------------------------------------------------------------------------

GX_DECL void MessageMatcher::arrived_event(void* matcher, std::uint64_t slot) {
    static_cast<MessageMatcher*>(matcher)->arrived(static_cast<int>(slot));
}
GX_DECL void MessageMatcher::copy_event(void* matcher, std::uint64_t copy) {
    static_cast<MessageMatcher*>(matcher)->copy_arrived(static_cast<int>(copy));
}

GX_DECL void MessageMatcher::arrived(int slot) {
    PostedRequest& p = requests_[slot];
    engine_.note(EventKind::message_arrived, p.from,
                 std::uint64_t{static_cast<std::uint32_t>(p.to)} << 32 |
                     static_cast<std::uint32_t>(p.channel),
                 p.bytes);
    if (!faults_) return deliver(slot);
    Lane& l = lane(p.from, p.to, p.channel);
    if (p.number != l.delivered) {
        ++reordered_;
        if (rules_.in_order) return l.early.push_back(slot);
        overtake(slot, l);
    }
    deliver(slot);
    ++l.delivered;
    for (std::size_t i = 0; i < l.early.size();) {
        if (requests_[l.early[i]].number != l.delivered) {
            ++i;
            continue;
        }
        const int next = l.early[i];
        l.early.erase(l.early.begin() + static_cast<std::ptrdiff_t>(i));
        deliver(next);
        ++l.delivered;
        i = 0;
    }
}

GX_DECL void MessageMatcher::deliver(int slot) {
    PostedRequest& p = requests_[slot];
    p.flowing = false;
    if (trace_)
        trace_->add({.rank = p.from,
                     .track = Track::network,
                     .name = Label("to rank ") + p.to,
                     .begin = p.posted,
                     .end = engine_.now(),
                     .message = p.message});
    if (p.partner != none) complete(slot);
}

GX_DECL void MessageMatcher::complete(int send) {
    PostedRequest& s = requests_[send];
    const int receive = s.partner;
    PostedRequest& r = requests_[receive];
    if (s.withdrawn || r.withdrawn) {  // the other end, if it is left, has lost its partner
        s.partner = r.partner = none;
        if (s.withdrawn) requests_.release(send);
        if (r.withdrawn) requests_.release(receive);
        return;
    }
    if (races_) races_->taken(send, receive, {s.out, s.bytes});
    if (s.bytes > 0) copy_payload(s, r);
    if (trace_)
        trace_->add({.rank = r.to,
                     .track = Track::network,
                     .name = Label("from rank ") + r.from,
                     .begin = r.posted,
                     .end = engine_.now(),
                     .message = s.message,
                     .arrives = true});
    finish(s);
    finish(r);
}

GX_DECL void MessageMatcher::copy_payload(PostedRequest& send, PostedRequest& receive) {
    const std::byte* from = faults_ ? payload_of(send) : send.out;
    std::memcpy(receive.in, from, send.bytes);
    if (!faults_ || send.channel >= control_channel) return;
    const bool spoiled = faults_->corrupt(send.from, send.to, {receive.in, receive.bytes});
    if (spoiled && rules_.checksum)
        receive.corrupted = std::memcmp(receive.in, from, send.bytes) != 0;
}

GX_DECL void MessageMatcher::finish(PostedRequest& p) {
    requests_.finish(p);
    if (p.waiter) engine_.wake(*p.waiter);
}

GX_DECL void MessageMatcher::withdraw(int slot) {
    if (races_) races_->withdrawn(slot);
    requests_.withdraw(slot);
}

// ---- Waits ------------------------------------------------------------------------------

GX_DECL Arrival MessageMatcher::wait_any(int rank, std::span<const Request> requests) {
    GX_EXPECT(!requests.empty(), "a wait needs at least one request");
    Wake reason = Wake::signalled;
    std::size_t i = first_done(requests);
    while (i == requests.size() && reason == Wake::signalled && !hopeless(requests)) {
        reason = block(rank, requests);
        if (dead(rank)) return {0, {Delivery::Outcome::cancelled, rank}};
        i = first_done(requests);
    }
    if (i < requests.size()) return spend(rank, i, requests[i]);
    const int slot = requests_.slot_of(requests[0]);
    const int who = missing(rank, slot);
    withdraw(slot);
    if (engine_.cancelled())  // all name the rank that was missed first
        return {0, {Delivery::Outcome::cancelled, engine_.missing_rank()}};
    engine_.cancel(who);
    return {0, {Delivery::Outcome::timed_out, who}};
}

GX_DECL Arrival MessageMatcher::spend(int rank, std::size_t index, Request request) {
    const int slot = requests_.slot_of(request), peer = requests_[slot].peer;
    const bool corrupted = requests_[slot].corrupted;
    if (races_ && !corrupted) races_->waited_for(rank, slot);
    requests_.release(slot);
    if (!corrupted) return {index, {}};
    if (engine_.cancelled()) return {index, {Delivery::Outcome::cancelled, engine_.missing_rank()}};
    engine_.cancel(peer);
    return {index, {Delivery::Outcome::corrupted, peer}};
}

GX_DECL Wake MessageMatcher::block(int rank, std::span<const Request> requests) {
    for (const Request r : requests) requests_[requests_.slot_of(r)].waiter = engine_.current();
    waits_for_[static_cast<std::size_t>(rank)] = requests_.slot_of(requests[0]);
    const Wake reason = engine_.block(deadline_);
    waits_for_[static_cast<std::size_t>(rank)] = none;
    if (dead(rank)) return reason;  // its requests are withdrawn
    for (const Request r : requests) requests_[requests_.slot_of(r)].waiter = nullptr;
    return reason;
}

GX_DECL std::size_t MessageMatcher::first_done(std::span<const Request> requests) const {
    std::size_t i = 0;
    while (i < requests.size() && !requests_[requests_.slot_of(requests[i])].done) ++i;
    return i;
}

// Every one of them lacks its other end, and that rank posts no more.
GX_DECL bool MessageMatcher::hopeless(std::span<const Request> requests) const {
    for (const Request r : requests)
        if (!hopeless(requests_[requests_.slot_of(r)])) return false;
    return true;
}
GX_DECL bool MessageMatcher::hopeless(const PostedRequest& p) const {
    const bool lacks = p.partner == none || requests_[p.partner].withdrawn;
    return !p.done && lacks && ended_[static_cast<std::size_t>(p.peer)];
}

GX_DECL void MessageMatcher::rank_ended(int rank) {
    if (!faults_ || !faults_->silent(rank)) ended_[static_cast<std::size_t>(rank)] = true;
    if (requests_.pending(rank) > 0)
        for (const PostedRequest& p : requests_.all())
            if (p.open && p.owner() == rank && !p.done && !p.withdrawn)
                withdraw(requests_.slot_of(p));
    if (requests_.pending_with(rank) > 0)
        for (const PostedRequest& p : requests_.all())
            if (p.open && p.waiter && p.peer == rank && hopeless(p)) engine_.wake(*p.waiter);
}

// A dead rank explains every wait that is not met.
GX_DECL int MessageMatcher::missing(int rank, int slot) const {
    const int who = along_the_waits(rank, slot);
    if (!faults_ || dead(who)) return who;
    for (int r = 0; r < static_cast<int>(lanes_.size()); ++r)
        if (dead(r)) return r;
    return who;
}

// Follows the wait-for graph to a rank that waits for no other, or to a message stuck in flight;
// around a cycle, stays at the first peer.
GX_DECL int MessageMatcher::along_the_waits(int rank, int slot) const {
    const int peer = requests_[slot].peer;
    for (std::size_t i = 0; i < waits_for_.size(); ++i) {
        const PostedRequest& p = requests_[slot];
        if (in_flight(p))
            return faults_ && !faults_->cut_off(p.peer) && faults_->cut_off(p.owner()) ? p.owner()
                                                                                       : p.peer;
        slot = waits_for_[static_cast<std::size_t>(p.peer)];
        if (slot == none) return p.peer;
        if (requests_[slot].peer == rank) return peer;
    }
    return peer;
}

// ---- Faults -----------------------------------------------------------------------------

GX_DECL void MessageMatcher::kill(int rank) {
    for (PostedRequest& p : requests_.all()) {
        if (!p.open || p.owner() != rank || p.withdrawn) continue;
        if (p.waiter) engine_.wake(*p.waiter, Wake::cancelled);
        p.waiter = nullptr;
        if (!p.done) withdraw(requests_.slot_of(p));
    }
}

GX_DECL bool MessageMatcher::resend(Transfer& transfer) const {
    if (!rules_.resend || transfer.done.context != this) return false;
    const auto resend = [&](const auto& message) {
        const auto [from, to, channel] = std::array{message.from, message.to, message.channel};
        transfer.latency = topology_.route(from, to, channel).latency;
        return faults_->reroute(from, to, channel, transfer.path);
    };
    if (transfer.done.run == copy_event)
        return resend(copies_[static_cast<std::size_t>(transfer.done.argument)]);
    return resend(requests_[static_cast<int>(transfer.done.argument)]);
}

// Without the rule `in_order`: the receive that is next takes the message that arrives first.
GX_DECL void MessageMatcher::overtake(int slot, Lane& l) {
    PostedRequest& p = requests_[slot];
    for (PostedRequest& q : requests_.all()) {
        const bool same_lane = q.from == p.from && q.to == p.to && q.channel == p.channel;
        if (!q.open || !q.is_send || !same_lane || q.number != l.delivered || q.withdrawn) continue;
        std::swap(p.number, q.number);
        if (q.bytes != p.bytes || p.withdrawn) return;
        copies_.push_back({p.from, p.to, p.channel, p.number, {p.out, p.out + p.bytes}});
        p.out = q.out;
        q.out = copies_.back().payload.data();
        return;
    }
    p.number = l.delivered;
}

// Its number shows that the message has been delivered already, or is delivered at this moment.
GX_DECL void MessageMatcher::copy_arrived(int copy) {
    const Copy& c = copies_[static_cast<std::size_t>(copy)];
    Lane& l = lane(c.from, c.to, c.channel);
    if (rules_.discard_duplicates) ++discarded_;
    else if (l.duplicate == none) l.duplicate = copy;
}

// The sender's buffer; without the rule `discard_duplicates`, a duplicate of an earlier message.
GX_DECL const std::byte* MessageMatcher::payload_of(const PostedRequest& send) {
    if (rules_.discard_duplicates) return send.out;
    Lane& l = lane(send.from, send.to, send.channel);
    if (l.duplicate == none) return send.out;
    const Copy& copy = copies_[static_cast<std::size_t>(l.duplicate)];
    if (send.number <= copy.number) return send.out;  // the copy may precede the message itself
    l.duplicate = none;
    return copy.payload.size() == send.bytes ? copy.payload.data() : send.out;
}

}  // namespace gx::sim
