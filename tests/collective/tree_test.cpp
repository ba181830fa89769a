#include <gx/collective/tree.hpp>

#include <gtest/gtest.h>

#include <gx/collective/proof.hpp>

static_assert(gx::explain_promise<gx::collective::Tree>());

using gx::Combine;
using gx::Exchange;
using gx::collective::Tree;

// ---- What the type promises ---------------------------------------------------------
template <int ranks>
inline constexpr bool proved = gx::collective::is_all_reduce<Tree>(ranks);
static_assert(proved<1> && proved<2> && proved<3> && proved<4> && proved<5> && proved<6> &&
              proved<7> && proved<8> && proved<13> && proved<16> && proved<33>);
static_assert(Tree(1).steps() == 0 && Tree(8).steps() == 6 && Tree(9).steps() == 8);

namespace {

// ---- A case worked by hand ----------------------------------------------------------
TEST(Tree, ThreeRanksByHand) {
    constexpr Tree tree(3);
    EXPECT_EQ(tree.exchange(1, 0), (Exchange{.to = 0, .send_chunk = 0}));
    EXPECT_EQ(tree.exchange(0, 0),
              (Exchange{.from = 1, .receive_chunk = 0, .combine = Combine::add}));
    EXPECT_EQ(tree.exchange(2, 0), Exchange{}) << "rank 3 is not there";
    EXPECT_EQ(tree.exchange(2, 1), (Exchange{.to = 0, .send_chunk = 0}));
    EXPECT_EQ(tree.exchange(1, 1), Exchange{});
    EXPECT_EQ(tree.exchange(0, 2), (Exchange{.to = 2, .send_chunk = 0}));
    EXPECT_EQ(tree.exchange(1, 3), (Exchange{.from = 0, .receive_chunk = 0}));
}

// ---- Properties, for any number of ranks ----------------------------------------------
TEST(Tree, IsProvedForManyRanks) {
    for (int n = 1; n <= 130; ++n) {
        const auto proof = prove_all_reduce(Tree(n));
        EXPECT_TRUE(proof.holds()) << n << " ranks: " << proof.sentence();
    }
}
/// The formula in full: what reduction and broadcast add up to.
Exchange by_formula(int ranks, int levels, int rank, int step) {
    const bool up = step < levels;
    const int reach = 1 << (up ? step : 2 * levels - 1 - step);
    const bool takes_part = rank % reach == 0, is_upper = rank % (2 * reach) != 0;
    const int peer = is_upper ? rank - reach : rank + reach;
    if (!takes_part || peer >= ranks) return {};
    if (is_upper == up) return {.to = peer, .send_chunk = 0};
    return {.from = peer, .receive_chunk = 0, .combine = up ? Combine::add : Combine::copy};
}
TEST(Tree, IsTheFormula) {
    for (int n = 1; n <= 130; ++n)
        for (int rank = 0; rank < n; ++rank)
            for (int step = 0; step < Tree(n).steps(); ++step)
                ASSERT_EQ(Tree(n).exchange(rank, step),
                          by_formula(n, Tree(n).steps() / 2, rank, step));
}
TEST(Tree, SendsTheFewestMessages) {
    for (int n = 1; n <= 70; ++n) {
        int messages = 0;
        for (int rank = 0; rank < n; ++rank)
            for (int step = 0; step < Tree(n).steps(); ++step)
                messages += Tree(n).exchange(rank, step).to >= 0;
        EXPECT_EQ(messages, 2 * (n - 1));
    }
}

// ---- A broken contract ------------------------------------------------------------------
TEST(TreeDeathTest, NeedsARank) { EXPECT_DEATH((void)Tree(0), "at least one rank"); }

}  // namespace
