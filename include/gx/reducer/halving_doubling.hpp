// HalvingDoubling<E, Divide>: the mean by recursive halving and doubling, element E on the wire.
#pragma once

#include <span>  // bucket
#include <string>  // name

#include <gx/collective/halving_doubling.hpp>  // HalvingDoubling
#include <gx/reducer/concept.hpp>  // ReduceReport
#include <gx/reducer/fwd.hpp>  // defaults
#include <gx/reducer/mean.hpp>  // Mean, explain_wire

namespace gx {

namespace detail::reducer {
struct OneHalvingDoubling {
    static constexpr int count = 1;
    static constexpr collective::HalvingDoubling make(Placement placement, int) {
        return collective::HalvingDoubling(placement.ranks());
    }
};
}  // namespace detail::reducer

/// Mean over all ranks by recursive halving and doubling, rounded to E at every adding step: the
/// bytes of a ring in 2 log2 n steps. Rank counts that are no power of two cost a fold at each end.
///
/// Wire:   2 log2 p steps and 2 (p - 1) / p of the bucket, p the largest power of two within n;
///         with a fold two steps more, and the whole bucket once more for its ranks.
/// Order:  collective/halving_doubling.hpp. The bits depend on the rank count and on where buckets
///         are cut; not on the world, timing, placement or threads.
/// Errors: incomplete when a rank is missing; a bucket larger than reserved breaks the contract.
template <class E, class Divide>
class HalvingDoubling {
    static_assert(detail::reducer::explain_wire<E, Divide>());

public:
    using wire_type = E;
    static constexpr int channels = 1;
    static constexpr int staleness = 0;
    static constexpr bool asynchronous = true;
    using plan = detail::reducer::OneHalvingDoubling;  ///< what it executes

    [[nodiscard]] static std::string name() {
        return "HalvingDoubling<" + std::string(E::name) +
               detail::reducer::divide_suffix<Divide>() + ">";
    }
    void reserve(Placement placement, std::int64_t elements) { mean_.reserve(placement, elements); }
    ReduceReport all_reduce(Transport auto& link, std::span<float> bucket) {
        return mean_.all_reduce(link, bucket);
    }
    std::span<float> state() { return {}; }

private:
    detail::reducer::Mean<plan, E, Divide> mean_;
};

}  // namespace gx
