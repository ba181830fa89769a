// WaitsForGraph: which rank a timeout is due to: straggler, suspended process or deadlock.
#pragma once

#include <chrono>    // milliseconds
#include <optional>  // what has not come
#include <string>    // remarks
#include <vector>    // nodes, edges

#include <gx/coordination/message.hpp>  // Blamed, Waiting, Duration
#include <gx/core/decl.hpp>             // GX_DECL

namespace gx::coordination {

/// The waits-for graph of a run, as in the detection of distributed deadlocks: a node for each
/// rank, an edge for each rank that it waits for. The root asks its ranks for it once a wait has
/// met its deadline. Times are of the root's clock. README.md lists the rules in the order in which
/// they apply:
///
///     search       from the rank that blamed first, breadth first: at fault is the nearest rank
///                  that waits for none, or does not answer within `patience`. Of each rank one
///                  wait is followed, with all its peers: that by which it blames, else its oldest.
///                  Younger ones are followed where these lead to no end, the oldest of them first,
///                  since a wait that has just begun in another thread is no reason for one that is
///                  too long
///     standstill   before that end comes a rank whose process was suspended until at most
///                  `patience` before the first blame, for at least half of a wait for it: it has
///                  gone on since, and what it does now explains nothing. But not if the rank had
///                  begun to wait itself before, nor for time in which the waiting process was
///                  suspended too, nor where it has come to the collective that it is waited for
///                  in, nor where that end does not answer, or has left while it was waited for
///     cycle        all visited ranks wait, as in a deadlock: one of them that another one waits
///                  for, whose process was suspended until just now; or one whose answer has a
///                  latency of `lag` above all others', as its process was; or the rank that was
///                  blamed
///
/// Order:  equal calls give equal verdicts.
/// Cost:   O(ranks) a wait.
class WaitsForGraph {
public:
    static constexpr int of_no_rank = -1;
    /// Timeout of answers; and how long ago a standstill may have ended.
    static constexpr Duration patience = std::chrono::seconds(1);
    /// A rank that answers later than all others by this latency is taken to have been suspended.
    static constexpr Duration lag = std::chrono::milliseconds(100);

    /// What the root knows of a rank when it judges.
    struct Rank {
        bool present = false, left = false;
        Duration heard{};  ///< when something came last
    };
    /// At fault: `rank`, for which `observer` waits in `operation`.
    struct Verdict {
        int rank = of_no_rank, observer = of_no_rank;
        Operation operation{};
        std::string remark{};  ///< to follow a sentence about it; may be empty
    };

    WaitsForGraph(int ranks, Duration now);

    /// A deadline of a wait of `rank`. Of each rank the first counts.
    void blame(int rank, const Blamed& blamed, Duration now);
    /// Of each rank the first counts. Requires: peers are any_rank, or ranks of this world.
    void answer(int rank, const Waiting& waiting, Duration now);
    [[nodiscard]] bool answered(int rank) const { return node(rank).answered.has_value(); }
    /// Deadline of the answers.
    [[nodiscard]] Duration end() const { return end_; }
    /// The root's process was suspended: answers are still to be read.
    void extend(Duration by) { end_ = saturating_sum(end_, by); }
    /// The root may have read answers long after they had come: their latencies say nothing.
    void read_late() { read_late_ = true; }

    /// Who is late. Requires: somebody has blamed. `ranks`: of all ranks.
    [[nodiscard]] Verdict judge(std::vector<Rank> ranks, Duration now);

private:
    struct Interval {
        Duration begin{}, end{};
        [[nodiscard]] Duration length() const;
        [[nodiscard]] Interval common(const Interval& other) const;
    };
    /// Edges of one wait.
    struct Edges {
        std::vector<int> peers{};  ///< named ranks, or any_rank alone
        Duration since{};
    };
    struct Node {
        std::vector<Edges> waits{};  ///< as in Waiting
        int blamed = -1;             ///< by its first Blamed
        Duration blamed_since{};
        Operation operation{};
        std::optional<Duration> answered{};  ///< when its first Waiting came
        Interval standstill{};               ///< of its process; of no length: none
    };
    /// What a search has found.
    struct Search {
        int by = of_no_rank;  ///< where it begins
        /// [rank]: the first that was found to wait for it, or of_no_rank.
        std::vector<int> observers{};
        int end = of_no_rank;  ///< nearest rank that does not wait
        /// It does not answer, or has left while its message was waited for: no standstill of
        /// another rank explains that.
        bool end_is_certain = false;
        /// The first rank whose standstill explains a wait for it, and whose wait that is.
        int held_up_by = of_no_rank, held_up = of_no_rank;
        [[nodiscard]] bool visited(int rank) const {
            return rank == by || observers[static_cast<std::size_t>(rank)] != of_no_rank;
        }
    };

    [[nodiscard]] int size() const { return static_cast<int>(nodes_.size()); }
    Node& node(int rank) { return nodes_[static_cast<std::size_t>(rank)]; }
    [[nodiscard]] const Node& node(int rank) const {
        return nodes_[static_cast<std::size_t>(rank)];
    }
    [[nodiscard]] const Rank& at(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }
    static void put_in_order(Node& node);
    [[nodiscard]] bool waits(int rank) const;
    [[nodiscard]] bool has_just_stood_still(int rank) const;
    [[nodiscard]] bool waited_before_standstill(int rank) const;
    [[nodiscard]] bool explains(int rank, int waiter, Duration since) const;
    [[nodiscard]] Search search(int by) const;
    [[nodiscard]] Verdict verdict(int rank, int observer, std::string remark) const;
    [[nodiscard]] Verdict verdict_on_end(const Search& s, Duration now) const;
    [[nodiscard]] std::optional<Verdict> verdict_on_standstill(const Search& s) const;
    [[nodiscard]] Verdict verdict_on_cycle(const Search& s) const;
    [[nodiscard]] std::string other_operations(const Search& s) const;

    Duration begin_, end_;
    std::vector<Node> nodes_;     ///< by rank
    std::vector<int> blamers_{};  ///< in the order of their Blamed
    std::vector<Rank> ranks_{};   ///< when they are judged
    bool read_late_ = false;
};

}  // namespace gx::coordination

#if defined(GX_HEADER_ONLY)
#include <gx/coordination/impl/waits_for_graph.ipp>
#endif
