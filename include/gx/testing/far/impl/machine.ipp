// FarMachine: turns, queues and what goes wrong.
#pragma once

#include <algorithm>  // any_of
#include <cstring>    // memcpy
#include <thread>     // hosts
#include <utility>    // move

#include <gx/testing/far/machine.hpp>  // the declarations

namespace gx::testing {

namespace detail::far {
inline const std::byte* kernels_side(const std::byte* seen) {
    return seen + FarMemory::mapped_bytes;
}
inline std::byte* kernels_side(std::byte* seen) { return seen + FarMemory::mapped_bytes; }
}  // namespace detail::far

GX_DECL FarMachine::FarMachine(Placement placement, std::uint64_t seed, QueueProgress progress)
    : placement_(placement),
      progress_(progress),
      rng_(seed, "gx::testing::FarMachine"),
      detector_(placement.ranks()) {
    name_host_accesses();
    for (int r = 0; r < placement.ranks(); ++r) {
        Host& h = hosts_.emplace_back();
        h.arena = std::make_unique<FarArena>(r);
        h.actor = detector_.add_function(r, Label("host of rank ") + r);
    }
}
GX_DECL FarMachine::~FarMachine() = default;

// ---- Hosts take turns ------------------------------------------------------------------

GX_DECL void FarMachine::run(FunctionRef<void(int)> f) {
    std::vector<std::jthread> threads;
    const int ranks = placement_.ranks();
    turn_ = static_cast<int>(draw(static_cast<std::uint64_t>(ranks)));
    for (int r = 0; r < ranks; ++r)
        threads.emplace_back([&, r] {
            {
                std::unique_lock lock(mutex_);
                at(r).turn.wait(lock, [&] { return turn_ == r; });
            }
            try {
                f(r);
            } catch (const LostRank&) {
                lose(r);
            } catch (const DeviceLost&) {
                lose(r);
            } catch (const std::exception& e) {
                if (at(r).misuse.empty()) fail(std::current_exception(), r);
                else
                    fail(std::make_exception_ptr(
                             Error(e.what() + (" (Besides, " + at(r).misuse + ")"))),
                         r);
            } catch (...) {
                fail(std::current_exception(), r);
            }
            at(r).left = true;
            pass_turn(r);
        });
    threads.clear();  // joins
    if (error_) std::rethrow_exception(error_);
    if (loss_) std::rethrow_exception(loss_);
}

GX_DECL void FarMachine::lose(int rank) {
    if (!loss_) loss_ = std::current_exception();
    for (int q = 0; q < static_cast<int>(queues_.size()); ++q)
        if (queue(q).rank == rank) drop(q);
}

GX_DECL bool FarMachine::reached(int rank, Event event) {
    if (event.sequence == 0) return true;
    expect_event(rank, event);
    if (!reached(event)) poll(rank, event);
    if (!reached(event)) return false;
    detector_.waited(queue(event.stream).actor, event.sequence, at(rank).actor);
    return true;
}

GX_DECL void FarMachine::poll(int rank, Event event) {
    constexpr int limit = 100'000;
    Host& h = at(rank);
    h.polls = true;
    h.event = event;
    h.waits_for = name_of(event);
    h.gave_up = {};
    std::vector<Action> possible = actions();
    std::erase_if(possible, [&](const Action& a) { return a.host == rank; });
    const bool goes_on = std::ranges::any_of(
        possible, [&](const Action& a) { return a.host < 0 || !at(a.host).polls; });
    fruitless_ = goes_on ? 0 : fruitless_ + 1;
    if (!possible.empty() && act(possible[draw(possible.size())])) {
        std::unique_lock lock(mutex_);
        h.turn.wait(lock, [&] { return turn_ == rank; });
    }
    const std::string again =
        "rank " + std::to_string(rank) + " asks again and again for an event, and ";
    if (error_) throw Error(again + "the run has ended with an error of another rank");
    if (fruitless_ >= limit) {
        if (!give_up()) stop_at(rank, Error(again + "nothing else can go on: " + stuck()));
        fruitless_ = 0;
    }
    h.polls = false;
    h.event = {};
    if (!h.gave_up.complete())
        throw LostRank({.rank = rank, .operation = "asking for an event"}, h.gave_up);
}

GX_DECL void FarMachine::stop_at(int rank, const Error& error) {
    fail(std::make_exception_ptr(error), rank);
    throw error;
}
GX_DECL void FarMachine::fail(std::exception_ptr error, int rank) {
    if (error_) return;
    error_ = std::move(error);
    failed_ = rank;
}

/// Work and hosts run until `rank` can; or another host gets the turn, and gives it back.
GX_DECL Delivery FarMachine::block(int rank, std::function<bool()> ready, std::string what) {
    Host& h = at(rank);
    h.ready = std::move(ready);
    h.waits_for = std::move(what);
    h.gave_up = {};
    pass_turn(rank);
    h.ready = nullptr;
    if (!h.gave_up.complete()) return h.gave_up;
    if (error_) return {Delivery::Outcome::cancelled, failed_};
    return {};
}

/// Returns once it is the turn of `from` again; at once where it has left.
GX_DECL void FarMachine::pass_turn(int from) {
    for (;;) {
        const std::vector<Action> possible = actions();
        if (possible.empty()) {
            const bool all_left = std::ranges::all_of(hosts_, [](const Host& h) { return h.left; });
            if (all_left) return;
            if (!give_up())
                fail(std::make_exception_ptr(
                         Error("hosts and queues all wait for each other: " + stuck())),
                     0);
            continue;
        }
        if (!act(possible[draw(possible.size())])) continue;
        std::unique_lock lock(mutex_);
        if (at(from).left) return;
        at(from).turn.wait(lock, [&] { return turn_ == from; });
        return;
    }
}

/// By itself: no group of messages.
GX_DECL bool FarMachine::can_run(const FarWork& head) const {
    if (head.awaited.sequence > 0) return reached(head.awaited);
    return head.messages.empty();
}

GX_DECL std::vector<FarMachine::Action> FarMachine::actions() {
    std::vector<Action> hosts, work, polling;
    for (int r = 0; r < placement_.ranks(); ++r) {
        const Host& h = at(r);
        if (h.left) continue;
        if (!h.ready || error_ || !h.gave_up.complete() || h.ready())
            (h.polls ? polling : hosts).push_back({.host = r});
    }
    if (error_) {
        hosts.insert(hosts.end(), polling.begin(), polling.end());
        return hosts;
    }
    for (int q = 0; q < static_cast<int>(queues_.size()); ++q) {
        const Queue& mine = queue(q);
        if (mine.work.empty()) continue;
        const FarWork& head = mine.work.front();
        if (can_run(head) || (!head.messages.empty() && !head.posted)) {
            work.push_back({.queue = q});
            continue;
        }
        for (int m = 0; m < static_cast<int>(head.messages.size()); ++m) {
            const auto& send = head.messages[static_cast<std::size_t>(m)];
            if (send.done || !send.sends) continue;
            const bool first = !std::any_of(
                head.messages.begin(), head.messages.begin() + m, [&](const auto& earlier) {
                    return earlier.sends && !earlier.done && earlier.peer == send.peer;
                });
            if (!first) continue;
            for (int p = 0; p < static_cast<int>(queues_.size()); ++p) {
                const Queue& other = queue(p);
                if (other.rank != send.peer || other.work.empty()) continue;
                const FarWork& there = other.work.front();
                if (!there.posted) continue;
                for (int i = 0; i < static_cast<int>(there.messages.size()); ++i) {
                    const auto& receive = there.messages[static_cast<std::size_t>(i)];
                    if (receive.sends || receive.done || receive.peer != mine.rank) continue;
                    work.push_back({.queue = q, .message = m, .peer = p, .peer_message = i});
                    break;
                }
            }
        }
    }
    const bool lazily = progress_ == QueueProgress::late && !hosts.empty();
    const bool eagerly = progress_ == QueueProgress::eager && !work.empty();
    if (lazily) return hosts;
    if (eagerly) return work;
    hosts.insert(hosts.end(), work.begin(), work.end());
    return hosts.empty() ? polling : hosts;
}

GX_DECL bool FarMachine::act(const Action& a) {
    if (a.host >= 0) {
        const std::scoped_lock lock(mutex_);
        turn_ = a.host;
        at(a.host).turn.notify_one();
        return true;
    }
    try {
        if (a.message >= 0) transfer(a);
        else run_head(a.queue);
    } catch (...) {
        fail(std::current_exception(), queue(a.queue).rank);
    }
    return false;
}

/// Some of the queued work runs while a host goes on.
GX_DECL void FarMachine::make_progress() {
    if (progress_ == QueueProgress::late) return;
    for (;;) {
        if (progress_ == QueueProgress::random && draw(2) == 0) return;
        std::vector<Action> possible = actions();
        std::erase_if(possible, [](const Action& a) { return a.host >= 0; });
        if (possible.empty()) return;
        act(possible[draw(possible.size())]);
    }
}

// ---- Deadlock ----------------------------------------------------------------------------

GX_DECL int FarMachine::missing_rank(const Queue& q, std::uint64_t sequence,
                                     std::vector<bool>& seen) const {
    if (q.done >= sequence || q.work.empty()) return -1;
    const FarWork& head = q.work.front();
    if (head.awaited.sequence > 0)
        return missing_rank(queue(head.awaited.stream), head.awaited.sequence, seen);
    for (const auto& m : head.messages)
        if (!m.done)
            if (const int rank = missing_rank(m.peer, seen); rank >= 0) return rank;
    return -1;
}
/// The rank that has left, or gave up, and that `rank` waits for in the end; -1: none.
GX_DECL int FarMachine::missing_rank(int rank, std::vector<bool>& seen) const {
    const Host& h = hosts_[static_cast<std::size_t>(rank)];
    if (h.left) return rank;
    if (seen[static_cast<std::size_t>(rank)]) return -1;
    seen[static_cast<std::size_t>(rank)] = true;
    if (h.peer >= 0) return missing_rank(h.peer, seen);
    if (h.event.sequence > 0) return missing_rank(queue(h.event.stream), h.event.sequence, seen);
    return -1;
}

/// Ends the wait of a rank, or what it polls for, that only a rank that has left could complete,
/// and all others'. False: there is none.
GX_DECL bool FarMachine::give_up() {
    for (const bool polls : {false, true})
        for (int r = 0; r < placement_.ranks(); ++r) {
            Host& h = at(r);
            if (h.left || h.polls != polls) continue;
            std::vector<bool> seen(hosts_.size());
            const int missing = missing_rank(r, seen);
            if (missing < 0) continue;
            for (Host& other : hosts_)
                if (!other.left && other.gave_up.complete())
                    other.gave_up = {Delivery::Outcome::cancelled, missing};
            h.gave_up = {Delivery::Outcome::timed_out, missing};
            return true;
        }
    return false;
}

GX_DECL std::string FarMachine::stuck() const {
    std::string text;
    for (int r = 0; r < placement_.ranks(); ++r) {
        const Host& h = hosts_[static_cast<std::size_t>(r)];
        if (h.left) continue;
        if (!text.empty()) text += "; ";
        text += "rank " + std::to_string(r) + " waits for " + h.waits_for;
        for (const Queue& q : queues_) {
            if (q.rank != r || q.work.empty()) continue;
            text += ", its queue '" + std::string(q.name.view()) + "' stands at '" +
                    to_string(q.work.front().operation) + "'";
            for (const auto& m : q.work.front().messages)
                if (!m.done)
                    text += m.sends ? ", a message to rank " + std::to_string(m.peer)
                                    : ", a message from rank " + std::to_string(m.peer);
        }
    }
    return text + ". Let every rank make the same calls in the same order.";
}

// ---- Queues ------------------------------------------------------------------------------

GX_DECL int FarMachine::add_queue(int rank, const Label& name) {
    Queue& q = queues_.emplace_back();
    q.rank = rank;
    q.name = name;
    q.actor = detector_.add_stream(at(rank).actor, name);
    return static_cast<int>(queues_.size()) - 1;
}

GX_DECL void FarMachine::enqueue(int q, FarWork work) {
    Queue& mine = queue(q);
    const int host = at(mine.rank).actor;
    for (const FarWork::Use& use : work.uses)  // from here on its accesses are known
        if (use.on_host) detector_.cover(mine.rank, use.memory, work.operation.what);
    detector_.queued(mine.actor, host);
    ++mine.queued;
    mine.work.push_back(std::move(work));
    make_progress();
}

GX_DECL Event FarMachine::record(int q) const { return {queue(q).queued, q}; }

GX_DECL void FarMachine::expect_event(int rank, Event event) {
    if (const std::string flaw = flaw_of(rank, event); !flaw.empty()) stop_at(rank, Error(flaw));
}
GX_DECL std::string FarMachine::flaw_of(int rank, Event event) const {
    const std::string where = "rank " + std::to_string(rank) + " waits for ";
    if (event.stream < 0 || event.stream >= static_cast<int>(queues_.size()))
        return where + "an event of no queue. Wait for what record() returned.";
    const Queue& of = queue(event.stream);
    const std::string name = "queue '" + std::string(of.name.view()) + "'";
    if (of.rank != rank)
        return where + "an event of " + name + " of rank " + std::to_string(of.rank) +
               ". Wait for events of its own queues; ranks meet by messages.";
    if (event.sequence > of.queued)
        return where + "event " + std::to_string(event.sequence) + " of " + name +
               ", which has queued " + std::to_string(of.queued) +
               ". Wait for what record() returned.";
    return "";
}

GX_DECL void FarMachine::enqueue_wait(int q, Event event) {
    if (event.sequence == 0) return;
    expect_event(queue(q).rank, event);
    if (event.stream == q) return;
    FarWork work;
    work.operation = {Label("wait for ") + queue(event.stream).name.view()};
    work.awaited = event;
    enqueue(q, std::move(work));
}

GX_DECL void FarMachine::check(int q, const FarWork& w) {
    const int rank = queue(q).rank;
    for (const FarWork::Use& use : w.uses) {
        if (use.memory.empty()) continue;
        if (!use.on_host)
            if (const std::string flaw = at(rank).arena->flaw(use.memory); !flaw.empty())
                throw Error("rank " + std::to_string(rank) + ": '" + to_string(w.operation) +
                            "' (" + std::string(queue(q).name.view()) +
                            (use.writes ? ") writes " : ") reads ") + flaw +
                            ". Keep buffers until their work was waited for.");
        detector_.note(queue(q).actor, use.writes ? Access::write : Access::read, use.memory,
                       w.operation);
    }
}

GX_DECL void FarMachine::run_head(int q) {
    Queue& mine = queue(q);
    FarWork& head = mine.work.front();
    detector_.begun(mine.actor);
    if (head.awaited.sequence > 0) {
        detector_.waited(queue(head.awaited.stream).actor, head.awaited.sequence, mine.actor);
        return finish_head(q);
    }
    if (!head.messages.empty()) {
        head.posted = true;
        for (auto& m : head.messages) {
            if (const std::string flaw = at(mine.rank).arena->flaw(m.memory); !flaw.empty())
                throw Error("rank " + std::to_string(mine.rank) + ": a message " +
                            (m.sends ? "sends " : "fills ") + flaw +
                            ". Keep buffers until their work was waited for.");
            m.id = unused_id();
            detector_.posted(mine.actor, m.id, m.sends ? Access::read : Access::write, m.memory,
                             head.operation);
        }
        return;
    }
    check(q, head);
    head.run();
    finish_head(q);
}

GX_DECL void FarMachine::finish_head(int q) {
    Queue& mine = queue(q);
    detector_.ended(mine.actor);
    mine.work.pop_front();
    ++mine.done;
    ++done_;
}

GX_DECL void FarMachine::transfer(const Action& a) {
    FarWork& from = queue(a.queue).work.front();
    FarWork& to = queue(a.peer).work.front();
    auto& send = from.messages[static_cast<std::size_t>(a.message)];
    auto& receive = to.messages[static_cast<std::size_t>(a.peer_message)];
    const bool same = meet(MessageBucket(from.operation), MessageBucket(to.operation));
    if (send.memory.size() != receive.memory.size() || !same)
        throw Error("rank " + std::to_string(queue(a.queue).rank) + " sends " +
                    std::to_string(send.memory.size()) + " bytes ('" + to_string(from.operation) +
                    "') where rank " + std::to_string(queue(a.peer).rank) + " receives " +
                    std::to_string(receive.memory.size()) + " ('" + to_string(to.operation) +
                    "'). Reduce the same buckets in the same order on every rank.");
    detector_.delivered(send.id, receive.id);
    detector_.waited_for(send.id, queue(a.queue).actor);
    detector_.waited_for(receive.id, queue(a.peer).actor);
    unused_ids_.insert(unused_ids_.end(), {send.id, receive.id});
    std::memcpy(detail::far::kernels_side(receive.memory.data()),
                detail::far::kernels_side(send.memory.data()), send.memory.size());
    send.done = receive.done = true;
    const auto whole = [](const FarWork& w) {
        return std::ranges::all_of(w.messages, [](const auto& m) { return m.done; });
    };
    const bool sent = whole(from), received = whole(to);
    if (sent) finish_head(a.queue);
    if (received && a.peer != a.queue) finish_head(a.peer);
}

// ---- Hosts -------------------------------------------------------------------------------

GX_DECL std::string FarMachine::name_of(Event event) const {
    const Queue& q = queues_[static_cast<std::size_t>(event.stream)];
    return "queue '" + std::string(q.name.view()) + "'";
}

GX_DECL Delivery FarMachine::wait(int rank, Event event) {
    if (event.sequence == 0) return {};
    expect_event(rank, event);
    Host& h = at(rank);
    h.event = event;
    const Delivery d = block(
        rank, [this, event] { return queue(event.stream).done >= event.sequence; }, name_of(event));
    h.event = {};
    if (d.complete()) detector_.waited(queue(event.stream).actor, event.sequence, h.actor);
    return d;
}

GX_DECL void FarMachine::host_uses(int rank, std::span<const std::byte> memory, bool writes,
                                   const Operation& what) {
    try {
        detector_.note(at(rank).actor, writes ? Access::write : Access::read, memory, what);
    } catch (const Race&) {
        fail(std::current_exception(), rank);
        throw;
    }
}
GX_DECL void FarMachine::register_memory(int rank, std::span<const std::byte> memory,
                                         const Label& name) {
    detector_.note(at(rank).actor, Access::begin, memory, {name});
}
GX_DECL void FarMachine::forget_memory(int rank, std::span<const std::byte> memory,
                                       const Operation& what) {
    const auto in_use = [&](std::span<const std::byte> used) {
        return used.data() < memory.data() + memory.size() &&
               memory.data() < used.data() + used.size();
    };
    const auto uses = [&](const FarWork& w) {
        return std::ranges::any_of(w.uses, in_use, &FarWork::Use::memory) ||
               std::ranges::any_of(w.messages,
                                   [&](const auto& m) { return !m.done && in_use(m.memory); });
    };
    const bool unwinds = std::uncaught_exceptions() > 0;
    const bool stops = error_ || (loss_ && unwinds);  // then nothing is in order
    try {
        for (const Queue& q : queues_)
            for (const FarWork& w : q.work)
                if (!stops && uses(w))
                    throw Error("rank " + std::to_string(rank) + ": '" + to_string(what) +
                                "' while '" + to_string(w.operation) + "' (" +
                                std::string(q.name.view()) +
                                ") is still queued on it. Wait for its event first.");
        if (!stops) detector_.note(at(rank).actor, Access::write, memory, what);
    } catch (const Error& e) {  // what unwinds comes first
        if (!unwinds) fail(std::current_exception(), rank);
        else if (at(rank).misuse.empty()) at(rank).misuse = e.what();
    }
    detector_.note(at(rank).actor, Access::end, memory, what);
}

GX_DECL void FarMachine::abandon(int q) {
    for (int i = 0; i < static_cast<int>(queues_.size()) && !error_; ++i) {
        const Queue& other = queue(i);
        if (other.rank != queue(q).rank || other.work.empty() || !can_run(other.work.front()))
            continue;
        act({.queue = i});
        i = -1;  // others may have waited for it
    }
    drop(q);
}
GX_DECL void FarMachine::drop(int q) {
    Queue& mine = queue(q);
    while (!mine.work.empty()) {
        FarWork& head = mine.work.front();
        if (!head.posted) detector_.begun(mine.actor);
        else
            for (const FarWork::Message& m : head.messages) {
                if (m.done) continue;
                detector_.waited_for(m.id, mine.actor);
                unused_ids_.push_back(m.id);
            }
        finish_head(q);
    }
}

GX_DECL std::size_t FarMachine::unused_id() {
    if (unused_ids_.empty()) return ids_++;
    const std::size_t id = unused_ids_.back();
    unused_ids_.pop_back();
    return id;
}
GX_DECL void FarMachine::host_send(int rank, int to, int channel,
                                   std::span<const std::byte> message) {
    const std::size_t id = unused_id();
    detector_.posted(at(rank).actor, id, Access::read, {}, {"host message"});
    mail_[{rank, to, channel}].push_back({{message.begin(), message.end()}, id});
}
GX_DECL bool FarMachine::host_message_waits(int rank, int from, int channel) const {
    const auto found = mail_.find({from, rank, channel});
    return found != mail_.end() && !found->second.empty();
}
GX_DECL Delivery FarMachine::host_wait(int rank, std::function<bool()> ready, int peer,
                                       const std::string& what) {
    Host& h = at(rank);
    h.peer = peer;
    const Delivery d = block(rank, std::move(ready), what);
    h.peer = -1;
    return d;
}
GX_DECL Delivery FarMachine::host_receive(int rank, int from, int channel,
                                          std::span<std::byte> message) {
    const Delivery d = host_wait(
        rank, [=, this] { return host_message_waits(rank, from, channel); }, from,
        "a message of the host of rank " + std::to_string(from));
    if (!d.complete()) return d;
    auto& box = mail_[{from, rank, channel}];
    HostMessage got = std::move(box.front());
    box.pop_front();
    if (got.bytes.size() != message.size())
        throw Error("rank " + std::to_string(from) + " sends " + std::to_string(got.bytes.size()) +
                    " bytes where rank " + std::to_string(rank) + " receives " +
                    std::to_string(message.size()) + ". Let both make the same calls.");
    std::memcpy(message.data(), got.bytes.data(), message.size());
    const std::size_t in = ids_;
    detector_.posted(at(rank).actor, in, Access::write, {}, {"host message"});
    detector_.delivered(got.id, in);
    detector_.waited_for(got.id, at(rank).actor);
    detector_.waited_for(in, at(rank).actor);
    unused_ids_.push_back(got.id);
    return {};
}

}  // namespace gx::testing
