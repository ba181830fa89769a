// WaitsForGraph: the bodies.
#pragma once

#include <algorithm>  // find, max, min, rotate, sort, upper_bound
#include <iterator>   // back_inserter
#include <utility>    // move, pair

#include <gx/coordination/waits_for_graph.hpp>  // the declarations

namespace gx::coordination {

GX_DECL Duration WaitsForGraph::Interval::length() const {
    return std::max(end - begin, Duration::zero());
}
GX_DECL auto WaitsForGraph::Interval::common(const Interval& other) const -> Interval {
    return {std::max(begin, other.begin), std::min(end, other.end)};
}

GX_DECL WaitsForGraph::WaitsForGraph(int ranks, Duration now)
    : begin_(now), end_(saturating_sum(now, patience)), nodes_(static_cast<std::size_t>(ranks)) {}

// ---- What comes -------------------------------------------------------------------------

GX_DECL void WaitsForGraph::blame(int rank, const Blamed& blamed, Duration now) {
    Node& of = node(rank);
    if (of.blamed != -1) return;
    blamers_.push_back(rank);
    of.blamed = blamed.peer;
    of.blamed_since = now - blamed.lasted;
    of.operation = blamed.operation;
}

GX_DECL void WaitsForGraph::answer(int rank, const Waiting& waiting, Duration now) {
    Node& of = node(rank);
    if (of.answered) return;
    of.answered = now;
    of.standstill.end = now - waiting.standstill.ago;
    of.standstill.begin = of.standstill.end - waiting.standstill.lasted;
    if (of.blamed == -1) of.operation = waiting.operation;
    for (const Wait& wait : waiting.waits) {
        std::vector<int> named;
        std::ranges::copy_if(wait.peers, std::back_inserter(named),
                             [](int peer) { return peer != any_rank; });
        const bool any = named.size() < wait.peers.size();
        const Duration since = now - wait.lasted;
        if (!named.empty()) of.waits.push_back({std::move(named), since});
        if (any) of.waits.push_back({{any_rank}, since});
    }
}

// ---- Search -----------------------------------------------------------------------------

// The wait by which it blames is the first: of those for that rank, the one that has lasted as long
// as it said. It stands alone where its answer has none. Then they are in the order of their ages.
GX_DECL void WaitsForGraph::put_in_order(Node& node) {
    // Few are inserted one by one: Clang calls std::stable_sort deprecated inside of libstdc++ 12.
    const auto begin = node.waits.begin();
    for (auto w = begin; w != node.waits.end(); ++w) {
        const auto later = std::ranges::upper_bound(begin, w, w->since, {}, &Edges::since);
        std::rotate(later, w, w + 1);
    }
    if (node.blamed == -1) return;
    auto met = node.waits.end();
    const auto off = [&](const Edges& w) {
        return std::max(w.since, node.blamed_since) - std::min(w.since, node.blamed_since);
    };
    for (auto w = node.waits.begin(); w != node.waits.end(); ++w)
        if (std::ranges::find(w->peers, node.blamed) != w->peers.end())
            if (met == node.waits.end() || off(*w) < off(*met)) met = w;
    if (met == node.waits.end()) {
        node.waits.insert(node.waits.begin(), {{node.blamed}, node.blamed_since});
    } else {
        met->since = std::min(met->since, node.blamed_since);
        const auto peer = std::ranges::find(met->peers, node.blamed);
        std::rotate(met->peers.begin(), peer, peer + 1);  // of which it knows most
        std::rotate(node.waits.begin(), met, met + 1);
    }
}

// Whether the search goes on behind it.
GX_DECL bool WaitsForGraph::waits(int rank) const {
    return at(rank).present && !at(rank).left && answered(rank) && !node(rank).waits.empty();
}

GX_DECL bool WaitsForGraph::has_just_stood_still(int rank) const {
    const Interval& i = node(rank).standstill;
    return !at(rank).left && i.length() > Duration::zero() && i.begin < begin_ &&
           begin_ - i.end <= patience;
}
GX_DECL bool WaitsForGraph::waited_before_standstill(int rank) const {
    const auto before = [&](const Edges& wait) { return wait.since < node(rank).standstill.begin; };
    return std::ranges::any_of(node(rank).waits, before);
}
// Whether the process of `rank` stood still for at least half of a wait of `waiter`, as that was
// when the first deadline was met.
GX_DECL bool WaitsForGraph::explains(int rank, int waiter, Duration since) const {
    if (rank == waiter || !has_just_stood_still(rank) || waited_before_standstill(rank))
        return false;
    const Interval both = node(rank).standstill.common({since, begin_});
    const Duration alone = both.length() - both.common(node(waiter).standstill).length();
    return alone > Duration::zero() && 2 * alone >= begin_ - since;
}

// Breadth first. An edge to any_rank leads to all other ranks, but to those that have left only
// where nothing else ends the search.
GX_DECL auto WaitsForGraph::search(int by) const -> Search {
    Search s{.by = by, .observers = std::vector<int>(nodes_.size(), of_no_rank)};
    std::vector<int> visited{by};
    std::vector<std::size_t> followed(nodes_.size());  // waits of each rank
    int waits_for_any = of_no_rank;
    const auto visit = [&](int r, int waiter, bool for_any) {
        const bool is_new = !s.visited(r);
        int& observer = s.observers[static_cast<std::size_t>(r)];
        if (observer == of_no_rank) observer = waiter;
        if (!waits(r)) s.end = r, s.end_is_certain = at(r).left ? !for_any : !answered(r);
        else if (is_new) visited.push_back(r);
    };
    const auto next_wait = [&](int r) -> const Edges* {
        const auto& all = node(r).waits;
        const std::size_t next = followed[static_cast<std::size_t>(r)];
        return next < all.size() ? &all[next] : nullptr;
    };
    const auto has_come = [&](int r) {  // to where all wait for any rank
        return std::ranges::any_of(node(r).waits,
                                   [](const Edges& w) { return w.peers.front() == any_rank; });
    };
    const auto hold_up = [&](int r, int waiter, Duration since) {
        if (s.held_up_by == of_no_rank && explains(r, waiter, since))
            s.held_up_by = r, s.held_up = waiter;
    };
    const auto follow = [&](int waiter) {
        const Edges* const wait = next_wait(waiter);
        if (wait == nullptr) return;
        ++followed[static_cast<std::size_t>(waiter)];
        if (wait->peers.front() != any_rank) {
            for (const int r : wait->peers) hold_up(r, waiter, wait->since);
            for (std::size_t i = 0; i < wait->peers.size() && s.end == of_no_rank; ++i)
                visit(wait->peers[i], waiter, false);
            return;
        }
        for (int r = 0; r < size(); ++r)
            if (!has_come(r)) hold_up(r, waiter, wait->since);
        if (waits_for_any == of_no_rank) waits_for_any = waiter;
        for (const bool waiting : {false, true})
            for (int r = 0; r < size() && s.end == of_no_rank; ++r)
                if (r != waiter && !at(r).left && waits(r) == waiting) visit(r, waiter, true);
    };
    const auto oldest = [&] {
        int found = of_no_rank;
        for (const int r : visited)
            if (const Edges* const wait = next_wait(r);
                wait != nullptr && (found == of_no_rank || wait->since < next_wait(found)->since))
                found = r;
        return found;
    };
    for (std::size_t i = 0; s.end == of_no_rank;) {
        const int waiter = i < visited.size() ? visited[i++] : oldest();
        if (waiter == of_no_rank) break;
        follow(waiter);
    }
    for (int r = 0; r < size() && waits_for_any != of_no_rank; ++r)
        if (s.end == of_no_rank && at(r).left && r != waits_for_any) visit(r, waits_for_any, true);
    return s;
}

// ---- Verdicts ---------------------------------------------------------------------------

GX_DECL auto WaitsForGraph::judge(std::vector<Rank> ranks, Duration now) -> Verdict {
    ranks_ = std::move(ranks);
    const auto left = [&](int r) { return at(r).left; };
    const auto stays = std::ranges::find_if_not(blamers_, left);
    const int by = stays == blamers_.end() ? blamers_.front() : *stays;
    for (int r = 0; r < size(); ++r) {
        if (left(r)) node(r).waits.clear();
        if (!left(r) || r == by) put_in_order(node(r));
    }
    const Search s = search(by);
    if (auto v = s.end_is_certain ? std::nullopt : verdict_on_standstill(s)) return *v;
    return s.end != of_no_rank ? verdict_on_end(s, now) : verdict_on_cycle(s);
}

GX_DECL auto WaitsForGraph::verdict(int rank, int observer, std::string remark) const -> Verdict {
    return {rank, observer, node(observer).operation, std::move(remark)};
}

GX_DECL auto WaitsForGraph::verdict_on_end(const Search& s, Duration now) const -> Verdict {
    std::string remark;
    if (at(s.end).present && !at(s.end).left && !answered(s.end))
        remark = ", nor anything at all for " + in_seconds(now - at(s.end).heard);
    return verdict(s.end, s.observers[static_cast<std::size_t>(s.end)], std::move(remark));
}

GX_DECL auto WaitsForGraph::verdict_on_standstill(const Search& s) const -> std::optional<Verdict> {
    const bool is_cycle = s.end == of_no_rank;
    int rank = s.held_up_by, observer = s.held_up;
    Duration longest{};
    for (int r = 0; r < size() && is_cycle && s.held_up_by == of_no_rank; ++r) {
        const int waiter = s.observers[static_cast<std::size_t>(r)];
        if (waiter == of_no_rank || !has_just_stood_still(r)) continue;
        const Interval& of = node(r).standstill;
        const Duration alone = of.length() - of.common(node(waiter).standstill).length();
        if (2 * alone >= of.length() && alone > longest)
            longest = alone, rank = r, observer = waiter;
    }
    if (rank == of_no_rank) return std::nullopt;
    return verdict(rank, observer,
                   ". Its process had stood still for " +
                       in_seconds(node(rank).standstill.length()) +
                       (is_cycle ? other_operations(s) : ""));
}

GX_DECL auto WaitsForGraph::verdict_on_cycle(const Search& s) const -> Verdict {
    const auto observer = [&](int r) { return s.observers[static_cast<std::size_t>(r)]; };
    const std::string remark = other_operations(s);
    std::vector<std::pair<Duration, int>> answers;
    for (int r = 0; r < size(); ++r)  // the root is asked last
        if (s.visited(r) && answered(r))
            answers.emplace_back(r == 0 ? begin_ : *node(r).answered, r);
    std::ranges::sort(answers);
    if (answers.size() > 1 && !read_late_) {
        const auto [last, rank] = answers.back();
        if (last - answers[answers.size() - 2].first >= lag && observer(rank) != of_no_rank)
            return verdict(
                rank, observer(rank),
                ". It answered later than the others, as if its process had stood still" + remark);
    }
    Verdict v = verdict(node(s.by).blamed, s.by, remark);
    if (v.rank != any_rank) return v;
    v.rank = s.by == 0 && size() > 1 ? 1 : 0;
    for (int r = size() - 1; r >= 0; --r)
        if (s.visited(r) && node(r).operation != node(s.by).operation) v.rank = r;
    return v;
}

// Of a cycle: what its ranks do, unless that is one operation.
GX_DECL std::string WaitsForGraph::other_operations(const Search& s) const {
    std::vector<std::pair<std::string, int>> found;  // and the first rank in it
    for (int r = 0; r < size(); ++r) {
        if (!s.visited(r)) continue;
        const std::string operation = describe(node(r).operation);
        if (std::ranges::find(found, operation, [](const auto& f) { return f.first; }) ==
            found.end())
            found.emplace_back(operation, r);
    }
    if (found.size() < 2) return "";
    std::string text = "; ranks wait for each other in different operations: ";
    for (std::size_t i = 0; i < std::min(found.size(), std::size_t{4}); ++i)
        text += (i > 0 ? ", rank " : "rank ") + std::to_string(found[i].second) + " in " +
                found[i].first;
    return text + ". A reducer must make the same reductions on all of them";
}

}  // namespace gx::coordination
