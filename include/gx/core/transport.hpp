// Transport: point-to-point messages between ranks, posted and waited for.
#pragma once

#include <cstddef>      // byte
#include <concepts>     // same_as
#include <cstdint>      // uint32_t, uint64_t
#include <span>         // messages, requests
#include <string_view>  // parts
#include <utility>      // as_const

#include <gx/core/error.hpp>         // Delivery
#include <gx/core/function_ref.hpp>  // FunctionRef
#include <gx/core/stream.hpp>        // Operation

namespace gx {

/// Machine and local rank of each rank, for ranks spread unevenly or not in order of machines.
struct NodeMap {
    std::span<const int> node{};        ///< of each rank; machines count from 0
    std::span<const int> local_rank{};  ///< of each rank: the number of lower ranks on its machine
};

/// Where ranks live. Regular: rank r is GPU r % ranks_per_machine of machine r / ranks_per_machine.
/// Ragged: `nodes` has both for each rank and must outlive all copies; ranks_per_machine is then 0.
struct Placement {
    int machines = 1;
    int ranks_per_machine = 1;
    const NodeMap* nodes = nullptr;  ///< nullptr: regular

    [[nodiscard]] constexpr bool regular() const { return nodes == nullptr; }
    [[nodiscard]] constexpr int ranks() const {
        return regular() ? machines * ranks_per_machine : static_cast<int>(nodes->node.size());
    }
    /// The machine of a rank, from 0.
    [[nodiscard]] constexpr int node_of(int rank) const {
        return regular() ? rank / ranks_per_machine : nodes->node[static_cast<std::size_t>(rank)];
    }
    /// The number of a rank among those of its machine, from 0.
    [[nodiscard]] constexpr int local_rank(int rank) const {
        return regular() ? rank % ranks_per_machine
                         : nodes->local_rank[static_cast<std::size_t>(rank)];
    }
    constexpr bool operator==(const Placement&) const = default;
};

/// Channels from here up carry control messages; reducers use the channels from 0. A simulated
/// network charges control messages at their own size, whatever model is timed.
inline constexpr int control_channel = 1000;

/// The bucket of a gradient that a message belongs to, in 8 bytes; by default of none.
/// Buckets from 2^24 - 1, and steps from 2^40, count from 0 again.
class MessageBucket {
public:
    constexpr MessageBucket() = default;
    constexpr explicit MessageBucket(const Operation& operation)
        : packed_(operation.step < 0 || operation.bucket < 0
                      ? 0
                      : static_cast<std::uint64_t>(operation.step) << index_bits |
                            (static_cast<std::uint64_t>(operation.bucket) % none + 1)) {}

    constexpr bool operator==(const MessageBucket&) const = default;
    [[nodiscard]] constexpr bool known() const { return packed_ != 0; }
    [[nodiscard]] constexpr std::uint64_t step() const { return packed_ >> index_bits; }
    [[nodiscard]] constexpr std::uint64_t index() const { return (packed_ & none) - 1; }
    /// Whether a send and a receive may be the ends of one message: of one bucket, if both know it.
    [[nodiscard]] friend constexpr bool meet(MessageBucket a, MessageBucket b) {
        return a.packed_ == b.packed_ || !a.known() || !b.known();
    }

private:
    static constexpr int index_bits = 24;
    static constexpr std::uint64_t none = (std::uint64_t{1} << index_bits) - 1;
    std::uint64_t packed_ = 0;
};

/// A message that was posted and not yet waited for.
struct Request {
    std::uint32_t id = 0;
};

/// Result of `wait_any`: which request is done, and its outcome.
struct [[nodiscard]] Arrival {
    std::size_t index = 0;
    Delivery delivery;
};

namespace detail::transport {
template <class T>
concept KnowsItsRank = requires(const T& t) {
    { t.rank() } -> std::same_as<int>;
    { t.ranks() } -> std::same_as<int>;
    { t.placement() } -> std::same_as<Placement>;
};
template <class T>
concept PostsMessages = requires(T& t, std::span<const std::byte> out, std::span<std::byte> in) {
    { t.send(int{}, int{}, out) } -> std::same_as<Request>;
    { t.receive(int{}, int{}, in) } -> std::same_as<Request>;
};
template <class T>
concept WaitsForMessages = requires(T& t, Request r, std::span<const Request> some) {
    { t.wait(r) } -> std::same_as<Delivery>;
    { t.wait_any(some) } -> std::same_as<Arrival>;
};
}  // namespace detail::transport

/// One rank's end of the network.
///
///     send(to, channel, message)       posts; `message` stays untouched until the wait
///     receive(from, channel, message)  posts; `message` is filled when the wait returns
///     wait(request)                    returns when that request is done, or at the deadline
///     wait_any(requests)               returns when one of them is done; that one is then spent
///
/// Order:  messages between two ranks on one channel arrive in the order of their posting; a
///         receive and its send have equal lengths. Channels are independent of each other.
/// Threads: one endpoint may be used from several threads as long as their channels differ.
/// Errors: a wait that meets its deadline returns `timed_out` and names the peer; so does one that
///         only ranks could complete whose functions have returned; one for a rank whose process
///         has ended returns `lost` at once, where ranks are processes (StreamOrdered transports:
///         `timed_out`, with the same rank). wait_any goes on while one of its requests can still
///         complete. Once a wait has failed the world stops, and those behind it may return
///         `cancelled`: the first one is that to report.
///
/// Optional: working_on(operation)  sets the operation that the next messages belong to, until the
///           next call. Processes report a lost rank with it; faults of a simulated cluster strike
///           in the reduction of a bucket. See working_on(link, operation).
///           operation()  returns it, where parts of it matter, as to a trace. See working_on_part.
///           message_buffers()  a MemoryResource of the host's memory, where messages are best read
///           from and written to. See message_buffers(link).
///           in_operation(operation)  the endpoint of the same rank for the messages of that
///           operation: of its bucket on both sides, or they break the contract. A message that
///           carries nothing but values, as in NCCL, can't tell. See in_operation.
template <class T>
concept Transport = detail::transport::KnowsItsRank<T> && detail::transport::PostsMessages<T> &&
                    detail::transport::WaitsForMessages<T>;

template <class T>
consteval bool explain_transport() {
    static_assert(detail::transport::KnowsItsRank<T>,
                  "gx: not a Transport: no 'int rank() const', 'int ranks() const' or "
                  "'gx::Placement placement() const'. A reducer asks where it runs. "
                  "Fix: add the three to the type.");
    static_assert(
        detail::transport::PostsMessages<T>,
        "gx: not a Transport: no 'Request send(int to, int channel, span<const byte>)' or "
        "'Request receive(int from, int channel, span<byte>)'. "
        "Fix: add both; they post and do not wait.");
    static_assert(detail::transport::WaitsForMessages<T>,
                  "gx: not a Transport: no 'Delivery wait(Request)' or "
                  "'Arrival wait_any(span<const Request>)'. "
                  "Fix: add both; a deadline is a result, not an exception.");
    return true;
}

/// Work on the memory that ranks share: all[r] is what rank r has published.
using SharedWork = FunctionRef<void(std::span<const std::span<std::byte>> all)>;

/// A transport whose ranks can reach one another's memory, as threads of a process do.
///
///     shares_memory()             whether they can, equal on all ranks: it may wrap any transport
///     share(channel, mine, work)  publishes `mine`. When every rank has called it, calls work(all)
///                                 on each, and returns when the work of all ranks has returned
///
/// Where shares_memory() is false and machine_shares_memory() true, those calls are of the ranks of
/// each machine of placement(): all[i] is of the machine's rank i.
///
/// Order:  what a rank wrote before share() is seen by every work, and what works wrote is seen
///         after share(). Works run at once: none writes what another reads or writes.
/// Errors: a rank that does not come, or fails first: as wait(), and no rank's work is called. Once
///         all have come nothing cancels it, so that no memory goes away under a work; of processes
///         a failed rank does, as one may be killed, and memory stays. An exception of a work
///         leaves its rank's share() after all works have returned.
/// Threads: `work` waits for nothing that another rank does.
///
/// Optional: machine_shares_memory()  whether ranks of one machine can, equal on all ranks
///           shared_buffers()  a MemoryResource of the host's memory: what lies elsewhere is copied
///           there and back by share(). See shared_buffers(link).
///           share_by_last(channel, mine, work)  as share(), but the last rank to come calls
///           work(all) for all of them: one meeting in place of two
///           shares_cores()  whether ranks take turns on cores, so that a meeting takes longer than
///           little work
template <class T>
concept SharesMemory =
    Transport<T> && requires(T& t, const T& c, std::span<std::byte> mine, SharedWork work) {
        { c.shares_memory() } -> std::same_as<bool>;
        { t.share(int{}, mine, work) } -> std::same_as<Delivery>;
    };

/// Whether the ranks of `link` can reach one another's memory.
template <Transport T>
[[nodiscard]] constexpr bool shares_memory([[maybe_unused]] const T& link) {
    if constexpr (SharesMemory<T>) return link.shares_memory();
    else return false;
}

/// Whether the ranks of each machine of `link` can reach one another's memory.
template <Transport T>
[[nodiscard]] constexpr bool machine_shares_memory([[maybe_unused]] const T& link) {
    if constexpr (SharesMemory<T> && requires { link.machine_shares_memory(); })
        return link.shares_memory() || link.machine_shares_memory();
    else return shares_memory(link);
}

/// Sets the operation in progress; no-op unless `link` has working_on(operation).
template <class T>
constexpr void working_on([[maybe_unused]] T& link, [[maybe_unused]] const Operation& operation) {
    if constexpr (requires { link.working_on(operation); }) link.working_on(operation);
    else
        static_assert(
            !requires { &T::working_on; },
            "gx: this transport's 'working_on' takes no 'const gx::Operation&', so errors "
            "would lack the operation in progress. Fix: give it that parameter.");
}

/// Sets the operation in progress, and returns the endpoint for its messages: of `link`'s type, by
/// value where it has in_operation(operation), else `link` itself.
template <class T>
[[nodiscard]] constexpr decltype(auto) in_operation(T& link, const Operation& operation) {
    working_on(link, operation);
    if constexpr (requires { link.in_operation(operation); }) {
        static_assert(std::same_as<decltype(link.in_operation(operation)), T>,
                      "gx: this transport's 'in_operation' returns another type, so reducers would "
                      "be compiled twice. Fix: let it return the transport's own type by value.");
        return link.in_operation(operation);
    } else {
        static_assert(
            !requires { &T::in_operation; },
            "gx: this transport's 'in_operation' takes no 'const gx::Operation&', so its "
            "messages would have no bucket. Fix: give it that parameter.");
        return (link);
    }
}

/// Sets the part of the operation in progress, "": none; no-op unless `link` has operation().
/// Reducers call it with spans that know neither step nor bucket, so the transport keeps these.
template <class T>
constexpr void working_on_part([[maybe_unused]] T& link, [[maybe_unused]] std::string_view part) {
    if constexpr (requires { link.operation(); }) {
        Operation now = link.operation();
        now.part = part;
        link.working_on(now);
    }
}

/// Base of a transport over another one: forwards the members of a Transport, the operation in
/// progress, and the queue of one that has it. A derived class writes those that differ; messages
/// of one without in_operation() are of no bucket.
template <class T>
class TransportOver {
public:
    explicit TransportOver(T& under) : under_(&under) {}

    [[nodiscard]] int rank() const { return under_->rank(); }
    [[nodiscard]] int ranks() const { return under_->ranks(); }
    [[nodiscard]] Placement placement() const { return under_->placement(); }
    Request send(int to, int channel, std::span<const std::byte> message) {
        return under_->send(to, channel, message);
    }
    Request receive(int from, int channel, std::span<std::byte> message) {
        return under_->receive(from, channel, message);
    }
    Delivery wait(Request request) { return under_->wait(request); }
    Arrival wait_any(std::span<const Request> requests) { return under_->wait_any(requests); }

    void working_on(const Operation& operation) { gx::working_on(*under_, operation); }
    [[nodiscard]] decltype(auto) operation() const
        requires requires(const T& t) { t.operation(); }
    {
        return std::as_const(*under_).operation();
    }
    [[nodiscard]] decltype(auto) queue()
        requires requires(T& t) { t.queue(); }
    {
        return under_->queue();
    }

protected:
    [[nodiscard]] T& under() const { return *under_; }

private:
    T* under_;
};

namespace archetype {
/// The least type that models Transport.
struct Transport {
    int rank() const;
    int ranks() const;
    Placement placement() const;
    Request send(int to, int channel, std::span<const std::byte> message);
    Request receive(int from, int channel, std::span<std::byte> message);
    Delivery wait(Request);
    Arrival wait_any(std::span<const Request>);
};
}  // namespace archetype
static_assert(explain_transport<archetype::Transport>());
static_assert(explain_transport<TransportOver<archetype::Transport>>());

}  // namespace gx
