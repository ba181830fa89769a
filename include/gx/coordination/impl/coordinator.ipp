// Coordinator: the bodies.
#pragma once

#include <algorithm>  // all_of, find, mismatch
#include <sstream>    // options
#include <utility>    // exchange, pair
#include <vector>     // options

#include <gx/coordination/coordinator.hpp>  // the declarations
#include <gx/core/contract.hpp>             // GX_EXPECT

namespace gx::coordination {

namespace detail::coordinator {

/// Ranks as "rank 2" or "ranks 1, 2 and 5"; at most ten of them.
inline std::string list(const std::vector<int>& ranks) {
    std::string text = ranks.size() == 1 ? "rank " : "ranks ";
    const std::size_t shown = std::min(ranks.size(), std::size_t{10});
    for (std::size_t i = 0; i < shown; ++i) {
        if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
        text += std::to_string(ranks[i]);
    }
    if (shown < ranks.size()) text += " and " + std::to_string(ranks.size() - shown) + " more";
    return text;
}

/// An option that two lists of RunTerms do not share: its name, and the values of both.
struct OtherOption {
    std::string name, mine, other;
};
/// The first option that differs, in the order of `mine`. Requires: the lists differ.
inline OtherOption first_difference(const std::string& mine, const std::string& other) {
    const auto options_of = [](const std::string& text) {
        std::vector<std::pair<std::string, std::string>> options;
        std::istringstream lines(text);
        for (std::string line; std::getline(lines, line);) {
            const auto equals = std::min(line.find('='), line.size());
            options.emplace_back(line.substr(0, equals),
                                 line.substr(std::min(equals + 1, line.size())));
        }
        return options;
    };
    const auto value_in = [](const auto& options, const std::string& name) {
        const auto at = std::ranges::find(options, name, [](const auto& o) { return o.first; });
        return at == options.end() ? std::string("not given") : at->second;
    };
    const auto a = options_of(mine), b = options_of(other);
    for (const auto* list : {&a, &b})
        for (const auto& [name, value] : *list)
            if (value_in(a, name) != value_in(b, name))
                return {"option " + name, value_in(a, name), value_in(b, name)};
    return {"list of options", mine, other};
}

/// A text, or where it is long, what lies around the first difference from another one.
inline std::string around_difference(const std::string& text, const std::string& other) {
    constexpr std::size_t most = 1000, context = 40;
    if (std::max(text.size(), other.size()) <= most) return text;
    const auto differs = std::ranges::mismatch(text, other).in1 - text.begin();
    const auto at = static_cast<std::size_t>(differs);
    const std::size_t begin = at > context ? at - context : 0;
    const std::size_t end = std::min(text.size(), at + context);
    return (begin > 0 ? "..." : "") + text.substr(begin, end - begin) +
           (end < text.size() ? "..." : "") + " (byte " + std::to_string(at) + " of " +
           std::to_string(text.size()) + ")";
}

/// First difference between the terms of `rank` and of rank 0, or nothing.
inline std::string difference(int rank, const RunTerms& its, const RunTerms& of_root) {
    const auto say = [&](std::string_view field, const std::string& a, const std::string& b) {
        const std::string name = std::to_string(rank);
        return "rank " + name + " and rank 0 do not run the same training: the " +
               std::string(field) + " of rank " + name + " is '" + around_difference(a, b) +
               "', that of rank 0 is '" + around_difference(b, a) +
               "'. Start all ranks with the same program, arguments and data.";
    };
    if (its.composition != of_root.composition)
        return say("composition", its.composition, of_root.composition);
    if (its.seed != of_root.seed)
        return say("seed", std::to_string(its.seed), std::to_string(of_root.seed));
    if (its.options != of_root.options) {
        const OtherOption o = first_difference(its.options, of_root.options);
        return say(o.name, o.mine, o.other);
    }
    if (its.ranks != of_root.ranks)
        return say("number of ranks", std::to_string(its.ranks), std::to_string(of_root.ranks));
    if (its.source != of_root.source) return say("data source", its.source, of_root.source);
    return "";
}

}  // namespace detail::coordinator

GX_DECL Coordinator::Coordinator(Options options, Duration now)
    : options_(std::move(options)),
      begun_(now),
      next_alive_(saturating_sum(now, options_.silence / 4)),
      looked_(now),
      seats_(static_cast<std::size_t>(options_.ranks)) {
    GX_EXPECT(options_.ranks > 0, "a run has at least one rank");
}

GX_DECL std::string Coordinator::name(int rank) const {
    const Hello& h = seat(rank).hello;
    std::string text = "rank " + std::to_string(rank);
    if (h.host.empty()) return text;
    return text + " (host " + h.host + ", process " + std::to_string(h.process) + ")";
}

GX_DECL void Coordinator::send(int rank, Message message) {
    if (present(rank))
        orders_.push_back({.connection = seat(rank).connection, .message = std::move(message)});
}
GX_DECL void Coordinator::send_to_all(const Message& message) {
    for (int r = 0; r < options_.ranks; ++r) send(r, message);
}

GX_DECL void Coordinator::refuse(int connection, std::string sentence) {
    connections_[connection].refused = true;
    last_refusal_ = sentence;
    orders_.push_back({.connection = connection,
                       .message = Refused{"refused by rank 0: " + std::move(sentence)},
                       .close = true});
}

GX_DECL void Coordinator::stop(Cause cause) {
    if (cause_.stopped()) return;
    graph_.reset();
    cause_ = std::move(cause);
    send_to_all(cause_);
    end_if_all_left();
}

// ---- Rendezvous -------------------------------------------------------------------------

GX_DECL void Coordinator::connected(int connection, Duration /*now*/, int rank) {
    connections_[connection] = {.expected = rank};
}

GX_DECL void Coordinator::welcome(int connection, const Hello& hello, Duration now) {
    const std::string who = "rank " + std::to_string(hello.rank) + " (host " + hello.host +
                            ", process " + std::to_string(hello.process) + ")";
    if (hello.run_id != options_.run_id)
        return refuse(connection, who +
                                      " is of another run: its run id differs; start all ranks "
                                      "of a run by one launcher");
    if (hello.ranks != options_.ranks) {
        const std::string sentence = who + " was started as one of " + std::to_string(hello.ranks) +
                                     " ranks, rank 0 as one of " + std::to_string(options_.ranks) +
                                     "; start all ranks with the same number";
        refuse(connection, sentence);
        return stop({.reason = Reason::mismatch,
                     .rank = hello.rank,
                     .observer = 0,
                     .exit_status = 1,
                     .operation = seat(0).operation,
                     .text = sentence});
    }
    if (hello.rank < 0 || hello.rank >= options_.ranks)
        return refuse(connection, who + " is not in a world of " + std::to_string(options_.ranks) +
                                      " ranks: they count from 0");
    const int expected = connections_[connection].expected;
    if (expected != of_no_rank && expected != hello.rank)
        return refuse(connection,
                      who + " came by the connection of rank " + std::to_string(expected));
    if (seat(hello.rank).connection >= 0)
        return refuse(connection, who + " came, but " + name(hello.rank) +
                                      " is there already: two processes have one rank");
    connections_[connection].rank = hello.rank;
    Seat& s = seat(hello.rank);
    s.connection = connection;
    s.hello = hello;
    s.hello.run_id.clear();
    s.heard = now;
    if (cause_.stopped()) {
        send(hello.rank, cause_);
        if (ended_) send(hello.rank, Ended{cause_.exit_status});
        return;
    }
    if (std::ranges::all_of(seats_, [](const Seat& one) { return one.connection >= 0; })) begin();
}

GX_DECL void Coordinator::begin() {
    std::map<std::pair<std::string, int>, int> taken;  // (host, local rank) -> rank
    Welcome all;
    for (int r = 0; r < options_.ranks; ++r) {
        const Hello& h = seat(r).hello;
        all.members.push_back({h.host, h.process, h.local_rank});
        if (h.local_rank < 0) continue;
        const auto [first, is_new] = taken.emplace(std::pair(h.host, h.local_rank), r);
        if (is_new) continue;
        return stop({.reason = Reason::mismatch,
                     .rank = r,
                     .observer = 0,
                     .exit_status = 1,
                     .operation = seat(0).operation,
                     .text = "rank " + std::to_string(first->second) + " and rank " +
                             std::to_string(r) + " both have local rank " +
                             std::to_string(h.local_rank) + " of host " + h.host +
                             ": they would use the same device; start each rank of a host with a "
                             "local rank of its own"});
    }
    joined_ = true;
    refuse_strangers();
    send_to_all(all);
}

// Connections that have not said who they are: no rank is missing any more, or the run has ended.
GX_DECL void Coordinator::refuse_strangers() {
    for (const auto& [connection, c] : connections_)
        if (c.rank == of_no_rank && !c.refused && c.expected == of_no_rank)
            refuse(connection,
                   cause_.stopped() && !cause_.text.empty() ? cause_.text : "all ranks have come");
}

// ---- Messages ---------------------------------------------------------------------------

GX_DECL void Coordinator::received(int connection, const Message& message, Duration now) {
    look(now);
    const auto found = connections_.find(connection);
    if (found == connections_.end() || found->second.refused) return;
    const int rank = found->second.rank;
    if (rank == of_no_rank) {
        if (const auto* hello = std::get_if<Hello>(&message))
            return welcome(connection, *hello, now);
        return refuse(connection, "a connection did not begin with a Hello");
    }
    if (seat(rank).gone) return;
    seat(rank).heard = now;
    heard_from(rank, message, now);
    regroup_if_all_said(now);
}

GX_DECL void Coordinator::heard_from(int rank, const Message& message, Duration now) {
    if (const auto* alive = std::get_if<Alive>(&message)) {
        seat(rank).operation = alive->operation;
    } else if (const auto* failed = std::get_if<Failed>(&message)) {
        fail(rank, *failed);
    } else if (const auto* blamed = std::get_if<Blamed>(&message)) {
        if ((blamed->peer < 0 && blamed->peer != any_rank) || blamed->peer >= options_.ranks)
            return lose(rank, Reason::lost, "it waits for no rank of this world");
        blame(rank, *blamed, now);
    } else if (const auto* waiting = std::get_if<Waiting>(&message)) {
        answer(rank, *waiting, now);
    } else if (const auto* terms = std::get_if<RunTerms>(&message)) {
        compare(rank, *terms);
    } else if (const auto* note = std::get_if<Note>(&message)) {
        for (int r = 0; r < options_.ranks; ++r)
            if (r != rank) send(r, Note{rank, note->bytes});
    } else if (std::holds_alternative<Leaving>(message)) {
        leave(rank, now);
    } else if (const auto* staying = std::get_if<Staying>(&message)) {
        seat(rank).stays = cause_.is_loss();
        if (rank == 0) number_ = staying->number;
    } else {
        lose(rank, Reason::lost,
             "it sent a message of kind " + std::to_string(message.index() + 1) +
                 ", which members do not send now");
    }
}

// ---- A late rank ------------------------------------------------------------------------

GX_DECL void Coordinator::blame(int rank, const Blamed& blamed, Duration now) {
    seat(rank).operation = blamed.operation;
    if (cause_.stopped()) return;
    if (!graph_) {
        graph_.emplace(options_.ranks, now);
        root_is_asked_ = false;
        for (int r = 1; r < options_.ranks; ++r) send(r, Waiting{});
    }
    graph_->blame(rank, blamed, now);
    judge_if_all_answered(now);
}

GX_DECL void Coordinator::answer(int rank, const Waiting& waiting, Duration now) {
    const auto of_this_world = [&](int peer) {
        return peer == any_rank || (peer >= 0 && peer < options_.ranks);
    };
    for (const Wait& wait : waiting.waits)
        if (!std::ranges::all_of(wait.peers, of_this_world))
            return lose(rank, Reason::lost, "it waits for no rank of this world");
    const auto too_many = [&](const Wait& wait) {
        return std::ssize(wait.peers) > options_.ranks + 1;
    };
    if (waiting.waits.size() > waits_max || std::ranges::any_of(waiting.waits, too_many))
        return lose(rank, Reason::lost, "it waits more often than a rank can");
    if (!graph_) return;
    graph_->answer(rank, waiting, now);
    judge_if_all_answered(now);
}

// The root's rank answers at once and is asked last: where another rank has gone on by what the
// root sent after a standstill, the root's answer is later than that send.
GX_DECL void Coordinator::judge_if_all_answered(Duration now) {
    const auto may_answer = [&](int r) {
        return present(r) && !seat(r).left && !graph_->answered(r);
    };
    for (int r = 1; r < options_.ranks && now < graph_->end(); ++r)
        if (may_answer(r)) return;
    if (!may_answer(0)) return judge(now);
    if (!std::exchange(root_is_asked_, true)) send(0, Waiting{});
}

GX_DECL void Coordinator::judge(Duration now) {
    std::vector<WaitsForGraph::Rank> ranks;
    for (int r = 0; r < options_.ranks; ++r)
        ranks.push_back({.present = present(r), .left = seat(r).left, .heard = seat(r).heard});
    const WaitsForGraph::Verdict v = graph_->judge(std::move(ranks), now);
    const std::string waited =
        "rank " + std::to_string(v.observer) + " waited for it in " + describe(v.operation);
    stop({.reason = Reason::late,
          .rank = v.rank,
          .observer = v.observer,
          .exit_status = 1,
          .operation = v.operation,
          .text = seat(v.rank).left ? name(v.rank) + " has returned, and " + waited +
                                          ": all ranks must run the same program" + v.remark
                                    : name(v.rank) + " timed out: " + waited +
                                          ", and nothing came before the deadline" + v.remark});
}

// Where the root looks too seldom, it can't say of answers which of them came late.
GX_DECL void Coordinator::look(Duration now) {
    if (graph_ && now - looked_ > WaitsForGraph::lag / 2) graph_->read_late();
    looked_ = now;
}

// ---- Errors, terms, and ranks that leave --------------------------------------------------

GX_DECL void Coordinator::fail(int rank, const Failed& failed) {
    seat(rank).operation = failed.operation;
    if (failed.exit_status == device_lost) seat(rank).device_is_lost = true;
    std::string& error = seat(rank).error;
    if (error.empty()) error = failed.text;
    // A process's status has 8 bits, and 0 would say that all is well.
    const bool is_status = failed.exit_status >= 1 && failed.exit_status <= 255;
    const int status = is_status ? failed.exit_status : 1;
    if (!cause_.stopped())
        return stop({.reason = Reason::error,
                     .rank = rank,
                     .observer = rank,
                     .exit_status = status,
                     .operation = failed.operation,
                     .text = failed.text});
    // It had stopped the others before its text was known.
    if (cause_.reason != Reason::error || cause_.rank != rank || !cause_.text.empty()) return;
    if (failed.text.empty()) return;
    cause_.text = failed.text;
    cause_.exit_status = status;
    send_to_all(cause_);
}

GX_DECL void Coordinator::compare(int rank, const RunTerms& terms) {
    seat(rank).terms = terms;
    if (cause_.stopped()) return;
    const auto mismatch = [&](int r, std::string sentence) {
        stop({.reason = Reason::mismatch,
              .rank = r,
              .observer = 0,
              .exit_status = 1,
              .operation = seat(0).operation,
              .text = std::move(sentence)});
    };
    for (int r = 0; r < options_.ranks; ++r)
        if (seat(r).left)
            return mismatch(r, "rank " + std::to_string(rank) +
                                   " compares its run with the "
                                   "others, and the function of rank " +
                                   std::to_string(r) +
                                   " has returned without: all ranks must run the same program");
    if (!seat(0).terms) return;
    for (int r = 1; r < options_.ranks; ++r) {
        if (!seat(r).terms) continue;
        std::string sentence = detail::coordinator::difference(r, *seat(r).terms, *seat(0).terms);
        if (!sentence.empty()) return mismatch(r, std::move(sentence));
    }
    if (!std::ranges::all_of(seats_, [](const Seat& s) { return s.terms.has_value(); })) return;
    for (Seat& s : seats_) s.terms.reset();
    send_to_all(Agreed{});
}

GX_DECL void Coordinator::leave(int rank, Duration now) {
    if (seat(rank).left) return;
    seat(rank).left = true;
    send_to_all(Left{rank});
    if (graph_) judge_if_all_answered(now);
    for (int r = 0; r < options_.ranks; ++r)
        if (seat(r).terms) {  // that rank would wait for ever
            const RunTerms terms = *seat(r).terms;
            compare(r, terms);
            break;
        }
    end_if_all_left();
}

// ---- Losses -----------------------------------------------------------------------------

GX_DECL void Coordinator::lose(int rank, Reason reason, std::string what) {
    std::string text = name(rank) + " is lost: " + std::move(what) + "; noticed by rank 0 in " +
                       describe(seat(0).operation);
    if (rank != 0) text += "; its own last report: " + describe(seat(rank).operation);
    const bool first = !cause_.stopped() && !seat(rank).left;
    Cause cause{.reason = reason,
                .rank = rank,
                .observer = 0,
                .exit_status = 1,
                .operation = seat(0).operation,
                .text = std::move(text)};
    if (present(rank)) {
        if (first) send(rank, cause);
        orders_.push_back({.connection = seat(rank).connection, .close = true});
    }
    seat(rank).gone = true;
    if (first) stop(std::move(cause));
    end_if_all_left();
}

GX_DECL void Coordinator::malformed(int connection, std::string_view why, Duration now) {
    const auto found = connections_.find(connection);
    if (found == connections_.end() || found->second.refused) return;
    if (found->second.rank == of_no_rank)
        return refuse(connection, "a connection is no member of this run: " + std::string(why));
    lose(found->second.rank, Reason::lost, std::string(why));
    regroup_if_all_said(now);
}

GX_DECL void Coordinator::closed(int connection, Duration now, bool inside_message) {
    const auto found = connections_.find(connection);
    if (found == connections_.end()) return;
    const Connection c = found->second;
    connections_.erase(found);
    if (c.refused) return;
    const int rank = c.rank != of_no_rank ? c.rank : c.expected;
    if (rank == of_no_rank) {
        last_refusal_ = "a connection ended before its Hello was whole";
        return;
    }
    if (seat(rank).gone) return;
    lose(rank, Reason::lost,
         inside_message ? "its connection ended inside a message"
                        : "its connection ended before its function had returned");
    regroup_if_all_said(now);
}

GX_DECL void Coordinator::stood_still(Duration for_, Duration now) {
    begun_ = saturating_sum(begun_, for_);
    if (regroup_by_ < Duration::max())  // what the others have said meanwhile is still to be read
        regroup_by_ = std::max(saturating_sum(regroup_by_, for_), now + WaitsForGraph::patience);
    for (Seat& s : seats_) s.heard = std::min(saturating_sum(s.heard, for_), now);
    if (graph_) graph_->extend(for_);
}

GX_DECL void Coordinator::tick(Duration now) {
    look(now);
    if (!joined_ && !cause_.stopped() && now >= saturating_sum(begun_, options_.join_deadline)) {
        std::vector<int> missing;
        for (int r = 0; r < options_.ranks; ++r)
            if (seat(r).connection < 0) missing.push_back(r);
        std::string text = detail::coordinator::list(missing) + " of " +
                           std::to_string(options_.ranks) + " did not come within " +
                           in_seconds(options_.join_deadline) +
                           "; look at their own errors, and at the address that they were given";
        if (!last_refusal_.empty()) text += ". Refused meanwhile: " + last_refusal_;
        stop({.reason = Reason::absent,
              .rank = missing.front(),
              .observer = 0,
              .exit_status = 1,
              .operation = seat(0).operation,
              .text = std::move(text)});
    }
    if (graph_ && now >= graph_->end()) judge_if_all_answered(now);
    for (int r = 1; r < options_.ranks && !ended_; ++r)
        if (present(r) && now >= saturating_sum(seat(r).heard, options_.silence))
            lose(r, Reason::silent, "nothing was heard of it for " + in_seconds(options_.silence));
    regroup_if_all_said(now);
    if (now < next_alive_) return;
    next_alive_ = saturating_sum(now, options_.silence / 4);
    send_to_all(Alive{seat(0).operation});
}

GX_DECL Duration Coordinator::next_tick() const {
    if (ended_) return regroup_by_;
    Duration next = next_alive_;
    if (graph_) next = std::min(next, looked_ + WaitsForGraph::lag / 4);
    if (!joined_ && !cause_.stopped())
        next = std::min(next, saturating_sum(begun_, options_.join_deadline));
    for (int r = 1; r < options_.ranks; ++r)
        if (present(r)) next = std::min(next, saturating_sum(seat(r).heard, options_.silence));
    return next;
}

// ---- The end ----------------------------------------------------------------------------

GX_DECL void Coordinator::end_if_all_left() {
    if (ended_) return;
    const auto done = [&](const Seat& s) {
        return s.left || s.gone || (s.connection < 0 && cause_.stopped());
    };
    if (std::ranges::all_of(seats_, done)) end();
}

GX_DECL void Coordinator::end() {
    if (std::exchange(ended_, true)) return;
    refuse_strangers();
    send_to_all(Ended{cause_.exit_status});
}

// ---- Another run ------------------------------------------------------------------------

GX_DECL void Coordinator::regroup_by(Duration end_of_wait) {
    end();
    regroup_by_ = end_of_wait;
}

GX_DECL std::vector<int> Coordinator::staying() const {
    std::vector<int> members;
    for (int r = 0; r < options_.ranks; ++r)
        if (seat(r).stays && present(r) && (r == 0 || !seat(r).device_is_lost))
            members.push_back(r);
    const bool is_late = cause_.reason == Reason::late || cause_.reason == Reason::silent;
    if (is_late && cause_.rank != 0 && std::ssize(members) == options_.ranks)
        std::erase(members, cause_.rank);
    return members;
}

GX_DECL void Coordinator::regroup_if_all_said(Duration now) {
    if (!ended_ || !seat(0).stays) return;
    const auto has_said = [](const Seat& s) { return s.stays || s.gone || s.connection < 0; };
    if (now >= regroup_by_ || std::ranges::all_of(seats_, has_said)) regroup(staying(), now);
}

// The members take their seats at once: one that is lost before it hears of the next run is in it.
GX_DECL void Coordinator::regroup(const std::vector<int>& members, Duration now) {
    Options options = options_;
    options.ranks = static_cast<int>(members.size());
    Coordinator next(std::move(options), now);
    for (auto& [connection, c] : connections_) {
        const auto found = std::ranges::find(members, c.rank);
        if (c.rank == of_no_rank || c.refused || found == members.end()) {
            if (!c.refused) refuse(connection, "the others go on without it");
            next.connections_[connection] = {.refused = true};
            continue;
        }
        const auto rank = static_cast<int>(found - members.begin());
        orders_.push_back({.connection = connection, .message = Regrouped{number_, members}});
        next.connections_[connection] = {.rank = rank};
        next.seat(rank) = {.connection = connection, .hello = seat(c.rank).hello, .heard = now};
    }
    next.orders_ = std::move(orders_);
    next.begin();
    *this = std::move(next);
}

GX_DECL std::vector<Order> Coordinator::take() { return std::exchange(orders_, {}); }

}  // namespace gx::coordination
