// prove(collective): symbolic execution of a schedule, with the first defect found.
#pragma once

#include <vector>  // owners

#include <gx/collective/detail/symbols.hpp>  // Symbols, HappensBefore
#include <gx/collective/exchange.hpp>        // Collective, Exchange, Promise
#include <gx/collective/flaw.hpp>            // Flaw, Proof

namespace gx::collective {

namespace detail {

/// Whether the peers of `rank` post the matching halves in `step`.
template <Collective C>
[[nodiscard]] constexpr Proof check_pairs(const C& c, Promise promise, int rank, int step) {
    const auto flaw = [&](Flaw f, int chunk) { return Proof{f, rank, step, chunk}; };
    const auto is_peer = [&](int p) { return p >= -1 && p < c.ranks() && p != rank; };
    const Exchange e = c.exchange(rank, step);
    const auto is_chunk = [&](int k) {
        return k >= 0 && e.chunks >= 1 && e.chunks <= message_chunks(c) &&
               k + e.chunks <= c.chunks();
    };
    if (!is_peer(e.to) || !is_peer(e.from)) return flaw(Flaw::peer_out_of_range, -1);
    if (e.to >= 0) {
        if (!is_chunk(e.send_chunk)) return flaw(Flaw::chunk_out_of_range, e.send_chunk);
        const Exchange peer = c.exchange(e.to, step);
        if (peer.from != rank) return flaw(Flaw::send_without_receive, e.send_chunk);
        if (peer.receive_chunk != e.send_chunk && promise != Promise::all_to_all)
            return flaw(Flaw::another_chunk, e.send_chunk);
        if (peer.chunks != e.chunks) return flaw(Flaw::another_count, e.send_chunk);
    }
    if (e.from >= 0) {
        if (!is_chunk(e.receive_chunk)) return flaw(Flaw::chunk_out_of_range, e.receive_chunk);
        if (c.exchange(e.from, step).to != rank)
            return flaw(Flaw::receive_without_send, e.receive_chunk);
        if (adds(e.combine) && !adds(promise)) return flaw(Flaw::adds_a_copy, e.receive_chunk);
        const Exchange peer = c.exchange(e.from, step);
        if (adds(e.combine) && peer.combine == e.combine && e.to == e.from && peer.from == rank &&
            e.send_chunk == e.receive_chunk && peer.send_chunk == peer.receive_chunk &&
            peer.send_chunk == e.send_chunk)
            return flaw(Flaw::sums_in_two_orders, e.receive_chunk);
    }
    return {};
}

/// Carries the state through all steps; in each, what is sent is as it was before the step.
template <Collective C, class State>
[[nodiscard]] constexpr Proof follow(const C& c, Promise promise, State& now) {
    for (int step = 0; step < c.steps(); ++step) {
        for (int rank = 0; rank < c.ranks(); ++rank) {
            if (const Proof p = check_pairs(c, promise, rank, step); !p.holds()) return p;
            const Exchange e = c.exchange(rank, step);
            if (e.to < 0) continue;
            if (const Proof p = now.send(rank, step, e); !p.holds()) return p;
        }
        for (int rank = 0; rank < c.ranks(); ++rank) {
            const Exchange e = c.exchange(rank, step);
            if (e.from >= 0) now.receive(rank, e);
        }
    }
    return {};
}

/// The rank that owns each chunk; -1: none.
template <PromisingCollective C>
[[nodiscard]] constexpr std::vector<int> owners(const C& c) {
    std::vector<int> of(static_cast<std::size_t>(c.chunks()), -1);
    if constexpr (has_owners(C::promise)) {
        for (int rank = 0; rank < c.ranks(); ++rank) {
            const int chunk = c.owned_chunk(rank);
            if (chunk >= 0 && chunk < c.chunks()) of[static_cast<std::size_t>(chunk)] = rank;
        }
    }
    return of;
}

/// Whether the roles that the promise speaks of are there: a root, one owner for each chunk.
template <PromisingCollective C>
[[nodiscard]] constexpr Proof check_roles(const C& c) {
    if constexpr (has_root(C::promise)) {
        if (c.root() < 0 || c.root() >= c.ranks()) return {Flaw::root_out_of_range, c.root()};
    }
    if constexpr (has_owners(C::promise)) {
        const std::vector<int> of = owners(c);
        for (int rank = 0; rank < c.ranks(); ++rank) {
            const int chunk = c.owned_chunk(rank);
            if (chunk < 0 || chunk >= c.chunks())
                return {Flaw::chunk_out_of_range, rank, -1, chunk};
            if (of[static_cast<std::size_t>(chunk)] != rank)
                return {Flaw::owners_overlap, rank, -1, chunk};
        }
    }
    if ((has_owners(C::promise) || C::promise == Promise::all_to_all) && c.chunks() != c.ranks())
        return {Flaw::owners_overlap, -1, -1, c.ranks()};
    return {};
}

/// Whether `rank` holds data in `chunk` at the start.
template <PromisingCollective C>
[[nodiscard]] constexpr bool begins_with(const C& c, int rank, int chunk) {
    if constexpr (C::promise == Promise::broadcast) return rank == c.root();
    else if constexpr (C::promise == Promise::all_gather || C::promise == Promise::gather)
        return chunk == c.owned_chunk(rank);
    else return true;
}

/// Whether the promise says what `rank` holds in `chunk` at the end.
template <PromisingCollective C>
[[nodiscard]] constexpr bool is_promised(const C& c, int rank, int chunk) {
    if constexpr (C::promise == Promise::gather) return rank == c.root();
    else if constexpr (C::promise == Promise::reduce_scatter) return chunk == c.owned_chunk(rank);
    else return true;
}

/// Whether every rank ends with what is promised.
template <PromisingCollective C>
[[nodiscard]] constexpr Proof check_end(const C& c, const Symbols& now) {
    const std::vector<int> of = owners(c);
    for (int rank = 0; rank < c.ranks(); ++rank)
        for (int chunk = 0; chunk < c.chunks(); ++chunk) {
            if (!is_promised(c, rank, chunk)) continue;
            int contributor = -1, origin = chunk;  // all ranks', of this chunk
            if constexpr (C::promise == Promise::broadcast) contributor = c.root();
            if constexpr (C::promise == Promise::all_gather || C::promise == Promise::gather)
                contributor = of[static_cast<std::size_t>(chunk)];
            if constexpr (C::promise == Promise::all_to_all) contributor = chunk, origin = rank;
            const Proof p = now.expect(rank, chunk, contributor, origin);
            if (!p.holds()) return p;
        }
    return {};
}

}  // namespace detail

/// Proves that a collective is an all-reduce, by executing it on symbols:
/// every send has its receive in the same step and of the same chunk, and after the last step every
/// rank holds every rank's contribution to every chunk exactly once. Such a collective can't
/// deadlock, even where a send waits for its receive: each rank posts the send and the receive of
/// a step together, so that when all ranks have ended step s - 1, step s can end.
/// Cost: time ranks^2 * (chunks + steps * chunks of a message), memory ranks^2 * chunks bytes: a
///       millisecond for a ring of 64 ranks.
template <Collective C>
[[nodiscard, gnu::noinline]] constexpr Proof prove_all_reduce(const C& c) {
    detail::Symbols now(c.ranks(), c.chunks(), message_chunks(c));
    for (int rank = 0; rank < c.ranks(); ++rank)
        for (int chunk = 0; chunk < c.chunks(); ++chunk) now.put(rank, chunk);
    if (const Proof p = detail::follow(c, Promise::all_reduce, now); !p.holds()) return p;
    for (int rank = 0; rank < c.ranks(); ++rank)
        for (int chunk = 0; chunk < c.chunks(); ++chunk)
            if (const Proof p = now.expect(rank, chunk, -1, chunk); !p.holds()) return p;
    return {};
}

/// Proves that a collective keeps the promise of its type, by executing it on symbols: every send
/// has its receive in the same step, of the same chunk (all-to-all: of as many); no rank sends a
/// chunk that it has not got; and the ranks end with what the Promise says, each contribution once.
/// A barrier: a chain of messages from every rank reaches each rank before it ends.
/// Such a collective can't deadlock, for the reason that prove_all_reduce gives.
/// Cost: that of prove_all_reduce.
template <PromisingCollective C>
[[nodiscard, gnu::noinline]] constexpr Proof prove(const C& c) {
    if constexpr (C::promise == Promise::all_reduce) return prove_all_reduce(c);
    else if constexpr (C::promise == Promise::barrier) {
        detail::HappensBefore now(c.ranks());
        const Proof p = detail::follow(c, C::promise, now);
        return p.holds() ? now.conclusion() : p;
    } else {
        if (const Proof p = detail::check_roles(c); !p.holds()) return p;
        detail::Symbols now(c.ranks(), c.chunks(), message_chunks(c));
        for (int rank = 0; rank < c.ranks(); ++rank)
            for (int chunk = 0; chunk < c.chunks(); ++chunk)
                if (detail::begins_with(c, rank, chunk)) now.put(rank, chunk);
        const Proof p = detail::follow(c, C::promise, now);
        return p.holds() ? detail::check_end(c, now) : p;
    }
}

/// Limit on ranks proved at start-up; larger rings differ from these in size only.
inline constexpr int ranks_proved_at_start = 64;

template <PromisingCollective C>
[[nodiscard]] constexpr bool keeps_promise(const C& c) {
    return prove(c).holds();
}

/// `keeps_promise<RingAllGather>(8)`.
template <PromisingCollective C>
[[nodiscard]] constexpr bool keeps_promise(int ranks) {
    return keeps_promise(C(ranks));
}

template <Collective C>
[[nodiscard]] constexpr bool is_all_reduce(const C& c) {
    return prove_all_reduce(c).holds();
}

/// `is_all_reduce<Ring>(8)`.
template <Collective C>
[[nodiscard]] constexpr bool is_all_reduce(int ranks) {
    return is_all_reduce(C(ranks));
}

}  // namespace gx::collective
