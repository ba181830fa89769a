// RingAllGather: each rank's chunk goes around a ring; all ranks end with all chunks.
#pragma once

#include <gx/collective/detail/ring_pass.hpp>  // RingPass
#include <gx/collective/exchange.hpp>          // Exchange, Promise

namespace gx::collective {

/// n ranks in a ring, n chunks; position p begins with chunk p + t. In the order of the ranks and
/// with t = 0, chunk r is rank r's.
///
///     step g:    sends chunk p + t - g to position p + 1 and copies chunk p + t - 1 - g
///
/// all modulo n.
///
/// Wire:  n - 1 steps; (n - 1) / n of the data sent by each rank, the least possible. It copies, in
///        place: no scratch.
/// Time:  (n - 1) (alpha + m / n beta) for gathered data of m bytes, alpha a message, beta a byte.
/// Source: Thakur, Rabenseifner and Gropp 2005, "Optimization of collective communication
///         operations in MPICH"; Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce
///         algorithms", for the bound.
class RingAllGather : public detail::RingPass<Combine::copy, 0> {
public:
    static constexpr Promise promise = Promise::all_gather;
    using RingPass::RingPass;
};

}  // namespace gx::collective
