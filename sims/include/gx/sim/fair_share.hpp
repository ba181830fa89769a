// FairShare: weighted max-min fair rates of flows that share rooms, in integers.
#pragma once

#include <algorithm>  // heaps, sort
#include <cstdint>    // int64_t
#include <limits>     // numeric_limits
#include <span>       // answers
#include <vector>     // flat lists

namespace gx::sim {

/// Rates of the flows of one component: all grow together, each by its weight, until a room (what
/// a link has to give) is full or a cap is met; those flows stop there, the others grow on.
///
///     clear()
///     add_room(free, link)                           a room, numbered from 0
///     shares(room) ..., add_flow({...})              a flow, numbered from 0, and its rooms
///     begin_members(), add_member(flow) ..., end_members(room, kept)
///     solve(), then flows() and rooms()
///
/// Every flow has a cap or a room; a room's members are the flows that said that they share it.
/// A flow of which there are `count` is solved once: the others would be given the same.
///
/// Units:  rates of 1/1024 byte per second; a level is a rate for each unit of weight.
/// Order:  levels are rounded down, and all that is full at one level is known before a flow is
///         fixed there: no rate depends on the order in which rooms and flows are added.
/// Cost:   O(flows x rooms of a flow + rooms x log rooms), whatever their counts. Nothing is
///         allocated once the largest component has been seen.
/// Source: progressive filling as in Bertsekas and Gallager, Data Networks, section 6.5.2.
class FairShare {
public:
    using Rate = std::int64_t;
    static constexpr Rate unlimited = std::numeric_limits<Rate>::max();

    struct Room {
        Rate free = 0;
        std::int64_t weight = 0;                     // of the flows that still grow
        std::uint32_t members = 0, members_end = 0;  // in members_
        int link = 0;
    };
    struct Flow {
        Rate cap_level = unlimited;                // least of caps, a unit of weight
        Rate level = -1;                           // the answer; -1 while they grow
        std::uint32_t shared = 0, shared_end = 0;  // its rooms, in shared_
        int weight = 1, count = 1, slot = 0;
    };
    struct Share {  // what add_flow wants
        Rate cap_level = unlimited;
        int weight = 1, count = 1, slot = 0;
    };

    [[nodiscard]] static Rate level_of(Rate rate, std::int64_t weight) {
        return weight > 1 ? rate / weight : rate;  // divisions are what a solve would spend most on
    }

    void clear() {
        rooms_.clear();
        flows_.clear();
        members_.clear();
        shared_.clear();
        shared_begin_ = 0;
        least_cap_ = unlimited;
    }
    int add_room(Rate free, int link) {
        rooms_.push_back({.free = free, .link = link});
        return static_cast<int>(rooms_.size()) - 1;
    }
    /// The flow that is added next shares this room.
    void shares(int room) { shared_.push_back(room); }
    int add_flow(const Share& f) {
        least_cap_ = std::min(least_cap_, f.cap_level);
        const auto end = static_cast<std::uint32_t>(shared_.size());
        flows_.push_back({.cap_level = f.cap_level, .shared = shared_begin_, .shared_end = end,
                          .weight = f.weight, .count = f.count, .slot = f.slot});
        shared_begin_ = end;
        return static_cast<int>(flows_.size()) - 1;
    }
    void begin_members() {
        members_begin_ = static_cast<std::uint32_t>(members_.size());
        members_weight_ = 0;
    }
    void add_member(int flow) {
        members_.push_back(flow);
        const Flow& f = flows_[static_cast<std::size_t>(flow)];
        members_weight_ += std::int64_t{f.weight} * f.count;
    }
    /// The members since begin_members() are this room's; flows that do not grow keep so much.
    void end_members(int room, Rate kept) {
        Room& r = rooms_[static_cast<std::size_t>(room)];
        r.free -= kept;
        r.weight = members_weight_;
        r.members = members_begin_;
        r.members_end = static_cast<std::uint32_t>(members_.size());
    }
    void solve();

    [[nodiscard]] std::span<const Room> rooms() const { return rooms_; }  ///< `free`: what is left
    [[nodiscard]] std::span<const Flow> flows() const { return flows_; }  ///< and their levels

private:
    struct Level {  // at which a room is full, or, if its weight has changed, above which
        Rate level = 0;
        std::int64_t weight = 0;
        int room = 0;
    };
    struct Capped {
        Rate level = 0;
        int flow = 0;
    };

    static bool higher(const Level& a, const Level& b) { return a.level > b.level; }
    [[nodiscard]] static Rate share(const Room& r) {
        return r.weight > 0 ? r.free / r.weight : unlimited;
    }
    void fill_rooms(Rate level);
    Rate least_full_level();
    void replace_top(Level level);
    void meet_caps(Rate level);
    void fix(Flow& f, Rate level);

    std::vector<Room> rooms_{};
    std::vector<Flow> flows_{};
    std::vector<int> members_{}, shared_{};  // flows of each room, rooms of each flow
    std::vector<int> full_{};
    std::vector<Level> levels_{};   // a heap: the least first
    std::vector<Capped> capped_{};  // sorted, once a cap is met
    std::size_t growing_ = 0, next_capped_ = 0;
    std::int64_t members_weight_ = 0;
    std::uint32_t members_begin_ = 0, shared_begin_ = 0;
    Rate least_cap_ = unlimited;
};

// Rounds: the least level at which a room is full or a cap is met fixes the flows there. Levels
// only rise, so a room's level in the heap is a lower bound until it is at the top and looked at.
inline void FairShare::solve() {
    growing_ = flows_.size();
    capped_.clear();
    next_capped_ = 0;
    levels_.clear();
    for (const Room& r : rooms_)
        levels_.push_back({share(r), r.weight, static_cast<int>(levels_.size())});
    std::make_heap(levels_.begin(), levels_.end(), higher);
    while (growing_ > 0) {
        const Rate level = least_full_level();
        if (least_cap_ < level) meet_caps(level);
        else fill_rooms(level);
    }
}

inline void FairShare::fill_rooms(Rate level) {
    full_.clear();  // all of this level, before fixing a flow changes any
    while (least_full_level() == level) {
        full_.push_back(levels_.front().room);
        replace_top({unlimited, 0, levels_.front().room});
    }
    for (const int r : full_) {
        const Room& room = rooms_[static_cast<std::size_t>(r)];
        for (std::uint32_t m = room.members; m < room.members_end; ++m) {
            Flow& f = flows_[static_cast<std::size_t>(members_[m])];
            if (f.level < 0) fix(f, level);
        }
    }
}

inline FairShare::Rate FairShare::least_full_level() {
    while (!levels_.empty()) {
        const Level top = levels_.front();
        const Room& room = rooms_[static_cast<std::size_t>(top.room)];
        if (top.level == unlimited || room.weight == top.weight) return top.level;
        replace_top({share(room), room.weight, top.room});
    }
    return unlimited;
}

// The first of the heap becomes `level`, which is not below it, and sinks to its place.
inline void FairShare::replace_top(Level level) {
    std::size_t i = 0;
    for (std::size_t child = 1; child < levels_.size(); child = 2 * i + 1) {
        if (child + 1 < levels_.size() && levels_[child + 1].level < levels_[child].level) ++child;
        if (levels_[child].level >= level.level) break;
        levels_[i] = levels_[child];
        i = child;
    }
    levels_[i] = level;
}

// Fixes the flows whose cap is the least, if it is below `level`.
inline void FairShare::meet_caps(Rate level) {
    const auto flow = [&](std::size_t i) -> Flow& {
        return flows_[static_cast<std::size_t>(capped_[i].flow)];
    };
    if (capped_.empty()) {
        for (std::size_t i = 0; i < flows_.size(); ++i)
            if (flows_[i].level < 0)
                capped_.push_back({flows_[i].cap_level, static_cast<int>(i)});
        const auto lower = [](const Capped& a, const Capped& b) { return a.level < b.level; };
        if (!std::is_sorted(capped_.begin(), capped_.end(), lower))
            std::sort(capped_.begin(), capped_.end(), lower);
    }
    const auto skip_fixed = [&] {
        while (next_capped_ < capped_.size() && flow(next_capped_).level >= 0) ++next_capped_;
        least_cap_ = next_capped_ < capped_.size() ? capped_[next_capped_].level : unlimited;
    };
    skip_fixed();
    const Rate met = least_cap_;
    if (met >= level) return;
    while (least_cap_ == met) {
        fix(flow(next_capped_), met);
        skip_fixed();
    }
}

inline void FairShare::fix(Flow& f, Rate level) {
    f.level = level;
    --growing_;
    const std::int64_t weight = std::int64_t{f.weight} * f.count;
    for (std::uint32_t i = f.shared; i < f.shared_end; ++i) {
        Room& room = rooms_[static_cast<std::size_t>(shared_[i])];
        room.free -= level * weight;
        room.weight -= weight;
    }
}

}  // namespace gx::sim
