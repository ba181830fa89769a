// Member: the bodies.
#pragma once

#include <algorithm>  // find, max, min
#include <utility>    // exchange, move

#include <gx/coordination/member.hpp>           // the declarations
#include <gx/coordination/waits_for_graph.hpp>  // WaitsForGraph::patience
#include <gx/core/contract.hpp>                 // GX_EXPECT
#include <gx/core/hash.hpp>                     // hash_name

namespace gx::coordination {

namespace detail::member {

// Those of rank 0 are to be as the others' are, which come as bytes.
inline Message as_read(const Message& message) {
    MessageReader reader;
    reader.feed(encode(message));
    return *reader.next();
}

}  // namespace detail::member

GX_DECL Member::Member(Options options, Duration now)
    : options_(std::move(options)),
      begun_(now),
      heard_(now),
      next_alive_(saturating_sum(now, options_.silence / 4)),
      left_(static_cast<std::size_t>(std::max(options_.hello.ranks, 0)), 0) {
    outgoing_.emplace_back(options_.hello);
}

GX_DECL void Member::fail(std::string_view text, int exit_status) {
    GX_EXPECT(exit_status >= 1 && exit_status <= 255,
              "a rank that failed returns a status of 1 to 255: the system keeps eight bits of it");
    send(detail::member::as_read(Failed{exit_status, operation_, std::string(text)}));
}
GX_DECL void Member::blame(int peer, Duration lasted) { send(Blamed{peer, operation_, lasted}); }
GX_DECL void Member::compare(RunTerms terms) {
    const auto shorten = [](std::string& text, std::size_t most, const char* hash_of_all) {
        std::string readable = text;
        replace_control_characters(readable);
        if (text.size() <= most && readable == text) return;
        const std::uint64_t all = hash_name(text);
        text.resize(std::min(text.size(), most));
        text += hash_of_all + std::to_string(all);
    };
    shorten(terms.options, options_bytes_max, "\nhash of all options=");
    shorten(terms.composition, text_bytes_max / 2, " of hash ");
    shorten(terms.source, text_bytes_max / 2, " of hash ");
    send(detail::member::as_read(std::move(terms)));
}
GX_DECL void Member::leave() {
    if (!std::exchange(leaving_, true)) send(Leaving{});
}
GX_DECL void Member::stay(std::int64_t number) {
    send(Staying{number});
    staying_ = true;
}
GX_DECL void Member::send(Message message) {
    if (!staying_) outgoing_.push_back(std::move(message));
}

GX_DECL void Member::received(const Message& message, Duration now) {
    heard_ = now;
    if (const auto* welcome = std::get_if<Welcome>(&message)) {
        if (std::ssize(welcome->members) != options_.hello.ranks)
            return malformed("its list of members is not of this world");
        roster_ = Roster(welcome->members);
        joined_ = true;
    } else if (const auto* refused = std::get_if<Refused>(&message)) {
        stop({.reason = Reason::mismatch,
              .rank = rank(),
              .observer = 0,
              .exit_status = 1,
              .operation = {},
              .text = refused->text});
    } else if (std::holds_alternative<Agreed>(message)) {
        ++agreed_;
    } else if (const auto* cause = std::get_if<Cause>(&message)) {
        stop(*cause);
    } else if (const auto* left = std::get_if<Left>(&message)) {
        if (left->rank < 0 || left->rank >= options_.hello.ranks)
            return malformed("a rank has left that is not in this world");
        left_[static_cast<std::size_t>(left->rank)] = 1;
        ++changes_;
    } else if (const auto* ended = std::get_if<Ended>(&message)) {
        ended_ = true;
        if (ended->exit_status != 0) exit_status_ = ended->exit_status;
    } else if (const auto* note = std::get_if<Note>(&message)) {
        if (note->rank < 0 || note->rank >= options_.hello.ranks || note->rank == rank())
            return malformed("a note of a rank that is not in this world");
        notes_.push_back(*note);
    } else if (const auto* regrouped = std::get_if<Regrouped>(&message)) {
        regroup(*regrouped, now);
    } else if (std::holds_alternative<Waiting>(message)) {
        asked_ = true;
        answer_if_due(now);
    } else if (!std::holds_alternative<Alive>(message)) {
        malformed("it sent a message of kind " + std::to_string(message.index() + 1) +
                  ", which only members send");
    }
}

GX_DECL void Member::stop(Cause cause) {
    if (cause_.stopped()) {
        const bool same = cause.reason == cause_.reason && cause.rank == cause_.rank;
        if (!same || !cause_.text.empty()) return;
    } else {
        operation_when_stopped_ = operation_;
    }
    cause_ = std::move(cause);
    ++changes_;
    if (exit_status_ == 0) exit_status_ = std::max(1, cause_.exit_status);
}

// The next run begins: its Welcome follows.
GX_DECL void Member::regroup(const Regrouped& by, Duration now) {
    const auto own = std::ranges::find(by.members, rank());
    if (!staying_ || own == by.members.end())
        return malformed("it regrouped the ranks without this one");
    Options options = options_;
    options.hello.rank = static_cast<int>(own - by.members.begin());
    options.hello.ranks = static_cast<int>(by.members.size());
    Member next(std::move(options), now);
    next.outgoing_.clear();  // the root knows who it is
    next.regrouped_ = by;
    next.runs_ = runs_ + 1;
    next.changes_ = changes_ + 1;
    next.stood_ = stood_;
    *this = std::move(next);
}

GX_DECL std::string Member::sentence() const {
    if (!cause_.stopped()) return "";
    std::string text = cause_.text;
    if (text.empty()) text = "rank " + std::to_string(cause_.rank) + " stopped the run";
    if (cause_.rank == rank()) return text;
    if (text.ends_with('.')) text.pop_back();
    if (cause_.reason == Reason::error && !cause_.text.empty())
        text += ". This is the error of rank " + std::to_string(cause_.rank);
    return text + ". Rank " + std::to_string(rank()) + " was stopped in " +
           describe(operation_when_stopped_) + ".";
}

GX_DECL bool Member::left(int rank) const { return left_[static_cast<std::size_t>(rank)] != 0; }

GX_DECL void Member::lose_root(Reason reason, std::string what) {
    if (ended_ || cause_.stopped()) return;
    stop({.reason = reason,
          .rank = 0,
          .observer = rank(),
          .exit_status = 1,
          .operation = operation_,
          .text = "rank 0 is lost: " + std::move(what) + "; noticed by rank " +
                  std::to_string(rank()) + " in " + describe(operation_)});
}

GX_DECL void Member::malformed(std::string_view why) { lose_root(Reason::lost, std::string(why)); }
GX_DECL void Member::closed(bool inside_message) {
    lose_root(Reason::lost, inside_message ? "its connection ended inside a message"
                                           : "its connection ended before the run had");
}

GX_DECL void Member::tick(Duration now) {
    if (!joined_ && !cause_.stopped() &&
        now >= saturating_sum(saturating_sum(begun_, options_.join_deadline), options_.silence))
        stop({.reason = Reason::absent,
              .rank = 0,
              .observer = rank(),
              .exit_status = 1,
              .operation = operation_,
              .text = "rank " + std::to_string(rank()) +
                      " did not hear from rank 0 in time that all ranks have come; look at the "
                      "error of rank 0"});
    answer_if_due(now);
    if (root_is_silent(now))
        lose_root(Reason::silent, "nothing was heard of it within the limit of silence");
    if (ended_ || now < next_alive_) return;
    next_alive_ = saturating_sum(now, options_.silence / 4);
    send(Alive{operation_});
}

GX_DECL Duration Member::next_tick() const {
    if (ended_) return Duration::max();
    Duration next = next_alive_;
    if (asked_ && !stood_.empty()) next = std::min(next, stood_.back().until + settling);
    if (cause_.stopped()) return next;
    if (!joined_)
        next = std::min(
            next, saturating_sum(saturating_sum(begun_, options_.join_deadline), options_.silence));
    return std::min(next, saturating_sum(heard_, options_.silence));
}

GX_DECL void Member::stood_still(Duration for_, Duration now) {
    begun_ = saturating_sum(begun_, for_);
    heard_ = std::min(saturating_sum(heard_, for_), now);
    if (!stood_.empty() && now - for_ - stood_.back().until > WaitsForGraph::patience)
        stood_.clear();  // it ran since the one before
    stood_.push_back({for_, now});
}

GX_DECL void Member::answer_if_due(Duration now) {
    const bool is_due = stood_.empty() || now >= stood_.back().until + settling;
    if (!asked_ || !is_due) return;
    asked_ = false;
    if (stood_.empty()) return send(Waiting{waits_, operation_, {}});
    // A wait that it began between two of them explains what the earlier ones did not.
    const auto sum_since = [&](Duration begin) {
        Duration sum{};
        for (const Stood& s : stood_)
            if (s.until > begin) sum = saturating_sum(sum, s.lasted);
        return sum;
    };
    const Duration last_began = stood_.back().until - stood_.back().lasted;
    Duration lasted = sum_since(Duration::min());
    for (const Wait& w : waits_)
        if (const Duration begin = now - w.lasted; begin < last_began)
            lasted = std::min(lasted, sum_since(begin));
    send(Waiting{waits_, operation_, {lasted, now - stood_.back().until}});
}

GX_DECL void Member::note(std::vector<std::byte> bytes) { send(Note{rank(), std::move(bytes)}); }

GX_DECL std::vector<Message> Member::take() { return std::exchange(outgoing_, {}); }

GX_DECL std::vector<Note> Member::take_notes() { return std::exchange(notes_, {}); }

}  // namespace gx::coordination
