// Mutants: reducers with one seeded bug each; a suite that accepts one proves nothing.
#pragma once

#include <gx/testing/mutants_decisions.hpp>  // DecideByOwnGradient ... SkipLargeMeans
#include <gx/testing/mutants_history.hpp>    // StaleByTwo ... keep_state_of_rank_zero
#include <gx/testing/mutants_messages.hpp>   // SumInOrderOfArrival ... ClaimCompleteBetweenMachines
#include <gx/testing/mutants_scaled.hpp>     // DoubleScaledOffRankZero ... OneResidualInFlight
#include <gx/testing/mutants_values.hpp>     // IgnorePeers ... FlushSubnormals
