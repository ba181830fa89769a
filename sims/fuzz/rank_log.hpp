// RankLog: what one rank of a trial has done in one world.
#pragma once

#include <cstdint>  // uint32_t
#include <vector>   // logs

#include <gx/collective/exchange.hpp>  // ChunkRange

namespace gx::sim::fuzz {

/// What one rank of one world has done.
struct RankLog {
    std::int64_t first = -1;                            ///< its first gradient, by number
    std::vector<std::vector<float>> rows{};             ///< what it put in, by gradient
    std::vector<std::vector<std::uint32_t>> samples{};  ///< of each
    struct Resolved {
        bool applied = false;
        std::vector<float> mean{};            ///< that was applied; with an owner the parameters
        std::vector<float> before{}, kept{};  ///< residual of error feedback: as it was, and now
        std::vector<float> local{};  ///< of an update apart: parameters before the exchange
    };
    std::vector<Resolved> resolved{};  ///< gradients, in order: applied, or left out
    std::vector<float> mean{};         ///< the last that was applied
    bool finished = false;             ///< all epochs of the run
    bool closed = false;               ///< its world has ended
    std::vector<float> sum{};          ///< of all means of the run, in `parts` where there are any
    double updates = 0;                ///< of the run
    std::vector<ChunkRange> parts{};   ///< of the parameters that this rank updates
    std::vector<float> start{};        ///< parameters before the first update apart
    std::vector<float> own{};          ///< sum of the gradients of this rank that it has applied
};

/// The log of the rank that is being built: its device comes first, then its policies.
inline RankLog* building = nullptr;

}  // namespace gx::sim::fuzz
