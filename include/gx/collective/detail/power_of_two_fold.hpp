// PowerOfTwoFold: fold of n ranks onto a power of two, by messages between neighbours.
#pragma once

#include <gx/collective/exchange.hpp>  // Exchange
#include <gx/core/contract.hpp>        // GX_EXPECT

namespace gx::collective::detail {

/// n ranks as p = 2^levels virtual ones. p is the largest power of two within n, and extra = n - p.
/// Of the first 2 extra ranks the even ones first send all to the next rank, stay out, and get the
/// result at the end. Where n is a power of two, there are no such steps.
class PowerOfTwoFold {
public:
    constexpr explicit PowerOfTwoFold(int ranks) : ranks_(ranks) {
        GX_EXPECT(ranks > 0, "a fold to a power of two needs at least one rank");
        while (2 << levels_ <= ranks) ++levels_;
        extra_ = ranks - (1 << levels_);
    }
    [[nodiscard]] constexpr int ranks() const { return ranks_; }
    [[nodiscard]] constexpr int levels() const { return levels_; }
    [[nodiscard]] constexpr bool is_needed() const { return extra_ > 0; }

    /// Whether `rank` stays out between the two steps of the fold.
    [[nodiscard]] constexpr bool stays_out(int rank) const {
        return rank < 2 * extra_ && rank % 2 == 0;
    }
    /// The part of `rank` in the fold's first step, or in its last one, with `chunks` of data.
    [[nodiscard]] constexpr Exchange exchange(int rank, bool first, int chunks) const {
        if (rank >= 2 * extra_) return {};
        const int peer = rank % 2 == 0 ? rank + 1 : rank - 1;
        if (stays_out(rank) == first) return {.to = peer, .send_chunk = 0, .chunks = chunks};
        return {.from = peer,
                .receive_chunk = 0,
                .combine = first ? Combine::add : Combine::copy,
                .chunks = chunks};
    }
    [[nodiscard]] constexpr int virtual_rank(int rank) const {
        return rank < 2 * extra_ ? rank / 2 : rank - extra_;
    }
    [[nodiscard]] constexpr int real_rank(int v) const {
        return v < extra_ ? 2 * v + 1 : v + extra_;
    }

private:
    int ranks_;
    int levels_ = 0;
    int extra_ = 0;
};

}  // namespace gx::collective::detail
