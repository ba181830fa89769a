// Coordinator: the root's side of the coordination channel, as a state machine without sockets.
#pragma once

#include <chrono>       // nanoseconds
#include <cstdint>      // int64_t
#include <map>          // connections
#include <optional>     // terms that have come
#include <string>       // sentences
#include <string_view>  // sentences
#include <utility>      // move
#include <vector>       // ranks

#include <gx/coordination/message.hpp>  // Message, Cause
#include <gx/core/decl.hpp>             // GX_DECL

namespace gx::coordination {

using Duration = std::chrono::nanoseconds;

/// A message to send on a connection, or its end.
struct Order {
    int connection = -1;
    std::optional<Message> message{};  ///< to send
    bool close = false;                ///< afterwards
};

/// Rendezvous, membership, comparison, the first cause to stop, and the end of one run. It does
/// neither I/O nor timing: the caller passes in received messages and the time, and take() returns
/// what to send. Rank 0 is a member like the others, on a connection inside its process.
///
///     rendezvous   each connection sends a Hello; once every rank has, all get a Welcome
///     terms        once every rank has sent its RunTerms and they are those of rank 0: Agreed
///     a cause      the first one that comes here is sent to all ranks, and no later one
///     the end      once every rank has sent Leaving, or is gone: Ended
///     a late rank  once a rank blames another one, all are asked for their waits. The waits-for
///                  graph is searched from the rank that blamed first: at fault is the nearest rank
///                  that waits for none, or does not answer within `patience`. Of each rank one
///                  wait is followed, with all its peers: that by which it blames, else its oldest.
///                  Younger ones are followed where these lead to no end, the oldest of them first,
///                  since a wait that has just begun in another thread is no reason for one that is
///                  too long. Where all visited ranks wait, it is one of them that another one
///                  waits for: the root, if its process has just stood still; a rank that answers
///                  `lag` later than all others, as its process had; or the rank that was blamed.
///                  Before the end of the waits comes a root whose process stood still until just
///                  before the first blame, for at least half of the time of a wait for it, since
///                  its ranks have gone on meanwhile; but not if the root itself had begun a wait
///                  before. To know that, it is asked once all others have answered
///     regrouping   after a loss, where rank 0 goes on: once every other rank has sent Staying, is
///                  gone, or is late: to those that have Regrouped, and a Welcome to the next run,
///                  whose ranks they are, in the order of their ranks. A rank that others have
///                  waited for in vain and that stays is left out only if no other is, since they
///                  may have named one that waits itself
///
/// Errors: a connection of a stranger (garbage, another version, another run id), of a rank that
///         is not in the world, or of a rank that is already there is refused with a sentence, and
///         the run goes on. A member that ends, is silent, or sends garbage later is lost.
/// Order:  equal calls give equal orders.
/// Cost:   O(ranks) for each message that goes to all; O(ranks) a wait for the search.
class Coordinator {
public:
    struct Options {
        std::string run_id{};
        int ranks = 1;
        Duration join_deadline = std::chrono::seconds(60);  ///< max(): none
        Duration silence = std::chrono::seconds(30);        ///< max(): silence is not detected
    };
    static constexpr int of_no_rank = -1;
    /// For what ranks wait for, where one of them blames another.
    static constexpr Duration patience = std::chrono::seconds(1);
    /// A rank that answers later than all others by this latency is taken to have been suspended.
    static constexpr Duration lag = std::chrono::milliseconds(100);
    /// The root looks at the clock as often, to see whether its process stands still.
    static constexpr Duration pulse = std::chrono::milliseconds(500);

    /// `now`: of any clock, the same in all calls.
    Coordinator(Options options, Duration now);

    /// A connection is there. `rank`: which must be its, or of_no_rank where anybody may connect.
    void connected(int connection, Duration now, int rank = of_no_rank);
    void received(int connection, const Message& message, Duration now);
    /// One that can't be taken: said where ranks are missing.
    void not_accepted(std::string why) { last_refusal_ = std::move(why); }
    /// Its bytes are no message.
    void malformed(int connection, std::string_view why, Duration now);
    /// It has ended. `inside_message`: after a part of a message.
    void closed(int connection, Duration now, bool inside_message = false);
    /// Notices what is late by now.
    void tick(Duration now);
    /// When tick() has something to do next; max(): never.
    [[nodiscard]] Duration next_tick() const;
    /// What rank 0 does now: a lost rank is reported with it.
    void observe(const Operation& of_root) { seat(0).operation = of_root; }
    /// Ended to all, though not all have left.
    void end();
    /// Ends the run, and sets the deadline for Staying of all ranks, rank 0 included.
    void regroup_by(Duration end_of_wait);

    /// Orders since the last call, in order.
    [[nodiscard]] std::vector<Order> take();

        bool device_is_lost = false;
    [[nodiscard]] const Cause& cause() const { return cause_; }
    [[nodiscard]] bool joined() const { return joined_; }
    [[nodiscard]] bool ended() const { return ended_; }
    [[nodiscard]] bool left(int rank) const { return seat(rank).left; }
    /// Whether its connection has ended.
    [[nodiscard]] bool gone(int rank) const { return seat(rank).gone; }
    /// Text of the error that a rank's function threw first; empty: none came.
    [[nodiscard]] const std::string& error_of(int rank) const { return seat(rank).error; }

private:
    struct Seat {
        int connection = -1;
        Hello hello{};
        bool left = false, gone = false, stays = false;
        Operation operation{};
        std::string error{};
        std::optional<RunTerms> terms{};
        Duration heard{};
    };
    /// Edges of the waits-for graph: a wait of one rank.
    struct Edges {
        std::vector<int> peers{};  ///< named ranks, or any_rank alone
        Duration since{};          ///< by the root's clock
    };
    /// A node of the waits-for graph.
    struct Node {
        std::vector<Edges> waits{};  ///< as in Waiting
        int blamed = -1;             ///< by its first Blamed
        Duration blamed_since{};
        Operation operation{};
        std::optional<Duration> answered{};  ///< when its first Waiting came
    };
    /// The waits-for graph, while the ranks are asked for it.
    struct Inquiry {
        std::vector<int> blamers{};  ///< in the order of their Blamed
        Duration begin{}, end{};
        Duration paused{}, paused_end{};  ///< a pause of the root shortly before `begin`; 0: none
        bool root_is_asked = false;
        std::vector<Node> nodes{};  ///< by rank
        [[nodiscard]] bool root_waited_before_pause() const;
        [[nodiscard]] bool is_mostly_pause(Duration since) const;
    };
    /// What a search of the graph has found.
    struct Search {
        int by = of_no_rank;  ///< where it begins
        /// [rank]: the first that was found to wait for it, or of_no_rank.
        std::vector<int> observers{};
        int end = of_no_rank;      ///< nearest rank that does not wait
        int held_up = of_no_rank;  ///< has waited for the root, for the most during its pause
        [[nodiscard]] bool visited(int rank) const {
            return rank == by || observers[static_cast<std::size_t>(rank)] != of_no_rank;
        }
    };
    /// At fault: `rank`, for which `observer` waits.
    struct Verdict {
        int rank = of_no_rank, observer = of_no_rank;
        std::string remark{};
    };
    struct Connection {
        int rank = of_no_rank;      ///< once its Hello has come
        int expected = of_no_rank;  ///< known before
        bool refused = false;
    };

    Seat& seat(int rank) { return seats_[static_cast<std::size_t>(rank)]; }
    [[nodiscard]] const Seat& seat(int rank) const {
        return seats_[static_cast<std::size_t>(rank)];
    }
    [[nodiscard]] bool present(int rank) const {
        return seat(rank).connection >= 0 && !seat(rank).gone;
    }
    [[nodiscard]] std::string name(int rank) const;
    void send(int rank, Message message);
    void send_to_all(const Message& message);
    void refuse(int connection, std::string sentence);
    void stop(Cause cause);
    void welcome(int connection, const Hello& hello, Duration now);
    void begin();
    void refuse_strangers();
    void heard_from(int rank, const Message& message, Duration now);
    void blame(int rank, const Blamed& blamed, Duration now);
    void answer(int rank, const Waiting& waiting, Duration now);
    void judge_if_all_answered(Duration now);
    void judge(Duration now);
    void put_in_order(Node& node) const;
    [[nodiscard]] bool waits(const Inquiry& q, int rank) const;
    [[nodiscard]] Search search(const Inquiry& q, int by) const;
    [[nodiscard]] Verdict verdict_on_end(const Inquiry& q, const Search& s, Duration now) const;
    [[nodiscard]] std::optional<Verdict> verdict_on_pause(const Inquiry& q, const Search& s) const;
    [[nodiscard]] Verdict verdict_on_cycle(const Inquiry& q, const Search& s) const;
    [[nodiscard]] static std::string other_operations(const Inquiry& q, const Search& s);
    void notice_pause(Duration now);
    void fail(int rank, const Failed& failed);
    void compare(int rank, const RunTerms& terms);
    void leave(int rank, Duration now);
    void lose(int rank, Reason reason, std::string what);
    void end_if_all_left();
    void regroup_if_all_said(Duration now);
    [[nodiscard]] std::vector<int> staying() const;
    void regroup(const std::vector<int>& members, Duration now);

    Options options_;
    Duration begun_;
    Duration regroup_by_ = Duration::max();
    std::int64_t number_ = 0;  ///< of rank 0, when it stays
    Duration next_alive_ = Duration::max(), ticked_;
    Duration seen_;                     ///< the clock, by any call
    Duration paused_{}, paused_end_{};  ///< how long, and until when, the root stood still
    std::vector<Seat> seats_;
    std::optional<Inquiry> inquiry_{};
    std::map<int, Connection> connections_{};
    std::vector<Order> orders_{};
    std::string last_refusal_{};
    Cause cause_{};
    bool joined_ = false, ended_ = false;
};

/// `a + b`, or max() beyond it.
[[nodiscard]] constexpr Duration saturating_sum(Duration a, Duration b) {
    return b > Duration::max() - a ? Duration::max() : a + b;
}

}  // namespace gx::coordination

#if defined(GX_HEADER_ONLY)
#include <gx/coordination/impl/coordinator.ipp>
#endif
