// ArrivalOrder: matching of message ends, and the draw.
#pragma once

#include <algorithm>  // all_of
#include <utility>    // pair

#include <gx/testing/arrival_order.hpp>

namespace gx::testing {

GX_DECL void ArrivalOrder::posted(int rank, Request request, int peer, int channel, bool sending) {
    const std::lock_guard lock(mutex_);
    const Channel key = sending ? Channel{rank, peer, channel} : Channel{peer, rank, channel};
    ranks_[static_cast<std::size_t>(rank)].messages[request.id] = {
        key, (sending ? sent_ : received_)[key]++};
}

GX_DECL std::ptrdiff_t ArrivalOrder::draw(int rank, std::span<const Request> requests) {
    std::unique_lock lock(mutex_);
    if (open_) return -1;
    Waiter self{.rank = rank, .requests = requests};
    RankState& state = ranks_[static_cast<std::size_t>(rank)];
    waiters_.push_back(&self);
    ++state.waiting;
    draw_if_all_wait();
    self.wake.wait(lock, [&] { return self.ready; });
    if (self.drawn >= 0) state.messages.erase(requests[static_cast<std::size_t>(self.drawn)].id);
    return self.drawn;
}

GX_DECL void ArrivalOrder::left(int rank) {
    const std::lock_guard lock(mutex_);
    ranks_[static_cast<std::size_t>(rank)].gone = true;
    if (!open_) draw_if_all_wait();
}

GX_DECL void ArrivalOrder::open() {
    const std::lock_guard lock(mutex_);
    open_locked();
}

GX_DECL void ArrivalOrder::open_locked() {
    open_ = true;
    for (Waiter* w : waiters_) {
        w->ready = true;
        w->wake.notify_one();
    }
    waiters_.clear();
}

GX_DECL bool ArrivalOrder::finished(const Message& m) const {
    const auto count = [&](const auto& ends) {
        const auto at = ends.find(m.channel);
        return at == ends.end() ? 0 : at->second;
    };
    return count(sent_) > m.number && count(received_) > m.number;
}

GX_DECL void ArrivalOrder::draw_if_all_wait() {
    if (waiters_.empty() || !std::all_of(ranks_.begin(), ranks_.end(), [](const RankState& r) {
            return r.gone || r.waiting > 0;
        }))
        return;
    std::sort(waiters_.begin(), waiters_.end(),
              [](const Waiter* a, const Waiter* b) { return a->rank < b->rank; });
    std::vector<std::pair<std::size_t, std::ptrdiff_t>> ready;
    for (std::size_t w = 0; w < waiters_.size(); ++w) {
        const auto& messages = ranks_[static_cast<std::size_t>(waiters_[w]->rank)].messages;
        for (std::ptrdiff_t i = 0; i < std::ssize(waiters_[w]->requests); ++i) {
            const auto m = messages.find(waiters_[w]->requests[static_cast<std::size_t>(i)].id);
            if (m != messages.end() && finished(m->second)) ready.emplace_back(w, i);
        }
    }
    if (ready.empty()) return open_locked();
    const auto [w, i] = ready[rng_.below(draws_++, ready.size())];
    Waiter& drawn = *waiters_[w];
    drawn.drawn = i;
    drawn.ready = true;
    --ranks_[static_cast<std::size_t>(drawn.rank)].waiting;
    waiters_.erase(waiters_.begin() + static_cast<std::ptrdiff_t>(w));
    drawn.wake.notify_one();
}

GX_DECL ArrivalOrder::ArrivalOrder(int ranks, std::uint64_t seed)
    : rng_(seed, "gx::testing arrival order"), ranks_(static_cast<std::size_t>(ranks)) {}

}  // namespace gx::testing
