// Mailbox: messages between threads of one process, copied once, from sender to receiver.
#pragma once

#include <array>               // meetings
#include <atomic>              // states of requests
#include <chrono>              // the deadline
#include <condition_variable>  // sleeping waits
#include <cstddef>             // byte
#include <cstdint>             // uint64_t
#include <memory>              // unique_ptr
#include <mutex>               // one lock for all mail
#include <span>                // span
#include <vector>              // unmatched requests

#include <gx/core/decl.hpp>         // GX_HEADER_ONLY
#include <gx/core/detail/gate.hpp>  // Gate
#include <gx/core/transport.hpp>    // Request, Arrival, Placement

namespace gx::detail::threads {

enum class MailState : unsigned char { unused, posted, copying, done };

/// A posted send or receive.
struct Mail {
    std::atomic<MailState> state{MailState::unused};
    bool sending = false;
    std::uint64_t wait = 0;  ///< the wait that sleeps until this one is done; 0: none
    int peer = -1;
    int channel = 0;
    MessageBucket bucket{};
    const std::byte* source = nullptr;
    std::byte* target = nullptr;
    std::size_t bytes = 0;
};

/// Matches sends with receives. The rank that posts the second of a pair copies, so neither side
/// depends on the order in which the other one waits.
/// Errors: the first wait that meets its deadline, or that needs, if only in the end, ranks whose
///         functions have returned, stops the office and records the failed rank; every other wait
///         returns `cancelled`. A wait for any of several requests goes on while one can still
///         complete.
/// Threads: one of a rank at a time works on a channel.
/// Memory that all ranks publish at once is worked on in place: share().
/// Cost:   no allocation while at most 1024 requests of a rank are posted and not waited for.
class Mailbox {
public:
    Mailbox(Placement placement, std::chrono::nanoseconds deadline);

    [[nodiscard]] Placement placement() const { return placement_; }

    Request send(int rank, int to, int channel, std::span<const std::byte> message,
                 MessageBucket bucket) {
        return post(rank, to, channel, bucket, true, message.data(), nullptr, message.size());
    }
    Request receive(int rank, int from, int channel, std::span<std::byte> message,
                    MessageBucket bucket) {
        return post(rank, from, channel, bucket, false, nullptr, message.data(), message.size());
    }

    /// Waits until one of the requests is done, or nothing can be done any more.
    Arrival wait_any(int rank, std::span<const Request> requests);

    /// SharesMemory: meets all ranks on `channel`, works on what they published, and meets again.
    /// `by_last`: the last rank to come works for all.
    Delivery share(int rank, int channel, std::span<std::byte> mine, SharedWork work,
                   MessageBucket bucket, bool by_last = false);
    [[nodiscard]] bool shares_cores() const { return !spins_; }

    /// Stops the office: every wait whose message is not being copied returns `cancelled`.
    void stop(int failed_rank);

    /// The rank's function has returned: waits that need its messages fail.
    void leave(int rank);

private:
    static constexpr int capacity = 1024;
    static constexpr int yields = 64;

    struct Side {  // one rank's
        Side();
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

    struct alignas(core_line) Seat {
        std::atomic<std::uint64_t> come{0};  ///< meetings that its rank has come to
    };
    /// The ranks' memory on a channel, from when all have come until all have worked on it.
    struct Meeting {
        Meeting(int on, std::size_t ranks);
        int channel;
        std::vector<std::span<std::byte>> memory;  ///< [rank]
        std::vector<MessageBucket> buckets;        ///< [rank]
        std::vector<Seat> seats;                   ///< [rank]
        Gate come{}, worked{};
        std::atomic<int> sleepers{0};

        /// Whether a rank has come to the meeting under way.
        [[nodiscard]] bool is_here(std::size_t rank) const {
            return seats[rank].come.load() > worked.entered() / seats.size();
        }
        /// Whether all have come to it.
        [[nodiscard]] bool is_open() const {
            return come.is_open((worked.entered() / seats.size() + 1) * seats.size());
        }
    };

    static std::size_t count(Placement placement);
    Meeting& meeting(int channel);
    /// Waits until all have come, `last` of them so far, or will not.
    Delivery wait_for_all(int rank, Meeting& m, std::uint64_t last);
    void close(int rank, Meeting& m, std::uint64_t last);
    void wait_until_worked(int rank, Meeting& m, std::uint64_t last);
    void wake_sleepers(const Meeting& m);
    /// A rank that has not come and never will, or -1.
    int absent_for_good(const Meeting& m) const;
    /// Of a wait that the stop has ended.
    Delivery end_of_wait(int rank);
    Side& side(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
    Mail& mail(int rank, Request r) { return side(rank).mail[r.id]; }

    Request post(int rank, int peer, int channel, MessageBucket bucket, bool sending,
                 const std::byte* source, std::byte* target, std::size_t bytes);
    Request take(int rank);
    /// The oldest partner that fits, taken out of the queue; or `mine` is queued.
    bool match(int rank, Mail& mine, typename Side::Entry& partner);
    static void copy(const Mail& a, const Mail& b);
    std::size_t first_in(int rank, std::span<const Request> requests, MailState state);
    bool resolved(int rank, std::span<const Request> requests, Arrival& arrival);
    void stop_if_hopeless(int rank, std::span<const Request> requests);
    void give_up(int rank, std::span<const Request> requests);
    int diagnose(int rank, int peer);
    void withdraw(Mail& m);
    void release(int rank, Request r);
    void set_wait(int rank, std::span<const Request> requests, std::uint64_t wait);
    /// The wait of `rank` for something on `channel`; 0: none.
    std::uint64_t wait_on(int rank, int channel);
    /// Whether no request of a wait can be completed any more. `seen`: waits on the way to it;
    /// `gone`: set to a rank that has returned, and that it needs.
    bool hopeless(int rank, std::uint64_t wait, std::vector<std::uint64_t>& seen, int& gone);
    void stop_locked(int failed_rank);
    void wake(int rank);
    void wake_all();

    Placement placement_;
    std::chrono::nanoseconds deadline_;
    std::mutex mutex_;
    std::vector<Side> ranks_;
    std::vector<std::unique_ptr<Meeting>> meetings_;         ///< one for each channel in use
    std::array<std::atomic<Meeting*>, 8> first_meetings_{};  ///< [channel], without the lock
    bool spins_;                                             ///< there is a core for each rank
    std::atomic<bool> stopped_ = false;
    int failed_rank_ = -1;
    int gone_ = 0;             ///< ranks
    std::uint64_t waits_ = 0;  ///< so far
    int timed_out_rank_ = -1;  ///< the rank whose wait returns `timed_out`
};

/// One rank's Transport over the post office.
class Endpoint {
public:
    Endpoint(Mailbox& office, int rank) : office_(&office), rank_(rank) {}

    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] int ranks() const { return placement().ranks(); }
    [[nodiscard]] Placement placement() const { return office_->placement(); }
    Request send(int to, int channel, std::span<const std::byte> message) {
        return office_->send(rank_, to, channel, message, bucket_);
    }
    Request receive(int from, int channel, std::span<std::byte> message) {
        return office_->receive(rank_, from, channel, message, bucket_);
    }
    Delivery wait(Request request) { return wait_any({&request, 1}).delivery; }
    Arrival wait_any(std::span<const Request> requests) {
        return office_->wait_any(rank_, requests);
    }
    [[nodiscard]] static constexpr bool shares_memory() { return true; }
    Delivery share(int channel, std::span<std::byte> mine, SharedWork work) {
        return office_->share(rank_, channel, mine, work, bucket_);
    }
    Delivery share_by_last(int channel, std::span<std::byte> mine, SharedWork work) {
        return office_->share(rank_, channel, mine, work, bucket_, true);
    }
    [[nodiscard]] bool shares_cores() const { return office_->shares_cores(); }
    [[nodiscard]] Endpoint in_operation(const Operation& operation) const {
        Endpoint same = *this;
        same.bucket_ = MessageBucket(operation);
        return same;
    }

private:
    Mailbox* office_;
    int rank_;
    MessageBucket bucket_{};
};
static_assert(explain_transport<Endpoint>() && SharesMemory<Endpoint>);

}  // namespace gx::detail::threads

#if defined(GX_HEADER_ONLY)
#include <gx/threads/impl/mailbox.ipp>
#endif
