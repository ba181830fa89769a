// Connections: a simulated endpoint that sends as an MPI over TCP does.
#pragma once

#include <algorithm>    // any_of, max
#include <bit>          // bit_ceil
#include <cstddef>      // byte
#include <cstdint>      // int64_t
#include <deque>        // messages
#include <map>          // ends of messages
#include <span>         // messages
#include <string>       // sentences
#include <string_view>  // names
#include <utility>      // pair
#include <vector>       // connections

#include <fmt/ranges.h>  // join

#include <gx/core/error.hpp>      // Error
#include <gx/core/transport.hpp>  // Request, Arrival, TransportOver

namespace gx::bench {

/// Between which ranks messages went that wait for a handshake.
class Handshakes {
public:
    void sent(int from, int to, std::int64_t bytes) {
        std::int64_t& largest = largest_[{from, to}];
        largest = std::max(largest, bytes);
    }
    /// Bytes of the largest where they went both ways between two ranks; 0: nowhere. Open MPI's
    /// handshake then waits behind the data of the other way, on the same connection, and the
    /// simulator's does not.
    [[nodiscard]] std::int64_t both_ways() const {
        std::int64_t largest = 0;
        for (const auto& [ends, bytes] : largest_)
            if (largest_.contains({ends.second, ends.first})) largest = std::max(largest, bytes);
        return largest;
    }

private:
    std::map<std::pair<int, int>, std::int64_t> largest_{};  ///< [from, to]
};

/// What is printed of predictions that may be too low. `reducers`: with the gradients' bytes;
/// `largest`: both_ways() of them all; `mpi`: "openmpi" or "mpich".
inline std::string handshake_note(const std::vector<std::string>& reducers,
                                  std::int64_t eager_bytes, std::int64_t largest,
                                  std::string_view mpi) {
    std::string note = fmt::format(
        "Predictions that may be too low: {}. Messages of more than --eager {} bytes, {} at most, "
        "go both ways between two hosts there",
        fmt::join(reducers, ", "), eager_bytes, largest);
    if (mpi != "openmpi") return note + ", and no handshake is predicted.";
    constexpr std::uint64_t least = 8 << 20, header = 1024;  // more than Open MPI's own
    const auto limit = std::max(least, std::bit_ceil(std::uint64_t(largest) + header));
    return note + fmt::format(
                      ", and Open MPI's handshake waits over TCP behind the data of the other way. "
                      "Start with mpirun --mca btl_tcp_eager_limit {0} and give --eager {0}.",
                      limit);
}

/// A rank's endpoint as an MPI over TCP has it: a send of up to `eager_bytes` is done when it is
/// posted, since MPI copies it, and the messages from one rank to another follow each other on one
/// connection, each at the rate of the whole connection.
template <class Endpoint>
class Connections : public TransportOver<Endpoint> {
public:
    Connections(Endpoint& under, std::int64_t eager_bytes, Handshakes& handshakes)
        : TransportOver<Endpoint>(under),
          eager_bytes_(eager_bytes),
          handshakes_(handshakes),
          to_(static_cast<std::size_t>(under.ranks())) {}

    Request send(int to, int channel, std::span<const std::byte> message) {
        if (static_cast<std::int64_t>(message.size()) > eager_bytes_) {
            handshakes_.sent(this->under().rank(), to, std::int64_t(message.size()));
            return this->under().send(to, channel, message);
        }
        Connection& c = to_[static_cast<std::size_t>(to)];
        c.messages.push_back({channel, {message.begin(), message.end()}});
        if (c.messages.size() == 1) start(to);
        return done;
    }
    Delivery wait(Request request) { return wait_any({&request, 1}).delivery; }
    Arrival wait_any(std::span<const Request> requests) {
        for (;;) {
            for (std::size_t i = 0; i < requests.size(); ++i)
                if (requests[i].id == done.id) return {i, {}};
            const Arrival arrival = wait_beside(requests);
            if (arrival.index < requests.size()) return arrival;
        }
    }
    /// Waits until all that was sent has arrived.
    void drain() {
        while (std::ranges::any_of(to_, [](const Connection& c) { return !c.messages.empty(); }))
            (void)wait_beside({});
    }

private:
    struct Message {
        int channel = 0;
        std::vector<std::byte> bytes{};
    };
    struct Connection {
        std::deque<Message> messages{};  // the first one is under way
        Request first{};
    };
    static constexpr Request done{0xffff'ffff};  // no ticket of the simulator

    void start(int to) {
        Connection& c = to_[static_cast<std::size_t>(to)];
        c.first = this->under().send(to, c.messages[0].channel, c.messages[0].bytes);
    }
    /// Until one of `requests` is done, or a connection is free for its next message; the index is
    /// then past the requests. No virtual time passes outside of waits, so it starts in time.
    Arrival wait_beside(std::span<const Request> requests) {
        std::vector<Request> all(requests.begin(), requests.end());
        std::vector<int> destinations;
        for (int to = 0; to < static_cast<int>(to_.size()); ++to) {
            const Connection& c = to_[static_cast<std::size_t>(to)];
            if (c.messages.empty()) continue;
            all.push_back(c.first);
            destinations.push_back(to);
        }
        const Arrival arrival = this->under().wait_any(all);
        if (arrival.index < requests.size()) return arrival;
        if (!arrival.delivery.complete()) throw Error("a simulated message is lost");
        const int to = destinations[arrival.index - requests.size()];
        Connection& c = to_[static_cast<std::size_t>(to)];
        c.messages.pop_front();
        if (!c.messages.empty()) start(to);
        return arrival;
    }

    std::int64_t eager_bytes_;
    Handshakes& handshakes_;
    std::vector<Connection> to_;
};

}  // namespace gx::bench
