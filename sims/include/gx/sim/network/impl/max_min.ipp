// MaxMinSolver: progressive filling, level by level.
#pragma once

#include <algorithm>  // heaps, sort

#include <gx/sim/network/max_min.hpp>  // MaxMinSolver

namespace gx::sim {

// Rounds: the least level at which a link is full or a cap is met fixes the flows there. Levels
// only rise, so a link's level in the heap is a lower bound until it is at the top and looked at.
GX_DECL void MaxMinSolver::solve() {
    growing_ = flows_.size();
    capped_.clear();
    next_capped_ = 0;
    levels_.clear();
    for (const Link& r : links_)
        levels_.push_back({share(r), r.weight, static_cast<int>(levels_.size())});
    std::make_heap(levels_.begin(), levels_.end(), higher);
    while (growing_ > 0) {
        const Rate level = least_full_level();
        if (least_cap_ < level) meet_caps(level);
        else fill_links(level);
    }
}

GX_DECL void MaxMinSolver::fill_links(Rate level) {
    full_.clear();  // all of this level, before fixing a flow changes any
    while (least_full_level() == level) {
        full_.push_back(levels_.front().link);
        replace_top({unlimited, 0, levels_.front().link});
    }
    for (const int r : full_) {
        const Link& link = links_[static_cast<std::size_t>(r)];
        for (std::uint32_t m = link.members; m < link.members_end; ++m) {
            Flow& f = flows_[static_cast<std::size_t>(members_[m])];
            if (f.level < 0) fix(f, level);
        }
    }
}

GX_DECL MaxMinSolver::Rate MaxMinSolver::least_full_level() {
    while (!levels_.empty()) {
        const Level top = levels_.front();
        const Link& link = links_[static_cast<std::size_t>(top.link)];
        if (top.level == unlimited || link.weight == top.weight) return top.level;
        replace_top({share(link), link.weight, top.link});
    }
    return unlimited;
}

// The first of the heap becomes `level`, which is not below it, and sinks to its place.
GX_DECL void MaxMinSolver::replace_top(Level level) {
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
GX_DECL void MaxMinSolver::meet_caps(Rate level) {
    const auto flow = [&](std::size_t i) -> Flow& {
        return flows_[static_cast<std::size_t>(capped_[i].flow)];
    };
    if (capped_.empty()) {
        for (std::size_t i = 0; i < flows_.size(); ++i)
            if (flows_[i].level < 0) capped_.push_back({flows_[i].cap_level, static_cast<int>(i)});
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

GX_DECL void MaxMinSolver::fix(Flow& f, Rate level) {
    f.level = level;
    --growing_;
    const std::int64_t weight = std::int64_t{f.weight} * f.count;
    for (std::uint32_t i = f.shared; i < f.shared_end; ++i) {
        Link& link = links_[static_cast<std::size_t>(shared_[i])];
        link.free -= level * weight;
        link.weight -= weight;
    }
}

}  // namespace gx::sim
