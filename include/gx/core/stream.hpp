// Stream: a queue of work beside a rank's own, done in order; what overlaps, overlaps on streams.
#pragma once

#include <concepts>  // same_as
#include <cstdint>   // uint64_t

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

namespace archetype {
struct Stream {
    Event enqueue(Task);
    void wait(Event);
};
}  // namespace archetype
static_assert(Stream<archetype::Stream>);

}  // namespace gx
