// EventQueue: the wheel, the heap of instants, and the instant that is open.
#pragma once

#include <algorithm>  // heaps, sort
#include <bit>        // countr_zero
#include <utility>    // exchange

#include <gx/core/contract.hpp>        // GX_EXPECT
#include <gx/sim/des/event_queue.hpp>  // EventQueue

namespace gx::sim {

GX_DECL EventQueue::Index EventQueue::add_node(int rank, Task task) {
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

GX_DECL EventQueue::Entry EventQueue::take(Index node) {
    Node& n = nodes_[node];
    const Entry entry{open_, n.sequence, n.rank, n.task};
    n.next = free_;
    free_ = node;
    --size_;
    return entry;
}

GX_DECL void EventQueue::push(Nanoseconds time, int rank, Task task) {
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

GX_DECL void EventQueue::append(Index& head, Index node) {
    if (head == none) {
        head = node;
        return;
    }
    nodes_[nodes_[head].tail].next = node;
    nodes_[head].tail = node;
}

// The first taken slot from that of `open_` on, once around; slots before it are of later times.
GX_DECL Nanoseconds EventQueue::next_on_wheel() const {
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

GX_DECL EventQueue::Index EventQueue::take_slot(Nanoseconds time) {
    const auto slot = static_cast<std::uint64_t>(time.count() % slots);
    wheel_.taken[slot / 64] &= ~(std::uint64_t{1} << slot % 64);
    if (wheel_.taken[slot / 64] == 0)
        wheel_.words[slot / 4096] &= ~(std::uint64_t{1} << slot / 64 % 64);
    return std::exchange(wheel_.heads[slot], none);
}

GX_DECL EventQueue::Entry EventQueue::pop() {
    if (opened_ == ready_.size() && late_.empty()) {
        const Nanoseconds near = next_on_wheel();
        const Nanoseconds far = instants_.empty() ? Nanoseconds::max() : instants_.front().time;
        open_ = std::min(near, far);
        Index head = near == open_ ? take_slot(near) : none;
        if (head == none)
            head = pop_instant().head;  // the wheel is empty: near is the last instant
        const bool alone =
            nodes_[head].next == none && (instants_.empty() || instants_.front().time != open_);
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
GX_DECL void EventQueue::gather_ready(Index head) {
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

GX_DECL void EventQueue::push_instant(Instant instant) {
    std::size_t i = instants_.size();
    instants_.push_back(instant);
    while (i > 0 && instant.time < instants_[(i - 1) / 4].time) {
        instants_[i] = instants_[(i - 1) / 4];
        i = (i - 1) / 4;
    }
    instants_[i] = instant;
}

GX_DECL EventQueue::Instant EventQueue::pop_instant() {
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
