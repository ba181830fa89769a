// DirectAllGather: every rank sends its chunk straight to every other.
#pragma once

#include <gx/collective/exchange.hpp>  // Exchange, Promise
#include <gx/core/contract.hpp>        // GX_EXPECT

namespace gx::collective {

/// n ranks, n chunks; rank r begins with chunk r.
///
///     step s:    rank r sends chunk r to rank r + s + 1 and copies that of rank r - s - 1
///
/// all modulo n. A rank sends nothing that it has received: all steps may be under way at once.
///
/// Wire:  n - 1 steps; rank r sends its chunk n - 1 times. It copies, in place: no scratch.
/// Time:  (n - 1) (alpha + m / n beta) step by step, for gathered data of m bytes in equal chunks,
///        alpha a message, beta a byte; alpha + (n - 1) / n m beta with all steps at once.
/// Source: as DirectReduceScatter.
class DirectAllGather {
public:
    static constexpr Promise promise = Promise::all_gather;

    constexpr explicit DirectAllGather(int ranks) : ranks_(ranks) {
        GX_EXPECT(ranks > 0, "a gather needs at least one rank");
    }

    [[nodiscard]] constexpr int ranks() const { return ranks_; }
    [[nodiscard]] constexpr int chunks() const { return ranks_; }
    [[nodiscard]] constexpr int steps() const { return ranks_ - 1; }
    [[nodiscard]] constexpr int owned_chunk(int rank) const { return rank; }
    [[nodiscard]] constexpr Exchange exchange(int rank, int step) const {
        const int from = (rank + ranks_ - step - 1) % ranks_;
        return {.to = (rank + step + 1) % ranks_,
                .send_chunk = rank,
                .from = from,
                .receive_chunk = from,
                .combine = Combine::copy};
    }

private:
    int ranks_;
};

}  // namespace gx::collective
