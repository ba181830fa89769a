// Every seeded bug is rejected in both worlds, by the check that is named beside it.
#include <gx/testing/mutants.hpp>

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <gx/reducer/double_buffered.hpp>
#include <gx/reducer/multi_ring.hpp>
#include <gx/sim/testing/on_cluster.hpp>
#include <gx/testing/conformance.hpp>
#include <gx/testing/error_feedback.hpp>

namespace {

using gx::sim::OnCluster;
using gx::testing::OnThreads;

/// A reducer with a seeded bug, the check that is meant for it, and that check on a world.
struct SeededBug {
    std::string name, check;
    gx::testing::ReducerUnderTest reducer;
    gx::testing::AnyWorld world;
    void (*run)(const SeededBug&, gx::testing::ConformanceReport&);
};
void PrintTo(const SeededBug& bug, std::ostream* out) { *out << bug.name; }
std::string name_of_mutant(const ::testing::TestParamInfo<SeededBug>& info) {
    return info.param.name;
}

namespace seeded {
using Check = void (*)(const gx::testing::ReducerUnderTest&, const gx::testing::AnyWorld&,
                       std::uint64_t, gx::testing::ConformanceReport&);
template <Check check>
void run(const SeededBug& bug, gx::testing::ConformanceReport& report) {
    check(bug.reducer, bug.world, 1, report);
}
template <gx::testing::Checkpointing::result_type (*keep)(const std::vector<std::vector<float>>&)>
void run_state(const SeededBug& bug, gx::testing::ConformanceReport& report) {
    gx::testing::check_state(bug.reducer, bug.world, 1, keep, report);
}
}  // namespace seeded

/// A reducer under test, without what only check_staleness needs.
template <class R>
gx::testing::ReducerUnderTest without_pipeline() {
    return gx::testing::under_test<R, false>();
}

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

/// What the kit must reject.
template <class Worlds>
std::vector<SeededBug> mutants_on(const Worlds& on) {
    using namespace gx::testing;
    using R = gx::MultiRing<2, gx::fp16>;
    using Float = gx::MultiRing<2, gx::fp32>;
    const AnyWorld world = any_world(on);
    constexpr auto means = &seeded::run<check_means>, arrival = &seeded::run<check_arrival>,
                   sequence = &seeded::run<check_sequence>, overflow = &seeded::run<check_overflow>,
                   stale = &seeded::run<check_staleness>, lost = &seeded::run<check_lost_rank>,
                   telescoping = &seeded::run<check_telescoping>,
                   skipped = &seeded::run<check_skipped>, unbiased = &seeded::run<check_unbiased>,
                   agreement = &seeded::run<check_agreement>;
    return {
        {"IgnorePeers", "mean", without_pipeline<IgnorePeers<R>>(), world, means},
        {"DropLastChunk", "mean", without_pipeline<DropLastChunk<R>>(), world, means},
        {"DropLastChunkOfFloats", "mean", without_pipeline<DropLastChunk<Float>>(), world, means},
        {"ScaleTwice", "mean", without_pipeline<ScaleTwice<R>>(), world, means},
        {"DoubleAtSevenRanks", "mean", without_pipeline<DoubleAtSevenRanks<R>>(), world, means},
        {"DoubleAboveEightRanks", "mean", without_pipeline<DoubleAboveEightRanks<R>>(), world,
         means},
        {"OffUnlessPowerOfTwo", "mean", without_pipeline<OffUnlessPowerOfTwo<R, 9>>(), world,
         means},
        {"SkipLastOfOddBucket", "mean", without_pipeline<SkipLastOfOddBucket<R, 1>>(), world,
         means},
        {"SkipLastOfLongOddBucket", "mean", without_pipeline<SkipLastOfOddBucket<R>>(), world,
         means},
        {"SkipLastOfUnlistedLength", "mean", without_pipeline<SkipLastOfUnlistedLength<R>>(), world,
         means},
        {"SkipLastOfUnlistedLengthOfEight", "mean",
         without_pipeline<SkipLastOfUnlistedLength<R, 8>>(), world, means},
        {"DropBehind4096", "mean", without_pipeline<DropBehind4096<R>>(), world, means},
        {"RoundMeanToHalf", "mean", without_pipeline<RoundMeanToHalf<Float>>(), world, means},
        {"RoundMeanToTheWireAgain", "mean", without_pipeline<RoundMeanToHalf<R>>(), world, means},
        {"FlushSmallValues", "mean", without_pipeline<FlushSmallValues<R>>(), world, means},
        {"FlushSmallValuesOfFloats", "mean", without_pipeline<FlushSmallValues<Float>>(), world,
         means},
        {"FlushSubnormals", "mean", without_pipeline<FlushSubnormals<R>>(), world, means},
        {"FlushSubnormalsOfFloats", "mean", without_pipeline<FlushSubnormals<Float>>(), world,
         means},
        {"DriftOneRank", "agreement", without_pipeline<DriftOneRank<R>>(), world, agreement},
        {"DriftOneRankOfFeedback", "agreement", without_pipeline<DriftOneRank<ErrorFeedback<R>>>(),
         world, agreement},
        {"MisreportTraffic", "traffic", without_pipeline<MisreportTraffic<R>>(), world, agreement},
        {"CountOneStepTooMany", "traffic", without_pipeline<CountOneStepTooMany<R>>(), world,
         agreement},
        {"CountOneStepTooManyOfAStar", "traffic",
         without_pipeline<CountOneStepTooMany<CorrectStar<R>>>(), world, agreement},
        {"CountOneStepTooFew", "traffic", without_pipeline<CountOneStepTooMany<R, -1>>(), world,
         agreement},
        {"TalkOnControlChannels", "channels", without_pipeline<TalkOnOtherChannels<R>>(), world,
         agreement},
        {"TalkOnTheNextChannel", "channels", without_pipeline<TalkOnOtherChannels<R, 1>>(), world,
         agreement},
        {"LeaveMessageOpen", "messages", without_pipeline<LeaveMessageOpen<R>>(), world, agreement},
        {"SumInOrderOfArrival", "arrival", without_pipeline<SumInOrderOfArrival<R>>(), world,
         arrival},
        {"ReadBeforeArrival", "arrival", without_pipeline<ReadBeforeArrival<R>>(), world, arrival},
        {"WriteBeforeSent", "messages", without_pipeline<WriteBeforeSent<R>>(), world, arrival},
        {"KeepResidue", "sequence", without_pipeline<KeepResidue<R>>(), world, sequence},
        {"DriftAfterCalls", "sequence", without_pipeline<DriftAfterCalls<R>>(), world, sequence},
        {"DriftAfterCallsOfFeedback", "state",
         without_pipeline<DriftAfterCalls<ErrorFeedback<R>, 200>>(), world,
         &seeded::run_state<keep_every_state>},
        {"HideState", "state", without_pipeline<HideState<R>>(), world,
         &seeded::run_state<keep_every_state>},
        {"StateOfRankZeroForAll", "state", without_pipeline<ErrorFeedback<R>>(), world,
         &seeded::run_state<keep_state_of_rank_zero>},
        {"StateIsNotReplicated", "state",
         without_pipeline<ClaimReplicatedState<ErrorFeedback<R>>>(), world,
         &seeded::run_state<keep_every_state>},
        {"NoStateKept", "state", without_pipeline<ErrorFeedback<R>>(), world,
         &seeded::run_state<keep_no_state>},
        {"KeepTraceOfSkippedStep", "skipped",
         without_pipeline<KeepTraceOfSkippedStep<ErrorFeedback<R>>>(), world, skipped},
        {"ForgetOffset", "telescoping", without_pipeline<ForgetOffset<ErrorFeedback<R>>>(), world,
         telescoping},
        {"ForgetResidual", "telescoping", without_pipeline<ForgetResidual<R>>(), world,
         telescoping},
        {"ShareResidual", "telescoping", without_pipeline<ShareResidual<R>>(), world, telescoping},
        {"BiasedRounding", "bias", without_pipeline<StochasticRounding<R, true>>(), world,
         unbiased},
        {"HideOverflow", "overflow", without_pipeline<HideOverflow<R>>(), world, overflow},
        {"HideLossOfAllValues", "overflow", without_pipeline<HideLossOfAllValues<R>>(), world,
         overflow},
        {"HideOverflowOfFeedback", "overflow", without_pipeline<HideOverflow<ErrorFeedback<R>>>(),
         world, overflow},
        {"StaleByTwo", "staleness", under_test<StaleByTwo<R>>(), world, stale},
        {"StaleByTwoAndDoubleBuffered", "staleness",
         under_test<StaleByTwo<gx::DoubleBuffered<gx::Ring<>>>>(), world, stale},
        {"ClaimComplete", "lost rank", without_pipeline<ClaimComplete<R>>(), world, lost},
    };
}

/// What the kit accepts: errors below the derived bound, and the controls of mutants.
template <class Worlds>
std::vector<SeededBug> accepted_on(const Worlds& on) {
    using namespace gx::testing;
    using R = gx::MultiRing<2, gx::fp16>;
    const AnyWorld world = any_world(on);
    constexpr auto means = &seeded::run<check_means>, arrival = &seeded::run<check_arrival>;
    return {
        {"OffBy2ToMinus22", "", without_pipeline<OffUnlessPowerOfTwo<R, 22>>(), world, means},
        {"Star", "", without_pipeline<CorrectStar<R>>(), world, means},
        {"StarInAnyOrderOfArrival", "", without_pipeline<CorrectStar<R>>(), world, arrival},
    };
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

// ---- Decisions that differ ----------------------------------------------------------------
TEST(Decisions, OfOwnGradientsAndOfBlindRanksAreRejected) {
    using R = gx::MultiRing<2, gx::fp16>;
    const gx::testing::OnThreads threads;
    const auto rejected = [&](const gx::testing::Decision& decide) {
        gx::testing::ConformanceReport report;
        gx::testing::check_decision<R>(threads, 1, decide, report);
        return report.rejected_by("decision");
    };
    for (int blind = 0; blind < 4; ++blind)
        EXPECT_TRUE(rejected(gx::testing::SkipOneRanksOverflow{blind}));
    EXPECT_TRUE(rejected(gx::testing::DecideByOwnGradient{}));
    EXPECT_FALSE(rejected(gx::testing::SkipOneRanksOverflow{.blind_rank = -1}));
}

}  // namespace
