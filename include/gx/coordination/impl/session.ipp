// Session: the monitor and its sockets.
#pragma once

#include <poll.h>        // poll
#include <pthread.h>     // pthread_atfork
#include <sys/socket.h>  // send, recv
#include <unistd.h>      // getpid, _exit

#include <algorithm>     // all_of, find
#include <cerrno>        // errno
#include <cstring>       // strerror
#include <memory>        // construct_at
#include <ranges>        // iota
#include <system_error>  // no thread is left
#include <utility>       // exchange, pair

#include <gx/coordination/session.hpp>  // the declarations
#include <gx/core/contract.hpp>         // GX_EXPECT
#include <gx/core/error.hpp>            // Error, LostRank
#include <gx/core/detail/sleep.hpp>     // Patience, sleep_until

namespace gx::coordination {

namespace detail::session {

inline constexpr int own = 0;      ///< rank 0's connection inside the root
inline constexpr int to_root = 1;  ///< of a member
inline constexpr Duration fork_patience = std::chrono::milliseconds(200);
inline constexpr std::size_t strangers_max = 64;
inline constexpr std::size_t ignored_max = std::size_t{1} << 16;  ///< bytes of one behind a refusal
/// The monitor looks at the clock as often, to see whether its process stands still.
inline constexpr Duration pulse = std::chrono::milliseconds(100);
/// Behind the end of a run, where it may have no other sign that a call waits for it.
inline constexpr Duration pulse_behind = std::chrono::seconds(1);
inline constexpr Duration accept_pause = std::chrono::milliseconds(100);

/// The sessions of this process, for fork().
struct Living {
    std::mutex mutex{};
    std::vector<Session*> sessions{};
};
/// Whether this thread has locked them: two may fork at once.
inline thread_local bool locked_for_fork = false;
inline Living& living() {
    static auto* const one = new Living();
    return *one;
}

inline Member::Options member_options(int rank, int ranks, int local_rank, std::string run_id,
                                      std::string host, Duration join, Duration silence) {
    return {.hello = {.run_id = std::move(run_id),
                      .rank = rank,
                      .ranks = ranks,
                      .local_rank = local_rank,
                      .process = static_cast<std::uint64_t>(::getpid()),
                      .host = std::move(host)},
            .join_deadline = join,
            .silence = silence};
}

inline Session::Options checked(Session::Options options) {
    const std::size_t size = options.run_id.size();
    if (size == 0 || size > run_id_bytes_max)
        throw Error("a run id has 1 to " + std::to_string(run_id_bytes_max) + " bytes, this one " +
                    std::to_string(size) + ": it keeps the processes of other runs out");
    replace_control_characters(options.host);  // the other ranks read it so
    return options;
}

}  // namespace detail::session

GX_DECL Session::Session(Options options, std::vector<Descriptor> members,
                         std::optional<Listener> listener)
    : options_(detail::session::checked(std::move(options))),
      member_(detail::session::member_options(options_.rank, options_.ranks, options_.local_rank,
                                              options_.run_id, options_.host,
                                              options_.join_deadline, options_.silence),
              steady_now()),
      listener_(std::move(listener)) {
    GX_EXPECT(options_.rank == 0, "rank 0 coordinates");
    const Duration now = steady_now();
    coordinator_.emplace(Coordinator::Options{.run_id = options_.run_id,
                                              .ranks = options_.ranks,
                                              .join_deadline = options_.join_deadline,
                                              .silence = options_.silence},
                         now);
    coordinator_->connected(detail::session::own, now, 0);
    for (std::size_t r = 0; r < members.size(); ++r) {
        if (!members[r]) continue;
        connections_[++last_connection_] = {.socket = std::move(members[r]),
                                            .reader = MessageReader(hello_bytes_max)};
        coordinator_->connected(last_connection_, now, static_cast<int>(r));
    }
    start();
}

GX_DECL Session::Session(Options options, Descriptor to_root)
    : options_(detail::session::checked(std::move(options))),
      member_(detail::session::member_options(options_.rank, options_.ranks, options_.local_rank,
                                              options_.run_id, options_.host,
                                              options_.join_deadline, options_.silence),
              steady_now()) {
    host_ = host_of(to_root);
    connections_[detail::session::to_root] = {.socket = std::move(to_root)};
    start();
}

GX_DECL void Session::start() {
    working_on(options_.operation);
    looked_ = steady_now();
    enlist();
    try {
        monitor_ = std::thread([this] { work(); });
    } catch (const std::system_error& e) {
        delist();
        throw Error(std::string("a thread can't be made: ") + e.what());
    }
}

GX_DECL Session::~Session() {
    if (!forked_) {
        {
            const std::lock_guard lock(mutex_);
            closing_ = true;
            waker_.wake();
        }
        monitor_.join();
        const std::lock_guard lock(mutex_);
        connections_.clear();  // before a child could have copies that nobody closes
        listener_.reset();
    }
    delist();
}

// ---- Children of fork() -------------------------------------------------------------------

GX_DECL void Session::enlist() {
    static const int handlers = ::pthread_atfork(before_fork, in_parent, in_child);
    if (handlers != 0)
        throw Error(std::string("pthread_atfork failed: ") + std::strerror(handlers));
    auto& all = detail::session::living();
    const std::lock_guard lock(all.mutex);
    all.sessions.push_back(this);
}
GX_DECL void Session::delist() {
    auto& all = detail::session::living();
    const std::lock_guard lock(all.mutex);
    std::erase(all.sessions, this);
}

// In a handler of a signal the thread itself may hold a lock: then that session is left as it is.
GX_DECL void Session::before_fork() {
    auto& all = detail::session::living();
    const Duration end = steady_now() + detail::session::fork_patience;
    const auto lock = [end](std::mutex& mutex) {
        bool locked = mutex.try_lock();
        for (; !locked && steady_now() < end; locked = mutex.try_lock())
            std::this_thread::sleep_for(std::chrono::microseconds(50));
        return locked;
    };
    detail::session::locked_for_fork = lock(all.mutex);
    if (!detail::session::locked_for_fork) return;
    for (Session* const s : all.sessions) s->locked_ = lock(s->mutex_);
}
GX_DECL void Session::in_parent() {
    auto& all = detail::session::living();
    if (!std::exchange(detail::session::locked_for_fork, false)) return;
    for (Session* const s : all.sessions)
        if (std::exchange(s->locked_, false)) s->mutex_.unlock();
    all.mutex.unlock();
}
// None of the threads that a session knows of is in the child: neither the monitor, nor one that
// holds a lock or waits for a change. The copies begin anew without them; the child's own children
// have none.
GX_DECL void Session::in_child() {
    auto& all = detail::session::living();
    if (!std::exchange(detail::session::locked_for_fork, false)) return;
    for (Session* const s : all.sessions) {
        s->forked_ = true;
        std::construct_at(&s->monitor_);
        std::construct_at(&s->changed_);
        std::construct_at(&s->callback_mutex_);
        std::construct_at(&s->waits_mutex_);
        if (!std::exchange(s->locked_, false)) continue;
        s->connections_.clear();
        if (s->listener_) s->listener_->leave_file();
        s->listener_.reset();
        s->waker_.close();
        s->mutex_.unlock();
    }
    all.sessions.clear();
    all.mutex.unlock();
}

// ---- The rank -----------------------------------------------------------------------------

GX_DECL Roster Session::join() {
    std::unique_lock lock(mutex_);
    gx::detail::sleep_until(changed_, lock,
                            [&] { return member_.joined() || member_.cause().stopped(); });
    if (!member_.joined()) throw Error(member_.sentence());
    return member_.roster();
}

GX_DECL void Session::compare(const RunTerms& terms) {
    std::unique_lock lock(mutex_);
    const int round = ++compared_;
    member_.compare(terms);
    waker_.wake();
    const WaitsFor waits(*this, std::views::iota(0, rank() == 0 ? ranks() : 1),
                         [&](int r) { return r == rank() ? -1 : r; });
    gx::detail::sleep_until(changed_, lock,
                            [&] { return member_.agreed() >= round || member_.cause().stopped(); });
    if (member_.agreed() >= round) return;
    const Cause& c = member_.cause();
    if (c.reason == Reason::mismatch) throw Error(c.text);
    throw LostRank({.rank = rank(), .operation = "comparing the run with that of rank 0"},
                   {c.outcome(), c.rank});
}

GX_DECL std::vector<std::string> Session::gather(const std::string& mine, Duration limit) {
    std::vector<std::string> all(static_cast<std::size_t>(ranks()));
    std::vector<char> has(all.size());
    all[static_cast<std::size_t>(rank())] = mine;
    has[static_cast<std::size_t>(rank())] = true;
    const auto bytes = std::as_bytes(std::span(mine));
    note({bytes.begin(), bytes.end()});
    const auto take = [&](const Note& n) {
        const auto r = static_cast<std::size_t>(n.rank);
        if (has[r]) return false;
        has[r] = true;
        all[r].assign(reinterpret_cast<const char*>(n.bytes.data()), n.bytes.size());
        return true;
    };
    std::unique_lock lock(mutex_);
    WaitsFor waits(*this, -1);
    const auto missing = [&] {
        std::erase_if(notes_, take);
        waits.now(std::views::iota(0, ranks()),
                  [&](int r) { return has[static_cast<std::size_t>(r)] ? -1 : r; });
        return std::ranges::find(has, char(false));
    };
    const auto over = [&] { return missing() == has.end() || member_.cause().stopped(); };
    const auto has_left = [&] {  // without giving anything: its notes have come before
        for (int r = 0; r < ranks(); ++r)
            if (!has[static_cast<std::size_t>(r)] && member_.left(r)) return r;
        return -1;
    };
    gx::detail::Patience patience(limit);
    (void)gx::detail::sleep_until(changed_, lock, patience,
                                  [&] { return over() || has_left() >= 0; });
    if (!over())
        blame_locked(has_left() >= 0 ? has_left() : static_cast<int>(missing() - has.begin()),
                     &waits);
    gx::detail::sleep_until(changed_, lock, over);
    if (missing() != has.end()) throw Error(member_.sentence());
    return all;
}

GX_DECL void Session::note(std::vector<std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    member_.note(std::move(bytes));
    waker_.wake();
}

GX_DECL void Session::working_on(const Operation& operation) {
    const std::lock_guard lock(mutex_);
    member_.working_on(operation);
    if (coordinator_) coordinator_->observe(operation);
}

GX_DECL void Session::fail(std::string_view text, int exit_status) {
    const std::lock_guard lock(mutex_);
    member_.fail(text, exit_status);
    waker_.wake();
}

GX_DECL void Session::blame(int peer, const WaitsFor* by) {
    const std::lock_guard lock(mutex_);
    blame_locked(peer, by);
}

GX_DECL void Session::leave() {
    const std::lock_guard lock(mutex_);
    member_.leave();
    waker_.wake();
}

GX_DECL bool Session::end(Duration limit) {
    std::unique_lock lock(mutex_);
    gx::detail::Patience patience(limit);
    return gx::detail::sleep_until(changed_, lock, patience, [&] { return over(); });
}

GX_DECL bool Session::await_end(Duration limit) {
    {
        std::unique_lock lock(mutex_);
        if (!coordinator_) {
            gx::detail::sleep_until(changed_, lock,
                                    [&] { return over() || member_.cause().stopped(); });
            limit = saturating_sum(limit, limit);
        }
    }
    return end(limit);
}

GX_DECL bool Session::over() const {
    if (!coordinator_) return member_.ended() || root_lost_.has_value();
    return coordinator_->ended() && member_.ended() && (keeps_connections() || all_closing());
}

GX_DECL bool Session::all_closing() const {
    const auto refused = [](const auto& one) { return one.second.closing; };
    return std::all_of(connections_.begin(), connections_.end(), refused);
}

GX_DECL bool Session::keeps_connections() const {
    return options_.regroups && !parted_ && member_.cause().is_loss();
}

GX_DECL void Session::end_now() {
    const std::lock_guard lock(mutex_);
    coordinator_->end();
    waker_.wake();
}

// ---- Another run --------------------------------------------------------------------------

GX_DECL Regrouped Session::regroup(std::int64_t number, Duration limit) {
    std::unique_lock lock(mutex_);
    if (!keeps_connections()) return {};
    // The root's own member may know a loss, and the coordinator another cause.
    if (coordinator_ && !coordinator_->cause().is_loss()) return {};
    if (coordinator_) coordinator_->regroup_by(saturating_sum(steady_now(), limit));
    member_.stay(number);
    const int run = runs_;
    waker_.wake();
    const auto root_is_gone = [&] { return !coordinator_ && connections_.empty(); };
    const auto done = [&] { return runs_ > run || root_is_gone() || root_lost_.has_value(); };
    gx::detail::Patience patience(coordinator_ ? Duration::max()
                                               : limit);  // the root's ends its wait
    (void)gx::detail::sleep_until(changed_, lock, patience, done);
    if (runs_ > run) return member_.regrouped();
    parted_ = true;  // nor later
    if (!coordinator_) hang_up();
    return {};
}

// On the monitor, where the member has begun another run.
GX_DECL void Session::begin_anew() {
    runs_ = member_.runs();
    options_.rank = member_.rank();
    options_.ranks = static_cast<int>(member_.regrouped().members.size());
    compared_ = 0;
    notes_.clear();
    member_.working_on(options_.operation);
    if (coordinator_) coordinator_->observe(options_.operation);
}

// A socket stays open while the monitor polls it.
GX_DECL void Session::hang_up() {
    for (const auto& [id, c] : connections_)
        if (c.socket.is_open()) ::shutdown(c.socket.get(), SHUT_RDWR);
    connections_.clear();
    waker_.wake();
}

GX_DECL void Session::part(Duration limit) {
    std::unique_lock lock(mutex_);
    if (std::exchange(parted_, true)) return;
    if (!coordinator_) return hang_up();
    for (auto& [id, c] : connections_) c.closing = true;
    waker_.wake();
    const auto is_stranger = [](const auto& one) { return one.second.stranger; };
    const auto all_gone = [&] { return std::ranges::all_of(connections_, is_stranger); };
    gx::detail::Patience patience(limit);
    (void)gx::detail::sleep_until(changed_, lock, patience, all_gone);
}

GX_DECL Cause Session::cause() {
    const std::lock_guard lock(mutex_);
    return member_.cause();
}
GX_DECL Cause Session::await_cause() {
    std::unique_lock lock(mutex_);
    gx::detail::sleep_until(changed_, lock, [&] { return member_.cause().stopped(); });
    return member_.cause();
}
GX_DECL std::string Session::sentence() {
    const std::lock_guard lock(mutex_);
    return member_.sentence();
}
GX_DECL bool Session::left(int rank) {
    const std::lock_guard lock(mutex_);
    return member_.left(rank);
}
GX_DECL int Session::exit_status() {
    const std::lock_guard lock(mutex_);
    return member_.exit_status();
}
GX_DECL std::string Session::error_of(int rank) {
    const std::lock_guard lock(mutex_);
    return coordinator_->error_of(rank);
}
GX_DECL std::vector<int> Session::running() {
    const std::lock_guard lock(mutex_);
    std::vector<int> ranks;
    for (int r = 0; r < options_.ranks; ++r)
        if (!coordinator_->left(r) && !coordinator_->gone(r)) ranks.push_back(r);
    return ranks;
}

GX_DECL std::vector<int> Session::connected() {
    const std::lock_guard lock(mutex_);
    std::vector<int> ranks;
    for (int r = 1; r < options_.ranks; ++r)
        if (!coordinator_->gone(r)) ranks.push_back(r);
    return ranks;
}

GX_DECL void Session::on_change(std::function<void()> f) {
    const std::lock_guard lock(callback_mutex_);
    callback_ = std::move(f);
    if (callback_) callback_();
}

GX_DECL void Session::on_note(std::function<void(int, std::span<const std::byte>)> f) {
    const std::lock_guard lock(callback_mutex_);
    note_callback_ = std::move(f);
    deliver_notes();
}

GX_DECL void Session::deliver_notes() {
    if (!note_callback_) return;
    std::vector<Note> notes;
    {
        const std::lock_guard lock(mutex_);
        notes = std::exchange(notes_, {});
    }
    for (const Note& n : notes) note_callback_(n.rank, n.bytes);
}

// ---- The monitor --------------------------------------------------------------------------

GX_DECL void Session::work() {
    std::vector<pollfd> polled;
    std::vector<int> ids;
    for (;;) {
        std::unique_lock lock(mutex_);
        const Duration time = look(Duration::zero());
        if (member_.is_asked()) member_.waits_for(waits_for());
        member_.tick(time);
        if (coordinator_) coordinator_->tick(time);
        else if (!root_lost_ && (gave_up_root() || member_.root_is_silent(time))) root_lost_ = time;
        move_messages();
        write_all();
        const bool last = closing_;
        polled.assign(1, {.fd = waker_.get(), .events = POLLIN, .revents = 0});
        ids.assign(1, -1);
        if (accept_again_ && time >= *accept_again_) accept_again_.reset();
        const bool accepting = listener_ && !accept_again_;
        if (accepting) {
            polled.push_back({.fd = listener_->get(), .events = POLLIN, .revents = 0});
            ids.push_back(-1);
        }
        for (const auto& [id, c] : connections_) {
            const int events = POLLIN | (c.out.empty() ? 0 : POLLOUT);
            polled.push_back(
                {.fd = c.socket.get(), .events = static_cast<short>(events), .revents = 0});
            ids.push_back(id);
        }
        changed_.notify_all();
        const int timeout = milliseconds_until(next_tick());
        const int changes = member_.changes();
        lock.unlock();
        {
            const std::lock_guard calling(callback_mutex_);
            if (callback_ && changes != told_) callback_();
            told_ = changes;
            deliver_notes();
        }
        if (last) return;
        ::poll(polled.data(), polled.size(), timeout);
        lock.lock();
        look(timeout >= 0 ? std::chrono::milliseconds(timeout) : Duration::max());
        if (polled[0].revents != 0) waker_.drain();
        if (accepting && (polled[1].revents & POLLNVAL) != 0) {
            listener_->release();
            listener_.reset();
        } else if (accepting && polled[1].revents != 0) {
            accept_all();
        }
        for (std::size_t i = 1; i < polled.size(); ++i)
            if (ids[i] >= 0 && (polled[i].revents & (POLLIN | POLLHUP | POLLERR | POLLNVAL)) != 0)
                read(ids[i]);
        exit_without_root();
    }
}

// A process that stood still, in the background of a shell or in a frozen container, has not heard
// the others meanwhile, who may have stood still too: neither is silent because of that.
// At the clock; the last look was at most `asked` ago where it ran all the time.
GX_DECL Duration Session::look(Duration asked) {
    const Duration time = steady_now();
    const Duration more = time - std::exchange(looked_, time) - asked;
    if (more <= gx::detail::Patience::stood_still) return time;
    member_.stood_still(more, time);
    if (coordinator_) coordinator_->stood_still(more, time);
    if (root_lost_) *root_lost_ += more;
    return time;
}

GX_DECL Duration Session::next_tick() const {
    Duration next = member_.next_tick();
    if (coordinator_) next = std::min(next, coordinator_->next_tick());
    if (listener_ && accept_again_) next = std::min(next, *accept_again_);
    if (root_lost_) next = std::min(next, saturating_sum(*root_lost_, options_.outlive_root));
    const Duration longest =
        member_.ended() ? detail::session::pulse_behind : detail::session::pulse;
    return std::min(next, steady_now() + longest);
}

// Whether the root is lost though its connection has not ended.
GX_DECL bool Session::gave_up_root() const {
    const Cause& c = member_.cause();
    return c.rank == 0 && c.observer == rank() &&
           (c.reason == Reason::lost || c.reason == Reason::silent || c.reason == Reason::absent);
}

GX_DECL void Session::exit_without_root() const {
    if (!root_lost_ || closing_) return;
    if (steady_now() >= saturating_sum(*root_lost_, options_.outlive_root)) ::_exit(1);
}

// Moves what the state machines want to send, until they want nothing more.
GX_DECL void Session::move_messages() {
    for (bool moved = true; moved;) {
        moved = false;
        for (const Message& m : member_.take()) {
            moved = true;
            if (coordinator_) coordinator_->received(detail::session::own, m, steady_now());
            else append(detail::session::to_root, m);
        }
        if (!coordinator_) continue;
        for (Order& o : coordinator_->take()) {
            moved = true;
            order(o);
        }
    }
    if (coordinator_ && coordinator_->joined()) listener_.reset();
    if (!coordinator_ && member_.ended() && !keeps_connections()) connections_.clear();
}

GX_DECL void Session::order(Order& o) {
    if (o.connection == detail::session::own) {
        if (o.message) member_got(*o.message);
        return;
    }
    if (o.message) append(o.connection, *o.message);
    const auto found = connections_.find(o.connection);
    if (o.close && found != connections_.end()) found->second.closing = true;
}

GX_DECL void Session::append(int id, const Message& message) {
    const auto found = connections_.find(id);
    if (found == connections_.end() || found->second.closing) return;
    const auto bytes = encode(message);
    found->second.out.insert(found->second.out.end(), bytes.begin(), bytes.end());
}

GX_DECL void Session::accept_all() {
    while (Descriptor socket = listener_->accept()) {
        if (connections_.size() >=
                static_cast<std::size_t>(options_.ranks) + detail::session::strangers_max &&
            !drop_stranger())
            continue;
        connections_[++last_connection_] = {.socket = std::move(socket),
                                            .reader = MessageReader(hello_bytes_max),
                                            .stranger = true};
        coordinator_->connected(last_connection_, steady_now());
    }
    if (errno == EBADF) {  // closed by the program
        listener_->release();
        listener_.reset();
        return;
    }
    if (!no_descriptor_is_left(errno)) return;
    coordinator_->not_accepted(not_accepted(rank(), errno));
    accept_again_ = saturating_sum(steady_now(), detail::session::accept_pause);
}

// Closes the oldest connection that has not said who it is, or that is refused.
GX_DECL bool Session::drop_stranger() {
    for (auto next = connections_.begin(); next != connections_.end();) {
        const auto [id, seen] =
            std::pair(next->first, next->second.stranger || next->second.closing);
        ++next;
        if (!seen) continue;
        read(id);  // its Hello may have come
        const auto found = connections_.find(id);
        if (found == connections_.end()) return true;
        if (!found->second.stranger && !found->second.closing) continue;
        lose(id, false);
        return true;
    }
    return false;
}

// Reads what is there, at most 64 KiB, so that one connection that floods does not stop the others.
GX_DECL void Session::read(int id) {
    const auto reported = connections_.find(id);
    if (reported != connections_.end() && !reported->second.socket.is_open())
        return lose_closed(id);
    for (int pieces = 0; pieces < 16; ++pieces) {
        const auto found = connections_.find(id);
        if (found == connections_.end()) return;
        Connection& c = found->second;
        std::byte bytes[4096];
        const auto n = ::recv(c.socket.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
        if (n <= 0) return lose(id, c.reader.inside_message());
        if (c.closing) {  // refused: what it sends is read, so that it can read why
            c.ignored += static_cast<std::size_t>(n);
            if (c.ignored > detail::session::ignored_max) return lose(id, false);
            continue;
        }
        c.reader.feed(std::span(bytes).first(static_cast<std::size_t>(n)));
        while (const auto message = c.reader.next()) {
            got(id, *message);
            c.reader.limit(body_bytes_max);
        }
        if (c.reader.problem().empty()) continue;
        const std::string problem = c.reader.problem();
        if (coordinator_) coordinator_->malformed(id, problem, steady_now());
        else member_.malformed(problem), lose(id, false);
        return;
    }
}

GX_DECL void Session::got(int id, const Message& message) {
    if (const auto found = connections_.find(id); found != connections_.end())
        found->second.stranger = false;
    if (coordinator_) coordinator_->received(id, message, steady_now());
    else member_got(message);
}
GX_DECL void Session::member_got(const Message& message) {
    if (std::holds_alternative<Waiting>(message)) member_.waits_for(waits_for());
    member_.received(message, steady_now());
    if (member_.runs() > runs_) begin_anew();
    // Who sees a cause sees the notes that have come before it.
    for (Note& n : member_.take_notes()) notes_.push_back(std::move(n));
}

// ---- Waits --------------------------------------------------------------------------------

// The newest are the first, and left out where there are too many.
GX_DECL std::vector<Wait> Session::waits_for() {
    const std::lock_guard lock(waits_mutex_);
    const Duration now = steady_now();  // no wait of the list has begun later
    std::vector<Wait> waits;
    for (const WaitsFor* w = waits_; w != nullptr; w = w->next_)
        if (w->count_ > 0) waits.push_back({w->peers(), now - w->begin_});
    if (waits.size() > waits_max)
        waits.erase(waits.begin(), waits.end() - static_cast<std::ptrdiff_t>(waits_max));
    return waits;
}

// Without a wait the blame is by the oldest one for `peer`.
GX_DECL void Session::blame_locked(int peer, const WaitsFor* by) {
    Duration begin{};
    {
        const std::lock_guard lock(waits_mutex_);
        for (const WaitsFor* w = waits_; w != nullptr; w = w->next_)
            if (by == nullptr ? w->has(peer) : w == by) begin = w->begin_;
    }
    member_.blame(peer, begin == Duration{} ? Duration{} : steady_now() - begin);
    waker_.wake();
}

GX_DECL void WaitsFor::enter() {
    const std::lock_guard lock(session_.waits_mutex_);  // the list is in the order of `begin_`
    begin_ = steady_now();
    next_ = std::exchange(session_.waits_, this);
    if (next_ != nullptr) next_->previous_ = this;
}
GX_DECL WaitsFor::~WaitsFor() {
    const std::lock_guard lock(session_.waits_mutex_);
    (previous_ != nullptr ? previous_->next_ : session_.waits_) = next_;
    if (next_ != nullptr) next_->previous_ = previous_;
}
GX_DECL void WaitsFor::clear() {
    count_ = 0;
    others_.reset();
    any_other_ = false;
}
GX_DECL void WaitsFor::add(int peer) {
    if (peer == -1 || has(peer)) return;
    if (count_ < peers_most) first_[static_cast<std::size_t>(count_++)] = peer;
    else if (peer >= 0 && peer < ranks_most) others_.set(static_cast<std::size_t>(peer));
    else any_other_ = true;
}
GX_DECL bool WaitsFor::has(int peer) const {
    const auto end = first_.begin() + count_;
    return std::find(first_.begin(), end, peer) != end ||
           (peer >= 0 && peer < ranks_most && others_.test(static_cast<std::size_t>(peer)));
}
GX_DECL std::vector<int> WaitsFor::peers() const {
    std::vector<int> all(first_.begin(), first_.begin() + count_);
    for (std::size_t r = 0; r < others_.size(); ++r)
        if (others_.test(r)) all.push_back(static_cast<int>(r));
    if (any_other_) all.push_back(any_rank);
    return all;
}

GX_DECL void Session::lose(int id, bool inside_message) {
    connections_.erase(id);
    if (coordinator_) return coordinator_->closed(id, steady_now(), inside_message);
    if (member_.ended()) return;
    member_.closed(inside_message);
    root_lost_ = steady_now();
}

// The descriptor is the program's by now.
GX_DECL void Session::lose_closed(int id) {
    const auto found = connections_.find(id);
    (void)found->second.socket.release();
    constexpr std::string_view problem =
        "this process has closed its connection, as programs do that close all descriptors: they "
        "may close those alone that they have opened";
    if (coordinator_) coordinator_->malformed(id, problem, steady_now());
    else member_.malformed(problem);
    lose(id, false);
}

GX_DECL bool Session::write(Connection& c) {
    std::size_t sent = 0;
    while (sent < c.out.size()) {
        const auto n = ::send(c.socket.get(), c.out.data() + sent, c.out.size() - sent,
                              MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
        if (n < 0) {  // what it sent is still to be read: read() sees its end
            c.out.clear();
            return false;
        }
        sent += static_cast<std::size_t>(n);
    }
    c.out.erase(c.out.begin(), c.out.begin() + static_cast<std::ptrdiff_t>(sent));
    return true;
}

GX_DECL void Session::write_all() {
    std::vector<int> closed;
    for (auto& [id, c] : connections_) {
        if (c.out.empty() && !c.closing) continue;
        if (!c.socket.is_open()) {
            closed.push_back(id);
            continue;
        }
        const bool good = write(c);
        if (c.closing && (!good || c.out.empty())) ::shutdown(c.socket.get(), SHUT_WR);
    }
    for (const int id : closed) lose_closed(id);
}

}  // namespace gx::coordination
