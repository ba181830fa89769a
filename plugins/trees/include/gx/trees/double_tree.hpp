// DoubleTree<Chunks, E, Divide>: mean by two binary trees at once, E on the wire.
#pragma once

#include <string>  // name

#include <gx/collective/binary_tree.hpp>      // BinaryTree
#include <gx/core/element.hpp>                // fp32
#include <gx/reducer/divide.hpp>              // DivideSplit
#include <gx/reducer/collective_reducer.hpp>  // CollectiveReducer

namespace gx {

namespace detail::trees {
template <int Chunks>
struct BothTrees {
    static_assert(Chunks >= 1,
                  "gx: DoubleTree<0, ...> has nothing to send: it counts the chunks that each of "
                  "its two trees is passed in. Fix: DoubleTree<1, ...> or more.");
    static constexpr int count = 2;
    static constexpr collective::BinaryTree make(Placement placement, int k) {
        return collective::BinaryTree(placement.ranks(), k, Chunks);
    }
};
}  // namespace detail::trees

/// Mean over all ranks by two complementary binary trees. Each is on half of the bucket and on a
/// channel of its own, rounded to E at every adding step: the bytes of a ring in a number of steps
/// that grows with log n. In each tree `Chunks` chunks follow each other: more of them fill the
/// links, fewer have less latency. About sqrt(log2 n m / (2 alpha bandwidth)) of them are best for
/// a bucket of m bytes and a latency alpha.
///
/// Wire:   4 (floor(log2 n) + Chunks - 1) steps; no rank sends more than twice the bucket, and one
///         element where its halves are unequal; all ranks 2 (n - 1) times the bucket. Ranks are
///         numbered through all machines: a machine's NICs carry what some of its ranks send, and
///         Hierarchical sends less between machines of several GPUs.
/// Order:  collective/binary_tree.hpp. The bits depend on the rank count and on where buckets are
///         cut; not on Chunks, the world, timing, placement or threads.
/// Errors: incomplete when a rank is missing; a bucket larger than reserved breaks the contract.
/// Source: Sanders, Speck and Traeff 2009, "Two-tree algorithms for full bandwidth broadcast,
///         reduction and scan"; NCCL's Tree since 2.4.
template <int Chunks, class E = fp32, class Divide = DivideSplit>
class DoubleTree : public CollectiveReducer<detail::trees::BothTrees<Chunks>, E, Divide> {
public:
    [[nodiscard]] static std::string name() {
        return DoubleTree::spelled("DoubleTree<" + std::to_string(Chunks) + ", ");
    }
};

}  // namespace gx
