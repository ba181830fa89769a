// is_all_reduce(collective): symbolic execution of a schedule, with the first defect found.
#pragma once

#include <cstdint>      // uint8_t
#include <string_view>  // sentences
#include <vector>       // symbols

#include <gx/collective/exchange.hpp>  // Collective, Exchange

namespace gx::collective {

enum class Flaw : unsigned char {
    none,
    peer_out_of_range,
    chunk_out_of_range,
    send_without_receive,
    receive_without_send,
    another_chunk,
    another_count,
    contribution_missing,
    contribution_repeated
};

[[nodiscard]] constexpr std::string_view to_string(Flaw flaw) {
    switch (flaw) {
        case Flaw::none: return "every rank ends with every contribution exactly once";
        case Flaw::peer_out_of_range: return "a peer is no rank, or the rank itself";
        case Flaw::chunk_out_of_range: return "a chunk that does not exist is sent or received";
        case Flaw::send_without_receive: return "a send has no receive in its step";
        case Flaw::receive_without_send: return "a receive has no send in its step";
        case Flaw::another_chunk: return "the receiver expects another chunk than is sent to it";
        case Flaw::another_count:
            return "the receiver expects another number of chunks than are sent to it";
        case Flaw::contribution_missing: return "a chunk ends without some rank's contribution";
        case Flaw::contribution_repeated: return "a chunk ends with a contribution counted twice";
    }
    return "";
}

/// First defect found, and where. `step` is -1 for the state after the last step.
struct [[nodiscard]] Proof {
    Flaw flaw = Flaw::none;
    int rank = -1;
    int step = -1;
    int chunk = -1;
    [[nodiscard]] constexpr bool holds() const { return flaw == Flaw::none; }
    [[nodiscard]] constexpr std::string_view sentence() const { return to_string(flaw); }
    constexpr bool operator==(const Proof&) const = default;
};

namespace detail {

/// Multiplicity of each rank's contribution in each rank's chunks.
class Symbols {
public:
    constexpr Symbols(int ranks, int chunks, int message_chunks)
        : ranks_(ranks),
          chunks_(chunks),
          message_chunks_(message_chunks),
          counts_(index(ranks, 0), std::uint8_t{0}),
          sent_(slot(ranks), std::uint8_t{0}) {
        for (int r = 0; r < ranks; ++r)
            for (int c = 0; c < chunks; ++c) counts_[index(r, c) + static_cast<std::size_t>(r)] = 1;
    }
    constexpr void send(int rank, const Exchange& e) {
        const std::size_t mine = index(rank, e.send_chunk), message = slot(rank);
        for (std::size_t i = 0; i < symbols(e); ++i) sent_[message + i] = counts_[mine + i];
    }
    /// Of what its peer has sent.
    constexpr void receive(int rank, const Exchange& e) {
        const std::size_t mine = index(rank, e.receive_chunk), message = slot(e.from);
        for (std::size_t i = 0; i < symbols(e); ++i) {
            const int mine_now = e.combine == Combine::add ? counts_[mine + i] : 0;
            const int sum = mine_now + sent_[message + i];
            counts_[mine + i] = static_cast<std::uint8_t>(sum < 2 ? sum : 2);
        }
    }
    [[nodiscard]] constexpr Proof conclusion() const {
        for (int r = 0; r < ranks_; ++r)
            for (int c = 0; c < chunks_; ++c)
                for (int i = 0; i < ranks_; ++i) {
                    const int count = counts_[index(r, c) + static_cast<std::size_t>(i)];
                    if (count == 0) return {Flaw::contribution_missing, r, -1, c};
                    if (count > 1) return {Flaw::contribution_repeated, r, -1, c};
                }
        return {};
    }

private:
    [[nodiscard]] constexpr std::size_t index(int rank, int chunk) const {
        return (static_cast<std::size_t>(rank) * static_cast<std::size_t>(chunks_) +
                static_cast<std::size_t>(chunk)) *
               static_cast<std::size_t>(ranks_);
    }
    [[nodiscard]] constexpr std::size_t slot(int rank) const {
        return static_cast<std::size_t>(rank) * static_cast<std::size_t>(message_chunks_) *
               static_cast<std::size_t>(ranks_);
    }
    [[nodiscard]] constexpr std::size_t symbols(const Exchange& e) const {
        return static_cast<std::size_t>(e.chunks) * static_cast<std::size_t>(ranks_);
    }
    int ranks_, chunks_, message_chunks_;
    std::vector<std::uint8_t> counts_;  // counts_[rank, chunk, contributor]
    std::vector<std::uint8_t> sent_;    // sent_[rank, chunk, contributor], in this step
};

/// Whether the peers of `rank` post the matching halves in `step`.
template <Collective C>
[[nodiscard]] constexpr Proof check_pairs(const C& c, int rank, int step) {
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
        if (peer.receive_chunk != e.send_chunk) return flaw(Flaw::another_chunk, e.send_chunk);
        if (peer.chunks != e.chunks) return flaw(Flaw::another_count, e.send_chunk);
    }
    if (e.from >= 0) {
        if (!is_chunk(e.receive_chunk)) return flaw(Flaw::chunk_out_of_range, e.receive_chunk);
        if (c.exchange(e.from, step).to != rank)
            return flaw(Flaw::receive_without_send, e.receive_chunk);
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
    for (int step = 0; step < c.steps(); ++step) {
        for (int rank = 0; rank < c.ranks(); ++rank) {
            if (const Proof p = detail::check_pairs(c, rank, step); !p.holds()) return p;
            const Exchange e = c.exchange(rank, step);
            if (e.to >= 0) now.send(rank, e);
        }
        for (int rank = 0; rank < c.ranks(); ++rank) {
            const Exchange e = c.exchange(rank, step);
            if (e.from >= 0) now.receive(rank, e);
        }
    }
    return now.conclusion();
}

/// Limit on ranks proved at start-up; larger rings differ from these in size only.
inline constexpr int ranks_proved_at_start = 64;

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
