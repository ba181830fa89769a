// Tree<E, Divide>: the mean by a binomial tree, with element E on the wire.
#pragma once

#include <string>  // name

#include <gx/collective/tree.hpp>             // Tree
#include <gx/core/element.hpp>                // fp32
#include <gx/reducer/divide.hpp>              // DivideSplit
#include <gx/reducer/collective_reducer.hpp>  // CollectiveReducer

namespace gx {

namespace detail::trees {
struct OneTree {
    static constexpr int count = 1;
    static constexpr collective::Tree make(Placement placement, int) {
        return collective::Tree(placement.ranks());
    }
};
}  // namespace detail::trees

/// Mean over all ranks by a binomial tree to rank 0 and back. Sums are rounded to E at every
/// adding step. For buckets so small that the number of steps decides: log n of them instead of n.
///
/// Wire:   2 ceil(log2 n) steps; rank 0 sends the whole bucket ceil(log2 n) times.
/// Order:  collective/tree.hpp: neighbours first. The bits depend on the rank count only, not on
///         where buckets are cut, the world, timing, placement or threads.
/// Errors: incomplete when a rank is missing; a bucket larger than reserved breaks the contract.
template <class E = fp32, class Divide = DivideSplit>
class Tree : public CollectiveReducer<detail::trees::OneTree, E, Divide> {
public:
    [[nodiscard]] static std::string name() { return Tree::spelled("Tree<"); }
};

}  // namespace gx
