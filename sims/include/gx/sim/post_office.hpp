// PostOffice: matches sends with receives, sends them over the network, and wakes who waits.
#pragma once

#include <algorithm>  // lower_bound
#include <cstring>    // memcpy, memcmp
#include <deque>      // copies
#include <span>       // messages
#include <vector>     // posts, lanes

#include <gx/core/contract.hpp>   // GX_EXPECT
#include <gx/core/error.hpp>      // Delivery
#include <gx/core/transport.hpp>  // Request, Arrival
#include <gx/sim/engine.hpp>      // Engine, Strand
#include <gx/sim/fault_hooks.hpp> // FaultHooks
#include <gx/sim/network.hpp>     // Network, Flow
#include <gx/sim/race_hooks.hpp>  // RaceHooks
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

/// What the transport does to keep its promises where messages are delayed, doubled or spoiled.
/// All but the defaults are for those who look whether a missing rule is found.
struct DeliveryRules {
    bool checksum = false;           ///< a payload that changed on its way is `corrupted`
    bool discard_duplicates = true;  ///< a second copy is known by its number
    bool in_order = true;            ///< what overtakes waits for what it overtook
    bool reroute = true;             ///< what is sent after a NIC or switch was lost avoids it
    bool resend = true;              ///< what was on its way there is sent again, another way
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
///         A message that hangs between two ranks names the one whose link is cut, else the peer.
///         A dead rank is named before all others.
/// Faults: the messages of a lane carry numbers. One that arrives before an earlier one waits for
///         it; a second copy is discarded.
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
    void watch(RaceHooks* races) { races_ = races; }
    void suffer(FaultHooks* faults, DeliveryRules rules) {
        faults_ = faults;
        rules_ = rules;
    }

    Request send(int from, int to, int channel, std::span<const std::byte> message);
    Request receive(int to, int from, int channel, std::span<std::byte> message);
    Arrival wait_any(int rank, std::span<const Request> requests);
    /// The rank posts no more, and its buffers are gone: who waits for more from it is told.
    void rank_ended(int rank);
    /// The rank stops at once: its waits end, its messages are lost.
    void kill(int rank);
    /// Another way for a message of its own that is lost on its way; false: there is none.
    [[nodiscard]] bool resend(Flow& flow) const;

    [[nodiscard]] std::uint64_t duplicates_discarded() const { return discarded_; }
    [[nodiscard]] std::uint64_t overtakings_healed() const { return healed_; }

private:
    static constexpr int none = -1;
    struct Post {
        int peer = -1;
        std::uint32_t generation = 0;
        bool open = false, is_send = false, done = false, flowing = false, withdrawn = false;
        bool corrupted = false;
        std::uint32_t number = 0;  // of a send, in its lane
        const std::byte* out = nullptr;
        std::byte* in = nullptr;
        std::size_t bytes = 0;
        int partner = none, next = none;
        int from = 0, to = 0, channel = 0;
        Nanoseconds posted{};
        std::uint64_t message = 0;  // of a send: counted from 1
        Strand* waiter = nullptr;
    };
    struct Lane {  // posts of one kind only: the other kind would have matched
        std::uint64_t key = 0;
        int head = none, tail = none;
        // With faults only:
        std::uint32_t posted = 0, delivered = 0;  // sends
        std::vector<int> early{};                 // arrived before one that was posted earlier
        int intruder = none;                      // a copy that was not discarded
    };
    struct Copy {  // of a message that crosses the network twice
        int from, to, channel;
        std::uint32_t number;  // as the message's
        std::vector<std::byte> payload;
    };
    static constexpr std::uint32_t index_bits = 20;
    static constexpr std::uint32_t index_mask = (1u << index_bits) - 1;

    static void arrived_event(void* office, std::uint64_t slot) {
        static_cast<PostOffice*>(office)->arrived(static_cast<int>(slot));
    }
    static void copy_event(void* office, std::uint64_t copy) {
        static_cast<PostOffice*>(office)->copy_arrived(static_cast<int>(copy));
    }
    Post& post(int slot) { return posts_[static_cast<std::size_t>(slot)]; }
    [[nodiscard]] const Post& post(int slot) const {
        return posts_[static_cast<std::size_t>(slot)];
    }
    [[nodiscard]] bool dead(int rank) const { return faults_ && faults_->dead(rank); }
    int open(int from, int to, int channel, std::size_t bytes, bool is_send);
    Lane& lane(int from, int to, int channel);
    void match(int slot);
    void transmit(int slot);
    void arrived(int slot);
    void deliver(int slot);
    void overtake(int slot, Lane& l);
    void copy_arrived(int copy);
    void complete(int send);
    void copy_payload(Post& s, Post& r);
    void finish(Post& p);
    void withdraw(int slot);
    std::size_t first_done(std::span<const Request> requests);
    bool hopeless(std::span<const Request> requests);
    bool hopeless(const Post& p);
    [[nodiscard]] int missing(int rank, int slot) const;
    [[nodiscard]] int along_the_waits(int rank, int slot) const;
    [[nodiscard]] bool on_its_way(const Post& p) const {
        return p.is_send ? p.flowing : p.partner != none && post(p.partner).flowing;
    }
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
    RaceHooks* races_ = nullptr;
    FaultHooks* faults_ = nullptr;
    DeliveryRules rules_{};
    Stretch stretch_{};
    std::uint64_t messages_ = 0;
    std::vector<Post> posts_{};
    std::vector<int> free_{};
    std::vector<std::vector<Lane>> lanes_;  // by receiving rank, sorted by (sender, channel)
    std::vector<int> waits_for_;  // by rank: the request of its present wait
    std::vector<bool> ended_;     // by rank
    std::deque<Copy> copies_{};
    std::uint64_t discarded_ = 0, healed_ = 0;
};

inline Request PostOffice::send(int from, int to, int channel, std::span<const std::byte> message) {
    const int slot = open(from, to, channel, message.size(), true);
    post(slot).out = message.data();
    post(slot).message = ++messages_;
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
    Topology::Route route = topology_.route(p.from, p.to, p.channel);
    if (faults_ && rules_.reroute) (void)faults_->reroute(p.from, p.to, p.channel, route.path);
    const Bytes wire = p.channel < control_channel ? stretch_(p.bytes)
                                                   : Bytes{static_cast<std::int64_t>(p.bytes)};
    engine_.note(EventKind::message_posted, p.from,
                 std::uint64_t{static_cast<std::uint32_t>(p.to)} << 32 |
                     static_cast<std::uint32_t>(p.channel),
                 static_cast<std::uint64_t>(wire.count));
    p.flowing = true;
    Flow flow{.path = route.path, .bytes = wire, .latency = route.latency, .cap = route.cap,
              .rank = p.from, .done = {arrived_event, this, static_cast<std::uint64_t>(slot)}};
    if (!faults_) return network_.start(flow);
    p.number = lane(p.from, p.to, p.channel).posted++;
    const FaultHooks::Fate fate = faults_->fate(p.from, p.to);
    flow.latency += fate.delay;
    network_.start(flow);
    if (!fate.twice) return;
    copies_.push_back({p.from, p.to, p.channel, p.number, {}});
    if (!rules_.discard_duplicates) copies_.back().payload.assign(p.out, p.out + p.bytes);
    flow.done = {copy_event, this, copies_.size() - 1};
    network_.start(flow);
}

inline void PostOffice::arrived(int slot) {
    Post& p = post(slot);
    engine_.note(EventKind::message_arrived, p.from,
                 std::uint64_t{static_cast<std::uint32_t>(p.to)} << 32 |
                     static_cast<std::uint32_t>(p.channel),
                 p.bytes);
    if (!faults_) return deliver(slot);
    Lane& l = lane(p.from, p.to, p.channel);
    if (p.number != l.delivered) {
        ++healed_;
        if (rules_.in_order) return l.early.push_back(slot);
        overtake(slot, l);
    }
    deliver(slot);
    ++l.delivered;
    for (std::size_t i = 0; i < l.early.size();) {
        if (post(l.early[i]).number != l.delivered) {
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

inline void PostOffice::deliver(int slot) {
    Post& p = post(slot);
    p.flowing = false;
    if (trace_)
        trace_->add({.rank = p.from, .track = Track::network, .name = Label("to rank ") + p.to,
                     .begin = p.posted, .end = engine_.now(), .message = p.message});
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
    if (s.bytes > 0) copy_payload(s, r);
    if (trace_)
        trace_->add({.rank = r.to, .track = Track::network, .name = Label("from rank ") + r.from,
                     .begin = r.posted, .end = engine_.now(), .message = s.message,
                     .arrives = true});
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

#include <gx/sim/post_office_faults.hpp>  // the rest of PostOffice
#include <gx/sim/post_office_waits.hpp>   // and of its waits
