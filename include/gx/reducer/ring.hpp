// Ring<E, Divide>: mean by one ring all-reduce in rank order, E on the wire.
#pragma once

#include <string>  // name

#include <gx/reducer/fwd.hpp>                 // defaults
#include <gx/reducer/collective_reducer.hpp>  // CollectiveReducer
#include <gx/reducer/rings.hpp>               // MachineRings

namespace gx {

/// Mean over all ranks by one ring all-reduce, rounded to E at every hop.
///
/// Wire:   2 (n - 1) steps; 2 (n - 1) / n of the bucket, in elements E, sent by each rank.
/// Order:  chunk c of n is summed from rank c upwards. The bits depend on the rank count and on
///         where buckets are cut; not on the world, timing, placement or threads.
/// Precision: a float sum rounded to E at each of n - 1 hops. One rank: rounded to E once, so
///         that Ring<fp32> on one rank changes nothing.
/// Errors: incomplete when a rank is missing; a bucket larger than reserved breaks the contract.
template <class E, class Divide>
class Ring : public CollectiveReducer<detail::reducer::MachineRings<1>, E, Divide> {
public:
    [[nodiscard]] static std::string name() { return Ring::spelled("Ring<"); }
};

}  // namespace gx
