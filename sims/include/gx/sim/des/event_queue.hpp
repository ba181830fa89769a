// EventQueue: priority queue of events by time; ties by rank, then by order of posting.
#pragma once

#include <algorithm>  // min
#include <array>      // the wheel's bits, recent instants
#include <cstdint>    // int64_t, uint64_t
#include <tuple>      // tie

#include <gx/core/decl.hpp>            // GX_HEADER_ONLY
#include <gx/core/stream.hpp>          // Task: what an event does
#include <gx/core/trivial_vector.hpp>  // flat lists
#include <gx/core/units.hpp>           // Nanoseconds

namespace gx::sim {

/// Priority queue of events in the order of (time, rank, order of posting).
///
/// Simulated ranks move nearly in step: many events share an instant, or a few microseconds. So the
/// events of one instant are a list. The instants of the next 32 us have a slot each on a wheel,
/// with bits that say which are taken; later ones are in a heap, whose lists are found through a
/// small table of recent instants, so that an instant may have several lists. When an instant
/// comes its lists are merged and sorted, which is a walk where events were posted by rank.
///
/// Order:  a total order, so that equal runs pop equal events.
/// Errors: an event earlier than the last one popped breaks the contract.
/// Cost:   push and pop O(1) within 32 us or an instant, else O(log n) for n instants; nothing is
///         allocated once the largest number of pending events has been seen.
/// Source: timing wheels as in Varghese and Lauck 1987, doi:10.1145/37499.37504.
class EventQueue {
public:
    struct Entry {
        Nanoseconds time{};
        std::uint64_t sequence = 0;
        int rank = 0;
        Task task{};
    };

    void push(Nanoseconds time, int rank, Task task);
    Entry pop();
    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] bool empty() const { return size_ == 0; }
    /// Whether an event posted now for (time, rank) is known to be the next to pop; false where
    /// the next instant is `time` too, whatever the ranks.
    [[nodiscard]] bool would_be_next(Nanoseconds time, int rank) const {
        if (opened_ < ready_.size() || !late_.empty())
            return time < open_ || (time == open_ && rank < next_ready().rank);
        return time < next_instant();
    }

private:
    using Index = std::uint32_t;
    static constexpr Index none = ~Index{0};
    struct Node {
        Task task{};
        std::uint64_t sequence = 0;
        int rank = 0;
        Index next = none;  // in the list of the instant, or of free nodes
        Index tail = none;  // of the list; in its first node only
    };
    struct Instant {
        Nanoseconds time{};
        Index head = none;
    };
    static constexpr std::int64_t slots = 1 << 15;  // of the wheel, a nanosecond each
    struct Wheel {
        TrivialVector<Index> heads = TrivialVector<Index>(slots, none);
        std::array<std::uint64_t, slots / 64> taken{};       // a bit a slot
        std::array<std::uint64_t, slots / 64 / 64> words{};  // a bit a word of `taken`
    };
    struct Ready {  // an event of the instant that is open
        int rank = 0;
        Index node = none;
        std::uint64_t sequence = 0;
    };

    static bool before(const Ready& a, const Ready& b) {
        return std::tie(a.rank, a.sequence) < std::tie(b.rank, b.sequence);
    }
    static bool after(const Ready& a, const Ready& b) { return before(b, a); }
    [[nodiscard]] const Ready& next_ready() const {
        if (opened_ == ready_.size()) return late_.front();
        if (late_.empty() || before(ready_[opened_], late_.front())) return ready_[opened_];
        return late_.front();
    }
    Index add_node(int rank, Task task);
    Entry take(Index node);
    void append(Index& head, Index node);
    [[nodiscard]] bool on_wheel(Nanoseconds time) const {
        return time.count() >= 0 && time.count() - slots < open_.count();
    }
    [[nodiscard]] Nanoseconds next_on_wheel() const;
    [[nodiscard]] Nanoseconds next_instant() const {
        const Nanoseconds near = next_on_wheel();
        return instants_.empty() ? near : std::min(near, instants_.front().time);
    }
    Index take_slot(Nanoseconds time);
    void gather_ready(Index head);
    void push_instant(Instant instant);
    Instant pop_instant();

    TrivialVector<Node> nodes_{};
    Wheel wheel_{};
    TrivialVector<Instant> instants_{};  // heap of four children a node, least time first
    TrivialVector<Ready> ready_{};       // of the open instant, sorted; opened_ is the next
    TrivialVector<Ready> late_{};        // posted while it is open: a heap
    std::array<Instant, 64> recent_{};
    std::size_t opened_ = 0, size_ = 0;
    Nanoseconds open_{-1};
    Index free_ = none;
    std::uint64_t next_sequence_ = 0;
};

}  // namespace gx::sim

#if defined(GX_HEADER_ONLY)
#include <gx/sim/des/impl/event_queue.ipp>
#endif
