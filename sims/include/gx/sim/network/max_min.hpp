// MaxMinSolver: weighted max-min fair rates of flows that share links, in integers.
#pragma once

#include <algorithm>  // min
#include <cstdint>    // int64_t
#include <limits>     // numeric_limits
#include <span>       // results

#include <gx/core/decl.hpp>            // GX_HEADER_ONLY
#include <gx/core/trivial_vector.hpp>  // flat lists

namespace gx::sim {

/// Progressive filling of one connected component: all rates grow together, each by its weight,
/// until a link is full or a cap is met; those flows stop there, the others grow on.
///
///     clear()
///     add_link(free, id)                             a link, numbered from 0
///     crosses(link) ..., add_flow({...})             a flow, numbered from 0, and its links
///     begin_members(), add_member(flow) ..., end_members(link, kept)
///     solve(), then flows() and links()
///
/// Every flow has a cap or a link; a link's members are the flows that cross it.
/// A flow of which there are `count` is solved once: the others would be given the same.
///
/// Units:  rates of 1/1024 byte per second; a level is a rate for each unit of weight.
/// Order:  levels are rounded down, and all that is full at one level is known before a flow is
///         fixed there: no rate depends on the order in which links and flows are added.
/// Cost:   O(flows x links of a flow + links x log links), whatever their counts. Nothing is
///         allocated once the largest component has been seen.
/// Source: progressive filling as in Bertsekas and Gallager, Data Networks, section 6.5.2.
class MaxMinSolver {
public:
    using Rate = std::int64_t;
    static constexpr Rate unlimited = std::numeric_limits<Rate>::max();

    struct Link {
        Rate free = 0;
        std::int64_t weight = 0;                     // of the flows that still grow
        std::uint32_t members = 0, members_end = 0;  // in members_
        int id = 0;                                  // the caller's
    };
    struct Flow {
        Rate cap_level = unlimited;                // least of caps, a unit of weight
        Rate level = -1;                           // the result; -1 while they grow
        std::uint32_t shared = 0, shared_end = 0;  // its links, in shared_
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
        links_.clear();
        flows_.clear();
        members_.clear();
        shared_.clear();
        shared_begin_ = 0;
        least_cap_ = unlimited;
    }
    int add_link(Rate free, int id) {
        links_.push_back({.free = free, .id = id});
        return static_cast<int>(links_.size()) - 1;
    }
    /// The flow that is added next shares this link.
    void crosses(int link) { shared_.push_back(link); }
    int add_flow(const Share& f) {
        least_cap_ = std::min(least_cap_, f.cap_level);
        const auto end = static_cast<std::uint32_t>(shared_.size());
        flows_.push_back({.cap_level = f.cap_level,
                          .shared = shared_begin_,
                          .shared_end = end,
                          .weight = f.weight,
                          .count = f.count,
                          .slot = f.slot});
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
    /// The members since begin_members() are this link's; flows that do not grow keep so much.
    void end_members(int link, Rate kept) {
        Link& r = links_[static_cast<std::size_t>(link)];
        r.free -= kept;
        r.weight = members_weight_;
        r.members = members_begin_;
        r.members_end = static_cast<std::uint32_t>(members_.size());
    }
    void solve();

    [[nodiscard]] std::span<const Link> links() const { return links_; }  ///< `free`: what is left
    [[nodiscard]] std::span<const Flow> flows() const { return flows_; }  ///< and their levels

private:
    struct Level {  // at which a link is full, or, if its weight has changed, above which
        Rate level = 0;
        std::int64_t weight = 0;
        int link = 0;
    };
    struct Capped {
        Rate level = 0;
        int flow = 0;
    };

    static bool higher(const Level& a, const Level& b) { return a.level > b.level; }
    [[nodiscard]] static Rate share(const Link& r) {
        return r.weight > 0 ? r.free / r.weight : unlimited;
    }
    void fill_links(Rate level);
    Rate least_full_level();
    void replace_top(Level level);
    void meet_caps(Rate level);
    void fix(Flow& f, Rate level);

    TrivialVector<Link> links_{};
    TrivialVector<Flow> flows_{};
    TrivialVector<int> members_{}, shared_{};  // flows of each link, links of each flow
    TrivialVector<int> full_{};
    TrivialVector<Level> levels_{};   // a heap: the least first
    TrivialVector<Capped> capped_{};  // sorted, once a cap is met
    std::size_t growing_ = 0, next_capped_ = 0;
    std::int64_t members_weight_ = 0;
    std::uint32_t members_begin_ = 0, shared_begin_ = 0;
    Rate least_cap_ = unlimited;
};

}  // namespace gx::sim

#if defined(GX_HEADER_ONLY)
#include <gx/sim/network/impl/max_min.ipp>
#endif
