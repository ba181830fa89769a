// Every seeded bug is rejected in both worlds, by the check that is named beside it.
#include <gx/testing/mutants.hpp>

#include <gtest/gtest.h>

#include <gx/sim/testing/on_cluster.hpp>
#include <testing/seeded_bugs.hpp>

namespace {

using gx::sim::OnCluster;
using gx::testing::OnThreads;
using namespace testing_support;

TEST(AResidualThatIsForgotten, IsReportedWithWhatToWrite) {
    using R = gx::MultiRing<2, gx::fp16>;
    gx::testing::ConformanceReport forgotten, shared;
    gx::testing::check_telescoping(without_pipeline<gx::testing::ForgetResidual<R>>(),
                                   gx::testing::any_world(OnThreads{}), 1, forgotten);
    EXPECT_NE(forgotten.text().find("plus residual 0 is not the sum of the gradients"),
              std::string::npos);
    EXPECT_NE(forgotten.text().find("Fix: let settle(gradient, true) take over"),
              std::string::npos);
    gx::testing::check_telescoping(without_pipeline<gx::testing::ShareResidual<R>>(),
                                   gx::testing::any_world(OnThreads{}), 1, shared);
    EXPECT_EQ(shared.text().find("Fix: let settle"), std::string::npos) << "it has residuals";
}

class Mutants : public ::testing::TestWithParam<SeededBug> {};
TEST_P(Mutants, IsRejectedByItsCheck) {
    gx::testing::ConformanceReport report;
    GetParam().run(GetParam(), report);
    EXPECT_TRUE(report.rejected_by(GetParam().check))
        << GetParam().check << " missed it; other checks found:\n"
        << report.text();
}

class WithinTheBound : public ::testing::TestWithParam<SeededBug> {};
TEST_P(WithinTheBound, IsAccepted) {
    gx::testing::ConformanceReport report;
    GetParam().run(GetParam(), report);
    EXPECT_TRUE(report.empty()) << report.text();
}

INSTANTIATE_TEST_SUITE_P(OnThreads, Mutants, ::testing::ValuesIn(mutants_on(OnThreads{})),
                         name_of_mutant);
INSTANTIATE_TEST_SUITE_P(OnThreads, WithinTheBound, ::testing::ValuesIn(accepted_on(OnThreads{})),
                         name_of_mutant);
INSTANTIATE_TEST_SUITE_P(OnCluster, Mutants, ::testing::ValuesIn(mutants_on(OnCluster{})),
                         name_of_mutant);
INSTANTIATE_TEST_SUITE_P(OnCluster, WithinTheBound, ::testing::ValuesIn(accepted_on(OnCluster{})),
                         name_of_mutant);

}  // namespace
