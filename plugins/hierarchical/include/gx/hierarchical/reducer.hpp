// Hierarchical: the mean in two levels, within and between machines, by rings or other reducers.
#pragma once

#include <string>  // name

#include <gx/collective/hierarchical.hpp>     // Hierarchical
#include <gx/core/element.hpp>                // fp32
#include <gx/reducer/divide.hpp>              // DivideSplit
#include <gx/reducer/collective_reducer.hpp>  // CollectiveReducer
#include <gx/hierarchical/levels.hpp>         // Levels

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
/// Wire:   2 (G - 1) + 2 (M - 1) steps over M machines of G ranks; each rank sends, in elements E,
///         2 (G - 1) / G of the bucket in its machine and 2 (M - 1) / (M G) between machines.
/// Order:  collective/hierarchical.hpp. The bits depend on the placement and on where buckets are
///         cut; not on the world, timing or threads.
/// Errors: incomplete when a rank is missing; a bucket larger than reserved breaks the contract.
template <class E = fp32, class Divide = DivideSplit>
class Hierarchical : public CollectiveReducer<detail::hierarchical::OneHierarchical, E, Divide> {
public:
    [[nodiscard]] static std::string name() { return Hierarchical::spelled("Hierarchical<"); }
};

/// Mean over all ranks by the reducers of two levels, over M machines of G ranks:
///
///     1  Inner averages the bucket over the ranks of each machine
///     2  Outer averages shard g of the bucket, of G cut like chunks, over rank g of every machine
///     3  the ranks of a machine copy each other's shards: by share(), or around a ring as floats
///
/// Where the ranks of all machines reach one another's memory, as those of Threads and Processes
/// do, so do those of each machine: an Inner that is SharedMemory<E> then sends nothing. On one
/// machine it is Inner alone, with one rank a machine Outer alone.
///
///     Trainer<ResNet50, Hierarchical<SharedMemory<fp32>, Ring<fp16>>> trainer;
///
/// Wire:   Inner's for G ranks, Outer's for M ranks and 1 / G of the bucket, and by messages G - 1
///         steps and (G - 1) / G of the bucket in floats. wire_type is the one of 16 bits, if any.
/// Order:  Inner's inside machines, then Outer's between their means. The bits depend on the
///         placement and on where buckets are cut; not on the world, timing or threads.
/// Errors: as Inner's and Outer's; gx::Error for a ragged placement.
/// Accuracy: rounded; values are divided by G and by M, at each level where it divides.
/// Memory: also that of a device, where both levels work in it. Levels with Options have their
///         defaults.
template <class Inner, class Outer>
    requires(!Element<Inner>)
class Hierarchical<Inner, Outer> : public detail::hierarchical::Levels<Inner, Outer> {};

}  // namespace gx
