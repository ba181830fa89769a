#include <gx/collective/binary_tree.hpp>

#include <algorithm>  // max
#include <bit>        // bit_width
#include <vector>     // children

#include <gtest/gtest.h>

#include <gx/collective/proof.hpp>

static_assert(gx::explain_promise<gx::collective::BinaryTree>());

using gx::Combine;
using gx::Exchange;
using gx::collective::BinaryTree;

// ---- What the type promises ---------------------------------------------------------
template <int ranks>
inline constexpr bool proved = gx::collective::is_all_reduce(BinaryTree(ranks, 0, 2)) &&
                               gx::collective::is_all_reduce(BinaryTree(ranks, 1, 2));
static_assert(proved<1> && proved<2> && proved<3> && proved<4> && proved<5> && proved<6>);
static_assert(proved<7> && proved<8>);
static_assert(proved<13>);
static_assert(BinaryTree(1, 0, 4).steps() == 0 && BinaryTree(8, 0, 1).steps() == 12 &&
              BinaryTree(9, 1, 5).steps() == 28);

namespace {

// ---- A case worked by hand ----------------------------------------------------------
TEST(BinaryTree, FourRanksByHand) {
    // tree 0, by rank:   1 -> 3,  0 -> 1,  2 -> 1    and tree 1:   2 -> 0,  3 -> 2,  1 -> 2
    constexpr BinaryTree first(4, 0, 2), second(4, 1, 2);
    EXPECT_EQ(first.parent(3), -1);
    EXPECT_EQ(first.parent(1), 3);
    EXPECT_EQ(first.parent(0), 1);
    EXPECT_EQ(first.parent(2), 1);
    EXPECT_EQ(second.parent(0), -1);
    EXPECT_EQ(second.parent(2), 0);
    EXPECT_EQ(second.parent(3), 2);
    EXPECT_EQ(second.parent(1), 2);
    // rank 1 of tree 0: chunk 0 from rank 0, then from rank 2; it goes on beside chunk 1 of rank 0
    const auto add = [](int from, int chunk) {
        return Exchange{.from = from, .receive_chunk = chunk, .combine = Combine::add};
    };
    EXPECT_EQ(first.exchange(1, 0), add(0, 0));
    EXPECT_EQ(first.exchange(1, 1), add(2, 0));
    EXPECT_EQ(first.exchange(1, 2), (Exchange{3, 0, 0, 1, Combine::add}));
    EXPECT_EQ(first.exchange(1, 3), add(2, 1));
    EXPECT_EQ(first.exchange(1, 4), (Exchange{.to = 3, .send_chunk = 1, .combine = Combine::add}));
    // and back: step 11 - s undoes step s
    EXPECT_EQ(first.exchange(1, 7), (Exchange{.from = 3, .receive_chunk = 1}));
    EXPECT_EQ(first.exchange(1, 9), (Exchange{0, 1, 3, 0, Combine::copy}));
    EXPECT_EQ(first.exchange(1, 11), (Exchange{.to = 0, .send_chunk = 0}));
}

// ---- Properties, for any number of ranks ----------------------------------------------
TEST(BinaryTree, IsProvedForManyRanks) {
    for (int n = 1; n <= 70; ++n)
        for (const int tree : {0, 1})
            for (const int pipeline : {1, 2, 5}) {
                const auto proof = prove_all_reduce(BinaryTree(n, tree, pipeline));
                EXPECT_TRUE(proof.holds()) << n << " ranks: " << proof.sentence();
            }
}
TEST(BinaryTree, EveryRankIsAnInnerNodeOfOneTreeAtMost) {
    for (int n = 1; n <= 2000; ++n) {
        std::vector<int> children[2] = {std::vector<int>(std::size_t(n)),
                                        std::vector<int>(std::size_t(n))};
        for (const int tree : {0, 1}) {
            const BinaryTree t(n, tree, 1);
            int roots = 0;
            for (int rank = 0; rank < n; ++rank) {
                const int up = t.parent(rank);
                if (up < 0) ++roots;
                else ++children[tree][std::size_t(up)];
            }
            ASSERT_EQ(roots, 1) << n;
        }
        for (std::size_t r = 0; r < std::size_t(n); ++r) {
            ASSERT_LE(std::max(children[0][r], children[1][r]), 2) << n << " ranks, rank " << r;
            ASSERT_TRUE(children[0][r] == 0 || children[1][r] == 0) << n << " ranks, rank " << r;
        }
    }
}
TEST(BinaryTree, NoRankIsFartherFromTheRootThanALogarithm) {
    for (int n = 1; n <= 2000; n += n < 130 ? 1 : 37)
        for (const int tree : {0, 1}) {
            const BinaryTree t(n, tree, 1);
            for (int rank = 0; rank < n; ++rank) {
                int depth = 0;
                for (int up = t.parent(rank); up >= 0; up = t.parent(up)) ++depth;
                ASSERT_LE(depth, std::bit_width(unsigned(n)) - 1);
            }
        }
}
TEST(BinaryTree, BothTogetherSendTwiceTheDataFromEachRankAtMost) {
    constexpr int pipeline = 3;
    for (const int n : {2, 3, 8, 9, 33, 64, 100}) {
        int all = 0;
        for (int rank = 0; rank < n; ++rank) {
            int mine = 0;  // chunks; 2 * pipeline of them are the data
            for (const int tree : {0, 1}) {
                const BinaryTree t(n, tree, pipeline);
                for (int step = 0; step < t.steps(); ++step) mine += t.exchange(rank, step).to >= 0;
            }
            EXPECT_LE(mine, 4 * pipeline) << n << " ranks, rank " << rank;
            all += mine;
        }
        EXPECT_EQ(all, 4 * pipeline * (n - 1)) << "2 (n - 1) / n of the data, on average";
    }
}

// ---- Trees that are wrong are rejected --------------------------------------------------
/// A tree with one step changed, as a slip in its formula would.
struct Bent {
    BinaryTree tree;
    Exchange (*bend)(Exchange, int rank, int step);
    [[nodiscard]] int ranks() const { return tree.ranks(); }
    [[nodiscard]] int chunks() const { return tree.chunks(); }
    [[nodiscard]] int steps() const { return tree.steps(); }
    [[nodiscard]] Exchange exchange(int rank, int step) const {
        return bend(tree.exchange(rank, step), rank, step);
    }
};
TEST(BinaryTree, MutantsAreRejected) {
    const auto holds = [](auto bend) {
        return gx::collective::is_all_reduce(Bent{BinaryTree(11, 1, 3), bend});
    };
    EXPECT_TRUE(holds([](Exchange e, int, int) { return e; }));
    EXPECT_FALSE(holds([](Exchange e, int, int) {  // sums only what its last child has
        e.combine = Combine::copy;
        return e;
    })) << "adds nothing";
    EXPECT_FALSE(holds([](Exchange e, int, int) {
        e.combine = Combine::add;
        return e;
    })) << "adds on the way down";
    EXPECT_FALSE(holds([](Exchange e, int, int step) { return step == 0 ? Exchange{} : e; }))
        << "leaves its first step out";
    EXPECT_FALSE(holds([](Exchange e, int, int) {
        if (e.send_chunk == 2) e.send_chunk = 1;
        if (e.receive_chunk == 2) e.receive_chunk = 1;
        return e;
    })) << "never sends the last chunk";
    EXPECT_FALSE(holds([](Exchange e, int rank, int step) {
        return rank == 3 && step == 1 ? Exchange{} : e;
    })) << "one rank forgets a step";
}

// ---- Broken contracts -------------------------------------------------------------------
TEST(BinaryTreeDeathTest, NeedsARankAChunkAndOneOfTwoTrees) {
    EXPECT_DEATH((void)BinaryTree(0, 0, 1), "at least one rank");
    EXPECT_DEATH((void)BinaryTree(4, 2, 1), "there are two trees");
    EXPECT_DEATH((void)BinaryTree(4, 0, 0), "at least one chunk");
}

}  // namespace
