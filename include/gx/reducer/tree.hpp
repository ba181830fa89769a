// Tree<E, Divide>: the mean by a binomial tree, with element E on the wire.
#pragma once

#include <span>  // bucket
#include <string>  // name

#include <gx/collective/tree.hpp>  // Tree
#include <gx/reducer/concept.hpp>  // ReduceReport
#include <gx/reducer/fwd.hpp>  // defaults
#include <gx/reducer/mean.hpp>  // Mean, explain_wire

namespace gx {

namespace detail::reducer {
struct OneTree {
    static constexpr int count = 1;
    static constexpr collective::Tree make(Placement placement, int) {
        return collective::Tree(placement.ranks());
    }
};
}  // namespace detail::reducer

/// Mean over all ranks by a binomial tree to rank 0 and back, rounded to E at every adding step.
/// For buckets so small that the number of steps decides: log n of them instead of n.
///
/// Wire:   2 ceil(log2 n) steps; rank 0 sends the whole bucket ceil(log2 n) times.
/// Order:  collective/tree.hpp: neighbours first. The bits depend on the rank count only, not on
///         where buckets are cut, the world, timing, placement or threads.
/// Errors: incomplete when a rank is missing; a bucket larger than reserved breaks the contract.
template <class E, class Divide>
class Tree {
    static_assert(detail::reducer::explain_wire<E, Divide>());

public:
    using wire_type = E;
    static constexpr int channels = 1;
    static constexpr int staleness = 0;
    static constexpr bool asynchronous = true;
    using plan = detail::reducer::OneTree;  ///< what it executes

    [[nodiscard]] static std::string name() {
        return "Tree<" + std::string(E::name) + detail::reducer::divide_suffix<Divide>() + ">";
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
