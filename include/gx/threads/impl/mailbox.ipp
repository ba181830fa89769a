// Mailbox: the bodies.
#pragma once

#include <algorithm>  // fill, find, find_if
#include <cstring>    // memcpy
#include <thread>     // yield, hardware_concurrency

#include <gx/core/contract.hpp>                 // GX_EXPECT
#include <gx/core/detail/message_mismatch.hpp>  // unequal_buckets, unequal_lengths
#include <gx/threads/mailbox.hpp>               // Mailbox
#include <gx/core/detail/sleep.hpp>             // sleep_until

namespace gx::detail::threads {

GX_DECL Mailbox::Side::Side() : mail(std::make_unique<Mail[]>(capacity)) {
    unused.reserve(capacity);
    for (std::uint32_t id = capacity; id-- > 0;) unused.push_back(id);
    arriving.reserve(capacity);
}

GX_DECL std::size_t Mailbox::count(Placement placement) {
    GX_EXPECT(placement.ranks() > 0, "a world has at least one rank");
    return static_cast<std::size_t>(placement.ranks());
}

GX_DECL Arrival Mailbox::wait_any(int rank, std::span<const Request> requests) {
    GX_EXPECT(!requests.empty(), "wait_any needs at least one request");
    for (int i = 0; i < yields; ++i) {
        if (first_in(rank, requests, MailState::done) < requests.size()) break;
        std::this_thread::yield();
    }
    std::unique_lock lock(mutex_);
    Patience patience(deadline_);
    set_wait(rank, requests, ++waits_);
    Arrival arrival;
    ++side(rank).sleepers;
    while (!sleep_until(side(rank).wake, lock, patience,
                        [&] { return resolved(rank, requests, arrival); })) {
        give_up(rank, requests);
        patience = Patience(std::chrono::nanoseconds::max());  // of a message that is being copied
    }
    --side(rank).sleepers;
    set_wait(rank, requests, 0);
    release(rank, requests[arrival.index]);
    return arrival;
}

GX_DECL Delivery Mailbox::share(int rank, int channel, std::span<std::byte> mine, SharedWork work,
                                MessageBucket bucket, bool by_last) {
    if (stopped_) {
        const std::lock_guard lock(mutex_);
        return end_of_wait(rank);
    }
    Meeting& m = meeting(channel);
    const auto r = static_cast<std::size_t>(rank);
    GX_EXPECT(!m.is_here(r), "one thread of a rank at a time shares memory on a channel");
    const auto come = m.seats[r].come.load(std::memory_order_relaxed) + 1;
    const std::uint64_t last = come * ranks_.size();
    // Others have these lines in their caches: memory seldom changes, and is written when it does.
    // The bucket changes at each meeting, which then takes some 70 ns more of 320.
    if (m.memory[r].data() != mine.data() || m.memory[r].size() != mine.size()) m.memory[r] = mine;
    if (m.buckets[r] != bucket) m.buckets[r] = bucket;
    m.seats[r].come.store(come, std::memory_order_relaxed);
    const bool is_last = m.come.enter(last), works = is_last || !by_last;
    if (is_last) {
        for (std::size_t k = 0; k < m.buckets.size(); ++k)
            GX_EXPECT(meet(m.buckets[k], bucket),
                      gx::detail::unequal_meeting(rank, static_cast<int>(k), channel, bucket,
                                                  m.buckets[k]));
        wake_sleepers(m);
    }
    if (!works && spin(spins_, [&] { return m.worked.is_open(last); })) return {};
    if (!is_last)
        if (const Delivery d = wait_for_all(rank, m, last); !d.complete()) return d;
    if (!works) {
        wait_until_worked(rank, m, last);
        return {};
    }
    const auto finish = [&] {
        if (!by_last) return close(rank, m, last);
        m.worked.enter_for_all(ranks_.size());
        wake_sleepers(m);
    };
    try {
        work(m.memory);
    } catch (...) {
        finish();
        throw;
    }
    finish();
    return {};
}

GX_DECL Mailbox::Meeting& Mailbox::meeting(int channel) {
    const auto c = static_cast<std::size_t>(channel);
    const bool first = channel >= 0 && c < first_meetings_.size();
    if (first)
        if (Meeting* const m = first_meetings_[c].load(std::memory_order_acquire)) return *m;
    const std::lock_guard lock(mutex_);
    for (const auto& m : meetings_)
        if (m->channel == channel) return *m;
    Meeting& made = *meetings_.emplace_back(std::make_unique<Meeting>(channel, ranks_.size()));
    if (first) first_meetings_[c].store(&made, std::memory_order_release);
    return made;
}

GX_DECL Delivery Mailbox::wait_for_all(int rank, Meeting& m, std::uint64_t last) {
    const auto open = [&] { return m.come.is_open(last); };
    if (spin(spins_, open)) return {};
    std::unique_lock lock(mutex_);
    ++m.sleepers;
    Patience patience(deadline_);
    const bool in_time = sleep_until(side(rank).wake, lock, patience, [&] {
        if (!open() && !stopped_ && absent_for_good(m) >= 0) {
            timed_out_rank_ = rank;
            stop_locked(absent_for_good(m));
        }
        return open() || stopped_;
    });
    --m.sleepers;
    if (open()) return {};
    if (!in_time && !stopped_) {
        int absent = 0;
        while (m.is_here(static_cast<std::size_t>(absent)) && absent + 1 < placement_.ranks())
            ++absent;
        timed_out_rank_ = rank;
        stop_locked(diagnose(rank, absent));
    }
    if (!m.come.withdraw(last)) return {};  // the last one has come meanwhile
    --m.seats[static_cast<std::size_t>(rank)].come;
    return end_of_wait(rank);
}

GX_DECL void Mailbox::close(int rank, Meeting& m, std::uint64_t last) {
    if (m.worked.enter(last)) return wake_sleepers(m);
    wait_until_worked(rank, m, last);
}

GX_DECL void Mailbox::wait_until_worked(int rank, Meeting& m, std::uint64_t last) {
    const auto closed = [&] { return m.worked.is_open(last); };
    if (spin(spins_, closed)) return;
    std::unique_lock lock(mutex_);
    ++m.sleepers;
    sleep_until(side(rank).wake, lock, closed);  // works wait for nothing: it ends
    --m.sleepers;
}

// Who sleeps has counted itself before it looks at the gate, which has opened before this looks.
GX_DECL void Mailbox::wake_sleepers(const Meeting& m) {
    if (m.sleepers == 0) return;
    const std::lock_guard lock(mutex_);
    wake_all();
}

GX_DECL int Mailbox::absent_for_good(const Meeting& m) const {
    for (std::size_t r = 0; r < ranks_.size(); ++r)
        if (!m.is_here(r) && ranks_[r].gone) return static_cast<int>(r);
    return -1;
}

GX_DECL void Mailbox::stop(int failed_rank) {
    const std::lock_guard lock(mutex_);
    stop_locked(failed_rank);
}

GX_DECL void Mailbox::leave(int rank) {
    const std::lock_guard lock(mutex_);
    side(rank).gone = true;
    ++gone_;
    wake_all();
}

GX_DECL Request Mailbox::post(int rank, int peer, int channel, MessageBucket bucket, bool sending,
                              const std::byte* source, std::byte* target, std::size_t bytes) {
    GX_EXPECT(peer >= 0 && peer < placement_.ranks(), "a message to or from no rank of this world");
    Request request;
    Mail* mine = nullptr;
    typename Side::Entry other{};
    {
        const std::lock_guard lock(mutex_);
        request = take(rank);
        mine = &mail(rank, request);
        mine->sending = sending, mine->peer = peer, mine->channel = channel;
        mine->bucket = bucket;
        mine->source = source, mine->target = target, mine->bytes = bytes;
        mine->state.store(MailState::posted, std::memory_order_relaxed);
        if (stopped_ || !match(rank, *mine, other)) return request;
        mine->state.store(MailState::copying, std::memory_order_relaxed);
        other.mail->state.store(MailState::copying, std::memory_order_relaxed);
    }
    copy(*mine, *other.mail);
    const std::lock_guard lock(mutex_);
    other.mail->state.store(MailState::done, std::memory_order_release);
    mine->state.store(MailState::done, std::memory_order_release);
    wake(other.owner);
    return request;
}

GX_DECL Request Mailbox::take(int rank) {
    auto& unused = side(rank).unused;
    GX_EXPECT(!unused.empty(), "more than 1024 messages were posted and never waited for");
    const Request request{unused.back()};
    unused.pop_back();
    return request;
}

GX_DECL bool Mailbox::match(int rank, Mail& mine, typename Side::Entry& partner) {
    const int from = mine.sending ? rank : mine.peer;
    auto& queue = side(mine.sending ? mine.peer : rank).arriving;
    const auto found = std::find_if(queue.begin(), queue.end(), [&](const auto& e) {
        return e.from == from && e.channel == mine.channel && e.sending != mine.sending;
    });
    if (found == queue.end()) {
        queue.push_back({from, mine.channel, mine.sending, rank, &mine});
        return false;
    }
    partner = *found;
    queue.erase(found);
    return true;
}

GX_DECL void Mailbox::copy(const Mail& a, const Mail& b) {
    const Mail& out = a.sending ? a : b;
    const Mail& in = a.sending ? b : a;
    GX_EXPECT(meet(out.bucket, in.bucket),
              gx::detail::unequal_buckets(in.peer, out.peer, in.channel, out.bucket, in.bucket));
    GX_EXPECT(out.bytes == in.bytes, gx::detail::unequal_lengths(in.peer, out.peer, in.channel,
                                                                 out.bytes, in.bytes, out.bucket));
    if (out.bytes > 0) std::memcpy(in.target, out.source, out.bytes);
}

GX_DECL std::size_t Mailbox::first_in(int rank, std::span<const Request> requests,
                                      MailState state) {
    for (std::size_t i = 0; i < requests.size(); ++i)
        if (mail(rank, requests[i]).state.load(std::memory_order_acquire) == state) return i;
    return requests.size();
}

GX_DECL bool Mailbox::resolved(int rank, std::span<const Request> requests, Arrival& arrival) {
    if (const auto i = first_in(rank, requests, MailState::done); i < requests.size()) {
        arrival = {i, {}};
        return true;
    }
    if (!stopped_) stop_if_hopeless(rank, requests);
    const auto i = first_in(rank, requests, MailState::posted);
    if (!stopped_ || i == requests.size()) return false;  // what is being copied will be done
    withdraw(mail(rank, requests[i]));
    arrival = {i, end_of_wait(rank)};
    return true;
}

GX_DECL Delivery Mailbox::end_of_wait(int rank) {
    const bool first = timed_out_rank_ == rank;
    timed_out_rank_ = first ? -1 : timed_out_rank_;
    return {first ? Delivery::Outcome::timed_out : Delivery::Outcome::cancelled, failed_rank_};
}

GX_DECL void Mailbox::stop_if_hopeless(int rank, std::span<const Request> requests) {
    std::vector<std::uint64_t> seen;
    int gone = -1;
    if (gone_ == 0 || !hopeless(rank, mail(rank, requests[0]).wait, seen, gone)) return;
    if (gone < 0) return;  // ranks that wait for each other: a deadlock, left to the deadline
    timed_out_rank_ = rank;
    stop_locked(gone);
}

// One thread of a rank works on a channel. So what is expected of a rank that waits for something
// on the same channel comes behind that wait.
GX_DECL bool Mailbox::hopeless(int rank, std::uint64_t wait, std::vector<std::uint64_t>& seen,
                               int& gone) {
    seen.push_back(wait);
    for (std::uint32_t id = 0; id < capacity; ++id) {
        const Mail& m = mail(rank, {id});
        if (m.wait != wait) continue;
        if (m.state.load(std::memory_order_relaxed) != MailState::posted) return false;
        if (side(m.peer).gone) {
            gone = m.peer;
            continue;
        }
        const std::uint64_t next = wait_on(m.peer, m.channel);
        if (next == 0) return false;
        const bool known = std::find(seen.begin(), seen.end(), next) != seen.end();
        if (!known && !hopeless(m.peer, next, seen, gone)) return false;
    }
    return true;
}

GX_DECL std::uint64_t Mailbox::wait_on(int rank, int channel) {
    for (std::uint32_t id = 0; id < capacity; ++id)
        if (const Mail& m = mail(rank, {id}); m.wait != 0 && m.channel == channel) return m.wait;
    return 0;
}

GX_DECL void Mailbox::give_up(int rank, std::span<const Request> requests) {
    const auto i = first_in(rank, requests, MailState::posted);
    if (stopped_ || i == requests.size()) return;
    timed_out_rank_ = rank;
    stop_locked(diagnose(rank, mail(rank, requests[i]).peer));
}

// Follows the wait-for graph from `rank`; the first rank that waits for no other is missing.
// All of them waiting is a deadlock: then it is the peer itself.
GX_DECL int Mailbox::diagnose(int rank, int peer) {
    std::vector<int> reached{rank};
    const auto reach = [&](int r) {
        if (std::find(reached.begin(), reached.end(), r) == reached.end()) reached.push_back(r);
    };
    for (std::size_t next = 0; next < reached.size(); ++next) {
        bool waits = false;
        for (std::uint32_t id = 0; id < capacity; ++id) {
            const Mail& m = mail(reached[next], {id});
            if (m.wait == 0 || m.state.load(std::memory_order_relaxed) != MailState::posted)
                continue;
            waits = true;
            reach(m.peer);
        }
        for (const auto& m : meetings_) {
            if (!m->is_here(static_cast<std::size_t>(reached[next])) || m->is_open()) continue;
            waits = true;
            for (int r = 0; r < placement_.ranks(); ++r)
                if (!m->is_here(static_cast<std::size_t>(r))) reach(r);
        }
        if (!waits) return reached[next];
    }
    return peer;
}

GX_DECL void Mailbox::withdraw(Mail& m) {
    for (Side& s : ranks_) std::erase_if(s.arriving, [&](const auto& e) { return e.mail == &m; });
}
GX_DECL void Mailbox::release(int rank, Request r) {
    mail(rank, r).state.store(MailState::unused, std::memory_order_relaxed);
    side(rank).unused.push_back(r.id);
}
GX_DECL void Mailbox::set_wait(int rank, std::span<const Request> requests, std::uint64_t wait) {
    for (const Request r : requests) mail(rank, r).wait = wait;
}
GX_DECL void Mailbox::stop_locked(int failed_rank) {
    if (stopped_) return;
    stopped_ = true;
    failed_rank_ = failed_rank;
    wake_all();
}
GX_DECL void Mailbox::wake(int rank) {
    if (side(rank).sleepers > 0) side(rank).wake.notify_all();
}
GX_DECL void Mailbox::wake_all() {
    for (Side& s : ranks_) s.wake.notify_all();
}

GX_DECL Mailbox::Mailbox(Placement placement, std::chrono::nanoseconds deadline)
    : placement_(placement),
      deadline_(deadline),
      ranks_(count(placement)),
      spins_(ranks_.size() <= std::thread::hardware_concurrency()) {}

GX_DECL Mailbox::Meeting::Meeting(int on, std::size_t ranks)
    : channel(on), memory(ranks), buckets(ranks), seats(ranks) {}

}  // namespace gx::detail::threads
