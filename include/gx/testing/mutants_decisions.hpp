// Decisions to skip a step, with one seeded bug each.
#pragma once

#include <algorithm>  // all_of, any_of
#include <cmath>      // abs, isfinite, isinf, isnan
#include <span>       // gradients

namespace gx::testing {

/// Decides from the rank's own gradient instead of the averaged one.
struct DecideByOwnGradient {
    bool operator()(int, std::span<const float> own, std::span<const float>) const {
        return !std::ranges::all_of(own, [](float x) { return std::isfinite(x); });
    }
};

/// A decision that one rank, `blind_rank`, never takes.
struct SkipOneRanksOverflow {
    int blind_rank = 1;
    bool operator()(int rank, std::span<const float>, std::span<const float> reduced) const {
        const bool finite = std::ranges::all_of(reduced, [](float x) { return std::isfinite(x); });
        return !finite && rank != blind_rank;
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

/// Seeded bug: one rank, or all of them (-1), reads the second half of the averaged gradient alone.
struct OverlookFirstHalf {
    int half_blind_rank = -1;
    bool operator()(int rank, std::span<const float>, std::span<const float> reduced) const {
        if (half_blind_rank < 0 || rank == half_blind_rank)
            reduced = reduced.subspan(reduced.size() / 2);
        return !std::ranges::all_of(reduced, [](float x) { return std::isfinite(x); });
    }
};

/// Seeded bug: one rank, or all of them (-1), reads the first half of the averaged gradient alone.
struct OverlookSecondHalf {
    int half_blind_rank = -1;
    bool operator()(int rank, std::span<const float>, std::span<const float> reduced) const {
        if (half_blind_rank < 0 || rank == half_blind_rank)
            reduced = reduced.first(reduced.size() / 2);
        return !std::ranges::all_of(reduced, [](float x) { return std::isfinite(x); });
    }
};

/// Seeded bug: also skips a mean that is finite and has a magnitude of 100 or more.
struct SkipLargeMeans {
    bool operator()(int, std::span<const float>, std::span<const float> reduced) const {
        return !std::ranges::all_of(reduced, [](float x) { return std::abs(x) < 100; });
    }
};

}  // namespace gx::testing
