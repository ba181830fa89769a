// RaceDetector: finds data races by happens-before, in whatever order a run made the accesses.
#pragma once

#include <algorithm>  // clamp, max, min
#include <cstdint>    // uint64_t
#include <deque>      // tasks
#include <map>        // buffers
#include <optional>   // a conflict
#include <span>       // memory
#include <string>     // sentences
#include <vector>     // actors

#include <gx/core/decl.hpp>             // GX_DECL
#include <gx/core/error.hpp>            // Error
#include <gx/core/stream.hpp>           // Access, Operation
#include <gx/testing/vector_clock.hpp>  // VectorClock, AccessHistory

namespace gx::testing {

/// Two conflicting accesses to one memory that no wait orders.
class Race : public Error {
public:
    using Error::Error;
};

/// "all-reduce bucket 3 of step 7"
[[nodiscard]] GX_DECL std::string to_string(const Operation& o);

/// Happens-before by vector clocks over actors: a rank's function, its streams, and its GPU's copy
/// engines, which are streams of copies.
///
///     what an actor does             happens before
///     before it queues a task        that task
///     up to the end of a task        a wait for that task's event, or a later one's
///     before it sends a message      a wait for the matching receive
///
/// Two accesses to one byte of a rank's memory, one of them a write, where neither happens before
/// the other, are a data race: the second one throws. A simulated run has one order and may give
/// right numbers without the wait; the error does not depend on that order.
///
/// A message uses its memory from its posting to its wait. In that time any conflicting access is
/// a race, also one by the actor that posted it.
///
/// Between messages only registered buffers are checked (Access::begin to Access::end): other
/// memory may be freed and used again for something else.
///
/// Errors: `note` and `posted` throw Race: the rank, both operations with their streams, the
///         buffer and its bytes, and what to wait for.
/// Limits: of each stream the last events_kept(actors) events are exact: 4096 up to 64 actors, 64
///         from 512 on. An older event counts as the oldest of these: what the stream's own tasks
///         did stays exact for 4096 events, but what the stream learned from others in between
///         counts as known to the waiter, and a race with that is missed. No race is invented.
/// Cost:   a task, a wait or a message copies a clock of one count for each actor; kept events take
///         at most 64 MiB up to 512 actors. Besides that, AccessHistory's memory for each buffer.
class RaceDetector {
public:
    using Memory = std::span<const std::byte>;
    static constexpr std::size_t counts_kept = 4096;
    /// Events of one stream that are kept exactly, so that all of them fit in 2^24 counts.
    [[nodiscard]] static constexpr std::size_t events_kept(std::size_t actors) {
        return std::clamp<std::size_t>((std::size_t{1} << 24) / (actors * actors), 64, counts_kept);
    }

    explicit RaceDetector(int ranks);

    /// A rank's function; nothing happened before it.
    int add_function(int rank, Label name);
    /// A stream of `maker`'s rank; what its maker did until now happened before it.
    int add_stream(int maker, Label name);

    // ---- Streams ---------------------------------------------------------------------------
    void queued(int stream, int by);
    void begun(int stream);
    void ended(int stream);
    /// `by` waited for task number `sequence` of a stream, counted from 1.
    void waited(int stream, std::uint64_t sequence, int by);

    // ---- Memory ----------------------------------------------------------------------------
    void note(int actor, Access access, Memory memory, const Operation& operation);
    /// Whether every conflicting access by another actor happened before. Records nothing.
    [[nodiscard]] bool is_ordered(int actor, Access access, Memory memory);
    /// Registers, under `name`, what of `memory` lies in no buffer of the rank yet.
    void cover(int rank, Memory memory, const Label& name);

    // ---- Messages --------------------------------------------------------------------------
    /// `id` is the message end's until `waited_for` or `withdrawn`: any small number.
    void posted(int actor, std::size_t id, Access access, Memory memory, const Operation& what);
    /// The message of `send` arrived at `receive`.
    void delivered(std::size_t send, std::size_t receive);
    void waited_for(std::size_t id, int by);
    void withdrawn(std::size_t id) { close(id); }
    /// " of 'all-reduce bucket 3 of step 7'", or "" if no task posted it.
    [[nodiscard]] std::string part_of(std::size_t id) const;

    [[nodiscard]] std::uint64_t accesses() const { return accesses_; }

private:
    using Address = std::uintptr_t;
    struct Actor {
        int rank = 0;
        Label name{};
        bool is_stream = false;
        VectorClock clock{};
        Operation task{};                 ///< what its messages are part of
        std::deque<VectorClock> tasks{};  ///< of those queued and not begun: the queuer's clocks
        std::deque<VectorClock> ends{};   ///< of the last tasks
        std::deque<std::uint32_t> counts{};
        std::uint64_t done = 0;
    };
    struct Buffer {
        Address end = 0;
        Label name{};
        AccessHistory history{};
    };
    struct Message {
        int actor = -1;  ///< -1: not open
        Access access{};
        Address begin = 0, end = 0;
        Operation operation{}, task{};
        VectorClock known{};
    };
    struct Range {
        Address begin = 0, end = 0;
    };

    int start();
    Actor& at(int actor) { return actors_[static_cast<std::size_t>(actor)]; }
    const Actor& at(int actor) const { return actors_[static_cast<std::size_t>(actor)]; }
    VectorClock& clock(int actor) { return at(actor).clock; }
    static Range range(Memory m);
    std::map<Address, Buffer>::iterator first_buffer(int rank, Range r);
    template <class F>
    void for_buffers(int rank, Range r, F f) {
        auto& all = buffers_[static_cast<std::size_t>(rank)];
        for (auto at = first_buffer(rank, r); at != all.end() && at->first < r.end; ++at)
            f(at->second, at->first, std::max(r.begin, at->first) - at->first,
              std::min(r.end, at->second.end) - at->first);
    }
    void erase_buffers(int rank, Range r);
    void close(std::size_t id);
    void check(int actor, Range r, bool write, const Operation& operation, const Operation& task);
    void record(int actor, Range r, bool write, const Operation& operation);

    [[nodiscard]] std::string who(int actor, const Operation& operation,
                                  const Operation& task) const;
    [[noreturn]] void race(int actor, const std::string& now, bool writes, const std::string& then,
                           bool wrote, const std::string& bytes, const std::string& fix) const;
    [[nodiscard]] std::string bytes_of(int rank, Range r);
    [[nodiscard]] static std::string bytes(std::size_t begin, std::size_t end) {
        return "bytes " + std::to_string(begin) + " to " + std::to_string(end);
    }

    std::vector<Actor> actors_{};
    std::vector<std::map<Address, Buffer>> buffers_;  // by rank, then by begin
    std::vector<Message> messages_{};                 // by id
    std::vector<std::vector<std::size_t>> open_;      // by rank: ids
    std::uint64_t accesses_ = 0;
};

}  // namespace gx::testing

#if defined(GX_HEADER_ONLY)
#include <gx/testing/impl/race_detector.ipp>
#endif
