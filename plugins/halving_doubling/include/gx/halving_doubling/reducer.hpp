// HalvingDoubling<E, Divide>: the mean by recursive halving and doubling, element E on the wire.
#pragma once

#include <string>  // name

#include <gx/collective/halving_doubling.hpp>  // HalvingDoubling
#include <gx/core/element.hpp>                 // fp32
#include <gx/reducer/divide.hpp>               // DivideSplit
#include <gx/reducer/collective_reducer.hpp>   // CollectiveReducer

namespace gx {

namespace detail::halving_doubling {
struct OneHalvingDoubling {
    static constexpr int count = 1;
    static constexpr collective::HalvingDoubling make(Placement placement, int) {
        return collective::HalvingDoubling(placement.ranks());
    }
};
}  // namespace detail::halving_doubling

/// Mean over all ranks by recursive halving and doubling, rounded to E at every adding step: the
/// bytes of a ring in 2 log2 n steps. Rank counts that are no power of two cost a fold at each end.
///
/// Wire:   2 log2 p steps and 2 (p - 1) / p of the bucket, p the largest power of two within n;
///         with a fold two steps more, and the whole bucket once for each of its ranks.
/// Order:  collective/halving_doubling.hpp. The bits depend on the rank count and on where buckets
///         are cut; not on the world, timing, placement or threads.
/// Errors: incomplete when a rank is missing; a bucket larger than reserved breaks the contract.
template <class E = fp32, class Divide = DivideSplit>
class HalvingDoubling
    : public CollectiveReducer<detail::halving_doubling::OneHalvingDoubling, E, Divide> {
public:
    [[nodiscard]] static std::string name() { return HalvingDoubling::spelled("HalvingDoubling<"); }
};

}  // namespace gx
