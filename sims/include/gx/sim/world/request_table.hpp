// RequestTable: posted sends and receives in slots, which tickets name until they are spent.
#pragma once

#include <cstddef>  // byte
#include <cstdint>  // uint32_t
#include <span>     // all slots

#include <gx/core/contract.hpp>        // GX_EXPECT
#include <gx/core/transport.hpp>       // Request
#include <gx/core/trivial_vector.hpp>  // flat lists
#include <gx/core/units.hpp>           // Nanoseconds

namespace gx::sim {

class ScheduledFiber;

/// A send or a receive of one rank, from its posting until it is waited for.
struct PostedRequest {
    static constexpr int none = -1;
    int peer = -1;
    std::uint32_t generation = 0;
    bool open = false, is_send = false, done = false, withdrawn = false;
    bool flowing = false;      ///< of a send: its message is in flight
    bool corrupted = false;    ///< of a receive: the checksum differs
    std::uint32_t number = 0;  ///< of a send: in its lane
    const std::byte* out = nullptr;
    std::byte* in = nullptr;
    std::size_t bytes = 0;
    int partner = none;  ///< slot of the matching request; none: unmatched, or it is gone
    int next = none;     ///< in its lane
    int from = 0, to = 0, channel = 0;
    MessageBucket bucket{};
    Nanoseconds posted{};
    std::uint64_t message = 0;  ///< of a send: counted from 1
    ScheduledFiber* waiter = nullptr;

    [[nodiscard]] int owner() const { return is_send ? from : to; }
};

/// Slots of requests, reused in last-in first-out order.
///
///     open -> finish | withdraw -> release
///
/// A withdrawn request has no owner: its buffer is not touched, its ticket is spent, and its
/// slot is released when its message ends.
///
/// Errors: a spent ticket, and more than 2^20 requests at once, break the contract.
/// Cost:   O(1); no allocation once the most open requests have been seen.
class RequestTable {
public:
    static constexpr int none = PostedRequest::none;

    explicit RequestTable(int ranks)
        : pending_(static_cast<std::size_t>(ranks)), pending_with_(pending_.size()) {}

    int open(bool is_send, int from, int to, int channel, std::size_t bytes, Nanoseconds now) {
        if (free_.empty()) {
            GX_EXPECT(slots_.size() <= index_mask, "more than a million messages are open at once");
            free_.push_back(static_cast<int>(slots_.size()));
            slots_.emplace_back();
        }
        const int slot = free_.back();
        free_.pop_back();
        PostedRequest& p = (*this)[slot];
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
        p.posted = now;
        count_pending(p, 1);
        return slot;
    }
    void finish(PostedRequest& p) {
        p.done = true;
        count_pending(p, -1);
    }
    void withdraw(int slot) {
        PostedRequest& p = (*this)[slot];
        GX_EXPECT(!p.done && !p.withdrawn, "only a request that is pending can be withdrawn");
        p.withdrawn = true;
        p.out = nullptr;
        p.in = nullptr;
        ++p.generation;
        count_pending(p, -1);
    }
    void release(int slot) {
        PostedRequest& p = (*this)[slot];
        p.generation = (p.generation + 1) & ((1u << (32 - index_bits)) - 1);
        p.open = false;
        free_.push_back(slot);
    }

    PostedRequest& operator[](int slot) { return slots_[static_cast<std::size_t>(slot)]; }
    const PostedRequest& operator[](int slot) const {
        return slots_[static_cast<std::size_t>(slot)];
    }
    [[nodiscard]] std::span<PostedRequest> all() { return slots_; }
    [[nodiscard]] int slot_of(const PostedRequest& p) const {
        return static_cast<int>(&p - slots_.data());
    }
    [[nodiscard]] Request ticket(int slot) const {
        return {(*this)[slot].generation << index_bits | static_cast<std::uint32_t>(slot)};
    }
    [[nodiscard]] int slot_of(Request request) const {
        const auto slot = static_cast<int>(request.id & index_mask);
        GX_EXPECT(static_cast<std::size_t>(slot) < slots_.size() && ticket(slot).id == request.id,
                  "a request is waited for once, and this one was");
        return slot;
    }
    /// Requests that are neither done nor withdrawn: of a rank, and of others with it as peer.
    [[nodiscard]] int pending(int rank) const { return pending_[static_cast<std::size_t>(rank)]; }
    [[nodiscard]] int pending_with(int peer) const {
        return pending_with_[static_cast<std::size_t>(peer)];
    }

private:
    static constexpr std::uint32_t index_bits = 20;
    static constexpr std::uint32_t index_mask = (1u << index_bits) - 1;

    void count_pending(const PostedRequest& p, int change) {
        pending_[static_cast<std::size_t>(p.owner())] += change;
        pending_with_[static_cast<std::size_t>(p.peer)] += change;
    }

    TrivialVector<PostedRequest> slots_{};
    TrivialVector<int> free_{};
    TrivialVector<int> pending_, pending_with_;
};

}  // namespace gx::sim
