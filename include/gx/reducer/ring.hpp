// Ring<E, Divide>: the mean by one ring in the order of the ranks, with element E on the wire.
#pragma once

#include <span>    // bucket
#include <string>  // name

#include <gx/reducer/concept.hpp>  // explain_reducer
#include <gx/reducer/fwd.hpp>      // defaults
#include <gx/reducer/rings.hpp>    // RingMean

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
class Ring {
    static_assert(detail::reducer::explain_wire<E, Divide>());

public:
    using wire_type = E;
    static constexpr int channels = 1;
    static constexpr int staleness = 0;
    static constexpr bool asynchronous = true;
    using plan = detail::reducer::MachineRings<1>;  ///< what it executes

    [[nodiscard]] static std::string name() {
        return "Ring<" + std::string(E::name) + detail::reducer::divide_suffix<Divide>() + ">";
    }
    void reserve(Placement placement, std::int64_t elements) {
        mean_.reserve(placement, elements);
    }
    ReduceReport all_reduce(Transport auto& link, std::span<float> bucket) {
        return mean_.all_reduce(link, bucket);
    }
    std::span<float> state() { return {}; }

private:
    detail::reducer::RingMean<1, E, Divide> mean_;
};

}  // namespace gx
