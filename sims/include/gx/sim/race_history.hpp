// VectorClock, AccessHistory: who touched which bytes last, and whether that is known to be over.
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

namespace gx::sim {

/// How far each actor was when what it did became known here: one count for each actor.
/// Source: Fidge 1988, Mattern 1989; for races as in FastTrack, Flanagan and Freund 2009.
class VectorClock {
public:
    [[nodiscard]] std::uint32_t at(int actor) const {
        const auto i = static_cast<std::size_t>(actor);
        return i < counts_.size() ? counts_[i] : 0;
    }
    void advance(int actor) { ++slot(actor); }
    void raise(int actor, std::uint32_t count) {
        slot(actor) = std::max(slot(actor), count);
    }
    /// Knows from here on all that `other` knows, of `except` no more than before.
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

/// An access that was made: by whom, when on its own count, and as part of what.
struct Touch {
    int actor = -1;  ///< -1: nobody yet
    std::uint32_t count = 0;
    Operation operation{};
};

/// The last write to each byte of a buffer, and each actor's last read since.
///
/// Cost: one segment for each stretch that was touched alike, so as many as the program's own cuts;
///       in each at most one read for each actor. A write makes its stretch one segment again.
class AccessHistory {
public:
    /// Two accesses that nothing orders.
    struct Conflict {
        Touch before{};
        bool wrote = false;               ///< the earlier one
        std::size_t begin = 0, end = 0;  ///< bytes of the buffer that both touch
    };

    /// The first earlier access to [begin, end) that is not known to `seen` and would conflict.
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

}  // namespace gx::sim
