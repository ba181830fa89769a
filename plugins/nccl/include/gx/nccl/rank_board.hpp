// RankBoard: what the ranks of one run know of each other: who queued what, who is lost.
#pragma once

#include <cstdint>     // int64_t
#include <functional>  // on_loss
#include <map>         // groups
#include <memory>      // unique_ptr
#include <mutex>       // one rank at a time
#include <utility>     // pair
#include <vector>      // ranks

#include <gx/core/decl.hpp>  // GX_DECL

namespace gx::nccl {

/// The ranks of one communicator, as ranks of the world, and what each has queued on it.
struct GroupLedger {
    explicit GroupLedger(std::vector<int> ranks_of_world)
        : members(std::move(ranks_of_world)),
          joined(members.size()),
          sends(members.size() * members.size()),
          receives(members.size() * members.size()),
          collectives(members.size()) {}
    [[nodiscard]] int ranks() const { return static_cast<int>(members.size()); }

    std::vector<int> members;
    std::vector<char> joined;                   ///< [rank]
    std::vector<std::int64_t> sends, receives;  ///< [rank * ranks + peer]
    std::vector<std::int64_t> collectives;      ///< [rank]
};

/// NCCL does not name a rank that is missing: so the ranks, threads of a process, keep count here.
/// Ledger 0 is that of all ranks.
/// Threads: any.
class RankBoard {
public:
    /// `on_loss(rank)` is called once, for the first rank that is reported lost.
    GX_DECL explicit RankBoard(int ranks, std::function<void(int)> on_loss);

    /// Before NCCL divides a communicator: what `rank` asks for in split number `split` of its
    /// ledger.
    GX_DECL void divides(int ledger, int split, int rank, int color, int key);
    /// The ledger of the ranks that have given this color. All ranks of `ledger` have divided.
    [[nodiscard]] GX_DECL int part(int ledger, int split, int color);
    GX_DECL void joins(int ledger, int rank);

    GX_DECL void sends(int ledger, int rank, int to);
    GX_DECL void receives(int ledger, int rank, int from);
    GX_DECL void takes_part(int ledger, int rank);
    /// Whether the rank's GPU has not come to the messages that others may wait for.
    GX_DECL void computes(int world_rank, bool computes);

    /// A rank that NCCL gives ncclRemoteError asks all others; each answers where its own GPU and
    /// communicator are well, else it reports itself.
    GX_DECL void ask();
    GX_DECL void answer(int world_rank);
    /// A rank beside this one that has neither answered nor left; -1: none.
    [[nodiscard]] GX_DECL int silent(int world_rank);

    /// The rank's function has returned and its work is done.
    GX_DECL void leave(int world_rank);
    /// A rank of the world that has left, and owes `rank` a message or a part; -1: none.
    [[nodiscard]] GX_DECL int missing(int ledger, int rank);
    /// The rank of the world that `rank` waits for in the end: the first along the ranks that owe
    /// each other to which nobody owes. Where nobody owes `rank`, one that computes; -1: none.
    [[nodiscard]] GX_DECL int suspect(int ledger, int rank);

    /// True for the first report, of which the others learn by lost().
    GX_DECL bool report(int lost);
    /// The rank of the world that was reported first; -1: none.
    [[nodiscard]] GX_DECL int lost();

private:
    /// The places that ranks ask for in one split of a ledger.
    struct Division {
        struct Place {
            int color = 0, key = 0;
        };
        std::vector<Place> places{};   ///< [rank]
        std::map<int, int> ledgers{};  ///< by color
    };
    [[nodiscard]] GX_DECL int owing(const GroupLedger& l, int rank, bool only_left) const;
    [[nodiscard]] GroupLedger& at(int ledger) {
        return *ledgers_[static_cast<std::size_t>(ledger)];
    }

    std::mutex mutex_{};
    std::map<std::pair<int, int>, Division> divisions_{};  ///< by ledger and split
    std::vector<std::unique_ptr<GroupLedger>> ledgers_{};
    std::vector<char> left_, computes_, answered_;
    bool asked_ = false;
    std::function<void(int)> on_loss_;
    int lost_ = -1;
};

}  // namespace gx::nccl

#if defined(GX_HEADER_ONLY)
#include <gx/nccl/impl/rank_board.ipp>
#endif
