#include <gx/reducer/double_buffered.hpp>

#include <gtest/gtest.h>

#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/multi_ring.hpp>
#include <gx/testing/rows.hpp>
#include <support/reduce_on.hpp>

// ---- What the type promises ---------------------------------------------------------
using Late = gx::DoubleBuffered<gx::MultiRing<4, gx::fp16>>;
static_assert(gx::Reducer<Late>);
static_assert(Late::staleness == 1 && gx::DoubleBuffered<Late>::staleness == 2);
static_assert(Late::channels == 4 && Late::bucket_elements == 0);
static_assert(gx::DoubleBuffered<gx::Bucketed<gx::Ring<>, 64>>::bucket_elements == 16);

namespace {

TEST(DoubleBuffered, IsCalledAsItIsSpelled) {
    EXPECT_EQ(gx::reducer_name<Late>(), "DoubleBuffered<MultiRing<4, fp16>>");
    EXPECT_EQ((gx::reducer_name<gx::Ring<gx::fp32, gx::DivideAfter>>()), "Ring<fp32, DivideAfter>");
}

// The delay is kept by Pipeline and tested there; the mean itself is the inner reducer's.
TEST(DoubleBuffered, ReducesAsItsReducerDoes) {
    Rows late = gx::testing::wide_magnitudes(1, 4, 50), now = late;
    reduce_on<Late>({.ranks = 4, .machines = 2}, late);
    reduce_on<gx::MultiRing<4, gx::fp16>>({.ranks = 4, .machines = 2}, now);
    EXPECT_EQ(late, now);
}

}  // namespace
