// EventQueue: what happens when, in virtual time; ties go by rank, then by order of posting.
#pragma once

#include <algorithm>  // heaps, sort
#include <array>      // the wheel's bits, recent instants
#include <bit>        // countr_zero
#include <cstdint>    // int64_t, uint64_t
#include <tuple>      // tie
#include <utility>    // exchange
#include <vector>     // heaps, entries

#include <gx/core/contract.hpp>  // GX_EXPECT
#include <gx/core/stream.hpp>    // Task: what an event does
#include <gx/core/units.hpp>     // Nanoseconds

namespace gx::sim {

/// Events in the order of (time, rank, order of posting).
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
        std::vector<Index> heads = std::vector<Index>(slots, none);
        std::array<std::uint64_t, slots / 64> taken{};         // a bit a slot
        std::array<std::uint64_t, slots / 64 / 64> words{};    // a bit a word of `taken`
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

    std::vector<Node> nodes_{};
    Wheel wheel_{};
    std::vector<Instant> instants_{};  // heap of four children a node, least time first
    std::vector<Ready> ready_{};       // of the open instant, sorted; opened_ is the next
    std::vector<Ready> late_{};        // posted while it is open: a heap
    std::array<Instant, 64> recent_{};
    std::size_t opened_ = 0, size_ = 0;
    Nanoseconds open_{-1};
    Index free_ = none;
    std::uint64_t next_sequence_ = 0;
};

inline EventQueue::Index EventQueue::add_node(int rank, Task task) {
    Index node = free_;
    if (node == none) {
        node = static_cast<Index>(nodes_.size());
        nodes_.emplace_back();
    } else {
        free_ = nodes_[node].next;
    }
    nodes_[node] = {task, next_sequence_++, rank, none, node};
    return node;
}

inline EventQueue::Entry EventQueue::take(Index node) {
    Node& n = nodes_[node];
    const Entry entry{open_, n.sequence, n.rank, n.task};
    n.next = free_;
    free_ = node;
    --size_;
    return entry;
}

inline void EventQueue::push(Nanoseconds time, int rank, Task task) {
    GX_EXPECT(time >= open_, "an event cannot be posted before the last one that was popped");
    const Index node = add_node(rank, task);
    ++size_;
    if (time == open_) {
        late_.push_back({rank, node, nodes_[node].sequence});
        std::push_heap(late_.begin(), late_.end(), after);
        return;
    }
    if (on_wheel(time)) {
        const auto slot = static_cast<std::uint64_t>(time.count() % slots);
        append(wheel_.heads[slot], node);
        wheel_.taken[slot / 64] |= std::uint64_t{1} << slot % 64;
        wheel_.words[slot / 4096] |= std::uint64_t{1} << slot / 64 % 64;
        return;
    }
    const auto spread = static_cast<std::uint64_t>(time.count()) * 0x9e3779b97f4a7c15u;
    Instant& recent = recent_[spread >> 58];
    if (recent.time == time && recent.head != none) return append(recent.head, node);
    recent = {time, node};
    push_instant(recent);
}

inline void EventQueue::append(Index& head, Index node) {
    if (head == none) {
        head = node;
        return;
    }
    nodes_[nodes_[head].tail].next = node;
    nodes_[head].tail = node;
}

// The first taken slot from that of `open_` on, once around; slots before it are of later times.
inline Nanoseconds EventQueue::next_on_wheel() const {
    const std::int64_t now = std::max<std::int64_t>(open_.count(), 0);
    const auto first = static_cast<std::uint64_t>(now % slots);
    const auto time_of = [&](std::uint64_t slot) {
        const auto ahead = (static_cast<std::int64_t>(slot - first) + slots) % slots;
        return Nanoseconds(now + ahead);
    };
    const auto lowest = [](std::uint64_t bits) { return std::uint64_t(std::countr_zero(bits)); };
    const std::uint64_t here = wheel_.taken[first / 64] >> first % 64;
    if (here != 0) return time_of(first + lowest(here));
    const std::uint64_t word = first / 64 + 1;  // whole words from here, then around to the first
    for (std::uint64_t i = 0; i <= wheel_.words.size(); ++i) {
        const std::uint64_t block = (word / 64 + i) % wheel_.words.size();
        std::uint64_t bits = wheel_.words[block];
        if (i == 0) bits = word % 64 == 0 ? bits : bits >> word % 64 << word % 64;
        if (bits == 0) continue;
        const std::uint64_t found = block * 64 + lowest(bits);
        return time_of(found * 64 + lowest(wheel_.taken[found]));
    }
    return Nanoseconds::max();
}

inline EventQueue::Index EventQueue::take_slot(Nanoseconds time) {
    const auto slot = static_cast<std::uint64_t>(time.count() % slots);
    wheel_.taken[slot / 64] &= ~(std::uint64_t{1} << slot % 64);
    if (wheel_.taken[slot / 64] == 0)
        wheel_.words[slot / 4096] &= ~(std::uint64_t{1} << slot / 64 % 64);
    return std::exchange(wheel_.heads[slot], none);
}

inline EventQueue::Entry EventQueue::pop() {
    if (opened_ == ready_.size() && late_.empty()) {
        const Nanoseconds near = next_on_wheel();
        const Nanoseconds far = instants_.empty() ? Nanoseconds::max() : instants_.front().time;
        open_ = std::min(near, far);
        Index head = near == open_ ? take_slot(near) : pop_instant().head;
        const bool alone = nodes_[head].next == none &&
                           (instants_.empty() || instants_.front().time != open_);
        if (alone) return take(head);
        gather_ready(head);
    }
    const Ready ready = next_ready();
    if (opened_ < ready_.size() && ready_[opened_].node == ready.node) {
        ++opened_;
    } else {
        std::pop_heap(late_.begin(), late_.end(), after);
        late_.pop_back();
    }
    return take(ready.node);
}

// All events of the instant that is open: those of `head`, and of its lists in the heap.
inline void EventQueue::gather_ready(Index head) {
    ready_.clear();
    opened_ = 0;
    const auto add = [&](Index n) {
        for (; n != none; n = nodes_[n].next)
            ready_.push_back({nodes_[n].rank, n, nodes_[n].sequence});
    };
    add(head);
    while (!instants_.empty() && instants_.front().time == open_) add(pop_instant().head);
    auto rest = std::is_sorted_until(ready_.begin(), ready_.end(), before);
    if (ready_.end() - rest > 8) return std::sort(ready_.begin(), ready_.end(), before);
    for (; rest != ready_.end(); ++rest)  // a ring's rank 0 comes last
        std::rotate(std::upper_bound(ready_.begin(), rest, *rest, before), rest, rest + 1);
}

inline void EventQueue::push_instant(Instant instant) {
    std::size_t i = instants_.size();
    instants_.push_back(instant);
    while (i > 0 && instant.time < instants_[(i - 1) / 4].time) {
        instants_[i] = instants_[(i - 1) / 4];
        i = (i - 1) / 4;
    }
    instants_[i] = instant;
}

inline EventQueue::Instant EventQueue::pop_instant() {
    const Instant first = instants_.front();
    const Instant moved = instants_.back();
    instants_.pop_back();
    const std::size_t count = instants_.size();
    for (std::size_t i = 0; count > 0;) {
        std::size_t least = 4 * i + 1;
        const std::size_t end = std::min(least + 4, count);
        for (std::size_t c = least + 1; c < end; ++c)
            if (instants_[c].time < instants_[least].time) least = c;
        if (least >= count || instants_[least].time >= moved.time) {
            instants_[i] = moved;
            break;
        }
        instants_[i] = instants_[least];
        i = least;
    }
    return first;
}

}  // namespace gx::sim
