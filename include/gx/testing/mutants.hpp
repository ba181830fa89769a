// Mutants: reducers with one seeded bug each; a suite that accepts one proves nothing.
#pragma once

#include <cmath>  // isfinite
#include <span>   // gradients

#include <gx/testing/mutants_history.hpp>   // StaleByTwo ... keep_state_of_rank_zero
#include <gx/testing/mutants_messages.hpp>  // SumInOrderOfArrival ... ClaimComplete
#include <gx/testing/mutants_scaled.hpp>    // DoubleScaledOffRankZero ... OneResidualInFlight
#include <gx/testing/mutants_values.hpp>    // IgnorePeers ... FlushSubnormals

namespace gx::testing {

/// Decides from the rank's own gradient instead of the averaged one.
struct DecideByOwnGradient {
    bool operator()(int, std::span<const float> own, std::span<const float>) const {
        bool finite = true;
        for (const float x : own) finite = finite && std::isfinite(x);
        return !finite;
    }
};

/// A decision that one rank, `blind_rank`, never takes.
struct SkipOneRanksOverflow {
    int blind_rank = 1;
    bool operator()(int rank, std::span<const float>, std::span<const float> reduced) const {
        bool finite = true;
        for (const float x : reduced) finite = finite && std::isfinite(x);
        return !finite && rank != blind_rank;
    }
};

}  // namespace gx::testing
