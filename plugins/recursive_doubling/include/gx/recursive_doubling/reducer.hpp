// RecursiveDoubling<E, Divide>: mean by swaps of whole sums in pairs, E on the wire.
#pragma once

#include <string>  // name

#include <gx/collective/recursive_doubling.hpp>  // RecursiveDoubling
#include <gx/core/element.hpp>                   // fp32
#include <gx/reducer/divide.hpp>                 // DivideSplit
#include <gx/reducer/collective_reducer.hpp>     // CollectiveReducer

namespace gx {

namespace detail::recursive_doubling {
struct OneRecursiveDoubling {
    static constexpr int count = 1;
    static constexpr collective::RecursiveDoubling make(Placement placement, int) {
        return collective::RecursiveDoubling(placement.ranks());
    }
};
}  // namespace detail::recursive_doubling

/// Mean over all ranks by recursive doubling, rounded to E at every adding step: with n a power of
/// two half the steps of HalvingDoubling, and log2 n times the bucket in place of twice, so the
/// quicker one for buckets of which a step takes mostly latency.
///
/// Wire:   log2 p steps and log2 p times the bucket, p the largest power of two within n; with a
///         fold two steps more. See collective/recursive_doubling.hpp.
/// Order:  collective/recursive_doubling.hpp. The bits depend on the rank count; not on where
///         buckets are cut, the world, timing, placement or threads.
/// Errors: incomplete when a rank is missing; a bucket larger than reserved breaks the contract.
template <class E = fp32, class Divide = DivideSplit>
class RecursiveDoubling
    : public CollectiveReducer<detail::recursive_doubling::OneRecursiveDoubling, E, Divide> {
public:
    [[nodiscard]] static std::string name() {
        return RecursiveDoubling::spelled("RecursiveDoubling<");
    }
};

}  // namespace gx
