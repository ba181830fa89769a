// VectorClock, AccessHistory: joins of clocks, segments of a buffer.
#pragma once

#include <algorithm>  // max
#include <cstddef>    // size_t
#include <cstdint>    // uint32_t
#include <iterator>   // prev
#include <optional>   // a conflict
#include <utility>    // move

#include <gx/core/contract.hpp>  // GX_EXPECT
#include <gx/testing/vector_clock.hpp>

namespace gx::testing {

GX_DECL void VectorClock::join(const VectorClock& other, int except) {
    if (counts_.size() < other.counts_.size()) counts_.resize(other.counts_.size(), 0);
    for (std::size_t i = 0; i < other.counts_.size(); ++i)
        if (static_cast<int>(i) != except) counts_[i] = std::max(counts_[i], other.counts_[i]);
}

GX_DECL std::uint32_t& VectorClock::slot(int actor) {
    const auto i = static_cast<std::size_t>(actor);
    if (i >= counts_.size()) counts_.resize(i + 1);
    return counts_[i];
}

GX_DECL std::optional<AccessHistory::Conflict> AccessHistory::conflict(
    std::size_t begin, std::size_t end, bool write, int actor, const VectorClock& seen) const {
    auto at = segments_.upper_bound(begin);
    if (at != segments_.begin()) --at;
    for (; at != segments_.end() && at->first < end; ++at) {
        const auto& [first, s] = *at;
        if (s.end <= begin) continue;
        const auto unknown = [&](const Touch& t) {
            return t.actor >= 0 && t.actor != actor && t.count > seen.at(t.actor);
        };
        const std::size_t from = std::max(begin, first), to = std::min(end, s.end);
        if (unknown(s.write)) return Conflict{s.write, true, from, to};
        if (!write) continue;
        for (const Touch& read : s.reads)
            if (unknown(read)) return Conflict{read, false, from, to};
    }
    return std::nullopt;
}

GX_DECL void AccessHistory::add(std::size_t begin, std::size_t end, bool write,
                                const Touch& touch) {
    GX_EXPECT(begin < end, "an access touches at least one byte");
    cut(begin);
    cut(end);
    const auto first = segments_.lower_bound(begin), last = segments_.lower_bound(end);
    if (write) {
        segments_.erase(first, last);
        segments_[begin] = {end, touch, {}};
        return;
    }
    std::size_t covered = begin;
    for (auto at = first; at != last; ++at) {
        if (at->first > covered) segments_[covered] = {at->first, {}, {touch}};
        read(at->second, touch);
        covered = at->second.end;
    }
    if (covered < end) segments_[covered] = {end, {}, {touch}};
}

GX_DECL void AccessHistory::cut(std::size_t where) {
    auto at = segments_.upper_bound(where);
    if (at == segments_.begin()) return;
    at = std::prev(at);
    if (at->first == where || at->second.end <= where) return;
    Segment tail = at->second;
    at->second.end = where;
    segments_.emplace(where, std::move(tail));
}

GX_DECL void AccessHistory::read(Segment& s, const Touch& touch) {
    for (Touch& t : s.reads)
        if (t.actor == touch.actor) {
            t = touch;
            return;
        }
    s.reads.push_back(touch);
}

}  // namespace gx::testing
