// ArrivalOrder: delivers the messages between threads in an order drawn from a seed.
#pragma once

#include <condition_variable>  // waiting ranks
#include <cstddef>             // ptrdiff_t
#include <cstdint>             // uint64_t
#include <map>                 // message counters
#include <mutex>               // the scheduler's lock
#include <span>                // requests
#include <tuple>               // keys
#include <vector>              // waiters

#include <gx/core/decl.hpp>       // GX_HEADER_ONLY
#include <gx/core/rng.hpp>        // Rng
#include <gx/core/transport.hpp>  // Request, Arrival

namespace gx::testing {

/// A cooperative scheduler of deliveries. When every rank waits, it draws one of the finished
/// messages and lets the rank that waits for it go on; so the order in which a rank learns of its
/// messages depends on the seed alone and not on the operating system, and nothing sleeps.
///
/// When every rank waits and no message is finished, a rank is missing or the program is in
/// deadlock: from there on waits go to the transport below, which reports it.
class ArrivalOrder {
public:
    ArrivalOrder(int ranks, std::uint64_t seed);

    /// A message end was posted to the transport below.
    void posted(int rank, Request request, int peer, int channel, bool sending);
    /// Blocks until one of the requests is drawn, and returns its index; -1: ask the transport.
    std::ptrdiff_t draw(int rank, std::span<const Request> requests);
    /// The rank's function has returned.
    void left(int rank);
    /// From here on nothing is held back.
    void open();

private:
    using Channel = std::tuple<int, int, int>;  // from, to, channel
    struct Message {
        Channel channel{};
        std::uint64_t number = 0;
    };
    struct Waiter {
        int rank = 0;
        std::span<const Request> requests{};
        std::ptrdiff_t drawn = -1;
        bool ready = false;
        std::condition_variable wake{};
    };
    struct RankState {
        std::map<std::uint32_t, Message> messages{};  // by request id
        int waiting = 0;
        bool gone = false;
    };
    [[nodiscard]] bool finished(const Message& m) const;
    void draw_if_all_wait();
    void open_locked();

    std::mutex mutex_{};
    Rng rng_;
    std::uint64_t draws_ = 0;
    bool open_ = false;
    std::vector<RankState> ranks_;
    std::map<Channel, std::uint64_t> sent_{}, received_{};
    std::vector<Waiter*> waiters_{};
};

/// A transport whose waits return in the order of an ArrivalOrder.
template <Transport Link>
class ReorderedTransport : public TransportOver<Link> {
    using TransportOver<Link>::under;

public:
    using TransportOver<Link>::rank;

    ReorderedTransport(Link& link, ArrivalOrder& order)
        : TransportOver<Link>(link), order_(order) {}

    Request send(int to, int channel, std::span<const std::byte> message) {
        const Request request = under().send(to, channel, message);
        order_.posted(rank(), request, to, channel, true);
        return request;
    }
    Request receive(int from, int channel, std::span<std::byte> message) {
        const Request request = under().receive(from, channel, message);
        order_.posted(rank(), request, from, channel, false);
        return request;
    }
    Delivery wait(Request request) { return wait_any({&request, 1}).delivery; }
    Arrival wait_any(std::span<const Request> requests) {
        const std::ptrdiff_t drawn = order_.draw(rank(), requests);
        const Arrival arrival =
            drawn < 0 ? under().wait_any(requests)
                      : Arrival{static_cast<std::size_t>(drawn),
                                under().wait(requests[static_cast<std::size_t>(drawn)])};
        if (!arrival.delivery.complete()) order_.open();
        return arrival;
    }

private:
    ArrivalOrder& order_;
};

namespace detail {
class LeaveAtEnd {
public:
    LeaveAtEnd(ArrivalOrder& order, int rank) : order_(order), rank_(rank) {}
    LeaveAtEnd(const LeaveAtEnd&) = delete;
    LeaveAtEnd& operator=(const LeaveAtEnd&) = delete;
    ~LeaveAtEnd() { order_.left(rank_); }

private:
    ArrivalOrder& order_;
    int rank_;
};
}  // namespace detail

/// A rank whose transport is another one.
template <class Rank, Transport Link>
class RankWithTransport {
public:
    RankWithTransport(Rank& rank, Link& link) : rank_(rank), link_(link) {}
    [[nodiscard]] int rank() const { return rank_.rank(); }
    [[nodiscard]] int ranks() const { return rank_.ranks(); }
    [[nodiscard]] Link& transport() { return link_; }
    [[nodiscard]] auto& stream() { return rank_.stream(); }

private:
    Rank& rank_;
    Link& link_;
};

}  // namespace gx::testing

#if defined(GX_HEADER_ONLY)
#include <gx/testing/impl/arrival_order.ipp>
#endif
