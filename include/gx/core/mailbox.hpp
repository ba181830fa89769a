// PostOffice: messages between threads of one process, copied once, from sender to receiver.
#pragma once

#include <algorithm>           // find_if
#include <atomic>              // states of requests
#include <chrono>              // the deadline
#include <condition_variable>  // sleeping waits
#include <cstring>             // memcpy
#include <memory>              // unique_ptr
#include <mutex>               // one lock for all mail
#include <thread>              // yield
#include <vector>              // unmatched requests

#include <gx/core/contract.hpp>   // GX_EXPECT
#include <gx/core/transport.hpp>  // Request, Arrival, Placement

namespace gx::detail::threads {

enum class MailState : unsigned char { unused, posted, copying, done };

/// A posted send or receive.
struct Mail {
    std::atomic<MailState> state{MailState::unused};
    bool sending = false;
    bool awaited = false;  ///< somebody sleeps until this one is done
    int peer = -1;
    int channel = 0;
    const std::byte* source = nullptr;
    std::byte* target = nullptr;
    std::size_t bytes = 0;
};

/// Matches sends with receives. Whoever posts the second of a pair copies, so that neither side
/// depends on the order in which the other one waits.
/// Errors: the first wait that can't be answered (deadline met, or the peer's function has
///         returned) stops the office and names who is to blame; every other wait is cancelled.
/// Cost:   no allocation while at most 1024 requests of a rank are posted and not waited for.
class PostOffice {
public:
    PostOffice(Placement placement, std::chrono::nanoseconds deadline)
        : placement_(placement), deadline_(deadline), ranks_(count(placement)) {}

    [[nodiscard]] Placement placement() const { return placement_; }

    Request send(int rank, int to, int channel, std::span<const std::byte> message) {
        return post(rank, to, channel, true, message.data(), nullptr, message.size());
    }
    Request receive(int rank, int from, int channel, std::span<std::byte> message) {
        return post(rank, from, channel, false, nullptr, message.data(), message.size());
    }

    /// Waits until one of the requests is done, or nothing can be done any more.
    Arrival wait_any(int rank, std::span<const Request> requests) {
        GX_EXPECT(!requests.empty(), "wait_any needs at least one request");
        for (int i = 0; i < yields; ++i) {
            if (first_in(rank, requests, MailState::done) < requests.size()) break;
            std::this_thread::yield();
        }
        std::unique_lock lock(mutex_);
        const auto limit = std::chrono::steady_clock::now() + deadline_;
        set_awaited(rank, requests, true);
        Arrival arrival;
        while (!answered(rank, requests, arrival)) {
            ++side(rank).sleepers;
            const auto woken = side(rank).wake.wait_until(lock, limit);
            --side(rank).sleepers;
            if (woken == std::cv_status::timeout) give_up(rank, requests);
        }
        set_awaited(rank, requests, false);
        release(rank, requests[arrival.index]);
        return arrival;
    }

    /// From now on every wait that is not nearly done is cancelled, because of `culprit`.
    void stop(int culprit) {
        const std::lock_guard lock(mutex_);
        stop_locked(culprit);
    }

    /// The rank's function has returned: nobody need wait for its messages.
    void leave(int rank) {
        const std::lock_guard lock(mutex_);
        side(rank).gone = true;
        wake_all();
    }

private:
    static constexpr int capacity = 1024;
    static constexpr int yields = 64;

    struct Side {  // one rank's
        Side() : mail(std::make_unique<Mail[]>(capacity)) {
            unused.reserve(capacity);
            for (std::uint32_t id = capacity; id-- > 0;) unused.push_back(id);
            arriving.reserve(capacity);
        }
        std::unique_ptr<Mail[]> mail;
        std::vector<std::uint32_t> unused;
        struct Entry {
            int from, channel;
            bool sending;
            int owner;
            Mail* mail;
        };
        std::vector<Entry> arriving;  ///< unmatched, to or at this rank, in order of posting
        std::condition_variable wake;
        int sleepers = 0;
        bool gone = false;
    };

    static std::size_t count(Placement placement) {
        GX_EXPECT(placement.ranks() > 0, "a world has at least one rank");
        return static_cast<std::size_t>(placement.ranks());
    }
    Side& side(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
    Mail& mail(int rank, Request r) { return side(rank).mail[r.id]; }

    Request post(int rank, int peer, int channel, bool sending, const std::byte* source,
                 std::byte* target, std::size_t bytes) {
        GX_EXPECT(peer >= 0 && peer < placement_.ranks(),
                  "a message to or from no rank of this world");
        Request request;
        Mail* mine = nullptr;
        typename Side::Entry other{};
        {
            const std::lock_guard lock(mutex_);
            request = take(rank);
            mine = &mail(rank, request);
            mine->sending = sending, mine->peer = peer, mine->channel = channel;
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

    Request take(int rank) {
        auto& unused = side(rank).unused;
        GX_EXPECT(!unused.empty(), "more than 1024 messages were posted and never waited for");
        const Request request{unused.back()};
        unused.pop_back();
        return request;
    }

    /// The oldest partner that fits, taken out of the queue; or `mine` is queued.
    bool match(int rank, Mail& mine, typename Side::Entry& partner) {
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

    static void copy(const Mail& a, const Mail& b) {
        const Mail& out = a.sending ? a : b;
        const Mail& in = a.sending ? b : a;
        GX_EXPECT(out.bytes == in.bytes, "a receive and its send have equal lengths");
        if (out.bytes > 0) std::memcpy(in.target, out.source, out.bytes);
    }

    std::size_t first_in(int rank, std::span<const Request> requests, MailState state) {
        for (std::size_t i = 0; i < requests.size(); ++i)
            if (mail(rank, requests[i]).state.load(std::memory_order_acquire) == state) return i;
        return requests.size();
    }

    bool answered(int rank, std::span<const Request> requests, Arrival& arrival) {
        if (const auto i = first_in(rank, requests, MailState::done); i < requests.size()) {
            arrival = {i, {}};
            return true;
        }
        if (!stopped_) blame_who_left(rank, requests);
        const auto i = first_in(rank, requests, MailState::posted);
        if (!stopped_ || i == requests.size()) return false;  // what is being copied will be done
        withdraw(mail(rank, requests[i]));
        const bool first = accuser_ == rank;
        accuser_ = first ? -1 : accuser_;
        arrival = {i,
                   {first ? Delivery::Outcome::timed_out : Delivery::Outcome::cancelled, culprit_}};
        return true;
    }

    void blame_who_left(int rank, std::span<const Request> requests) {
        for (const Request r : requests) {
            const Mail& m = mail(rank, r);
            if (m.state.load(std::memory_order_relaxed) != MailState::posted || !side(m.peer).gone)
                continue;
            accuser_ = rank;
            return stop_locked(m.peer);
        }
    }

    void give_up(int rank, std::span<const Request> requests) {
        const auto i = first_in(rank, requests, MailState::posted);
        if (stopped_ || i == requests.size()) return;
        accuser_ = rank;
        stop_locked(diagnose(rank, mail(rank, requests[i]).peer));
    }

    /// Follows who waits for whom from `rank`; the first rank that waits for nobody is missing.
    /// All of them waiting is a deadlock: then it is the peer itself.
    int diagnose(int rank, int peer) {
        std::vector<int> reached{rank};
        for (std::size_t next = 0; next < reached.size(); ++next) {
            bool waits = false;
            for (std::uint32_t id = 0; id < capacity; ++id) {
                const Mail& m = mail(reached[next], {id});
                if (!m.awaited || m.state.load(std::memory_order_relaxed) != MailState::posted)
                    continue;
                waits = true;
                if (std::find(reached.begin(), reached.end(), m.peer) == reached.end())
                    reached.push_back(m.peer);
            }
            if (!waits) return reached[next];
        }
        return peer;
    }

    void withdraw(Mail& m) {
        for (Side& s : ranks_)
            std::erase_if(s.arriving, [&](const auto& e) { return e.mail == &m; });
    }
    void release(int rank, Request r) {
        mail(rank, r).state.store(MailState::unused, std::memory_order_relaxed);
        side(rank).unused.push_back(r.id);
    }
    void set_awaited(int rank, std::span<const Request> requests, bool awaited) {
        for (const Request r : requests) mail(rank, r).awaited = awaited;
    }
    void stop_locked(int culprit) {
        if (stopped_) return;
        stopped_ = true;
        culprit_ = culprit;
        wake_all();
    }
    void wake(int rank) {
        if (side(rank).sleepers > 0) side(rank).wake.notify_all();
    }
    void wake_all() {
        for (Side& s : ranks_) s.wake.notify_all();
    }

    Placement placement_;
    std::chrono::nanoseconds deadline_;
    std::mutex mutex_;
    std::vector<Side> ranks_;
    bool stopped_ = false;
    int culprit_ = -1;
    int accuser_ = -1;  ///< who met its deadline, and is answered `timed_out`
};

/// One rank's end of the post office.
class Endpoint {
public:
    Endpoint(PostOffice& office, int rank) : office_(&office), rank_(rank) {}

    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] int ranks() const { return placement().ranks(); }
    [[nodiscard]] Placement placement() const { return office_->placement(); }
    Request send(int to, int channel, std::span<const std::byte> message) {
        return office_->send(rank_, to, channel, message);
    }
    Request receive(int from, int channel, std::span<std::byte> message) {
        return office_->receive(rank_, from, channel, message);
    }
    Delivery wait(Request request) { return wait_any({&request, 1}).delivery; }
    Arrival wait_any(std::span<const Request> requests) {
        return office_->wait_any(rank_, requests);
    }

private:
    PostOffice* office_;
    int rank_;
};
static_assert(explain_transport<Endpoint>());

}  // namespace gx::detail::threads
