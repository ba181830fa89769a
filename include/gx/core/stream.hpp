// Stream: a queue of work beside a rank's own, done in order; what overlaps, overlaps on streams.
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
};

/// A queue of tasks, run one after the other, beside the code that queues them: a thread, a fiber
/// in virtual time, a CUDA stream. `wait(e)` blocks the caller until the tasks up to `e` are done.
/// Threads: one rank queues and waits; the tasks run elsewhere.
template <class S>
concept Stream = requires(S& s, Task t, Event e) {
    { s.enqueue(t) } -> std::same_as<Event>;
    { s.wait(e) } -> std::same_as<void>;
};

/// What a piece of code does, for those who check or draw it: 'all-reduce bucket 3 of step 7'.
struct Operation {
    Label what{};
    std::int64_t step = -1;    ///< -1: of no step
    std::int64_t bucket = -1;  ///< -1: of the whole gradient
};

/// What an operation does to a stretch of memory.
enum class Access : unsigned char {
    begin,  ///< from here on it is a buffer of the operation's name, untouched so far
    read,
    write,
    end  ///< it is no buffer any more
};

/// A stream that is told who touches what and when, because it looks for missing waits or draws
/// what it does. `note` may throw gx::Error on begin, read and write, and not on end.
template <class S>
concept Watchful = requires(S& s, std::span<const std::byte> memory, const Operation& operation) {
    { s.note(Access::read, memory, operation) } -> std::same_as<void>;
};

/// Tells `stream` that the code which runs now touches `values`; nothing where it does not listen.
template <class S>
constexpr void note([[maybe_unused]] S& stream, [[maybe_unused]] Access access,
                    [[maybe_unused]] std::span<const float> values,
                    [[maybe_unused]] const Operation& operation) {
    if constexpr (Watchful<S>) stream.note(access, std::as_bytes(values), operation);
}

namespace archetype {
struct Stream {
    Event enqueue(Task);
    void wait(Event);
};
}  // namespace archetype
static_assert(Stream<archetype::Stream>);

}  // namespace gx
