#include <gx/halving_doubling/reducer.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/testing/conformance.hpp>
#include <gx/trees/tree.hpp>
#include <support/generators.hpp>
#include <support/reduce_on.hpp>

// ---- What the type promises ---------------------------------------------------------
static_assert(gx::Reducer<gx::HalvingDoubling<>> && gx::Reducer<gx::HalvingDoubling<gx::fp16>>);

namespace {

std::string told(const gx::testing::Findings& findings) {
    std::string text;
    for (const auto& f : findings) text += f.check + ": " + f.sentence + "\n";
    return text;
}

// ---- A case worked by hand ----------------------------------------------------------
TEST(HalvingDoubling, AveragesThreeRanks) {
    Rows rows{{3, 6}, {30, 60}, {300, 600}};
    const auto report = reduce_on<gx::HalvingDoubling<>>({.ranks = 3}, rows);
    EXPECT_EQ(rows, (Rows{{111, 222}, {111, 222}, {111, 222}}));
    EXPECT_EQ(report.steps, 4) << "a fold, a half, a double, and the fold back";
}

// ---- Properties ----------------------------------------------------------------------
TEST(HalvingDoubling, Conforms) {
    EXPECT_EQ(told(gx::testing::check<gx::HalvingDoubling<gx::fp32>>(gx::testing::OnThreads{})),
              "");
    EXPECT_EQ(told(gx::testing::check<gx::HalvingDoubling<gx::fp16>>(gx::testing::OnThreads{})),
              "");
}
TEST(HalvingDoubling, OfAPowerOfTwoHasTheBitsOfTheTree) {  // sums commute, so the brackets decide
    for (const int n : {1, 2, 4, 8})
        for (const std::int64_t length : {1, 7, 64, 1001}) {
            Rows halves = gx::testing::wide_magnitudes(7, n, length), tree = halves;
            reduce_on<gx::HalvingDoubling<gx::fp16>>({.ranks = n}, halves);
            reduce_on<gx::Tree<gx::fp16>>({.ranks = n}, tree);
            EXPECT_EQ(halves, tree) << n << " ranks, " << length << " elements";
        }
}
TEST(HalvingDoubling, SendsTheLeastThatAnAllReduceCan) {
    for (const int n : {2, 4, 8}) {
        Rows rows(static_cast<std::size_t>(n), std::vector<float>(64, 1.0f));
        EXPECT_EQ(reduce_on<gx::HalvingDoubling<gx::fp16>>({.ranks = n}, rows).bytes_sent,
                  2 * (n - 1) * 64 / n * 2);
    }
}

// ---- A fault --------------------------------------------------------------------------
TEST(HalvingDoubling, SaysSoWhenAPartnerIsLost) {
    Rows rows(4, std::vector<float>(12, 1.0f));
    const auto report = reduce_on<gx::HalvingDoubling<>>({.ranks = 4, .dead_rank = 2}, rows);
    EXPECT_FALSE(report.complete());
    EXPECT_EQ(report.delivery.peer, 2);
}

}  // namespace
