// Decisions to skip a step, with one seeded bug each.
#pragma once

#include <algorithm>  // all_of, any_of
#include <cmath>      // abs, isinf, isnan
#include <cstddef>    // size_t
#include <span>       // gradients

#include <gx/optimizer/finite.hpp>  // all_finite

namespace gx::testing {

/// Decides from the rank's own gradient instead of the averaged one.
struct DecideByOwnGradient {
    bool operator()(int, std::span<const float> own, std::span<const float>) const {
        return !all_finite(own);
    }
};

/// A decision that one rank, `blind_rank`, never takes.
struct SkipOneRanksOverflow {
    int blind_rank = 1;
    bool operator()(int rank, std::span<const float>, std::span<const float> reduced) const {
        return !all_finite(reduced) && rank != blind_rank;
    }
};

/// Seeded bug: skips infinities alone, and no NaN.
struct OverlookNan {
    bool operator()(int, std::span<const float>, std::span<const float> reduced) const {
        return std::ranges::any_of(reduced, [](float x) { return std::isinf(x); });
    }
};

/// Seeded bug: skips NaN and +infinity alone.
struct OverlookMinusInfinity {
    bool operator()(int, std::span<const float>, std::span<const float> reduced) const {
        return std::ranges::any_of(
            reduced, [](float x) { return std::isnan(x) || (std::isinf(x) && x > 0); });
    }
};

/// Seeded bug: one rank, or all of them (-1), reads one half of the averaged gradient alone.
struct OverlookHalf {
    bool overlooks_first = true;
    int half_blind_rank = -1;
    bool operator()(int rank, std::span<const float>, std::span<const float> reduced) const {
        const std::size_t half = reduced.size() / 2;
        if (half_blind_rank < 0 || rank == half_blind_rank)
            reduced = overlooks_first ? reduced.subspan(half) : reduced.first(half);
        return !all_finite(reduced);
    }
};

/// Seeded bug: also skips a mean that is finite and has a magnitude of 100 or more.
struct SkipLargeMeans {
    bool operator()(int, std::span<const float>, std::span<const float> reduced) const {
        return !std::ranges::all_of(reduced, [](float x) { return std::abs(x) < 100; });
    }
};

}  // namespace gx::testing
