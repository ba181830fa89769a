// PostOffice where things break: who is missing, dead ranks, second copies, overtaken messages.
#pragma once

#include <algorithm>  // swap
#include <array>      // ends
#include <cstring>    // memcpy, memcmp

#include <gx/sim/fault_hooks.hpp>  // FaultHooks
#include <gx/sim/post_office.hpp>     // PostOffice

namespace gx::sim {

// ---- Who is missing ---------------------------------------------------------------------

// A dead rank explains every wait that is not met.
inline int PostOffice::missing(int rank, int slot) const {
    const int who = along_the_waits(rank, slot);
    if (!faults_ || dead(who)) return who;
    for (int r = 0; r < static_cast<int>(lanes_.size()); ++r)
        if (dead(r)) return r;
    return who;
}

// Follows who waits for whom to a rank that waits for nobody, or to a message that hangs on its
// way; around a circle, stays at the first peer.
inline int PostOffice::along_the_waits(int rank, int slot) const {
    const int peer = post(slot).peer;
    for (std::size_t i = 0; i < waits_for_.size(); ++i) {
        const Post& p = post(slot);
        if (on_its_way(p)) {
            const int own = p.is_send ? p.from : p.to;
            return faults_ && !faults_->cut_off(p.peer) && faults_->cut_off(own) ? own : p.peer;
        }
        slot = waits_for_[static_cast<std::size_t>(p.peer)];
        if (slot == none) return p.peer;
        if (post(slot).peer == rank) return peer;
    }
    return peer;
}

inline void PostOffice::kill(int rank) {
    for (std::size_t slot = 0; slot < posts_.size(); ++slot) {
        Post& p = posts_[slot];
        const bool own = (p.is_send ? p.from : p.to) == rank;
        if (!p.open || !own || p.withdrawn) continue;
        if (p.waiter) engine_.wake(*p.waiter, Wake::cancelled);
        p.waiter = nullptr;
        if (!p.done) withdraw(static_cast<int>(slot));
    }
}

// ---- Messages whose way is lost ----------------------------------------------------------

inline bool PostOffice::resend(Flow& flow) const {
    if (!rules_.resend || flow.done.context != this) return false;
    const auto resend = [&](const auto& message) {
        const auto [from, to, channel] = std::array{message.from, message.to, message.channel};
        flow.latency = topology_.route(from, to, channel).latency;
        return faults_->reroute(from, to, channel, flow.path);
    };
    const auto which = static_cast<std::size_t>(flow.done.argument);
    return flow.done.run == copy_event ? resend(copies_[which]) : resend(posts_[which]);
}

// ---- Messages that were doubled, overtaken or spoiled -------------------------------------

// Without the rule `in_order`: the receive that is next takes what comes first.
inline void PostOffice::overtake(int slot, Lane& l) {
    Post& p = post(slot);
    for (Post& q : posts_) {
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

// Its number says that the message has been delivered, or that it comes at this moment.
inline void PostOffice::copy_arrived(int copy) {
    const Copy& c = copies_[static_cast<std::size_t>(copy)];
    Lane& l = lane(c.from, c.to, c.channel);
    if (rules_.discard_duplicates) ++discarded_;
    else if (l.intruder == none) l.intruder = copy;
}

inline void PostOffice::copy_payload(Post& s, Post& r) {
    const std::byte* from = s.out;
    if (faults_ && !rules_.discard_duplicates) {
        Lane& l = lane(s.from, s.to, s.channel);
        const Copy* copy =
            l.intruder == none ? nullptr : &copies_[static_cast<std::size_t>(l.intruder)];
        if (copy && s.number > copy->number) {  // which may come before the message itself
            if (copy->payload.size() == s.bytes) from = copy->payload.data();
            l.intruder = none;
        }
    }
    std::memcpy(r.in, from, s.bytes);
    if (!faults_ || s.channel >= control_channel) return;
    const bool spoiled = faults_->corrupt(s.from, s.to, {r.in, r.bytes});
    if (spoiled && rules_.checksum) r.corrupted = std::memcmp(r.in, from, s.bytes) != 0;
}

}  // namespace gx::sim
