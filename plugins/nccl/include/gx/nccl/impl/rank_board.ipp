// RankBoard: counts, and the ranks that they point to.
#pragma once

#include <gx/nccl/rank_board.hpp>  // the declarations

namespace gx::nccl {

namespace detail {
inline std::size_t at(int i) { return static_cast<std::size_t>(i); }
}  // namespace detail

GX_DECL int RankBoard::join(const Key& key, int ranks, int rank, int world_rank) {
    const std::lock_guard lock(mutex_);
    const auto [found, is_new] = ids_.try_emplace(key, static_cast<int>(ledgers_.size()));
    if (is_new) {
        auto& l = *ledgers_.emplace_back(std::make_unique<GroupLedger>());
        l.members.assign(detail::at(ranks), -1);
        l.sends.resize(detail::at(ranks * ranks));
        l.receives.resize(detail::at(ranks * ranks));
        l.collectives.resize(detail::at(ranks));
    }
    ledgers_[detail::at(found->second)]->members[detail::at(rank)] = world_rank;
    return found->second;
}

GX_DECL void RankBoard::sends(int ledger, int rank, int to) {
    const std::lock_guard lock(mutex_);
    GroupLedger& l = *ledgers_[detail::at(ledger)];
    ++l.sends[detail::at(rank * l.ranks() + to)];
}
GX_DECL void RankBoard::receives(int ledger, int rank, int from) {
    const std::lock_guard lock(mutex_);
    GroupLedger& l = *ledgers_[detail::at(ledger)];
    ++l.receives[detail::at(rank * l.ranks() + from)];
}
GX_DECL void RankBoard::takes_part(int ledger, int rank) {
    const std::lock_guard lock(mutex_);
    ++ledgers_[detail::at(ledger)]->collectives[detail::at(rank)];
}

GX_DECL void RankBoard::leave(int world_rank) {
    const std::lock_guard lock(mutex_);
    left_[detail::at(world_rank)] = true;
}

/// The first member that owes `rank` something; -1: none.
GX_DECL int RankBoard::owing(const GroupLedger& l, int rank, bool only_left) const {
    const int n = l.ranks();
    for (int peer = 0; peer < n; ++peer) {
        const int member = l.members[detail::at(peer)];
        if (peer == rank) continue;
        if (member < 0 && !only_left) return peer;  // has not even joined
        if (member < 0 || (only_left && !left_[detail::at(member)])) continue;
        const auto mine = detail::at(rank * n + peer), theirs = detail::at(peer * n + rank);
        if (l.receives[mine] > l.sends[theirs] || l.sends[mine] > l.receives[theirs] ||
            l.collectives[detail::at(rank)] > l.collectives[detail::at(peer)])
            return peer;
    }
    return -1;
}

GX_DECL int RankBoard::missing(int ledger, int rank) {
    const std::lock_guard lock(mutex_);
    const GroupLedger& l = *ledgers_[detail::at(ledger)];
    const int peer = owing(l, rank, true);
    return peer < 0 ? -1 : l.members[detail::at(peer)];
}

GX_DECL int RankBoard::suspect(int ledger, int rank) {
    const std::lock_guard lock(mutex_);
    const GroupLedger& l = *ledgers_[detail::at(ledger)];
    int last = owing(l, rank, false);
    for (int hops = 0; last >= 0 && hops < l.ranks(); ++hops) {
        const int next = owing(l, last, false);
        if (next < 0 || next == rank) break;
        last = next;
    }
    // A rank that has not joined is one of the world's own ledger, where it has this number.
    return last < 0 || l.members[detail::at(last)] < 0 ? last : l.members[detail::at(last)];
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
