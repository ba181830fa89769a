// MachineRings: what Ring and MultiRing execute: K rings at once, each in a machine order.
#pragma once

#include <gx/collective/proof.hpp>  // prove_all_reduce
#include <gx/core/decl.hpp>         // GX_COMPILED
#include <gx/collective/ring.hpp>   // machine_ring

namespace gx::detail::reducer {

/// K rings over one placement, each in a machine order of its own.
template <int K>
struct MachineRings {
    static_assert(K >= 1,
                  "gx: MultiRing<0, ...> has no ring to send on: K counts the rings. "
                  "Fix: MultiRing<1, ...> or more.");
    static constexpr int count = K;
    static constexpr collective::Ring make(Placement placement, int k) {
        return collective::machine_ring(placement, k);
    }
};

}  // namespace gx::detail::reducer

#if defined(GX_COMPILED)
extern template gx::collective::Proof gx::collective::prove_all_reduce(const gx::collective::Ring&);
#endif
