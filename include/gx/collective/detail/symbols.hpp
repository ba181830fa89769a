// Symbols, HappensBefore: state of a proof: contributions in chunks; chains of messages.
#pragma once

#include <cstdint>  // uint8_t
#include <vector>   // symbols

#include <gx/collective/exchange.hpp>  // Exchange
#include <gx/collective/flaw.hpp>      // Proof

namespace gx::collective::detail {

/// Multiplicity of each rank's contribution in each rank's chunks, and which chunk it was.
class Symbols {
public:
    /// No rank holds anything.
    constexpr Symbols(int ranks, int chunks, int message_chunks)
        : ranks_(ranks),
          chunks_(chunks),
          message_chunks_(message_chunks),
          counts_(index(ranks, 0), std::uint8_t{0}),
          origin_(cell(ranks, 0), -1),
          sent_(slot(ranks) * static_cast<std::size_t>(ranks), std::uint8_t{0}),
          sent_origin_(slot(ranks), -1) {}

    /// At the start: the rank holds its own contribution to this chunk.
    constexpr void put(int rank, int chunk) {
        counts_[index(rank, chunk) + static_cast<std::size_t>(rank)] = 1;
        origin_[cell(rank, chunk)] = chunk;
    }
    constexpr Proof send(int rank, int step, const Exchange& e) {
        const std::size_t mine = index(rank, e.send_chunk), first = cell(rank, e.send_chunk);
        const std::size_t message = slot(rank), n = static_cast<std::size_t>(ranks_);
        const auto several = static_cast<std::size_t>(e.chunks);
        for (std::size_t k = 0; k < several; ++k) {
            if (origin_[first + k] < 0)
                return {Flaw::nothing_to_send, rank, step, e.send_chunk + static_cast<int>(k)};
            sent_origin_[message + k] = origin_[first + k];
        }
        const std::uint8_t* from = counts_.data() + mine;
        std::uint8_t* to = sent_.data() + message * n;
        for (std::size_t i = 0; i < several * n; ++i) to[i] = from[i];
        return {};
    }
    /// Of what its peer has sent.
    constexpr void receive(int rank, const Exchange& e) {
        const std::size_t mine = index(rank, e.receive_chunk), first = cell(rank, e.receive_chunk);
        const std::size_t message = slot(e.from), n = static_cast<std::size_t>(ranks_);
        const auto several = static_cast<std::size_t>(e.chunks);
        for (std::size_t k = 0; k < several; ++k) origin_[first + k] = sent_origin_[message + k];
        const std::uint8_t* from = sent_.data() + message * n;
        std::uint8_t* to = counts_.data() + mine;
        const int keeps = adds(e.combine) ? 1 : 0;
        for (std::size_t i = 0; i < several * n; ++i) {
            const int sum = keeps * to[i] + from[i];
            to[i] = static_cast<std::uint8_t>(sum < 2 ? sum : 2);
        }
    }
    /// Whether the chunk ends with the contributions of `contributor` to chunk `origin`, once; -1:
    /// with those of all ranks.
    [[nodiscard]] constexpr Proof expect(int rank, int chunk, int contributor, int origin) const {
        const std::uint8_t* counts = counts_.data() + index(rank, chunk);
        for (int i = 0; i < ranks_; ++i) {
            const int count = counts[i];
            const int expected = contributor < 0 || contributor == i ? 1 : 0;
            if (count == expected) continue;
            const Flaw flaw = expected == 0 ? Flaw::contribution_foreign
                              : count == 0  ? Flaw::contribution_missing
                                            : Flaw::contribution_repeated;
            return {flaw, rank, -1, chunk, i};
        }
        if (origin_[cell(rank, chunk)] != origin)
            return {Flaw::chunk_misplaced, rank, -1, chunk, contributor};
        return {};
    }

private:
    [[nodiscard]] constexpr std::size_t cell(int rank, int chunk) const {
        return static_cast<std::size_t>(rank) * static_cast<std::size_t>(chunks_) +
               static_cast<std::size_t>(chunk);
    }
    [[nodiscard]] constexpr std::size_t index(int rank, int chunk) const {
        return cell(rank, chunk) * static_cast<std::size_t>(ranks_);
    }
    [[nodiscard]] constexpr std::size_t slot(int rank) const {
        return static_cast<std::size_t>(rank) * static_cast<std::size_t>(message_chunks_);
    }
    int ranks_, chunks_, message_chunks_;
    std::vector<std::uint8_t> counts_;  // counts_[rank, chunk, contributor]
    std::vector<int> origin_;           // origin_[rank, chunk]; -1: the chunk holds nothing yet
    std::vector<std::uint8_t> sent_;    // sent_[rank, chunk, contributor], in this step
    std::vector<int> sent_origin_;      // sent_origin_[rank, chunk]
};

/// From which ranks a chain of messages has reached each rank.
class HappensBefore {
public:
    constexpr explicit HappensBefore(int ranks)
        : ranks_(ranks), reached_(row(ranks), std::uint8_t{0}), sent_(row(ranks), std::uint8_t{0}) {
        for (int r = 0; r < ranks; ++r) reached_[row(r) + static_cast<std::size_t>(r)] = 1;
    }
    constexpr Proof send(int rank, int, const Exchange&) {
        for (std::size_t i = 0; i < row(1); ++i) sent_[row(rank) + i] = reached_[row(rank) + i];
        return {};
    }
    constexpr void receive(int rank, const Exchange& e) {
        for (std::size_t i = 0; i < row(1); ++i) reached_[row(rank) + i] |= sent_[row(e.from) + i];
    }
    [[nodiscard]] constexpr Proof conclusion() const {
        for (int r = 0; r < ranks_; ++r)
            for (int i = 0; i < ranks_; ++i)
                if (reached_[row(r) + static_cast<std::size_t>(i)] == 0)
                    return {Flaw::rank_not_awaited, r, -1, -1, i};
        return {};
    }

private:
    [[nodiscard]] constexpr std::size_t row(int rank) const {
        return static_cast<std::size_t>(rank) * static_cast<std::size_t>(ranks_);
    }
    int ranks_;
    std::vector<std::uint8_t> reached_;  // reached_[rank, from]
    std::vector<std::uint8_t> sent_;     // sent_[rank, from], in this step
};

}  // namespace gx::collective::detail
