// MessageMatcher: matches sends with receives, puts them on the network, and wakes waiting ranks.
#pragma once

#include <cstdint>  // int64_t
#include <deque>    // duplicates
#include <span>     // messages
#include <vector>   // lanes

#include <gx/core/decl.hpp>                  // GX_HEADER_ONLY
#include <gx/core/transport.hpp>             // Request, Arrival
#include <gx/sim/des/engine.hpp>             // Engine, Wake
#include <gx/sim/world/fault_interface.hpp>  // FaultInterface, DeliveryRules
#include <gx/sim/network/flow.hpp>           // Transfer
#include <gx/sim/world/race_interface.hpp>   // RaceInterface
#include <gx/sim/world/activity.hpp>         // TraceSink
#include <gx/sim/world/request_table.hpp>    // RequestTable
#include <gx/sim/world/wire_scale.hpp>       // WireScale

namespace gx::sim {

class FlowNetwork;
class Topology;

using gx::control_channel;  // from here up, bytes are never scaled

/// Matching engine of a world's messages. A message starts when it is sent. It is done, for both
/// ends, when its last byte has arrived and its receive is posted; the payload is copied then.
///
/// Order:  sends and receives of one (from, to, channel) match in the order of their posting.
/// Errors: a receive and its send of different lengths or buckets break the contract. A wait that
///         reaches its deadline, waits for a rank that has ended, or is part of a deadlock returns
///         `timed_out` with the missing rank, found by following the wait-for graph; the waits of
///         all other ranks then return `cancelled` with the same rank. Such a wait withdraws its
///         request: the buffer is not touched any more, and the other end of that message is never
///         done. A rank that ends withdraws all requests that it has not waited for. A message
///         stuck between two ranks blames the one whose link is cut, else the peer. A dead rank is
///         blamed first.
/// Faults: the messages of a lane carry numbers. One that arrives before an earlier one waits for
///         it; a second copy is discarded.
/// Cost:   O(log peers) to match; no allocation once the most open requests have been seen.
class MessageMatcher {
public:
    MessageMatcher(Engine& engine, FlowNetwork& network, const Topology& topology,
                   Nanoseconds deadline, TraceSink* trace);
    MessageMatcher(const MessageMatcher&) = delete;  // events point at it
    MessageMatcher& operator=(const MessageMatcher&) = delete;

    void wire_scale(WireScale scale) { wire_scale_ = scale; }
    [[nodiscard]] const WireScale& wire_scale() const { return wire_scale_; }
    /// Caps each message of gradients from now on: kernels sum or copy it as it arrives.
    void cap_gradients(BytesPerSecond rate);
    void set_race_detector(RaceInterface* races) { races_ = races; }
    void set_faults(FaultInterface* faults, DeliveryRules rules) {
        faults_ = faults;
        rules_ = rules;
    }

    Request send(int from, int to, int channel, std::span<const std::byte> message,
                 MessageBucket bucket = {});
    Request receive(int to, int from, int channel, std::span<std::byte> message,
                    MessageBucket bucket = {});
    Arrival wait_any(int rank, std::span<const Request> requests);
    /// The rank posts no more, and its buffers are gone: waits for more of its messages end.
    void rank_ended(int rank);
    /// Stops the rank at once: its waits end, its messages are lost.
    void kill(int rank);
    /// Puts a lost message in flight on another route; false if none is left.
    [[nodiscard]] bool resend(Transfer& transfer) const;

    [[nodiscard]] std::uint64_t duplicates_discarded() const { return discarded_; }
    [[nodiscard]] std::uint64_t reordered() const { return reordered_; }

private:
    static constexpr int none = RequestTable::none;
    struct Lane {  // of (from, to, channel); requests of one kind: the other kind would match
        std::uint64_t key = 0;
        int head = none, tail = none;
        // With faults only:
        std::uint32_t posted = 0, delivered = 0;  // sends
        std::vector<int> early{};                 // arrived before one that was posted earlier
        int duplicate = none;                     // a second copy that was not discarded
    };
    struct Copy {  // of a message that crosses the network twice
        int from, to, channel;
        std::uint32_t number;  // as the message's
        std::vector<std::byte> payload;
    };

    static void arrived_event(void* matcher, std::uint64_t slot);
    static void copy_event(void* matcher, std::uint64_t copy);
    int post(bool is_send, int from, int to, int channel, std::size_t bytes);
    Lane& lane(int from, int to, int channel);
    void match(int slot);
    void transmit(int slot);
    void arrived(int slot);
    void deliver(int slot);
    void complete(int send);
    void copy_payload(PostedRequest& send, PostedRequest& receive);
    void finish(PostedRequest& p);
    void withdraw(int slot);

    // Waits
    Arrival spend(int rank, std::size_t index, Request request);
    Wake block(int rank, std::span<const Request> requests);
    [[nodiscard]] std::size_t first_done(std::span<const Request> requests) const;
    [[nodiscard]] bool hopeless(std::span<const Request> requests) const;
    [[nodiscard]] bool hopeless(const PostedRequest& p) const;
    [[nodiscard]] int missing(int rank, int slot) const;
    [[nodiscard]] int along_the_waits(int rank, int slot) const;
    [[nodiscard]] bool in_flight(const PostedRequest& p) const {
        return p.is_send ? p.flowing : p.partner != none && requests_[p.partner].flowing;
    }

    // Faults
    [[nodiscard]] bool dead(int rank) const { return faults_ && faults_->dead(rank); }
    void overtake(int slot, Lane& l);
    void copy_arrived(int copy);
    [[nodiscard]] const std::byte* payload_of(const PostedRequest& send);

    Engine& engine_;
    FlowNetwork& network_;
    const Topology& topology_;
    Nanoseconds deadline_;
    TraceSink* trace_;
    RaceInterface* races_ = nullptr;
    FaultInterface* faults_ = nullptr;
    DeliveryRules rules_{};
    WireScale wire_scale_{};
    BytesPerSecond fused_rate_{0};
    std::uint64_t messages_ = 0;
    RequestTable requests_;
    std::vector<std::vector<Lane>> lanes_;  // by receiving rank, sorted by (sender, channel)
    std::vector<int> waits_for_;            // by rank: the slot of its present wait
    std::vector<bool> ended_;               // by rank
    std::deque<Copy> copies_{};
    std::uint64_t discarded_ = 0, reordered_ = 0;
};

}  // namespace gx::sim

#if defined(GX_HEADER_ONLY)
#include <gx/sim/world/impl/matching.ipp>
#endif
