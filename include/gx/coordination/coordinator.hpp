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

#include <gx/coordination/message.hpp>          // Message, Cause
#include <gx/coordination/waits_for_graph.hpp>  // WaitsForGraph
#include <gx/core/decl.hpp>                     // GX_DECL

namespace gx::coordination {

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
///     a late rank  once a rank blames another one, all are asked for their waits, the root behind
///                  the others: where one of them has gone on by what the root sent, the root's
///                  answer is later than that. The WaitsForGraph names the one at fault
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
/// Cost:   O(ranks) for each message that goes to all.
class Coordinator {
public:
    struct Options {
        std::string run_id{};
        int ranks = 1;
        Duration join_deadline = std::chrono::seconds(60);  ///< max(): none
        Duration silence = std::chrono::seconds(30);        ///< max(): silence is not detected
    };
    static constexpr int of_no_rank = WaitsForGraph::of_no_rank;

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
    /// The root's process was suspended `for_`, until now: deadlines are as much later. What came
    /// meanwhile is still to be read.
    void stood_still(Duration for_, Duration now);
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
        bool device_is_lost = false;
        Operation operation{};
        std::string error{};
        std::optional<RunTerms> terms{};
        Duration heard{};
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
    void look(Duration now);
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
    Duration next_alive_ = Duration::max();
    Duration looked_;  ///< at messages and the clock
    std::vector<Seat> seats_;
    std::optional<WaitsForGraph> graph_{};  ///< while the ranks are asked for it
    bool root_is_asked_ = false;
    std::map<int, Connection> connections_{};
    std::vector<Order> orders_{};
    std::string last_refusal_{};
    Cause cause_{};
    bool joined_ = false, ended_ = false;
};

}  // namespace gx::coordination

#if defined(GX_HEADER_ONLY)
#include <gx/coordination/impl/coordinator.ipp>
#endif
