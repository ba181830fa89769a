// Mesh: one process's ends of the sockets to every other rank, and its Transport over them.
#pragma once

#include <chrono>              // the deadline
#include <condition_variable>  // waits
#include <deque>               // posted messages, in order
#include <map>                 // requests by number
#include <mutex>               // one lock for a process's mail
#include <thread>              // the progress engine
#include <utility>             // exchange
#include <vector>              // links

#include <gx/core/decl.hpp>       // GX_DECL
#include <gx/core/transport.hpp>  // Request, Arrival, Placement

namespace gx::testing::detail::processes {

/// A file descriptor that is closed with its owner; -1: none.
class Descriptor {
public:
    Descriptor() = default;
    explicit Descriptor(int number) : number_(number) {}
    Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        std::swap(number_, other.number_);
        return *this;
    }
    ~Descriptor() { close(); }

    [[nodiscard]] int get() const { return number_; }
    [[nodiscard]] explicit operator bool() const { return number_ >= 0; }
    void close();

private:
    int number_ = -1;
};

/// Two connected stream sockets that are closed by exec.
/// Errors: gx::Error where the system has none left.
[[nodiscard]] GX_DECL std::pair<Descriptor, Descriptor> socket_pair();

/// Moment of the steady clock, which all processes of a machine share.
using Moment = std::chrono::steady_clock::time_point;

/// Why the ranks of a run stop.
struct Stop {
    int failed_rank = -1;  ///< that the others name
    int stopper = -1;      ///< the rank that noticed
    Moment when{};

    [[nodiscard]] bool stopped() const { return stopper >= 0; }
    /// Whether this is the first of two causes, in the same order on every rank.
    [[nodiscard]] bool before(const Stop& other) const {
        if (!other.stopped()) return stopped();
        return stopped() && std::pair(when, stopper) < std::pair(other.when, other.stopper);
    }
};

/// The messages of one process. A thread of its own, the progress engine, moves bytes and watches
/// the sockets; it also reads what no receive is posted for yet.
///
/// Order:  messages on one channel of a pair of ranks are matched in the order of their posting.
/// Errors: a socket that ends before its rank left is a lost rank: waits for it return `timed_out`
///         at once, all others `cancelled`, and both name it. A wait that meets the deadline, or
///         only needs ranks that have left, returns `timed_out` and stops all ranks; their waits
///         name the same rank, and return `timed_out` where it is their peer, else `cancelled`.
/// Cost:   a send is complete once the system has taken its bytes. What arrives before its receive
///         is kept in memory without a limit.
class Mesh {
public:
    /// `sockets[r]` leads to rank r; that of `rank` itself is not used. Deadlines of
    /// nanoseconds::max() are endless.
    /// Errors: gx::Error where the system has no descriptor or thread left.
    Mesh(int rank, Placement placement, std::vector<Descriptor> sockets,
         std::chrono::nanoseconds deadline);
    Mesh(const Mesh&) = delete;
    Mesh& operator=(const Mesh&) = delete;
    ~Mesh();

    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] Placement placement() const { return placement_; }

    Request send(int to, int channel, std::span<const std::byte> message);
    Request receive(int from, int channel, std::span<std::byte> message);
    Arrival wait_any(std::span<const Request> requests);

    /// Stops every rank because this one failed.
    void stop();
    /// What has stopped this rank first, as far as it knows.
    [[nodiscard]] Stop first_stop();
    /// Announces that this rank posts nothing more, and writes what is posted, up to the deadline.
    void leave();

private:
    enum class Kind : std::uint32_t { message, stop, leave };
    struct Header {
        Kind kind = Kind::message;
        std::int32_t channel = 0;
        std::uint64_t bytes = 0;
    };
    struct Posted {
        bool sending = false, done = false;
        int peer = -1, channel = 0;
        std::span<std::byte> target{};
    };
    struct Outgoing {
        Header header{};
        std::span<const std::byte> payload{};
        std::vector<std::byte> owned{};  ///< the payload, where no caller keeps it
        std::uint32_t request = 0;       ///< 0: of none
        std::size_t written = 0;         ///< bytes of header and payload
    };
    struct Incoming {
        Header header{};
        std::size_t got = 0;  ///< bytes of header and payload
        std::span<std::byte> target{};
        std::vector<std::byte> owned{};  ///< the target, where no receive is posted
        std::uint32_t request = 0;       ///< 0: of none
    };
    struct Early {
        int channel = 0;
        std::vector<std::byte> bytes{};
    };
    struct Link {
        Descriptor socket{};
        std::deque<Outgoing> out{};
        Incoming in{};
        std::deque<Early> early{};              ///< arrived, and no receive was posted
        std::deque<std::uint32_t> receiving{};  ///< posted, and not matched
        bool left = false, ended = false;       ///< lost: ended before it left
    };

    Link& link(int r) { return links_[static_cast<std::size_t>(r)]; }
    std::uint32_t take(Posted posted);
    void withdraw(std::uint32_t id);
    void push(int to, Outgoing out);
    void push_stop(int to);
    bool write_some(int to);
    bool read_some(int from);
    bool advance(int from, std::size_t bytes);
    void begin_payload(int from);
    void finish_frame(int from);
    void finish_message(Link& l, int channel, std::vector<std::byte> bytes);
    std::uint32_t unmatched(Link& l, int channel);
    void lose(int r);
    void stop_locked(const Stop& cause);
    bool resolved(std::span<const Request> requests, Arrival& arrival);
    void stop_if_hopeless(std::span<const Request> requests);
    void wake_engine();
    void work();

    int rank_;
    Placement placement_;
    std::chrono::nanoseconds deadline_;
    Descriptor wake_;
    std::mutex mutex_{};
    std::condition_variable changed_{};
    std::vector<Link> links_;
    std::map<std::uint32_t, Posted> posted_{};
    std::uint32_t last_request_ = 0;
    Stop stop_{};
    std::uint32_t timed_out_ = 0;  ///< the request whose wait stopped the ranks
    bool closing_ = false;
    std::thread engine_;
};

/// One rank's Transport over its process's mesh.
class Endpoint {
public:
    explicit Endpoint(Mesh& mesh) : mesh_(&mesh) {}

    [[nodiscard]] int rank() const { return mesh_->rank(); }
    [[nodiscard]] int ranks() const { return placement().ranks(); }
    [[nodiscard]] Placement placement() const { return mesh_->placement(); }
    Request send(int to, int channel, std::span<const std::byte> message) {
        return mesh_->send(to, channel, message);
    }
    Request receive(int from, int channel, std::span<std::byte> message) {
        return mesh_->receive(from, channel, message);
    }
    Delivery wait(Request request) { return wait_any({&request, 1}).delivery; }
    Arrival wait_any(std::span<const Request> requests) { return mesh_->wait_any(requests); }

private:
    Mesh* mesh_;
};
static_assert(explain_transport<Endpoint>());

}  // namespace gx::testing::detail::processes

#if defined(GX_HEADER_ONLY)
#include <gx/testing/impl/processes_mesh.ipp>
#endif
