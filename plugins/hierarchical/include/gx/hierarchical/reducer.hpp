// Hierarchical<E, Divide>: the mean by rings in machines and between them, element E on the wire.
#pragma once

#include <string>  // name

#include <gx/collective/hierarchical.hpp>     // Hierarchical
#include <gx/core/element.hpp>                // fp32
#include <gx/reducer/divide.hpp>              // DivideSplit
#include <gx/reducer/collective_reducer.hpp>  // CollectiveReducer

namespace gx {

namespace detail::hierarchical {
struct OneHierarchical {
    static constexpr int count = 1;
    static constexpr collective::Hierarchical make(Placement placement, int) {
        return collective::Hierarchical(placement);
    }
};
}  // namespace detail::hierarchical

/// Mean over all ranks in two levels: a ring inside each machine cuts the bucket into shards, each
/// GPU sums its shard with its peers in the other machines, and the machine's ring gathers them.
///
/// Wire:   2 (G - 1) + 2 (M - 1) steps over M machines of G ranks; each rank sends
///         2 (G - 1) / G of the bucket in its machine and 2 (M - 1) / (M G) between machines.
/// Order:  collective/hierarchical.hpp. The bits depend on the placement and on where buckets are
///         cut; not on the world, timing or threads.
/// Errors: incomplete when a rank is missing; a bucket larger than reserved breaks the contract.
template <class E = fp32, class Divide = DivideSplit>
class Hierarchical : public CollectiveReducer<detail::hierarchical::OneHierarchical, E, Divide> {
public:
    [[nodiscard]] static std::string name() { return Hierarchical::spelled("Hierarchical<"); }
};

}  // namespace gx
