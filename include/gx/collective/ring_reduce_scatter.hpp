// RingReduceScatter: sums around a ring; each rank ends with one chunk of the sum.
#pragma once

#include <gx/collective/detail/ring_pass.hpp>  // RingPass
#include <gx/collective/exchange.hpp>          // Exchange, Promise

namespace gx::collective {

/// n ranks in a ring, n chunks. At position p, with an offset t of the owned chunks:
///
///     step s:    sends chunk p + t - 1 - s to position p + 1 and adds chunk p + t - 2 - s
///
/// all modulo n. Position p ends with the whole sum of chunk p + t: of its own, where t is 0.
///
/// Order: the sum of chunk c starts at position c - t + 1 and goes up:
///        ((x[c-t+1] + x[c-t+2]) + ...) + x[c-t]. With t = 1 it is that of an all-reduce by Ring,
///        bit for bit. The bits depend on n, on t, on the order of the ranks and on where chunks
///        are cut.
/// Wire:  n - 1 steps; (n - 1) / n of the data sent by each rank, the least possible.
/// Time:  (n - 1) (alpha + m / n beta) for data of m bytes, alpha a message, beta a byte.
/// Source: Thakur, Rabenseifner and Gropp 2005, "Optimization of collective communication
///         operations in MPICH"; Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce
///         algorithms", for the bound.
class RingReduceScatter : public detail::RingPass<Combine::add, -1> {
public:
    static constexpr Promise promise = Promise::reduce_scatter;
    using RingPass::RingPass;
};

}  // namespace gx::collective
