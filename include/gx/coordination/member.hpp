// Member: one rank's side of the coordination channel, as a state machine without sockets.
#pragma once

#include <chrono>       // chrono
#include <cstddef>      // byte
#include <cstdint>      // int64_t
#include <string>       // string
#include <string_view>  // sentences
#include <utility>      // move
#include <vector>       // messages

#include <gx/coordination/message.hpp>  // Message, Cause, Duration
#include <gx/coordination/roster.hpp>   // Roster
#include <gx/core/decl.hpp>             // GX_DECL

namespace gx::coordination {

/// State of one rank's membership in a run. Like the Coordinator it does neither I/O nor timing:
/// the caller passes in received messages and the time, and take() returns messages for the root.
///
/// Errors: the root's connection that ends, is silent, or brings garbage before Ended is the loss
///         of rank 0. The first cause that is known here stays; only its text may be completed.
class Member {
public:
    struct Options {
        Hello hello{};
        Duration join_deadline = std::chrono::seconds(60);  ///< max(): none
        Duration silence = std::chrono::seconds(30);        ///< max(): silence is not detected
    };

    /// Delay of the answer of a process that was suspended until just now: waits end first whose
    /// messages have come meanwhile.
    static constexpr Duration settling = std::chrono::milliseconds(100);

    /// Queues the Hello to the root.
    Member(Options options, Duration now);

    // ---- What the rank does
    void working_on(const Operation& operation) { operation_ = operation; }
    /// What it waits for, as in Waiting: said before each call that may answer, while is_asked().
    void waits_for(std::vector<Wait> waits) { waits_ = std::move(waits); }
    /// Whether the root waits to hear what this waits for.
    [[nodiscard]] bool is_asked() const { return asked_; }
    /// The rank's function throws. An empty text may be followed by a call with the sentence.
    /// `exit_status`: 1 to 255.
    void fail(std::string_view text, int exit_status);
    /// A wait for `peer` that has `lasted` so long (0: unknown) has met its deadline. The cause
    /// follows: this one or an earlier one.
    void blame(int peer, Duration lasted = {});
    /// What the channel can't carry is compared by a hash too: options above options_bytes_max,
    /// other texts above half of text_bytes_max, and control characters.
    void compare(RunTerms terms);
    /// To all other ranks. Errors: more bytes than note_bytes_max break the contract.
    void note(std::vector<std::byte> bytes);
    /// The rank's function has returned.
    void leave();
    /// It goes on in another run, if the others do: see Coordinator. `number`: of rank 0. Until it
    /// is regrouped() this sends nothing more.
    void stay(std::int64_t number);

    // ---- What comes
    void received(const Message& message, Duration now);
    void malformed(std::string_view why);
    void closed(bool inside_message = false);
    /// Notices what is late by now.
    void tick(Duration now);
    /// This process was suspended `for_`, until now: deadlines are as much later.
    void stood_still(Duration for_, Duration now);
    /// When tick() has something to do next; max(): never.
    [[nodiscard]] Duration next_tick() const;
    /// Whether nothing was heard of the root within the limit of silence, before the run has ended;
    /// behind a cause that this does not replace too.
    [[nodiscard]] bool root_is_silent(Duration now) const {
        return !ended_ && now >= saturating_sum(heard_, options_.silence);
    }

    /// Messages to the root since the last call, in order.
    [[nodiscard]] std::vector<Message> take();

    /// Notes of other ranks since the last call, in the order of each.
    [[nodiscard]] std::vector<Note> take_notes();

    // ---- What is known
    [[nodiscard]] int rank() const { return options_.hello.rank; }
    [[nodiscard]] bool joined() const { return joined_; }
    [[nodiscard]] const Roster& roster() const { return roster_; }  ///< once joined
    [[nodiscard]] int agreed() const { return agreed_; }  ///< calls of compare() that all answered
    [[nodiscard]] const Cause& cause() const { return cause_; }
    /// The cause as a sentence of this rank: what it did itself when it was stopped.
    [[nodiscard]] std::string sentence() const;
    [[nodiscard]] bool left(int rank) const;
    [[nodiscard]] bool ended() const { return ended_; }
    /// That this process should return: 0 where the run ended without an error.
    [[nodiscard]] int exit_status() const { return exit_status_; }
    [[nodiscard]] const Operation& operation() const { return operation_; }
    /// That began the present run, in which `rank()` is another; no members: it is the first.
    [[nodiscard]] const Regrouped& regrouped() const { return regrouped_; }
    [[nodiscard]] int runs() const { return runs_; }        ///< that have begun
    [[nodiscard]] int changes() const { return changes_; }  ///< of cause() and left(), counted

private:
    void send(Message message);
    void answer_if_due(Duration now);
    void stop(Cause cause);
    void regroup(const Regrouped& by, Duration now);
    void lose_root(Reason reason, std::string what);

    Options options_;
    Duration begun_, heard_, next_alive_;
    Operation operation_{}, operation_when_stopped_{};
    std::vector<Message> outgoing_{};
    std::vector<Note> notes_{};
    std::vector<char> left_{};
    Roster roster_{};
    Cause cause_{};
    Regrouped regrouped_{};
    int runs_ = 1;
    std::vector<Wait> waits_{};
    struct Stood {
        Duration lasted{}, until{};
    };
    std::vector<Stood> stood_{};  ///< standstills that are one, but for waits between them
    int agreed_ = 0, exit_status_ = 0, changes_ = 0;
    bool asked_ = false;
    bool joined_ = false, ended_ = false, leaving_ = false, staying_ = false;
};

}  // namespace gx::coordination

#if defined(GX_HEADER_ONLY)
#include <gx/coordination/impl/member.ipp>
#endif
