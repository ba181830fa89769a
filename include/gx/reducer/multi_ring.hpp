// MultiRing<K, E, Divide>: the mean by K rings at once, each in a machine order of its own.
#pragma once

#include <span>    // bucket
#include <string>  // name

#include <gx/reducer/concept.hpp>  // explain_reducer
#include <gx/reducer/fwd.hpp>      // defaults
#include <gx/reducer/ring.hpp>     // who has several rings has the one
#include <gx/reducer/rings.hpp>    // RingMean

namespace gx {

/// Mean over all ranks by K ring all-reduces, each over one of K contiguous parts of the bucket, in
/// K machine orders (collective/machine_orders.hpp): flows of one machine go to different peers, so
/// that a limit on one flow is met K times.
///
/// Wire:   2 (n - 1) steps; 2 (n - 1) / n of the bucket, in elements E, sent by each rank.
/// Order:  the bits depend on the placement, on K and on where buckets are cut; not on the world,
///         timing or threads. MultiRing<1, E> equals Ring<E>.
/// Errors: incomplete when a rank is missing; a bucket larger than reserved breaks the contract.
/// Source: "Now anyone can train ImageNet in 18 minutes" (2018), four ring orders.
template <int K, class E, class Divide>
class MultiRing {
    static_assert(K >= 1,
                  "gx: MultiRing<0, ...> has no ring to send on: K counts the rings. "
                  "Fix: MultiRing<1, ...> or more.");
    static_assert(detail::reducer::explain_wire<E, Divide>());

public:
    using wire_type = E;
    static constexpr int channels = K;
    static constexpr int staleness = 0;
    static constexpr bool asynchronous = true;
    using plan = detail::reducer::MachineRings<K>;  ///< what it executes

    [[nodiscard]] static std::string name() {
        return "MultiRing<" + std::to_string(K) + ", " + std::string(E::name) +
               detail::reducer::divide_suffix<Divide>() + ">";
    }
    void reserve(Placement placement, std::int64_t elements) { mean_.reserve(placement, elements); }
    ReduceReport all_reduce(Transport auto& link, std::span<float> bucket) {
        return mean_.all_reduce(link, bucket);
    }
    std::span<float> state() { return {}; }

private:
    detail::reducer::RingMean<K, E, Divide> mean_;
};

}  // namespace gx
