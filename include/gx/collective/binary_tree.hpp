// BinaryTree: one of two complementary binary trees, pipelined over chunks.
#pragma once

#include <bit>  // countr_zero, bit_width

#include <gx/collective/exchange.hpp>  // Exchange, Promise
#include <gx/core/contract.hpp>        // GX_EXPECT

namespace gx::collective {

/// The in-order tree over labels 1 to n: label w has height h = countr_zero(w), odd labels are
/// leaves, and inner ones have the children w - 2^(h-1) and w + 2^(h-1); where that is more than n,
/// the largest subtree that fits instead. Its N chunks go up to the root, summed, and back:
///
///     step s < S / 2:    chunk j goes up from the labels of height h, where s = 2 (h + j) for
///                        children below their parent's label, + 1 for those above; it is added
///     step S - 1 - s:    it comes down the same way, and is copied
///
/// Rank r has label r + 1 in tree 0. In tree 1 it has the label n - r, so that even labels become
/// odd; or, where n is odd, the label r, and rank 0 has n. So a rank is an inner node of one tree
/// at most, and both trees together use every link both ways.
///
/// Order: (mine + lower child) + upper child at every inner node; the upper one first where its
///        subtree is flatter. The bits depend on n and on which tree sums an element; not on where
///        chunks are cut.
/// Wire:  S = 4 (L + N - 1) steps, L = floor(log2 n). An inner node sends the data three times, a
///        leaf once; in all 2 (n - 1) times. Two trees on half of the data each: no rank sends more
///        than twice the data.
/// Time:  at most S (alpha + m / N / rate) for data of m, where no message slows another; for
///        n = 2^k, k > 2 and N > 1 exactly 3 N + floor((7 k - 9) / 2) such terms, since a rank's
///        two children send at the same time. Where these share its port: up to 1.3 times S terms.
/// Source: Sanders, Speck and Traeff 2009, "Two-tree algorithms for full bandwidth broadcast,
///         reduction and scan", for the trees; there both share one schedule in which no rank has
///         two messages of a kind, while here each goes at its own pace, as in NCCL since 2.4.
class BinaryTree {
public:
    static constexpr Promise promise = Promise::all_reduce;

    constexpr BinaryTree(int ranks, int tree, int pipeline)
        : ranks_(ranks), tree_(tree), pipeline_(pipeline) {
        GX_EXPECT(ranks > 0, "a tree needs at least one rank");
        GX_EXPECT(tree == 0 || tree == 1, "there are two trees: 0 and 1");
        GX_EXPECT(pipeline > 0, "a tree sums at least one chunk");
    }

    [[nodiscard]] constexpr int ranks() const { return ranks_; }
    [[nodiscard]] constexpr int chunks() const { return pipeline_; }
    [[nodiscard]] constexpr int steps() const { return ranks_ > 1 ? 2 * steps_up() : 0; }

    /// The next rank towards the root. -1: this is the root.
    [[nodiscard]] constexpr int parent(int rank) const { return rank_of(above(label(rank))); }

    [[nodiscard]] constexpr Exchange exchange(int rank, int step) const {
        const bool up = step < steps_up();
        const int turn = up ? step : steps() - 1 - step, mine = label(rank);
        const int upper = above(mine), lower = below(mine, turn % 2);
        const int sent_up = chunk_from(mine, turn), arriving = chunk_from(lower, turn);
        Exchange e{.combine = up ? Combine::add : Combine::copy};
        if (sent_up >= 0) (up ? e.to : e.from) = rank_of(upper);
        if (sent_up >= 0) (up ? e.send_chunk : e.receive_chunk) = sent_up;
        if (arriving >= 0) (up ? e.from : e.to) = rank_of(lower);
        if (arriving >= 0) (up ? e.receive_chunk : e.send_chunk) = arriving;
        return e;
    }

private:
    static constexpr int height(int label) {
        return std::countr_zero(static_cast<unsigned>(label));
    }
    [[nodiscard]] constexpr int steps_up() const {
        const int levels = std::bit_width(static_cast<unsigned>(ranks_)) - 1;
        return 2 * (levels + pipeline_ - 1);
    }
    [[nodiscard]] constexpr int label(int rank) const {
        if (tree_ == 0) return rank + 1;
        if (ranks_ % 2 == 0) return ranks_ - rank;
        return rank == 0 ? ranks_ : rank;
    }
    [[nodiscard]] constexpr int rank_of(int label) const {  // label() undone
        if (label == 0) return -1;
        if (tree_ == 0) return label - 1;
        if (ranks_ % 2 == 0) return ranks_ - label;
        return label == ranks_ ? 0 : label;
    }
    /// The parent's label. 0: none.
    [[nodiscard]] constexpr int above(int label) const {
        const int lowest = label & -label, before = label - lowest, parent = before | 2 * lowest;
        return parent <= ranks_ ? parent : before;
    }
    /// The label of the lower (0) or the upper (1) child. 0: none.
    [[nodiscard]] constexpr int below(int label, int side) const {
        int half = (label & -label) / 2;
        if (side == 0) return half > 0 ? label - half : 0;
        while (half > 0 && label + half > ranks_) half /= 2;
        return half > 0 ? label + half : 0;
    }
    /// That goes up from this label at this turn. -1: none.
    [[nodiscard]] constexpr int chunk_from(int label, int turn) const {
        if (label == 0 || above(label) == 0) return -1;
        const int side = above(label) < label, j = turn / 2 - height(label);
        return turn % 2 == side && j >= 0 && j < pipeline_ ? j : -1;
    }

    int ranks_;
    int tree_;
    int pipeline_;
};

}  // namespace gx::collective
