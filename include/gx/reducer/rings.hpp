// RingMean: the mean over K rings at once, on which Ring and MultiRing are built.
#pragma once

#include <gx/collective/ring.hpp>  // machine_ring
#include <gx/reducer/mean.hpp>     // Mean

namespace gx::detail::reducer {

/// K rings over one placement, each in a machine order of its own.
template <int K>
struct MachineRings {
    static constexpr int count = K;
    static constexpr collective::Ring make(Placement placement, int k) {
        return collective::machine_ring(placement, k);
    }
};

template <int K, Element E, DividePolicy Divide>
using RingMean = Mean<MachineRings<K>, E, Divide>;

}  // namespace gx::detail::reducer
