// Stream: a queue of tasks, done in order, that overlap with a rank's own work.
#pragma once

#include <concepts>  // same_as
#include <cstddef>   // byte
#include <cstdint>   // uint64_t
#include <span>      // memory

#include <gx/core/label.hpp>  // Label

namespace gx {

/// Work for a stream: a plain function and what it works on, so that queueing allocates nothing.
struct Task {
    void (*run)(void* context, std::uint64_t argument) = nullptr;
    void* context = nullptr;
    std::uint64_t argument = 0;
};

/// A point in a stream: reached when all work queued before it is done.
struct Event {
    std::uint64_t sequence = 0;
    int stream = 0;  ///< which of a rank's, where it has several; else which rank's
};

namespace detail::stream {
template <class S>
concept QueuesTasks = requires(S& s, Task t) {
    { s.enqueue(t) } -> std::same_as<Event>;
};
template <class S>
concept WaitsForEvents = requires(S& s, Event e) {
    { s.wait(e) } -> std::same_as<void>;
};
}  // namespace detail::stream

/// A queue of tasks, run one after the other, beside the code that queues them: a thread, a fiber
/// in virtual time, a CUDA stream. `wait(e)` blocks the caller until the tasks up to `e` are done.
/// Threads: one rank queues and waits; the tasks run elsewhere.
template <class S>
concept Stream = detail::stream::QueuesTasks<S> && detail::stream::WaitsForEvents<S>;

template <class S>
consteval bool explain_stream() {
    static_assert(detail::stream::QueuesTasks<S>,
                  "gx: not a Stream: no 'Event enqueue(Task)'. Reductions are queued behind the "
                  "computation with it. Fix: add it; return the event of that task.");
    static_assert(detail::stream::WaitsForEvents<S>,
                  "gx: not a Stream: no 'void wait(Event)'. A rank waits with it for the tasks up "
                  "to an event. Fix: add it.");
    return true;
}

/// Label of an operation for errors, race detection and traces: 'all-reduce bucket 3 of step 7'.
struct Operation {
    Label what{};
    std::int64_t step = -1;    ///< -1: of no step
    std::int64_t bucket = -1;  ///< -1: of the whole gradient
    Label part{};  ///< in progress, by Horovod's name where it has one: MEMCPY_IN_FUSION_BUFFER
    constexpr bool operator==(const Operation&) const = default;
};

/// Access of an operation to a range of memory.
enum class Access : unsigned char {
    begin,  ///< from here on it is a buffer of the operation's name, untouched so far
    read,
    write,
    end  ///< it is no buffer any more
};

/// A stream that records memory accesses, for race detection or traces. `note` may throw
/// gx::Error on begin, read and write, and not on end.
template <class S>
concept Watchful = requires(S& s, std::span<const std::byte> memory, const Operation& operation) {
    { s.note(Access::read, memory, operation) } -> std::same_as<void>;
};

/// Reports an access to `values`; no-op unless the stream models Watchful.
template <class S>
constexpr void note([[maybe_unused]] S& stream, [[maybe_unused]] Access access,
                    [[maybe_unused]] std::span<const float> values,
                    [[maybe_unused]] const Operation& operation) {
    if constexpr (Watchful<S>) stream.note(access, std::as_bytes(values), operation);
}

namespace archetype {
/// The least type that models Stream.
struct Stream {
    Event enqueue(Task);
    void wait(Event);
};
}  // namespace archetype
static_assert(explain_stream<archetype::Stream>());

}  // namespace gx
