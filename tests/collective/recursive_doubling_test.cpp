#include <gx/collective/recursive_doubling.hpp>

#include <gtest/gtest.h>

#include <gx/collective/proof.hpp>

static_assert(gx::explain_promise<gx::collective::RecursiveDoubling>());

using gx::Combine;
using gx::Exchange;
using gx::collective::RecursiveDoubling;

// ---- What the type promises ---------------------------------------------------------
template <int ranks>
inline constexpr bool proved = gx::collective::is_all_reduce<RecursiveDoubling>(ranks);
static_assert(proved<1> && proved<2> && proved<3> && proved<4> && proved<5> && proved<6>);
static_assert(proved<7> && proved<8>);
static_assert(proved<11>);
static_assert(RecursiveDoubling(1).steps() == 0 && RecursiveDoubling(8).steps() == 3 &&
              RecursiveDoubling(9).steps() == 5);

namespace {

/// The lower of the two adds what it received, the upper one adds to that: both have one sum.
Exchange swap(int peer, Combine combine) {
    return {.to = peer, .send_chunk = 0, .from = peer, .receive_chunk = 0, .combine = combine};
}
constexpr Combine lower = Combine::add, upper = Combine::add_to_received;

// ---- Cases worked by hand -----------------------------------------------------------
TEST(RecursiveDoubling, FourRanksByHand) {
    constexpr RecursiveDoubling four(4);
    EXPECT_EQ(four.exchange(1, 0), swap(0, upper));
    EXPECT_EQ(four.exchange(1, 1), swap(3, lower));
    EXPECT_EQ(four.exchange(2, 0), swap(3, lower));
    EXPECT_EQ(four.exchange(2, 1), swap(0, upper));
}
TEST(RecursiveDoubling, FoldsTheRanksThatAreTooMany) {
    constexpr RecursiveDoubling six(6);  // 4 + 2: ranks 0 and 2 go to 1 and 3
    EXPECT_EQ(six.exchange(0, 0), (Exchange{.to = 1, .send_chunk = 0}));
    EXPECT_EQ(six.exchange(3, 0),
              (Exchange{.from = 2, .receive_chunk = 0, .combine = Combine::add}));
    EXPECT_EQ(six.exchange(4, 0), Exchange{});
    EXPECT_EQ(six.exchange(1, 1), swap(3, lower)) << "as virtual ranks 0 and 1";
    EXPECT_EQ(six.exchange(4, 1), swap(5, lower));
    EXPECT_EQ(six.exchange(1, 2), swap(4, lower)) << "as virtual ranks 0 and 2";
    for (const int step : {1, 2}) EXPECT_EQ(six.exchange(2, step), Exchange{});
    EXPECT_EQ(six.exchange(2, 3), (Exchange{.from = 3, .receive_chunk = 0}));
    EXPECT_EQ(six.exchange(5, 3), Exchange{});
}

// ---- Properties, for any number of ranks ----------------------------------------------
TEST(RecursiveDoubling, IsProvedForManyRanks) {
    for (int n = 1; n <= 70; ++n) {
        const auto proof = prove_all_reduce(RecursiveDoubling(n));
        EXPECT_TRUE(proof.holds()) << n << " ranks: " << proof.sentence();
    }
}

TEST(RecursiveDoubling, IsNoneWhereBothAddInTheirOwnOrder) {
    struct BothAdd : RecursiveDoubling {
        using RecursiveDoubling::RecursiveDoubling;
        [[nodiscard]] constexpr Exchange exchange(int rank, int step) const {
            Exchange e = RecursiveDoubling::exchange(rank, step);
            if (e.combine == upper) e.combine = lower;
            return e;
        }
    };
    const auto proof = gx::collective::prove_all_reduce(BothAdd(4));
    EXPECT_EQ(proof.flaw, gx::collective::Flaw::sums_in_two_orders);
    EXPECT_EQ(
        to_string(proof),
        "rank 0, step 0, chunk 0: two ranks swap a chunk and each adds to its own, so that of "
        "two NaNs each keeps another: let one of them have Combine::add_to_received");
}

// ---- A broken contract ------------------------------------------------------------------
TEST(RecursiveDoublingDeathTest, NeedsARank) {
    EXPECT_DEATH((void)RecursiveDoubling(0), "at least one rank");
}

}  // namespace
