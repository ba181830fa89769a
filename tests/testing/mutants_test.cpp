// Every seeded bug is rejected in both worlds, by the check that is named beside it.
#include <gx/testing/mutants.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <gx/sim/testing/on_cluster.hpp>
#include <testing/seeded_bugs.hpp>

namespace {

using gx::sim::OnCluster;
using gx::testing::ConformanceReport;
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

using Checked = void(const gx::testing::ReducerUnderTest&, const gx::testing::AnyWorld&,
                     std::uint64_t, ConformanceReport&);
template <class R>
ConformanceReport on_threads(Checked check) {
    ConformanceReport report;
    check(without_pipeline<R>(), gx::testing::any_world(OnThreads{}), 1, report);
    return report;
}
/// Of several waits that are incomplete it returns the delivery of the last.
template <class R>
struct ReturnLastDelivery : gx::testing::Mutant<R> {
    gx::ReduceReport all_reduce(gx::Transport auto& link, const gx::Bucket& bucket) {
        gx::ReduceReport report = this->inner_.all_reduce(link, bucket);
        if (!report.complete()) report.delivery = {gx::Delivery::Outcome::cancelled, -1};
        return report;
    }
};
TEST(Sentences, NameTheCause) {
    using ::testing::HasSubstr;
    using ::testing::Not;
    using ::testing::StartsWith;
    using namespace gx::testing;
    using R = gx::MultiRing<2, gx::fp16>;
    EXPECT_THAT(on_threads<KeepOwnNan<R>>(check_overflow).text(),
                HasSubstr("1 x 2 ranks, length 12, rank 1, element 7: -nan (bits ffc00000), and "
                          "nan (bits 7fc00000) on rank 0. Promise: all ranks end bitwise equal, "
                          "NaNs too"));
    EXPECT_THAT(on_threads<DriftOneRank<R>>(check_agreement).text(), Not(HasSubstr("NaNs too")));
    EXPECT_THAT(on_threads<HideOverflowOfScaled<R>>(check_loss_scale).text(),
                HasSubstr("Fix: let NaN and infinities through in every bucket"));
    EXPECT_THAT(on_threads<DropSignOfScaled<R>>(check_loss_scale).text(),
                HasSubstr("Fix: let nothing depend on the scale: divide"));
    EXPECT_THAT(on_threads<IgnoreLossScale<R>>(check_loss_scale).text(),
                HasSubstr("Fix: keep state in unscaled units: divide"));
    EXPECT_THAT(on_threads<ReturnLastDelivery<R>>(check_lost_rank).text(),
                HasSubstr("1 x 2 ranks: no rank reports that rank 1 is missing. Fix: return the "
                          "delivery of the first wait that is incomplete: waits behind it are "
                          "cancelled."));
    EXPECT_THAT(on_threads<ClaimCompleteBetweenMachines<R>>(check_lost_rank).text(),
                HasSubstr("lost rank: 3 x 1 ranks: rank 0 reports a complete reduction without"));
    const bool named = false, shown = true;
    EXPECT_THAT((on_threads<KeepResidualOfOneBucket<R, named>>(check_telescoping).text()),
                HasSubstr("one value for each of plan.elements"));
    EXPECT_THAT((on_threads<KeepResidualOfOneBucket<R, shown>>(check_all).text()),
                HasSubstr("'residual' of state() has 24 values of a gradient of 64 in buckets of "
                          "24. Fix: size it by plan.elements"));
    EXPECT_THAT(on_threads<UndoLaterGradients<R>>(check_skipped).text(),
                HasSubstr("after a skipped step, settled when the next gradient has begun"));
    EXPECT_THAT(on_threads<DrawByOwnSeed<R>>(check_unbiased).text(),
                HasSubstr("Fix: draw by plan.seed of reserve()"));
    const ConformanceReport anew = on_threads<DrawByAnySeed<R>>(check_all);
    EXPECT_THAT(anew.text(), StartsWith("sequence: 1 x 3 ranks: two equal runs have different "
                                        "bits: it draws by a clock or std::random_device"));
    EXPECT_THAT(anew.text(), Not(HasSubstr("loss scale"))) << "which compares two runs";
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
