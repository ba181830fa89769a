// Hierarchical<E, Divide>: the mean by rings in machines and between them, element E on the wire.
#pragma once

#include <span>  // bucket
#include <string>  // name

#include <gx/collective/hierarchical.hpp>  // Hierarchical
#include <gx/reducer/concept.hpp>  // ReduceReport
#include <gx/reducer/fwd.hpp>  // defaults
#include <gx/reducer/mean.hpp>  // Mean, explain_wire

namespace gx {

namespace detail::reducer {
struct OneHierarchical {
    static constexpr int count = 1;
    static constexpr collective::Hierarchical make(Placement placement, int) {
        return collective::Hierarchical(placement);
    }
};
}  // namespace detail::reducer

/// Mean over all ranks in two levels: a ring inside each machine cuts the bucket into shards, each
/// GPU sums its shard with its peers in the other machines, and the machine's ring gathers them.
///
/// Wire:   2 (G - 1) + 2 (M - 1) steps over M machines of G ranks; each rank sends
///         2 (G - 1) / G of the bucket in its machine and 2 (M - 1) / (M G) between machines.
/// Order:  collective/hierarchical.hpp. The bits depend on the placement and on where buckets are
///         cut; not on the world, timing or threads.
/// Errors: incomplete when a rank is missing; a bucket larger than reserved breaks the contract.
template <class E, class Divide>
class Hierarchical {
    static_assert(detail::reducer::explain_wire<E, Divide>());

public:
    using wire_type = E;
    static constexpr int channels = 1;
    static constexpr int staleness = 0;
    static constexpr bool asynchronous = true;
    using plan = detail::reducer::OneHierarchical;  ///< what it executes

    [[nodiscard]] static std::string name() {
        return "Hierarchical<" + std::string(E::name) +
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
