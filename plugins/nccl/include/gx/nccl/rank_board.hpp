// RankBoard: what the ranks of one run know of each other: who queued what, who is lost.
#pragma once

#include <cstdint>     // int64_t
#include <functional>  // on_loss
#include <map>         // groups
#include <memory>      // unique_ptr
#include <mutex>       // one rank at a time
#include <tuple>       // keys
#include <vector>      // ranks

#include <gx/core/decl.hpp>  // GX_DECL

namespace gx::nccl {

/// The ranks of one communicator, as ranks of the world, and what each has queued on it.
struct GroupLedger {
    std::vector<int> members{};                     ///< -1: has not joined
    std::vector<std::int64_t> sends{}, receives{};  ///< [rank * ranks + peer]
    std::vector<std::int64_t> collectives{};        ///< [rank]
    [[nodiscard]] int ranks() const { return static_cast<int>(members.size()); }
};

/// NCCL does not name a rank that is missing: so the ranks, threads of a process, keep count here.
/// Threads: any.
class RankBoard {
public:
    /// `on_loss(rank)` is called once, for the first rank that is reported lost.
    explicit RankBoard(int ranks, std::function<void(int)> on_loss)
        : left_(static_cast<std::size_t>(ranks)), on_loss_(std::move(on_loss)) {}

    /// The ledger of a communicator: `key` is equal on its ranks and on no others.
    using Key = std::tuple<int, int, int>;  ///< ledger of the parent, split, color
    [[nodiscard]] GX_DECL int join(const Key& key, int ranks, int rank, int world_rank);
    GX_DECL void sends(int ledger, int rank, int to);
    GX_DECL void receives(int ledger, int rank, int from);
    GX_DECL void takes_part(int ledger, int rank);

    /// The rank's function has returned and its work is done.
    GX_DECL void leave(int world_rank);
    /// A rank of the world that has left, and owes `rank` a message or a part; -1: none.
    [[nodiscard]] GX_DECL int missing(int ledger, int rank);
    /// The rank of the world that `rank` waits for in the end: the first along the ranks that owe
    /// each other to which nobody owes; -1: nobody owes `rank`.
    [[nodiscard]] GX_DECL int suspect(int ledger, int rank);

    /// True for the first report, of which the others learn by lost().
    GX_DECL bool report(int lost);
    /// The rank of the world that was reported first; -1: none.
    [[nodiscard]] GX_DECL int lost();

private:
    [[nodiscard]] GX_DECL int owing(const GroupLedger& l, int rank, bool only_left) const;

    std::mutex mutex_{};
    std::map<Key, int> ids_{};
    std::vector<std::unique_ptr<GroupLedger>> ledgers_{};
    std::vector<bool> left_;
    std::function<void(int)> on_loss_;
    int lost_ = -1;
};

}  // namespace gx::nccl

#if defined(GX_HEADER_ONLY)
#include <gx/nccl/impl/rank_board.ipp>
#endif
