// MultiRing<K, E, Divide>: mean by K ring all-reduces, each in its own machine order.
#pragma once

#include <string>  // name

#include <gx/reducer/fwd.hpp>                 // defaults
#include <gx/reducer/collective_reducer.hpp>  // CollectiveReducer
#include <gx/reducer/ring.hpp>                // so that MultiRing also provides Ring
#include <gx/reducer/rings.hpp>               // MachineRings

namespace gx {

/// Mean over all ranks by K ring all-reduces in K machine orders. Each is over one of K contiguous
/// parts of the bucket. In these orders (collective/machine_orders.hpp) flows of one machine go to
/// different peers, so a per-flow bandwidth cap applies to each of K flows.
///
/// Wire:   2 (n - 1) steps; 2 (n - 1) / n of the bucket, in elements E, sent by each rank.
/// Order:  the bits depend on the placement, on K and on where buckets are cut; not on the world,
///         timing or threads. MultiRing<1, E> equals Ring<E>.
/// Errors: incomplete when a rank is missing; a bucket larger than reserved breaks the contract.
/// Source: "Now anyone can train ImageNet in 18 minutes" (2018), four ring orders.
template <int K, class E, class Divide>
class MultiRing : public CollectiveReducer<detail::reducer::MachineRings<K>, E, Divide> {
public:
    [[nodiscard]] static std::string name() {
        return MultiRing::spelled("MultiRing<" + std::to_string(K) + ", ");
    }
};

}  // namespace gx
