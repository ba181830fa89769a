// CheckedTransport: a transport that checks how a reducer uses it.
#pragma once

#include <cstddef>        // byte
#include <cstdint>        // int64_t
#include <memory>         // unique_ptr
#include <optional>       // not strict
#include <span>           // messages
#include <unordered_map>  // open requests
#include <vector>         // copies of messages

#include <gx/core/decl.hpp>         // GX_DECL
#include <gx/testing/any_rank.hpp>  // AnyTransport

namespace gx::testing {

/// A message end that a rank posted, or its wait.
struct MessageEvent {
    enum class Kind : unsigned char { sent, received, waited };
    Kind kind = Kind::sent;
    int peer = -1, channel = -1;  ///< of a post
    std::uint32_t request = 0;
};

/// The messages that one rank posted.
struct MessageCounts {
    std::int64_t messages = 0;  ///< sends and receives
    std::int64_t bytes_sent = 0;
    int lowest_channel = 0, highest_channel = -1;
    int unfinished = 0;                  ///< requests posted and not waited for
    int changed_in_flight = 0;           ///< sends whose memory was written before their wait
    std::vector<MessageEvent> events{};  ///< in program order
};

/// The message rounds of one reduction, from the events of its ranks.
///
///     a message posted on a channel has the round after the last one waited for there: those that
///     are posted together, before any of their waits, share one
///     waiting for a received message counts the rounds of its sender too
///     the result is the highest round of any rank and channel
///
/// So a ring of n ranks has 2 (n - 1), and a star that sends to all ranks at once has 2. A round of
/// a schedule in which no rank sends is not counted.
/// `channels`: those in use are from 0 to channels - 1. Cost: O(events).
[[nodiscard]] GX_DECL int message_rounds(std::span<const MessageCounts> ranks, int channels);

/// Counts messages and forwards them. A strict one also makes misuse of memory visible, whatever
/// the timing: a receive fills its memory at its wait and not before (until then it holds bytes
/// `before_arrival`; 0xFF is a NaN in every element), and a send compares its memory at its wait
/// with what it sent. No thread but the caller's touches the caller's memory.
///
/// Cost: a strict one copies each message twice and allocates; the other only counts.
class CheckedTransport {
public:
    /// Strict if `before_arrival` has a value.
    explicit CheckedTransport(AnyTransport& link,
                              std::optional<std::byte> before_arrival = std::nullopt);

    [[nodiscard]] int rank() const { return link_.rank(); }
    [[nodiscard]] int ranks() const { return link_.ranks(); }
    [[nodiscard]] Placement placement() const { return link_.placement(); }
    Request send(int to, int channel, std::span<const std::byte> message);
    Request receive(int from, int channel, std::span<std::byte> message);
    Delivery wait(Request request) { return wait_any({&request, 1}).delivery; }
    Arrival wait_any(std::span<const Request> requests);
    [[nodiscard]] bool shares_memory() const { return link_.shares_memory(); }
    Delivery share(int channel, std::span<std::byte> mine, SharedWork work) {
        return link_.share(channel, mine, work);
    }

    /// The transport that it checks.
    [[nodiscard]] AnyTransport& under() { return link_; }
    /// Counts what a device's queue sends as one group, on channel 0: sends and receives, which are
    /// done together.
    void count_group(std::span<const MessageEvent> posted, std::int64_t bytes_sent);

    /// Waits for the requests that were left open, so that their memory can go away.
    void settle();
    /// What was posted since the last call.
    MessageCounts take_traffic();

private:
    struct Open {
        std::span<const std::byte> sent{};
        std::span<std::byte> received{};
        std::unique_ptr<std::vector<std::byte>> copy{};
    };
    void count(MessageEvent posted);

    AnyTransport& link_;
    std::optional<std::byte> before_arrival_;
    MessageCounts traffic_{};
    bool stopped_ = false;      ///< a wait has failed: those behind it are no events
    std::uint32_t groups_ = 0;  ///< messages of groups that were counted
    std::unordered_map<std::uint32_t, Open> open_{};
};
static_assert(SharesMemory<CheckedTransport>);

}  // namespace gx::testing

#if defined(GX_HEADER_ONLY)
#include <gx/testing/impl/checked_transport.ipp>
#endif
