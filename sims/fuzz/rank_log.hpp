// RankLog: what one rank of a trial has done in one world.
#pragma once

#include <cstdint>  // uint32_t
#include <vector>   // logs

namespace gx::sim::fuzz {

/// What one rank of one world has done.
struct RankLog {
    std::int64_t first = -1;                            ///< its first gradient, by number
    std::vector<std::vector<float>> rows{};             ///< what it put in, by gradient
    std::vector<std::vector<std::uint32_t>> samples{};  ///< of each
    struct Resolved {
        bool applied = false;
        std::vector<float> mean{};
    };
    std::vector<Resolved> resolved{};  ///< gradients, in order: applied, or left out
    std::vector<float> mean{};         ///< the last that was applied
    bool closed = false;               ///< its world has ended
    std::vector<float> sum{};          ///< of all means of the run
    double updates = 0;                ///< of the run
};

/// The log of the rank that is being built: its device comes first, then its policies.
inline RankLog* building = nullptr;

}  // namespace gx::sim::fuzz
