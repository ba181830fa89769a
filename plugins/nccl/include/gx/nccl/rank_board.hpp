// RankBoard: what ranks of a run know of each other: queued work, lost ranks.
#pragma once

#include <chrono>              // patience
#include <condition_variable>  // answers of other processes
#include <cstdint>             // int64_t
#include <functional>          // on_loss
#include <map>                 // groups
#include <memory>              // unique_ptr
#include <mutex>               // one rank at a time
#include <string>              // rows
#include <utility>             // pair
#include <vector>              // ranks

#include <gx/core/decl.hpp>    // GX_DECL
#include <gx/core/stream.hpp>  // Operation
#include <gx/nccl/clock.hpp>   // Now

namespace gx::nccl {

/// The ranks of one communicator, as ranks of the world, and what each has queued on it.
struct GroupLedger {
    GroupLedger(std::string its_name, std::vector<int> ranks_of_world)
        : name(std::move(its_name)),
          members(std::move(ranks_of_world)),
          joined(members.size()),
          sends(members.size() * members.size()),
          receives(members.size() * members.size()),
          collectives(members.size()) {}
    [[nodiscard]] int ranks() const { return static_cast<int>(members.size()); }

    std::string name;  ///< the same in all processes: "world", "world/1:0" of its split 1, color 0
    std::vector<int> members;
    std::vector<char> joined;                   ///< [rank]
    std::vector<std::int64_t> sends, receives;  ///< [rank * ranks + peer]
    std::vector<std::int64_t> collectives;      ///< [rank]
};

/// What connects the boards of ranks that are processes.
class BoardLink {
public:
    BoardLink() = default;
    BoardLink(const BoardLink&) = delete;
    BoardLink& operator=(const BoardLink&) = delete;
    virtual ~BoardLink() = default;
    /// Reports a rank and waits for the one that all ranks name.
    virtual int agree(int lost) = 0;
    /// The rank that all name; -1: none.
    virtual int lost() = 0;
    /// Whether the function of the rank that all name threw.
    virtual bool threw() = 0;
    /// Gives a row to heard() of all other boards.
    virtual void tell(const std::string& row) = 0;
    virtual void working_on(const Operation& operation) = 0;
};

/// NCCL does not name a rank that is missing: so the ranks keep count here. Threads of a process
/// share a board. Processes have one each: what a rank has queued is a row, which it tells when
/// another is late, and when it divides a communicator, fails or leaves.
/// Ledger 0 is that of all ranks.
/// Threads: any.
class RankBoard {
public:
    /// `on_loss(rank)` is called once, for the first rank that is reported lost.
    GX_DECL explicit RankBoard(int ranks, std::function<void(int)> on_loss);
    /// That of `rank`, a process. A rank that does not answer `link` for `patience` is lost.
    GX_DECL RankBoard(int ranks, int rank, BoardLink& link,
                      std::chrono::nanoseconds patience = std::chrono::seconds(10),
                      Now now = steady_now);
    /// A row that another rank has told.
    GX_DECL void heard(int rank, const std::string& row);
    void working_on(const Operation& operation) {
        if (link_ != nullptr) link_->working_on(operation);
    }

    /// Before NCCL divides a communicator: what `rank` asks for in split number `split` of its
    /// ledger.
    GX_DECL void divides(int ledger, int split, int rank, int color, int key);
    /// Whether it is known what all ranks of `ledger` have asked for.
    [[nodiscard]] GX_DECL bool divided(int ledger, int split);
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
    /// The failed rank that `rank` waits for, directly or through others: the end of its chain of
    /// pending messages, or the last rank before the chain comes back to one of its own. If no rank
    /// owes `rank` a message, a rank that computes, else the end of another rank's chain; -1: none.
    [[nodiscard]] GX_DECL int suspect(int ledger, int rank);

    /// True for the first report, of which the others learn by lost(); of processes where the rank
    /// that all name did not throw.
    GX_DECL bool report(int lost);
    /// The rank of the world that was reported first; -1: none.
    [[nodiscard]] GX_DECL int lost();

private:
    /// The places that ranks ask for in one split of a ledger.
    struct Division {
        struct Place {
            int color = 0, key = 0;
            bool given = false;
        };
        std::vector<Place> places{};   ///< [rank]
        std::map<int, int> ledgers{};  ///< by color
    };
    /// What another process has told.
    struct Row {
        struct Counts {
            bool joined = false;
            std::int64_t collectives = 0;
            std::map<int, std::pair<std::int64_t, std::int64_t>> messages{};  ///< sent, received
        };
        std::map<std::string, Counts> ledgers{};  ///< by name
    };
    [[nodiscard]] GX_DECL std::string own_row(bool asks);
    GX_DECL void tell();
    GX_DECL void tell_row(bool asks);
    GX_DECL void apply(int rank, GroupLedger& l);
    [[nodiscard]] GX_DECL int ask_rows();
    [[nodiscard]] GX_DECL int owing(const GroupLedger& l, int rank, bool only_left) const;
    [[nodiscard]] GroupLedger& at(int ledger) {
        return *ledgers_[static_cast<std::size_t>(ledger)];
    }

    std::mutex mutex_{};
    std::map<std::pair<std::string, int>, Division> divisions_{};  ///< by ledger and split
    std::vector<std::unique_ptr<GroupLedger>> ledgers_{};
    std::vector<char> left_, computes_, answered_;
    bool asked_ = false;
    std::function<void(int)> on_loss_{};
    int lost_ = -1;
    // Of a process:
    BoardLink* link_ = nullptr;
    std::mutex telling_{};  ///< from when a row is made until it is told
    int own_ = -1;
    std::chrono::nanoseconds patience_{};
    Now now_ = steady_now;
    std::vector<Row> rows_{};   ///< [rank]
    std::vector<char> told_{};  ///< [rank], since ask_rows()
    std::condition_variable heard_{};
};

}  // namespace gx::nccl

#if defined(GX_HEADER_ONLY)
#include <gx/nccl/impl/rank_board.ipp>
#endif
