// PostOffice: matches sends with receives, sends them over the network, and wakes who waits.
#pragma once

#include <algorithm>  // lower_bound
#include <cstring>    // memcpy
#include <span>       // messages
#include <vector>     // posts, lanes

#include <gx/core/contract.hpp>   // GX_EXPECT
#include <gx/core/error.hpp>      // Delivery
#include <gx/core/transport.hpp>  // Request, Arrival
#include <gx/sim/engine.hpp>      // Engine, Strand
#include <gx/sim/network.hpp>     // Network, Flow
#include <gx/sim/race_watch.hpp>  // RaceWatch
#include <gx/sim/topology.hpp>    // Topology
#include <gx/sim/trace.hpp>       // TraceSink

namespace gx::sim {

using gx::control_channel;  // from here up, bytes are never stretched

/// Messages cost as many bytes on the wire as the timed model would send: bytes * timed / real,
/// rounded to nearest. Equal numbers leave them as they are.
struct Stretch {
    std::int64_t timed = 1, real = 1;
    [[nodiscard]] constexpr Bytes operator()(std::size_t bytes) const {
        __extension__ typedef __int128 Wide;
        const Wide scaled = Wide{static_cast<std::int64_t>(bytes)} * timed;
        return {static_cast<std::int64_t>((scaled + real / 2) / real)};
    }
};

/// The messages of a world. A message starts when it is sent. It is done, for both ends, when its
/// last byte has arrived and its receive is posted; the payload is copied then.
///
/// Order:  sends and receives of one (from, to, channel) match in the order of their posting.
/// Errors: a receive and its send of different lengths break the contract. A wait that meets its
///         deadline, or waits for a rank that has ended, or finds the world in a deadlock, answers
///         `timed_out` with the rank that is missing, found by following who waits for whom; the
///         waits of all other ranks then answer `cancelled` with the same rank. Such a wait
///         withdraws its request: the buffer is not touched any more, and the other end of that
///         message is never done. A rank that ends withdraws all that it has not waited for.
/// Cost:   O(log peers) to match; no allocation once the most open requests have been seen.
class PostOffice {
public:
    PostOffice(Engine& engine, Network& network, const Topology& topology, Nanoseconds deadline,
               TraceSink* trace)
        : engine_(engine), network_(network), topology_(topology), deadline_(deadline),
          trace_(trace), lanes_(static_cast<std::size_t>(topology.spec().ranks())),
          waits_for_(lanes_.size(), none), ended_(lanes_.size(), false) {}
    PostOffice(const PostOffice&) = delete;
    PostOffice& operator=(const PostOffice&) = delete;

    void stretch(Stretch stretch) { stretch_ = stretch; }
    void watch(RaceWatch* races) { races_ = races; }

    Request send(int from, int to, int channel, std::span<const std::byte> message);
    Request receive(int to, int from, int channel, std::span<std::byte> message);
    Arrival wait_any(int rank, std::span<const Request> requests);
    /// The rank posts no more, and its buffers are gone: who waits for more from it is told.
    void rank_ended(int rank);

private:
    static constexpr int none = -1;
    struct Post {
        int peer = -1;
        std::uint32_t generation = 0;
        bool open = false, is_send = false, done = false, flowing = false, withdrawn = false;
        const std::byte* out = nullptr;
        std::byte* in = nullptr;
        std::size_t bytes = 0;
        int partner = none, next = none;
        int from = 0, to = 0, channel = 0;
        Nanoseconds posted{};
        Strand* waiter = nullptr;
    };
    struct Lane {  // posts of one kind only: the other kind would have matched
        std::uint64_t key = 0;
        int head = none, tail = none;
    };
    static constexpr std::uint32_t index_bits = 20;
    static constexpr std::uint32_t index_mask = (1u << index_bits) - 1;

    static void arrived_event(void* office, std::uint64_t slot) {
        static_cast<PostOffice*>(office)->arrived(static_cast<int>(slot));
    }
    Post& post(int slot) { return posts_[static_cast<std::size_t>(slot)]; }
    int open(int from, int to, int channel, std::size_t bytes, bool is_send);
    Lane& lane(int from, int to, int channel);
    void match(int slot);
    void transmit(int slot);
    void arrived(int slot);
    void complete(int send);
    void finish(Post& p);
    void withdraw(int slot);
    std::size_t first_done(std::span<const Request> requests);
    bool hopeless(std::span<const Request> requests);
    bool hopeless(const Post& p);
    int missing(int rank, int peer) const;
    Wake block(int rank, std::span<const Request> requests);
    void release(int slot);
    int slot_of(Request request);
    [[nodiscard]] Request ticket(int slot) {
        return {post(slot).generation << index_bits | static_cast<std::uint32_t>(slot)};
    }

    Engine& engine_;
    Network& network_;
    const Topology& topology_;
    Nanoseconds deadline_;
    TraceSink* trace_;
    RaceWatch* races_ = nullptr;
    Stretch stretch_{};
    std::vector<Post> posts_{};
    std::vector<int> free_{};
    std::vector<std::vector<Lane>> lanes_;  // by receiving rank, sorted by (sender, channel)
    std::vector<int> waits_for_;  // by rank: the peer of its present wait
    std::vector<bool> ended_;     // by rank
};

inline Request PostOffice::send(int from, int to, int channel, std::span<const std::byte> message) {
    const int slot = open(from, to, channel, message.size(), true);
    post(slot).out = message.data();
    if (races_) races_->sends(from, slot, to, message);
    transmit(slot);
    match(slot);
    return ticket(slot);
}

inline Request PostOffice::receive(int to, int from, int channel, std::span<std::byte> message) {
    const int slot = open(from, to, channel, message.size(), false);
    post(slot).in = message.data();
    if (races_) races_->receives(to, slot, from, message);
    match(slot);
    return ticket(slot);
}

inline Arrival PostOffice::wait_any(int rank, std::span<const Request> requests) {
    GX_EXPECT(!requests.empty(), "a wait needs at least one request");
    Wake reason = Wake::signalled;
    std::size_t i = first_done(requests);
    while (i == requests.size() && reason == Wake::signalled && !hopeless(requests)) {
        reason = block(rank, requests);
        i = first_done(requests);
    }
    if (i < requests.size()) {
        if (races_) races_->waited_for(rank, slot_of(requests[i]));
        release(slot_of(requests[i]));
        return {i, {}};
    }
    const int slot = slot_of(requests[0]);
    const int peer = post(slot).peer;
    withdraw(slot);
    if (engine_.cancelled())
        return {0, {Delivery::Outcome::cancelled, engine_.missing_rank()}};
    const int who = missing(rank, peer);
    engine_.cancel(who);
    return {0, {Delivery::Outcome::timed_out, who}};
}

inline Wake PostOffice::block(int rank, std::span<const Request> requests) {
    for (const Request r : requests) post(slot_of(r)).waiter = engine_.current();
    waits_for_[static_cast<std::size_t>(rank)] = post(slot_of(requests[0])).peer;
    const Wake reason = engine_.block(deadline_);
    waits_for_[static_cast<std::size_t>(rank)] = none;
    for (const Request r : requests) post(slot_of(r)).waiter = nullptr;
    return reason;
}

inline std::size_t PostOffice::first_done(std::span<const Request> requests) {
    std::size_t i = 0;
    while (i < requests.size() && !post(slot_of(requests[i])).done) ++i;
    return i;
}

// Every one of them lacks its other end, and that rank posts no more.
inline bool PostOffice::hopeless(std::span<const Request> requests) {
    for (const Request r : requests)
        if (!hopeless(post(slot_of(r)))) return false;
    return true;
}
inline bool PostOffice::hopeless(const Post& p) {
    const bool lacks = p.partner == none || post(p.partner).withdrawn;
    return !p.done && lacks && ended_[static_cast<std::size_t>(p.peer)];
}

// Follows who waits for whom to a rank that waits for nobody; around a circle, stays at `peer`.
inline int PostOffice::missing(int rank, int peer) const {
    int at = peer;
    for (std::size_t i = 0; i < waits_for_.size(); ++i) {
        const int next = waits_for_[static_cast<std::size_t>(at)];
        if (next == none) return at;
        if (next == rank) return peer;
        at = next;
    }
    return peer;
}

inline void PostOffice::rank_ended(int rank) {
    ended_[static_cast<std::size_t>(rank)] = true;
    for (std::size_t slot = 0; slot < posts_.size(); ++slot) {
        const Post& p = posts_[slot];
        const bool own = (p.is_send ? p.from : p.to) == rank;
        if (p.open && own && !p.done && !p.withdrawn) withdraw(static_cast<int>(slot));
    }
    for (const Post& p : posts_)
        if (p.open && p.waiter && p.peer == rank && hopeless(p)) engine_.wake(*p.waiter);
}

inline int PostOffice::open(int from, int to, int channel, std::size_t bytes, bool is_send) {
    const int ranks = topology_.spec().ranks();
    GX_EXPECT(from >= 0 && from < ranks && to >= 0 && to < ranks, "a message is between two ranks");
    GX_EXPECT(channel >= 0, "a channel is at least 0");
    if (free_.empty()) {
        GX_EXPECT(posts_.size() <= index_mask, "more than a million messages are open at once");
        free_.push_back(static_cast<int>(posts_.size()));
        posts_.emplace_back();
    }
    const int slot = free_.back();
    free_.pop_back();
    Post& p = post(slot);
    const std::uint32_t generation = p.generation;
    p = {};
    p.generation = generation;
    p.open = true;
    p.is_send = is_send;
    p.peer = is_send ? to : from;
    p.bytes = bytes;
    p.from = from;
    p.to = to;
    p.channel = channel;
    p.posted = engine_.now();
    return slot;
}

inline PostOffice::Lane& PostOffice::lane(int from, int to, int channel) {
    auto& lanes = lanes_[static_cast<std::size_t>(to)];
    const std::uint64_t key = std::uint64_t{static_cast<std::uint32_t>(from)} << 32 |
                              static_cast<std::uint32_t>(channel);
    const auto at = std::lower_bound(lanes.begin(), lanes.end(), key,
                                     [](const Lane& l, std::uint64_t k) { return l.key < k; });
    if (at != lanes.end() && at->key == key) return *at;
    return *lanes.insert(at, {key});
}

// Joins a post with the oldest open one of the other kind, or queues it.
inline void PostOffice::match(int slot) {
    Post& p = post(slot);
    Lane& l = lane(p.from, p.to, p.channel);
    if (l.head == none || post(l.head).is_send == p.is_send) {
        if (l.head == none) l.head = slot;
        else post(l.tail).next = slot;
        l.tail = slot;
        return;
    }
    const int other = l.head;
    l.head = post(other).next;
    p.partner = other;
    post(other).partner = slot;
    GX_EXPECT(post(other).bytes == p.bytes, "a receive and its send have equal lengths");
    const int send = p.is_send ? slot : other;
    if (!post(send).flowing) complete(send);
}

inline void PostOffice::transmit(int slot) {
    Post& p = post(slot);
    const Topology::Route route = topology_.route(p.from, p.to);
    const Bytes wire = p.channel < control_channel ? stretch_(p.bytes)
                                                   : Bytes{static_cast<std::int64_t>(p.bytes)};
    engine_.note(EventKind::message_posted, p.from,
                 std::uint64_t{static_cast<std::uint32_t>(p.to)} << 32 |
                     static_cast<std::uint32_t>(p.channel),
                 static_cast<std::uint64_t>(wire.count));
    p.flowing = true;
    network_.start({.path = route.path, .bytes = wire, .latency = route.latency, .cap = route.cap,
                    .rank = p.from,
                    .done = {arrived_event, this, static_cast<std::uint64_t>(slot)}});
}

inline void PostOffice::arrived(int slot) {
    Post& p = post(slot);
    p.flowing = false;
    engine_.note(EventKind::message_arrived, p.from,
                 std::uint64_t{static_cast<std::uint32_t>(p.to)} << 32 |
                     static_cast<std::uint32_t>(p.channel),
                 p.bytes);
    if (trace_)
        trace_->add({p.from, Track::network, Label("to rank ") + std::to_string(p.to), p.posted,
                     engine_.now()});
    if (p.partner != none) complete(slot);
}

inline void PostOffice::complete(int send) {
    Post& s = post(send);
    const int receive = s.partner;
    Post& r = post(receive);
    if (s.withdrawn || r.withdrawn) {
        if (s.withdrawn) release(send);
        if (r.withdrawn) release(receive);
        return;
    }
    if (races_) races_->taken(send, receive, {s.out, s.bytes});
    if (s.bytes > 0) std::memcpy(r.in, s.out, s.bytes);
    finish(s);
    finish(r);
}

inline void PostOffice::finish(Post& p) {
    p.done = true;
    if (p.waiter) engine_.wake(*p.waiter);
}

// A request that nobody waits for any more stays in its lane until its message ends.
inline void PostOffice::withdraw(int slot) {
    Post& p = post(slot);
    p.withdrawn = true;
    if (races_) races_->withdrawn(slot);
    p.out = nullptr;
    p.in = nullptr;
    ++p.generation;
}

inline void PostOffice::release(int slot) {
    Post& p = post(slot);
    p.generation = (p.generation + 1) & ((1u << (32 - index_bits)) - 1);
    p.open = false;
    free_.push_back(slot);
}

inline int PostOffice::slot_of(Request request) {
    const auto slot = static_cast<int>(request.id & index_mask);
    GX_EXPECT(static_cast<std::size_t>(slot) < posts_.size() &&
                  ticket(slot).id == request.id,
              "a request is waited for once, and this one was");
    return slot;
}

}  // namespace gx::sim
