// Messages and Transport: MPI's non-blocking messages, and MPI_Iallreduce beside them.
#pragma once

#include <atomic>    // what the monitor has heard
#include <chrono>    // deadlines
#include <cstddef>   // byte
#include <cstdint>   // uint32_t
#include <deque>     // requests
#include <memory>    // ranks that have left
#include <mutex>     // requests
#include <optional>  // a request that is done
#include <span>      // messages
#include <string>    // sentences
#include <vector>    // unused requests

#include <gx/coordination/node_memory.hpp>  // NodeMemory
#include <gx/coordination/session.hpp>      // Session
#include <gx/core/contract.hpp>             // GX_EXPECT
#include <gx/core/decl.hpp>                 // GX_DECL
#include <gx/core/element.hpp>              // ElementType
#include <gx/core/stream.hpp>               // Operation
#include <gx/core/transport.hpp>            // Request, Arrival, Placement
#include <gx/mpi/bucket_tags.hpp>           // BucketTags
#include <gx/mpi/call.hpp>                  // MPI
#include <gx/mpi/library_thread.hpp>        // in_library
#include <gx/memory/large_pages.hpp>        // LargePages
#include <gx/core/detail/patience.hpp>      // Patience

namespace gx::mpi {

struct TransportOptions {
    std::chrono::nanoseconds deadline = std::chrono::seconds(60);  ///< of one wait
    std::size_t piece_bytes = std::size_t{1} << 30;                ///< see JobOptions
    int tests_at_once = 1;  ///< of a wait, before its first pause
};

/// One process's messages of one run, by MPI_Isend and MPI_Irecv; its endpoints are Transports. No
/// wait is inside MPI: it tests, at first some times at once, then with pauses (Backoff), so that
/// progress is made by whichever thread waits, and the session's cause and the deadline are seen.
///
/// Wire:    the first channels have a communicator each, where the tag tells the message's bucket
///          (BucketTags), and receives take any tag: a message of another bucket is met and named.
///          On the channels behind them the tag is the channel.
/// Order:   as MPI's, which does not let messages that one receive could take overtake each other.
/// Errors:  once the session has a cause, no MPI function is called any more but MPI_Cancel, and
///          all waits return: Cause::outcome() where the cause's rank is their peer, else
///          `cancelled`. A wait that meets the deadline, or for 2 s has only needed ranks that have
///          left, blames its peer. gx::Error, which names both ranks, for a message of another
///          bucket than its receive, or of another length; for what MPI reports; for a channel
///          above MPI_TAG_UB.
/// Threads: as every Transport; MPI is called by in_library().
/// Cost:    no copy, and no allocation while as many requests are posted as were before. Beside a
///          failed rank MPI may still write to memory of receives: the process must end.
class Messages {
public:
    using Options = TransportOptions;
    static constexpr int channels_that_tell_buckets = 8;  ///< from 0: some more than rings in use

    /// `communicators`, `collectives`: duplicates of one communicator, whose errors return; they,
    /// the session and `shared` live longer. communicators[c] is channel c's; there is one more, of
    /// the channels that do not tell buckets. `shared`: memory shared by all ranks, or by the
    /// ranks of this machine, or nullptr.
    Messages(std::span<const MPI_Comm> communicators, MPI_Comm collectives, Placement placement,
             coordination::Session& session, const Options& options,
             coordination::NodeMemory* shared = nullptr);
    Messages(const Messages&) = delete;
    Messages& operator=(const Messages&) = delete;

    [[nodiscard]] int rank() const { return session_.rank(); }
    [[nodiscard]] int ranks() const { return session_.ranks(); }
    [[nodiscard]] Placement placement() const { return placement_; }
    [[nodiscard]] coordination::NodeMemory* shared() const { return shared_; }

    Request send(int to, int channel, std::span<const std::byte> message, MessageBucket bucket);
    Request receive(int from, int channel, std::span<std::byte> message, MessageBucket bucket);
    Arrival wait_any(std::span<const Request> requests);
    Delivery share(int channel, std::span<std::byte> mine, SharedWork work, MessageBucket bucket,
                   bool by_last = false) {
        GX_EXPECT(shared_ != nullptr, "the ranks of this world share no memory: use messages");
        return shared_->share(session_, options_.deadline, channel, mine, work, bucket, by_last);
    }

    /// What the rank does, for the sentence of a loss.
    void working_on(const Operation& operation);

    [[nodiscard]] Delivery all_reduce(void* values, std::size_t count, ElementType element);

    /// The session's cause, or the ranks that have left, may have changed. On its monitor.
    void hear();
    /// Moves messages of which no wait is under way: others may still receive what this rank sent.
    void progress();

private:
    struct Posted {
        MPI_Request request = MPI_REQUEST_NULL;
        int peer = -1, channel = 0;
        bool receiving = false;
        std::size_t bytes = 0;
        MessageBucket bucket{};
    };
    using Moment = std::chrono::steady_clock::time_point;
    using Patience = gx::detail::Patience;

    Request post(const Posted& posted, void* message);
    [[nodiscard]] Posted& at(Request request);
    [[nodiscard]] Posted& slot(Request request);  ///< under the lock
    void release(Request request);
    /// Tests once. Errors: gx::Error for a message of another length, and for what MPI reports.
    [[nodiscard]] std::optional<std::size_t> test(std::span<const Request> requests);
    /// Errors: gx::Error for what MPI reports, unless the session comes to have a cause.
    void expect_or_stop(int code, const char* call);
    void expect_tested(int code, const char* call, const Posted* posted, const MPI_Status& status);
    void expect_same_bucket(const Posted& posted, const MPI_Status& status);
    void expect_length(const Posted& posted, const MPI_Status& status);
    [[noreturn]] void refuse_length(const Posted& posted, const std::string& got);
    [[nodiscard]] bool only_needs_ranks_that_left(std::span<const Request> requests);
    [[nodiscard]] Arrival stopped(std::span<const Request> requests, bool late);
    [[nodiscard]] Operation operation();

    /// Whether the tags of a channel's messages tell their buckets.
    [[nodiscard]] static bool tells_buckets(int channel) {
        return channel < channels_that_tell_buckets;
    }

    std::vector<MPI_Comm> communicators_;
    MPI_Comm collectives_;
    Placement placement_;
    coordination::Session& session_;
    Options options_;
    coordination::NodeMemory* shared_;
    int tag_max_ = 0;
    BucketTags tags_;
    std::mutex mutex_{};  ///< of what follows
    std::deque<Posted> posted_{};
    std::vector<std::uint32_t> unused_{};
    Operation operation_{};
    std::atomic<bool> stopped_ = false;
    std::unique_ptr<std::atomic<bool>[]> left_;  ///< [rank]
};

/// A rank's endpoint of its Messages: a copy is the same one.
class Transport {
public:
    explicit Transport(Messages& messages) : messages_(&messages) {}

    [[nodiscard]] int rank() const { return messages_->rank(); }
    [[nodiscard]] int ranks() const { return messages_->ranks(); }
    [[nodiscard]] Placement placement() const { return messages_->placement(); }
    Request send(int to, int channel, std::span<const std::byte> message) {
        return messages_->send(to, channel, message, bucket_);
    }
    Request receive(int from, int channel, std::span<std::byte> message) {
        return messages_->receive(from, channel, message, bucket_);
    }
    Delivery wait(Request request) { return wait_any({&request, 1}).delivery; }
    Arrival wait_any(std::span<const Request> requests) { return messages_->wait_any(requests); }
    void working_on(const Operation& operation) { messages_->working_on(operation); }
    [[nodiscard]] Transport in_operation(const Operation& operation) const {
        Transport same = *this;
        same.bucket_ = MessageBucket(operation);
        return same;
    }

    [[nodiscard]] bool shares_memory() const {
        return machine_shares_memory() && messages_->shared()->ranks() == ranks();
    }
    [[nodiscard]] bool machine_shares_memory() const { return messages_->shared() != nullptr; }
    Delivery share(int channel, std::span<std::byte> mine, SharedWork work) {
        return messages_->share(channel, mine, work, bucket_);
    }
    Delivery share_by_last(int channel, std::span<std::byte> mine, SharedWork work) {
        return messages_->share(channel, mine, work, bucket_, true);
    }
    [[nodiscard]] bool shares_cores() const { return messages_->shared()->shares_cores(); }
    [[nodiscard]] MemoryResource* shared_buffers() const { return messages_->shared(); }
    [[nodiscard]] MemoryResource* message_buffers() const {
        static auto* const pages = new LargePages;  // kept: buffers may live to the very end
        return pages;
    }

    /// Sums over all ranks, in place, by MPI_Iallreduce. Every rank calls it with equal counts, one
    /// at a time. Elements of 16 bits are summed by an operation of ours: float, then E::encode.
    /// Errors: as wait(), but a deadline is a gx::Error: MPI does not say which rank is late. Nor
    ///         does MPI tell whether all ranks sum the same bucket.
    template <StandardElement E>
    [[nodiscard]] Delivery all_reduce(std::span<typename E::storage> values) {
        return messages_->all_reduce(values.data(), values.size(), element_type<E>);
    }

private:
    Messages* messages_;
    MessageBucket bucket_{};
};
static_assert(explain_transport<Transport>() && SharesMemory<Transport>);

}  // namespace gx::mpi

#if defined(GX_HEADER_ONLY)
#include <gx/mpi/impl/transport.ipp>
#endif
