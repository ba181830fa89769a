// VectorClock, AccessHistory: the happens-before order of accesses to memory.
#pragma once

#include <algorithm>  // max
#include <cstddef>    // size_t
#include <cstdint>    // uint32_t
#include <map>        // segments
#include <optional>   // a conflict
#include <vector>     // clocks

#include <gx/core/decl.hpp>    // GX_HEADER_ONLY
#include <gx/core/stream.hpp>  // Operation

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
    void join(const VectorClock& other, int except = -1);

private:
    std::uint32_t& slot(int actor);
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
                                                   int actor, const VectorClock& seen) const;

    void add(std::size_t begin, std::size_t end, bool write, const Touch& touch);

    [[nodiscard]] std::size_t segments() const { return segments_.size(); }

private:
    struct Segment {
        std::size_t end = 0;
        Touch write{};
        std::vector<Touch> reads{};
    };

    void cut(std::size_t where);
    static void read(Segment& s, const Touch& touch);

    std::map<std::size_t, Segment> segments_{};  // by their begin; they do not overlap
};

}  // namespace gx::testing

#if defined(GX_HEADER_ONLY)
#include <gx/testing/impl/vector_clock.ipp>
#endif
