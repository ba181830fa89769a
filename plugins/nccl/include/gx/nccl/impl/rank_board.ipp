// RankBoard: counts, and the ranks that they point to.
#pragma once

#include <algorithm>  // find_if, stable_sort
#include <numeric>    // iota

#include <gx/nccl/rank_board.hpp>  // the declarations

namespace gx::nccl {

namespace detail {
inline std::size_t at(int i) { return static_cast<std::size_t>(i); }
}  // namespace detail

GX_DECL RankBoard::RankBoard(int ranks, std::function<void(int)> on_loss)
    : left_(detail::at(ranks)),
      computes_(detail::at(ranks)),
      answered_(detail::at(ranks)),
      on_loss_(std::move(on_loss)) {
    std::vector<int> all(detail::at(ranks));
    std::iota(all.begin(), all.end(), 0);
    ledgers_.push_back(std::make_unique<GroupLedger>(std::move(all)));
}

// ---- Groups ------------------------------------------------------------------------------------

GX_DECL void RankBoard::divides(int ledger, int split, int rank, int color, int key) {
    const std::lock_guard lock(mutex_);
    Division& d = divisions_[{ledger, split}];
    d.places.resize(at(ledger).members.size());
    d.places[detail::at(rank)] = {color, key};
}

GX_DECL int RankBoard::part(int ledger, int split, int color) {
    const std::lock_guard lock(mutex_);
    Division& d = divisions_[{ledger, split}];
    const auto [found, is_new] = d.ledgers.try_emplace(color, static_cast<int>(ledgers_.size()));
    if (!is_new) return found->second;
    std::vector<int> ranks;  // of `ledger`
    for (int r = 0; r < std::ssize(d.places); ++r)
        if (d.places[detail::at(r)].color == color) ranks.push_back(r);
    std::ranges::stable_sort(ranks, {}, [&](int r) { return d.places[detail::at(r)].key; });
    for (int& r : ranks) r = at(ledger).members[detail::at(r)];
    ledgers_.push_back(std::make_unique<GroupLedger>(std::move(ranks)));
    return found->second;
}

GX_DECL void RankBoard::joins(int ledger, int rank) {
    const std::lock_guard lock(mutex_);
    at(ledger).joined[detail::at(rank)] = true;
}

// ---- What each has queued ----------------------------------------------------------------------

GX_DECL void RankBoard::sends(int ledger, int rank, int to) {
    const std::lock_guard lock(mutex_);
    GroupLedger& l = at(ledger);
    ++l.sends[detail::at(rank * l.ranks() + to)];
}
GX_DECL void RankBoard::receives(int ledger, int rank, int from) {
    const std::lock_guard lock(mutex_);
    GroupLedger& l = at(ledger);
    ++l.receives[detail::at(rank * l.ranks() + from)];
}
GX_DECL void RankBoard::takes_part(int ledger, int rank) {
    const std::lock_guard lock(mutex_);
    ++at(ledger).collectives[detail::at(rank)];
}
GX_DECL void RankBoard::computes(int world_rank, bool computes) {
    const std::lock_guard lock(mutex_);
    computes_[detail::at(world_rank)] = computes;
}

// ---- Who is missing ----------------------------------------------------------------------------

GX_DECL void RankBoard::ask() {
    const std::lock_guard lock(mutex_);
    asked_ = true;
}
GX_DECL void RankBoard::answer(int world_rank) {
    const std::lock_guard lock(mutex_);
    answered_[detail::at(world_rank)] = asked_;
}
GX_DECL int RankBoard::silent(int world_rank) {
    const std::lock_guard lock(mutex_);
    for (int r = 0; r < std::ssize(left_); ++r)
        if (r != world_rank && !answered_[detail::at(r)] && !left_[detail::at(r)]) return r;
    return -1;
}

GX_DECL void RankBoard::leave(int world_rank) {
    const std::lock_guard lock(mutex_);
    left_[detail::at(world_rank)] = true;
}

/// The first member that owes `rank` something; -1: none.
GX_DECL int RankBoard::owing(const GroupLedger& l, int rank, bool only_left) const {
    const int n = l.ranks();
    for (int peer = 0; peer < n; ++peer) {
        if (peer == rank || (only_left && !left_[detail::at(l.members[detail::at(peer)])]))
            continue;
        const auto mine = detail::at(rank * n + peer), theirs = detail::at(peer * n + rank);
        if (!l.joined[detail::at(peer)] || l.receives[mine] > l.sends[theirs] ||
            l.sends[mine] > l.receives[theirs] ||
            l.collectives[detail::at(rank)] > l.collectives[detail::at(peer)])
            return peer;
    }
    return -1;
}

GX_DECL int RankBoard::missing(int ledger, int rank) {
    const std::lock_guard lock(mutex_);
    const GroupLedger& l = at(ledger);
    const int peer = owing(l, rank, true);
    return peer < 0 ? -1 : l.members[detail::at(peer)];
}

GX_DECL int RankBoard::suspect(int ledger, int rank) {
    const std::lock_guard lock(mutex_);
    const GroupLedger& l = at(ledger);
    int last = owing(l, rank, false);
    for (int hops = 0; last >= 0 && hops < l.ranks(); ++hops) {
        const int next = owing(l, last, false);
        if (next < 0 || next == rank) break;
        last = next;
    }
    if (last >= 0) return l.members[detail::at(last)];
    const auto found = std::ranges::find_if(
        l.members, [&](int member) { return computes_[detail::at(member)] != 0; });
    return found == l.members.end() ? -1 : *found;
}

GX_DECL bool RankBoard::report(int rank) {
    {
        const std::lock_guard lock(mutex_);
        if (lost_ >= 0) return false;
        lost_ = rank;
    }
    on_loss_(rank);
    return true;
}

GX_DECL int RankBoard::lost() {
    const std::lock_guard lock(mutex_);
    return lost_;
}

}  // namespace gx::nccl
