// EventQueue: what happens when, in virtual time; ties go by rank, then by order of posting.
#pragma once

#include <algorithm>  // push_heap, pop_heap
#include <cstdint>    // int64_t, uint64_t
#include <vector>     // the heap

#include <gx/core/stream.hpp>  // Task: what an event does
#include <gx/core/units.hpp>   // Nanoseconds

namespace gx::sim {

/// Order: (time, rank, order of posting), a total order, so that equal runs pop equal events.
/// Cost:  push and pop O(log n); nothing is allocated once the heap has seen its largest size.
class EventQueue {
public:
    struct Entry {
        Nanoseconds time{};
        std::uint64_t sequence = 0;
        int rank = 0;
        Task task{};
    };

    void push(Nanoseconds time, int rank, Task task) {
        heap_.push_back({time, next_sequence_++, rank, task});
        std::push_heap(heap_.begin(), heap_.end(), later);
    }
    Entry pop() {
        std::pop_heap(heap_.begin(), heap_.end(), later);
        const Entry first = heap_.back();
        heap_.pop_back();
        return first;
    }
    [[nodiscard]] bool empty() const { return heap_.empty(); }
    /// Whether an event posted now for (time, rank) would be the next to pop.
    [[nodiscard]] bool would_be_next(Nanoseconds time, int rank) const {
        return heap_.empty() || later(heap_.front(), {time, next_sequence_, rank, {}});
    }

private:
    static bool later(const Entry& a, const Entry& b) {
        if (a.time != b.time) return a.time > b.time;
        if (a.rank != b.rank) return a.rank > b.rank;
        return a.sequence > b.sequence;
    }

    std::vector<Entry> heap_{};
    std::uint64_t next_sequence_ = 0;
};

}  // namespace gx::sim
