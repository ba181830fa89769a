// PostOffice's waits: until a request is done, its deadline has come, or nobody will answer it.
#pragma once

#include <cstddef>  // size_t
#include <span>     // requests

#include <gx/sim/post_office.hpp>  // PostOffice

namespace gx::sim {

inline Arrival PostOffice::wait_any(int rank, std::span<const Request> requests) {
    GX_EXPECT(!requests.empty(), "a wait needs at least one request");
    Wake reason = Wake::signalled;
    std::size_t i = first_done(requests);
    while (i == requests.size() && reason == Wake::signalled && !hopeless(requests)) {
        reason = block(rank, requests);
        if (dead(rank)) return {0, {Delivery::Outcome::cancelled, rank}};
        i = first_done(requests);
    }
    if (i < requests.size() && post(slot_of(requests[i])).corrupted) {
        const int peer = post(slot_of(requests[i])).peer;
        release(slot_of(requests[i]));
        if (engine_.cancelled())  // all name the rank that was missed first
            return {i, {Delivery::Outcome::cancelled, engine_.missing_rank()}};
        engine_.cancel(peer);
        return {i, {Delivery::Outcome::corrupted, peer}};
    }
    if (i < requests.size()) {
        if (races_) races_->waited_for(rank, slot_of(requests[i]));
        release(slot_of(requests[i]));
        return {i, {}};
    }
    const int slot = slot_of(requests[0]);
    const int who = missing(rank, slot);
    withdraw(slot);
    if (engine_.cancelled())
        return {0, {Delivery::Outcome::cancelled, engine_.missing_rank()}};
    engine_.cancel(who);
    return {0, {Delivery::Outcome::timed_out, who}};
}

inline Wake PostOffice::block(int rank, std::span<const Request> requests) {
    for (const Request r : requests) post(slot_of(r)).waiter = engine_.current();
    waits_for_[static_cast<std::size_t>(rank)] = slot_of(requests[0]);
    const Wake reason = engine_.block(deadline_);
    waits_for_[static_cast<std::size_t>(rank)] = none;
    if (dead(rank)) return reason;  // its requests are withdrawn
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

inline void PostOffice::rank_ended(int rank) {
    if (!faults_ || !faults_->silent(rank)) ended_[static_cast<std::size_t>(rank)] = true;
    for (std::size_t slot = 0; slot < posts_.size(); ++slot) {
        const Post& p = posts_[slot];
        const bool own = (p.is_send ? p.from : p.to) == rank;
        if (p.open && own && !p.done && !p.withdrawn) withdraw(static_cast<int>(slot));
    }
    for (const Post& p : posts_)
        if (p.open && p.waiter && p.peer == rank && hopeless(p)) engine_.wake(*p.waiter);
}

}  // namespace gx::sim
