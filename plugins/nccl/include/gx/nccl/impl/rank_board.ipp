// RankBoard: counts, and the ranks that they point to.
#pragma once

#include <algorithm>  // find_if, sort
#include <numeric>    // iota
#include <sstream>    // rows

#include <gx/core/contract.hpp>    // GX_EXPECT
#include <gx/nccl/rank_board.hpp>  // the declarations

namespace gx::nccl {

namespace detail {
inline std::size_t at(int i) { return static_cast<std::size_t>(i); }
}  // namespace detail

GX_DECL RankBoard::RankBoard(int ranks, std::function<void(int)> on_loss)
    : left_(detail::at(ranks)),
      computes_(detail::at(ranks)),
      answered_(detail::at(ranks)),
      on_loss_(std::move(on_loss)) {
    std::vector<int> all(detail::at(ranks));
    std::iota(all.begin(), all.end(), 0);
    ledgers_.push_back(std::make_unique<GroupLedger>("world", std::move(all)));
}

GX_DECL RankBoard::RankBoard(int ranks, int rank, BoardLink& link,
                             std::chrono::nanoseconds patience, Now now)
    : RankBoard(ranks, {}) {
    link_ = &link;
    own_ = rank;
    patience_ = patience;
    now_ = now;
    rows_.resize(detail::at(ranks));
    told_.resize(detail::at(ranks));
}

// ---- Groups ------------------------------------------------------------------------------------

GX_DECL void RankBoard::divides(int ledger, int split, int rank, int color, int key) {
    {
        const std::lock_guard lock(mutex_);
        Division& d = divisions_[{at(ledger).name, split}];
        d.places.resize(at(ledger).members.size());
        d.places[detail::at(rank)] = {color, key, true};
    }
    tell();
}

GX_DECL bool RankBoard::divided(int ledger, int split) {
    const std::lock_guard lock(mutex_);
    const auto& places = divisions_[{at(ledger).name, split}].places;
    return places.size() == at(ledger).members.size() &&
           std::ranges::all_of(places, &Division::Place::given);
}

GX_DECL int RankBoard::part(int ledger, int split, int color) {
    const std::lock_guard lock(mutex_);
    Division& d = divisions_[{at(ledger).name, split}];
    const auto [found, is_new] = d.ledgers.try_emplace(color, static_cast<int>(ledgers_.size()));
    if (!is_new) return found->second;
    std::vector<int> ranks;  // of `ledger`
    for (int r = 0; r < std::ssize(d.places); ++r)
        if (d.places[detail::at(r)].color == color) ranks.push_back(r);
    std::ranges::sort(ranks, {}, [&](int r) { return std::pair(d.places[detail::at(r)].key, r); });
    for (int& r : ranks) r = at(ledger).members[detail::at(r)];
    const std::string name =
        at(ledger).name + "/" + std::to_string(split) + ":" + std::to_string(color);
    ledgers_.push_back(std::make_unique<GroupLedger>(name, std::move(ranks)));
    for (int r = 0; r < std::ssize(rows_); ++r) apply(r, *ledgers_.back());
    return found->second;
}

GX_DECL void RankBoard::joins(int ledger, int rank) {
    const std::lock_guard lock(mutex_);
    at(ledger).joined[detail::at(rank)] = true;
}

// ---- What each has queued ----------------------------------------------------------------------

GX_DECL void RankBoard::sends(int ledger, int rank, int to) {
    const std::lock_guard lock(mutex_);
    GroupLedger& l = at(ledger);
    GX_EXPECT(to >= 0 && to < l.ranks(), "messages go between ranks of the group");
    ++l.sends[detail::at(rank * l.ranks() + to)];
}
GX_DECL void RankBoard::receives(int ledger, int rank, int from) {
    const std::lock_guard lock(mutex_);
    GroupLedger& l = at(ledger);
    GX_EXPECT(from >= 0 && from < l.ranks(), "messages go between ranks of the group");
    ++l.receives[detail::at(rank * l.ranks() + from)];
}
GX_DECL void RankBoard::takes_part(int ledger, int rank) {
    const std::lock_guard lock(mutex_);
    ++at(ledger).collectives[detail::at(rank)];
}
GX_DECL void RankBoard::computes(int world_rank, bool computes) {
    const std::lock_guard lock(mutex_);
    computes_[detail::at(world_rank)] = computes;
}

// ---- Who is missing ----------------------------------------------------------------------------

GX_DECL void RankBoard::ask() {
    {
        const std::lock_guard lock(mutex_);
        if (std::exchange(asked_, true)) return;
    }
    tell();
}
GX_DECL void RankBoard::answer(int world_rank) {
    {
        const std::lock_guard lock(mutex_);
        if (std::exchange(answered_[detail::at(world_rank)], asked_) == char(asked_)) return;
    }
    tell();
}
GX_DECL int RankBoard::silent(int world_rank) {
    const std::lock_guard lock(mutex_);
    for (int r = 0; r < std::ssize(left_); ++r)
        if (r != world_rank && !answered_[detail::at(r)] && !left_[detail::at(r)]) return r;
    return -1;
}

GX_DECL void RankBoard::leave(int world_rank) {
    {
        const std::lock_guard lock(mutex_);
        left_[detail::at(world_rank)] = true;
    }
    tell();
}

/// The first member that owes `rank` something; -1: none.
GX_DECL int RankBoard::owing(const GroupLedger& l, int rank, bool only_left) const {
    const int n = l.ranks();
    GX_EXPECT(detail::at(rank) < l.members.size(), "debts are those to ranks of the group");
    for (int peer = 0; peer < n; ++peer) {
        if (peer == rank || (only_left && !left_[detail::at(l.members[detail::at(peer)])]))
            continue;
        const auto mine = detail::at(rank * n + peer), theirs = detail::at(peer * n + rank);
        if (!l.joined[detail::at(peer)] || l.receives[mine] > l.sends[theirs] ||
            l.sends[mine] > l.receives[theirs] ||
            l.collectives[detail::at(rank)] > l.collectives[detail::at(peer)])
            return peer;
    }
    return -1;
}

GX_DECL int RankBoard::missing(int ledger, int rank) {
    const std::lock_guard lock(mutex_);
    const GroupLedger& l = at(ledger);
    const int peer = owing(l, rank, true);
    return peer < 0 ? -1 : l.members[detail::at(peer)];
}

GX_DECL int RankBoard::suspect(int ledger, int rank) {
    if (const int silent = ask_rows(); silent >= 0) return silent;
    const std::lock_guard lock(mutex_);
    const GroupLedger& l = at(ledger);
    const auto end_of_debts = [&](int waiting) {
        int last = -1, next = owing(l, waiting, false);
        std::vector<char> passed(l.members.size());
        passed[detail::at(waiting)] = true;
        for (; next >= 0 && !passed[detail::at(next)]; next = owing(l, last, false)) {
            passed[detail::at(next)] = true;
            last = next;
        }
        return last;
    };
    if (const int last = end_of_debts(rank); last >= 0) return l.members[detail::at(last)];
    const auto found = std::ranges::find_if(
        l.members, [&](int member) { return computes_[detail::at(member)] != 0; });
    if (found != l.members.end()) return *found;
    // Who sends to this rank has queued that, and waits for another one before it.
    for (int r = 0; r < l.ranks(); ++r)
        if (const int last = end_of_debts(r); last >= 0 && last != rank)
            return l.members[detail::at(last)];
    return -1;
}

GX_DECL bool RankBoard::report(int rank) {
    if (link_ != nullptr) {
        {
            const std::lock_guard lock(mutex_);
            if (lost_ >= 0) return false;
        }
        const int named = link_->agree(rank);
        const std::lock_guard lock(mutex_);
        lost_ = named;
        return named != own_ && !link_->threw();
    }
    {
        const std::lock_guard lock(mutex_);
        if (lost_ >= 0) return false;
        lost_ = rank;
    }
    on_loss_(rank);
    return true;
}

GX_DECL int RankBoard::lost() {
    {
        const std::lock_guard lock(mutex_);
        if (lost_ >= 0 || link_ == nullptr) return lost_;
    }
    return link_->lost();
}

// ---- Boards of processes ------------------------------------------------------------------------

// A row is numbers and names with spaces between them:
//
//     asks left computes answered asked
//     ledgers, and of each: name joined collectives peers, and of each: peer sent received
//     divisions, and of each: ledger split place color key

/// What this rank has done. `asks`: the others tell theirs.
GX_DECL std::string RankBoard::own_row(bool asks) {
    std::ostringstream row;
    const auto own = detail::at(own_);
    row << asks << ' ' << bool(left_[own]) << ' ' << bool(computes_[own]) << ' '
        << bool(answered_[own]) << ' ' << asked_ << ' ' << ledgers_.size();
    for (const auto& l : ledgers_) {
        const auto r = std::ranges::find(l->members, own_) - l->members.begin();
        const auto count = std::ssize(l->members);
        row << ' ' << l->name << ' ' << bool(l->joined[std::size_t(r)]) << ' '
            << l->collectives[std::size_t(r)];
        std::ostringstream messages;
        int peers = 0;
        for (std::ptrdiff_t p = 0; p < count; ++p) {
            const auto i = static_cast<std::size_t>(r * count + p);
            if (l->sends[i] == 0 && l->receives[i] == 0) continue;
            messages << ' ' << p << ' ' << l->sends[i] << ' ' << l->receives[i];
            ++peers;
        }
        row << ' ' << peers << messages.str();
    }
    std::ostringstream divisions;
    int count = 0;
    for (const auto& [key, d] : divisions_) {
        const auto l = std::ranges::find(ledgers_, key.first, &GroupLedger::name);
        if (l == ledgers_.end()) continue;
        const auto place = std::ranges::find((*l)->members, own_) - (*l)->members.begin();
        if (place >= std::ssize(d.places) || !d.places[std::size_t(place)].given) continue;
        const Division::Place& p = d.places[std::size_t(place)];
        divisions << ' ' << key.first << ' ' << key.second << ' ' << place << ' ' << p.color << ' '
                  << p.key;
        ++count;
    }
    row << ' ' << count << divisions.str();
    return row.str();
}

GX_DECL void RankBoard::tell() {
    if (link_ != nullptr) tell_row(false);
}

// A row that was made first is told first: the others keep the last one that they hear.
GX_DECL void RankBoard::tell_row(bool asks) {
    const std::lock_guard telling(telling_);
    std::string row;
    {
        const std::lock_guard lock(mutex_);
        if (asks) std::ranges::fill(told_, char(false));
        row = own_row(asks);
    }
    link_->tell(row);
}

GX_DECL void RankBoard::heard(int rank, const std::string& text) {
    std::istringstream in(text);
    const auto next = [&] {
        int n = 0;
        in >> n;
        return n;
    };
    const bool asks = next() != 0;
    {
        const std::lock_guard lock(mutex_);
        const auto r = detail::at(rank);
        left_[r] = next() != 0;
        computes_[r] = next() != 0;
        answered_[r] = next() != 0;
        if (next() != 0) asked_ = true;
        for (int ledgers = next(); in && ledgers > 0; --ledgers) {
            std::string name;
            in >> name;
            Row::Counts& counts = rows_[r].ledgers[name];
            counts.joined = next() != 0;
            in >> counts.collectives;
            for (int peers = next(); in && peers > 0; --peers) {
                auto& [sent, received] = counts.messages[next()];
                in >> sent >> received;
            }
        }
        for (int divisions = next(); in && divisions > 0; --divisions) {
            std::string name;
            in >> name;
            auto& places = divisions_[{name, next()}].places;
            const int place = next(), color = next(), key = next();
            if (!in || place < 0 || place >= std::ssize(left_)) break;
            if (place >= std::ssize(places)) places.resize(detail::at(place + 1));
            places[detail::at(place)] = {color, key, true};
        }
        for (const auto& l : ledgers_) apply(rank, *l);
        told_[r] = true;
    }
    heard_.notify_all();
    if (asks) tell();
}

/// Takes over what `rank` has told of a ledger.
GX_DECL void RankBoard::apply(int rank, GroupLedger& l) {
    const auto found = rows_[detail::at(rank)].ledgers.find(l.name);
    const auto member = std::ranges::find(l.members, rank);
    if (found == rows_[detail::at(rank)].ledgers.end() || member == l.members.end()) return;
    const int r = static_cast<int>(member - l.members.begin()), n = l.ranks();
    l.joined[detail::at(r)] = found->second.joined;
    l.collectives[detail::at(r)] = found->second.collectives;
    for (const auto& [peer, counts] : found->second.messages) {
        if (peer < 0 || peer >= n) continue;
        l.sends[detail::at(r * n + peer)] = counts.first;
        l.receives[detail::at(r * n + peer)] = counts.second;
    }
}

/// Asks all other ranks for their rows. Returns one that tells none; -1: all have, or one is lost.
GX_DECL int RankBoard::ask_rows() {
    if (link_ == nullptr) return -1;
    tell_row(true);
    const auto end = now_() + patience_;
    constexpr auto pause = std::chrono::milliseconds(20);  // between looks at who is lost
    for (;;) {
        if (link_->lost() >= 0) return -1;
        std::unique_lock lock(mutex_);
        int missing = 0;
        while (missing < std::ssize(told_) &&
               (missing == own_ || told_[detail::at(missing)] || left_[detail::at(missing)]))
            ++missing;
        if (missing == std::ssize(told_)) return -1;
        if (now_() >= end) return missing;
        heard_.wait_for(lock, pause);
    }
}

}  // namespace gx::nccl
