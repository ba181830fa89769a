// Draws of a run, generated once.
#pragma once

#include <gx/sim/compute/jitter.hpp>  // the declarations

namespace gx::sim {

GX_DECL Factor factor_of_pass(const GpuVariation& variation, std::uint64_t seed, int rank,
                              std::uint64_t number) {
    return variation.factor(seed, rank, number);
}

}  // namespace gx::sim
