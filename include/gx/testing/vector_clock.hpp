// VectorClock, AccessHistory: the happens-before order of accesses to memory.
#pragma once

#include <algorithm>  // max
#include <cstddef>    // size_t
#include <cstdint>    // uint32_t
#include <iterator>   // prev
#include <map>        // segments
#include <optional>   // a conflict
#include <utility>    // move
#include <vector>     // clocks

#include <gx/core/contract.hpp>  // GX_EXPECT
#include <gx/core/stream.hpp>    // Operation

namespace gx::testing {

/// A vector clock: for each actor, how many of its operations happened before this point.
/// Source: Fidge 1988, Mattern 1989; for races as in FastTrack, Flanagan and Freund 2009.
class VectorClock {
public:
    [[nodiscard]] std::uint32_t at(int actor) const {
        const auto i = static_cast<std::size_t>(actor);
        return i < counts_.size() ? counts_[i] : 0;
    }
    void advance(int actor) { ++slot(actor); }
    void raise(int actor, std::uint32_t count) { slot(actor) = std::max(slot(actor), count); }
    /// The maximum of both clocks, but for the count of `except`, which stays.
    void join(const VectorClock& other, int except = -1) {
        if (counts_.size() < other.counts_.size()) counts_.resize(other.counts_.size(), 0);
        for (std::size_t i = 0; i < other.counts_.size(); ++i)
            if (static_cast<int>(i) != except) counts_[i] = std::max(counts_[i], other.counts_[i]);
    }

private:
    std::uint32_t& slot(int actor) {
        const auto i = static_cast<std::size_t>(actor);
        if (i >= counts_.size()) counts_.resize(i + 1);
        return counts_[i];
    }
    std::vector<std::uint32_t> counts_{};
};

/// An access: its actor, the actor's count at that time, and the operation it was part of.
struct Touch {
    int actor = -1;  ///< -1: no access yet
    std::uint32_t count = 0;
    Operation operation{};
};

/// The last write to each byte of a buffer, and each actor's last read since then.
///
/// Cost: one segment for each range with equal accesses, as many as the program's own cuts; in each
///       at most one read for each actor. A write merges its range into one segment.
class AccessHistory {
public:
    /// An access that is not ordered before the one in question.
    struct Conflict {
        Touch before{};
        bool wrote = false;              ///< the earlier one
        std::size_t begin = 0, end = 0;  ///< bytes of the buffer that both touch
    };

    /// The first conflicting access to [begin, end) that did not happen before `seen`.
    [[nodiscard]] std::optional<Conflict> conflict(std::size_t begin, std::size_t end, bool write,
                                                   int actor, const VectorClock& seen) const {
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

    void add(std::size_t begin, std::size_t end, bool write, const Touch& touch) {
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

    [[nodiscard]] std::size_t segments() const { return segments_.size(); }

private:
    struct Segment {
        std::size_t end = 0;
        Touch write{};
        std::vector<Touch> reads{};
    };

    void cut(std::size_t where) {
        auto at = segments_.upper_bound(where);
        if (at == segments_.begin()) return;
        at = std::prev(at);
        if (at->first == where || at->second.end <= where) return;
        Segment tail = at->second;
        at->second.end = where;
        segments_.emplace(where, std::move(tail));
    }
    static void read(Segment& s, const Touch& touch) {
        for (Touch& t : s.reads)
            if (t.actor == touch.actor) {
                t = touch;
                return;
            }
        s.reads.push_back(touch);
    }

    std::map<std::size_t, Segment> segments_{};  // by their begin; they do not overlap
};

}  // namespace gx::testing
