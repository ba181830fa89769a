// Session: one process's end of the coordination channel: sockets and a monitor thread.
#pragma once

#include <array>               // whom a thread waits for
#include <bitset>              // the same, of many
#include <chrono>              // chrono
#include <condition_variable>  // waits
#include <cstdint>             // int64_t
#include <functional>          // on_change, identity
#include <map>                 // connections
#include <mutex>               // one lock
#include <optional>            // the root's part
#include <span>                // notes
#include <string>              // sentences
#include <string_view>         // string_view
#include <thread>              // the monitor
#include <vector>              // sockets

#include <gx/coordination/coordinator.hpp>  // Coordinator, Duration
#include <gx/coordination/member.hpp>       // Member
#include <gx/coordination/message.hpp>      // Cause, RunTerms, MessageReader
#include <gx/coordination/socket.hpp>       // Descriptor, Listener
#include <gx/core/decl.hpp>                 // GX_DECL

namespace gx::coordination {

class WaitsFor;

/// The coordination channel of one rank, whose process is a member of a run; that of rank 0 is the
/// root, and coordinates. It carries no payload. A thread, the monitor, watches the sockets; it
/// never waits for the rank's own code, so a loss is detected while the rank computes.
///
/// A world's run() does this:
///
///     join()       before f: all ranks are there
///     working_on   as its transport's `working_on`: what a lost rank is reported with
///     fail()       inside the handler of what f throws, and by Stream::cancel
///     blame()      a wait met its deadline
///     cause()      checked by all waits; see README.md for what a cancel has to do
///     leave()      f has returned or thrown
///     end()        all ranks have; the root's returns last
///     regroup()    after a loss, where Options::regroups: the ranks that are left agree on who
///                  they are, and join() begins another run on the same connections
///
/// Threads: safe, but for construction and destruction. `on_change` is called by the monitor.
/// Errors:  join() and compare() throw gx::Error with the cause's sentence, compare() LostRank
///          where a rank is lost or threw. All others return; a cause is a value.
///          A session that is destroyed before end() is a lost rank to the others.
/// Fork:    a child process has no part in it: its copies of the sockets are closed, so that the
///          end of the parent is still seen, and its copy of a session may be destroyed, no more.
///          A fork beside a constructor, or in a handler of a signal that interrupts a call, may
///          leave the child a copy, and the end of the parent is then seen with the child's.
/// Cost:    one thread; one connection a member; working_on() one short lock and 80 bytes.
class Session {
public:
    struct Options {
        std::string run_id{};  ///< 1 to run_id_bytes_max bytes, equal on all ranks
        int rank = 0, ranks = 1;
        int local_rank = -1;  ///< as the launcher numbered it; -1: by host names
        std::string host = host_name();
        Duration join_deadline = std::chrono::seconds(60);
        Duration silence = std::chrono::seconds(30);  ///< after which a member or the root is lost
        /// How long the process may live on in a run without its root; then it exits. max(): for
        /// ever.
        Duration outlive_root = Duration::max();
        Operation operation{};  ///< that the rank begins with: what it is working_on() at first
        /// Whether connections stay behind a run that has lost ranks: for regroup(), or part().
        bool regroups = false;
    };

    /// Rank 0. `members[r]` leads to rank r, where there is one: the other ranks connect to
    /// `listener`. Errors: gx::Error for a run id of another length, and where the system has no
    ///                     descriptor or thread left.
    Session(Options options, std::vector<Descriptor> members,
            std::optional<Listener> listener = std::nullopt);
    /// Another rank. Errors: as above.
    Session(Options options, Descriptor to_root);
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
    ~Session();

    /// Whether this is the copy of a child of fork().
    [[nodiscard]] bool is_forked() const { return forked_; }
    [[nodiscard]] int rank() const { return options_.rank; }
    [[nodiscard]] int ranks() const { return options_.ranks; }
    /// The address of this machine that the root sees, as host_of(); "" on the root.
    [[nodiscard]] const std::string& host() const { return host_; }

    /// Waits until all ranks have come.
    Roster join();
    /// Compares with the terms of rank 0; every rank calls it equally often.
    void compare(const RunTerms& terms);
    /// What each rank gives, by rank; every rank calls it equally often, once all have joined.
    /// Errors: gx::Error with the cause's sentence; late is a rank that gives nothing for `limit`,
    ///         or whose function has returned without.
    [[nodiscard]] std::vector<std::string> gather(const std::string& mine,
                                                  Duration limit = Duration::max());
    /// Sends `bytes` to all other ranks: to their gather(), or once they have none any more to
    /// their on_note().
    void note(std::vector<std::byte> bytes);
    void working_on(const Operation& operation);
    /// Stops all ranks. An empty text may be followed by a call with the sentence.
    /// `exit_status`: 1 to 255.
    void fail(std::string_view text, int exit_status = 1);
    /// Stops all ranks, unless something has stopped them before. The reason: `peer` is late, or a
    /// rank that it waits for. `by`: the wait that met its deadline.
    void blame(int peer, const WaitsFor* by = nullptr);
    void leave();
    /// Waits until all ranks have left or are gone, and on the root until their connections have
    /// ended too. Returns false where `limit` passes first. A member whose root is lost returns at
    /// once.
    [[nodiscard]] bool end(Duration limit);
    /// The same: the root waits for `limit`. A member waits while no cause is known, as others may
    /// have much to do; from then on twice the limit, so that a root that hangs does not hold it.
    [[nodiscard]] bool await_end(Duration limit);
    /// Root: ends the others' end(), though not all have left.
    void end_now();

    /// Behind a run whose cause is_loss(), when end() has returned: the ranks that are left, by
    /// their ranks until now, and the root's `number`; rank() and ranks() are theirs from then on.
    /// No members if this rank is left out, or the root is lost or exceeds the timeout `limit`:
    /// this rank is out then, and its connection ends.
    /// The root waits as long for the others; Coordinator documents which ranks go on.
    /// No other call is under way, and there is no on_change() and no on_note().
    [[nodiscard]] Regrouped regroup(std::int64_t number, Duration limit);
    /// Ends connections that have stayed. Root: waits for the others to see it, at most `limit`.
    void part(Duration limit);

    [[nodiscard]] Cause cause();
    /// Waits for it: after fail() or blame().
    [[nodiscard]] Cause await_cause();
    /// The cause as a sentence, with what this rank did when it was stopped.
    [[nodiscard]] std::string sentence();
    [[nodiscard]] bool left(int rank);
    /// What this process should return to its parent.
    [[nodiscard]] int exit_status();
    /// Rank 0: the error that a rank's function threw first; empty: none came.
    [[nodiscard]] std::string error_of(int rank);
    /// Rank 0: ranks that have neither left nor gone.
    [[nodiscard]] std::vector<int> running();
    /// Rank 0: other ranks whose connections have not ended.
    [[nodiscard]] std::vector<int> connected();

    /// Calls `f` on the monitor after each change of cause() or left(), and once before the first.
    /// Returns when no other call is under way; an empty f ends them.
    void on_change(std::function<void()> f);
    /// Calls `f` on the monitor with each note of another rank, those first that have come before.
    /// Returns when no other call is under way; an empty f ends them.
    void on_note(std::function<void(int rank, std::span<const std::byte>)> f);

private:
    friend class WaitsFor;

    struct Connection {
        Descriptor socket{};
        MessageReader reader{};
        std::vector<std::byte> out{};
        std::size_t ignored = 0;  ///< bytes that came while it was closing
        bool stranger = false;    ///< of the listener, and has not said who it is
        bool closing = false;     ///< once `out` is written
    };

    static void before_fork();
    static void in_parent();
    static void in_child();
    void enlist();
    void delist();
    void start();
    void work();
    void move_messages();
    void order(Order& o);
    void append(int id, const Message& message);
    void accept_all();
    bool drop_stranger();
    void read(int id);
    void got(int id, const Message& message);
    void member_got(const Message& message);
    void lose(int id, bool inside_message);
    void lose_closed(int id);
    /// False where the connection has ended.
    bool write(Connection& c);
    void write_all();
    void deliver_notes();
    void exit_without_root() const;
    [[nodiscard]] bool gave_up_root() const;
    void blame_locked(int peer, const WaitsFor* by);
    [[nodiscard]] std::vector<Wait> waits_for();
    Duration look(Duration asked);
    [[nodiscard]] Duration next_tick() const;
    [[nodiscard]] bool over() const;
    [[nodiscard]] bool keeps_connections() const;
    [[nodiscard]] bool all_closing() const;
    void begin_anew();
    void hang_up();

    Options options_;
    std::string host_{};
    std::mutex mutex_{};
    std::condition_variable changed_{};
    Waker waker_{};  ///< of the monitor
    Member member_;
    std::mutex waits_mutex_{};
    WaitsFor* waits_ = nullptr;                 ///< the newest of this rank's threads
    std::optional<Coordinator> coordinator_{};  ///< on the root
    std::optional<Listener> listener_{};
    std::map<int, Connection> connections_{};  ///< members of the root; or 1: to the root
    std::optional<Duration> accept_again_{};   ///< no connection is accepted before
    int last_connection_ = 0;
    int compared_ = 0;
    int runs_ = 1;         ///< that this has begun
    bool parted_ = false;  ///< connections do not stay any more
    std::optional<Duration> root_lost_{};
    Duration looked_{};  ///< when the monitor looked at the clock last
    bool closing_ = false;
    std::mutex callback_mutex_{};
    std::function<void()> callback_{};
    int told_ = 0;               ///< changes of the member, to callback_
    std::vector<Note> notes_{};  ///< that on_note() has not had
    std::function<void(int rank, std::span<const std::byte>)> note_callback_{};
    std::thread monitor_{};
    bool forked_ = false;
    bool locked_ = false;  ///< by a thread that forks
};

/// While it lives a thread of the rank waits for its peers: for a message of one of them or, as in
/// a gather, of each. Where a wait is too long, the root follows the waits-for graph to the rank
/// that waits for none. Each thread of a rank may have one; its time counts from the constructor.
/// Cost: nothing is allocated; one lock and a look at the clock. Peers are told by their ranks, but
///       for those that are neither among the first 16 of the wait nor below rank 1024: they count
///       as any_rank.
class WaitsFor {
public:
    static constexpr int peers_most = 16, ranks_most = 1024;

    /// `peer`: a rank, any_rank, or -1: none yet.
    WaitsFor(Session& session, int peer) : WaitsFor(session, std::array{peer}, std::identity{}) {}
    /// `peer_of(x)` for each x in `range`.
    template <class Range, class PeerOf>
    WaitsFor(Session& session, const Range& range, PeerOf peer_of) : session_(session) {
        for (const auto& x : range) add(peer_of(x));
        enter();
    }
    WaitsFor(const WaitsFor&) = delete;
    WaitsFor& operator=(const WaitsFor&) = delete;
    ~WaitsFor();

    /// The wait goes on, for other peers. `peer_of` uses no WaitsFor.
    void now(int peer) { now(std::array{peer}, std::identity{}); }
    template <class Range, class PeerOf>
    void now(const Range& range, PeerOf peer_of) {
        const std::lock_guard lock(session_.waits_mutex_);
        clear();
        for (const auto& x : range) add(peer_of(x));
    }

private:
    friend class Session;
    void enter();
    void clear();
    void add(int peer);
    [[nodiscard]] bool has(int peer) const;
    [[nodiscard]] std::vector<int> peers() const;

    Session& session_;
    WaitsFor *next_ = nullptr, *previous_ = nullptr;
    Duration begin_{};
    std::array<int, peers_most> first_{};
    int count_ = 0;                     ///< of `first_`
    std::bitset<ranks_most> others_{};  ///< by rank
    bool any_other_ = false;            ///< beyond these
};

}  // namespace gx::coordination

#if defined(GX_HEADER_ONLY)
#include <gx/coordination/impl/session.ipp>
#endif
