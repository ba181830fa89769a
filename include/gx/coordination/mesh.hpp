// Mesh: one process's sockets to every other rank, and its Transport over them.
#pragma once

#include <chrono>              // the deadline
#include <condition_variable>  // waits
#include <cstddef>             // byte
#include <cstdint>             // int64_t, uint32_t
#include <deque>               // posted messages, in order
#include <map>                 // requests by number
#include <mutex>               // one lock for a process's mail
#include <span>                // span
#include <string>              // hosts
#include <thread>              // the progress engine
#include <vector>              // links

#include <gx/coordination/node_memory.hpp>  // NodeMemory
#include <gx/coordination/session.hpp>      // Session, Descriptor
#include <gx/core/contract.hpp>             // GX_EXPECT
#include <gx/core/decl.hpp>                 // GX_DECL
#include <gx/core/stream.hpp>               // Operation
#include <gx/core/transport.hpp>            // Request, Arrival, Placement

namespace gx::coordination {

/// Moment of the steady clock, which all processes of a machine share.
using Moment = std::chrono::steady_clock::time_point;

/// The messages of one process. A thread of its own, the progress engine, moves bytes; it also
/// reads what no receive is posted for yet. What happens to ranks comes by the session, never by
/// the end of a mesh socket.
///
/// Order:  messages on one channel of a pair of ranks are matched in the order of their posting.
/// Errors: once the session has a cause all waits end and name its rank: with Cause::outcome()
///         where it is their peer, else with `cancelled`. A wait that meets the deadline,
///         or only needs ranks that have left, blames its peer, and returns `timed_out`. What a
///         lost rank had sent still arrives.
/// Cost:   a send is complete once the system has taken its bytes. What arrives before its receive
///         is kept in memory without a limit.
class Mesh {
public:
    /// `sockets[r]` leads to rank r; that of the session's own rank is not used. Deadlines of
    /// nanoseconds::max() are endless. The session lives longer.
    /// Errors: gx::Error where the system has no descriptor or thread left.
    /// `shared`: memory of all its ranks, which are of one machine; nullptr: they have none.
    Mesh(Placement placement, std::vector<Descriptor> sockets, std::chrono::nanoseconds deadline,
         Session& session, NodeMemory* shared = nullptr);
    Mesh(const Mesh&) = delete;
    Mesh& operator=(const Mesh&) = delete;
    ~Mesh();

    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] Placement placement() const { return placement_; }
    [[nodiscard]] Session& session() { return session_; }
    [[nodiscard]] NodeMemory* shared() const { return shared_; }
    Delivery share(int channel, std::span<std::byte> mine, SharedWork work, MessageBucket bucket,
                   bool by_last = false) {
        GX_EXPECT(shared_ != nullptr, "the ranks of this mesh share no memory: use messages");
        return shared_->share(session_, deadline_, channel, mine, work, bucket, by_last);
    }

    Request send(int to, int channel, std::span<const std::byte> message, MessageBucket bucket);
    Request receive(int from, int channel, std::span<std::byte> message, MessageBucket bucket);
    Arrival wait_any(std::span<const Request> requests);

    /// Writes what is posted, up to the deadline, and then nothing more.
    void leave();

private:
    struct Header {
        std::int64_t channel = 0;
        std::uint64_t bytes = 0;
        MessageBucket bucket{};
    };
    struct Posted {
        bool sending = false, done = false;
        int peer = -1, channel = 0;
        MessageBucket bucket{};
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
        bool dropped = false;            ///< the receive that it met was given up
    };
    struct Early {
        int channel = 0;
        MessageBucket bucket{};
        std::vector<std::byte> bytes{};
    };
    struct Link {
        Descriptor socket{};
        std::deque<Outgoing> out{};
        Incoming in{};
        std::deque<Early> early{};              ///< arrived, and no receive was posted
        std::deque<std::uint32_t> receiving{};  ///< posted, and not matched
        bool left = false;                      ///< its rank's function has returned
        bool ended = false;                     ///< nothing more comes from it
    };

    Link& link(int r) { return links_[static_cast<std::size_t>(r)]; }
    std::uint32_t take(Posted posted);
    void withdraw(std::uint32_t id);
    void push(int to, Outgoing out);
    bool write_some(int to);
    bool read_some(int from);
    bool advance(int from, std::size_t bytes);
    void begin_payload(int from);
    void finish_frame(int from);
    void finish_message(Link& l, Early message);
    void expect_meeting(const Posted& receive, MessageBucket bucket, std::size_t bytes) const;
    std::uint32_t unmatched(Link& l, int channel);
    void end_reading(int r);
    void end_writing(int r);
    void hear();
    void blame(Request request, const WaitsFor* by = nullptr);
    bool resolved(std::span<const Request> requests, Arrival& arrival, bool drained);
    void blame_if_hopeless(std::span<const Request> requests);
    void work();

    Session& session_;
    NodeMemory* shared_;
    int rank_;
    Placement placement_;
    std::chrono::nanoseconds deadline_;
    Waker waker_{};  ///< of the engine
    std::mutex mutex_{};
    std::condition_variable changed_{};
    std::vector<Link> links_;
    std::map<std::uint32_t, Posted> posted_{};
    std::uint32_t last_request_ = 0;
    Cause stop_{};
    std::uint32_t timed_out_ = 0;  ///< the request whose wait blamed its peer
    bool blamed_ = false;
    bool closing_ = false;
    std::thread engine_;
};

/// Sockets to all other ranks, by rank, for a Mesh. Every rank calls it, once all have joined.
/// `host`: of this rank, as the others reach it; an IPv6 address in brackets.
/// Errors: gx::Error where one is not connected within `limit`, or the session has a cause.
[[nodiscard]] GX_DECL std::vector<Descriptor> connect_all(Session& session, const std::string& host,
                                                          Duration limit);

/// One rank's Transport over its process's mesh.
class MeshEndpoint {
public:
    explicit MeshEndpoint(Mesh& mesh) : mesh_(&mesh) {}

    [[nodiscard]] int rank() const { return mesh_->rank(); }
    [[nodiscard]] int ranks() const { return placement().ranks(); }
    [[nodiscard]] Placement placement() const { return mesh_->placement(); }
    Request send(int to, int channel, std::span<const std::byte> message) {
        return mesh_->send(to, channel, message, bucket_);
    }
    Request receive(int from, int channel, std::span<std::byte> message) {
        return mesh_->receive(from, channel, message, bucket_);
    }
    Delivery wait(Request request) { return wait_any({&request, 1}).delivery; }
    Arrival wait_any(std::span<const Request> requests) { return mesh_->wait_any(requests); }
    /// What the rank does, for the sentence of a loss.
    void working_on(const Operation& operation) { mesh_->session().working_on(operation); }
    [[nodiscard]] MeshEndpoint in_operation(const Operation& operation) const {
        MeshEndpoint same = *this;
        same.bucket_ = MessageBucket(operation);
        return same;
    }
    [[nodiscard]] bool shares_memory() const { return mesh_->shared() != nullptr; }
    Delivery share(int channel, std::span<std::byte> mine, SharedWork work) {
        return mesh_->share(channel, mine, work, bucket_);
    }
    Delivery share_by_last(int channel, std::span<std::byte> mine, SharedWork work) {
        return mesh_->share(channel, mine, work, bucket_, true);
    }
    [[nodiscard]] bool shares_cores() const { return mesh_->shared()->shares_cores(); }
    [[nodiscard]] MemoryResource* shared_buffers() const { return mesh_->shared(); }

private:
    Mesh* mesh_;
    MessageBucket bucket_{};
};
static_assert(explain_transport<MeshEndpoint>() && SharesMemory<MeshEndpoint>);

}  // namespace gx::coordination

#if defined(GX_HEADER_ONLY)
#include <gx/coordination/impl/mesh.ipp>
#endif
