// SeededBug: mutants of reducers, each with the check that must reject it; those that are accepted.
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/double_buffered.hpp>
#include <gx/reducer/multi_ring.hpp>
#include <gx/testing/conformance.hpp>
#include <gx/testing/error_feedback.hpp>
#include <gx/testing/mutants.hpp>

namespace testing_support {

/// A reducer with a seeded bug, the check that is meant for it, and that check on a world.
struct SeededBug {
    std::string name, check;
    gx::testing::ReducerUnderTest reducer;
    gx::testing::AnyWorld world;
    void (*run)(const SeededBug&, gx::testing::ConformanceReport&);
};
inline void PrintTo(const SeededBug& bug, std::ostream* out) { *out << bug.name; }
inline std::string name_of_mutant(const ::testing::TestParamInfo<SeededBug>& info) {
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
template <auto decide>
void run_decision(const SeededBug& bug, gx::testing::ConformanceReport& report) {
    gx::testing::check_decision(bug.reducer, bug.world, 1, decide, report);
}
}  // namespace seeded

/// A reducer under test, without what only check_staleness needs.
template <class R>
gx::testing::ReducerUnderTest without_pipeline() {
    return gx::testing::under_test<R, false>();
}

/// Where the reducers below the mutants work: of<R> is R, or R elsewhere.
struct OnHosts {
    template <class R>
    using of = R;
};

/// What the kit must reject.
template <class Place = OnHosts, class Worlds>
std::vector<SeededBug> mutants_on(const Worlds& on) {
    using namespace gx::testing;
    using R = typename Place::template of<gx::MultiRing<2, gx::fp16>>;
    using Float = typename Place::template of<gx::MultiRing<2, gx::fp32>>;
    const AnyWorld world = any_world(on);
    constexpr auto means = &seeded::run<check_means>, arrival = &seeded::run<check_arrival>,
                   sequence = &seeded::run<check_sequence>, overflow = &seeded::run<check_overflow>,
                   stale = &seeded::run<check_staleness>, lost = &seeded::run<check_lost_rank>,
                   telescoping = &seeded::run<check_telescoping>,
                   progress = &seeded::run<check_progress>, scale = &seeded::run<check_loss_scale>,
                   skipped = &seeded::run<check_skipped>, unbiased = &seeded::run<check_unbiased>,
                   agreement = &seeded::run<check_agreement>;
    return {
        {"IgnorePeers", "mean", without_pipeline<IgnorePeers<R>>(), world, means},
        {"DropLastChunk", "mean", without_pipeline<DropLastChunk<R>>(), world, means},
        {"DropLastChunkOfFloats", "mean", without_pipeline<DropLastChunk<Float>>(), world, means},
        {"WriteBehindBucket", "bucket", without_pipeline<WriteBesideBucket<R, 1>>(), world,
         agreement},
        {"WriteFarBehindBucket", "bucket", without_pipeline<WriteBesideBucket<R, 256>>(), world,
         agreement},
        {"WriteBeforeBucket", "bucket", without_pipeline<WriteBesideBucket<R, -1>>(), world,
         agreement},
        {"WriteToGradientBefore", "mean", without_pipeline<WriteToGradientBefore<R>>(), world,
         means},
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
        {"KeepLastOfOneLonger", "sequence", without_pipeline<KeepLastOfOneLonger<R>>(), world,
         sequence},
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
        {"UndoIfLastBucketOverflows", "skipped",
         without_pipeline<UndoIfLastBucketOverflows<ErrorFeedback<R>>>(), world, skipped},
        {"KeepTraceOfNan", "skipped", without_pipeline<KeepTraceOfNan<ErrorFeedback<R>>>(), world,
         skipped},
        {"ForgetOffset", "telescoping", without_pipeline<ForgetOffset<ErrorFeedback<R>>>(), world,
         telescoping},
        {"ForgetResidual", "telescoping", without_pipeline<ForgetResidual<R>>(), world,
         telescoping},
        {"ForgetBehindSixteen", "telescoping", without_pipeline<ForgetBehind<R, 16>>(), world,
         telescoping},
        {"ForgetBehindSixteenBits", "telescoping", without_pipeline<ForgetBehind<R, 65'536>>(),
         world, telescoping},
        {"ForgetAtSomeRanks", "telescoping", without_pipeline<ForgetAtSomeRanks<R>>(), world,
         telescoping},
        {"ShareResidual", "telescoping", without_pipeline<ShareResidual<R>>(), world, telescoping},
        {"KeepResidualOfOneBucket", "telescoping",
         without_pipeline<KeepResidualOfOneBucket<R, false>>(), world, telescoping},
        {"NameResidualOfOneBucketAGradient", "state",
         under_test<KeepResidualOfOneBucket<R, true>>(), world, &seeded::run<check_all>},
        {"KeepAll", "progress", without_pipeline<KeepAll<R>>(), world, progress},
        {"KeepBehindSixtyFour", "progress", without_pipeline<KeepBehind<R, 64>>(), world, progress},
        {"KeepFirstRank", "progress", without_pipeline<KeepFirstRank<R>>(), world, progress},
        {"FollowLastRank", "progress", without_pipeline<FollowLastRank<R>>(), world, progress},
        {"IgnoreLossScale", "loss scale", without_pipeline<IgnoreLossScale<R>>(), world, scale},
        {"DoubleScaledOffRankZero", "loss scale", without_pipeline<DoubleScaledOffRankZero<R>>(),
         world, scale},
        {"DropSignOfScaled", "loss scale", without_pipeline<DropSignOfScaled<R>>(), world, scale},
        {"HideOverflowOfScaled", "loss scale", without_pipeline<HideOverflowOfScaled<R>>(), world,
         scale},
        {"HideOverflowOfScaledFirstBucket", "loss scale",
         without_pipeline<HideOverflowOfScaledFirstBucket<R>>(), world, scale},
        {"HideOverflowOfScaledMiddleBucket", "loss scale",
         without_pipeline<HideOverflowOfScaledMiddleBucket<R>>(), world, scale},
        {"LoseScaledBucketsOfTwoRanks", "loss scale",
         without_pipeline<LoseScaledBucketsOfTwoRanks<R>>(), world, scale},
        {"LoseScaledOneBucketOfThreeRanks", "loss scale",
         without_pipeline<LoseScaledOneBucketOfThreeRanks<R>>(), world, scale},
        {"LoseScaledAboveFourRanks", "loss scale", without_pipeline<LoseScaledAboveFourRanks<R>>(),
         world, scale},
        {"IgnoreLargeLossScale", "loss scale", without_pipeline<IgnoreLargeLossScale<R>>(), world,
         scale},
        {"IgnoreLossScaleOfOneBucket", "loss scale",
         without_pipeline<IgnoreLossScaleOfOneBucket<R>>(), world, scale},
        {"IgnoreLossScaleOfLaterBuckets", "loss scale",
         without_pipeline<IgnoreLossScaleOfLaterBuckets<R>>(), world, scale},
        {"KeepScaledState", "loss scale", without_pipeline<KeepScaledState<R>>(), world, scale},
        {"KeepTraceOfScaledSkip", "loss scale", without_pipeline<KeepTraceOfScaledSkip<R>>(), world,
         scale},
        {"DoubleLaterBuckets", "mean", without_pipeline<DoubleLaterBuckets<R>>(), world, means},
        {"DriftLaterBuckets", "agreement", without_pipeline<DriftLaterBuckets<R>>(), world,
         agreement},
        {"HideOverflowOfLaterBuckets", "overflow",
         without_pipeline<HideOverflowOfLaterBuckets<R>>(), world, overflow},
        {"MoveOverflowOfLaterBuckets", "overflow",
         without_pipeline<MoveOverflowOfLaterBuckets<R>>(), world, overflow},
        {"ClaimCompleteLaterBuckets", "lost rank", without_pipeline<ClaimCompleteLaterBuckets<R>>(),
         world, lost},
        {"ClaimCompleteThirdBucket", "lost rank", without_pipeline<ClaimCompleteThirdBucket<R>>(),
         world, lost},
        {"DriftAfterSkip", "skipped", without_pipeline<DriftAfterSkip<R>>(), world, skipped},
        {"UndoLastBucketOnly", "skipped", without_pipeline<UndoLastBucketOnly<R>>(), world,
         skipped},
        {"KeepTraceOfSecondSkip", "skipped", without_pipeline<KeepTraceOfSecondSkip<R>>(), world,
         skipped},
        {"UndoLaterGradients", "skipped", without_pipeline<UndoLaterGradients<R>>(), world,
         skipped},
        {"UndoLaterGradientsOfBuckets", "skipped",
         without_pipeline<gx::DoubleBuffered<gx::Bucketed<UndoLaterGradients<R>, 32>>>(), world,
         skipped},
        {"OneResidualInFlight", "staleness",
         under_test<
             gx::DoubleBuffered<OneResidualInFlight<typename Place::template of<gx::Ring<>>>>>(),
         world, stale},
        {"ZeroBehindSixteen", "bias", without_pipeline<ChangedRounding<R, zero_behind<16>>>(),
         world, unbiased},
        {"ZeroBehindSixteenBits", "bias",
         without_pipeline<ChangedRounding<R, zero_behind<65'536>>>(), world, unbiased},
        {"ShrinkBehindSixteen", "bias", without_pipeline<ChangedRounding<R, shrink_behind<16>>>(),
         world, unbiased},
        {"HalveTheSum", "bias", without_pipeline<ChangedRounding<R, halve_the_sum>>(), world,
         unbiased},
        {"ZeroAtFiveRanks", "bias", without_pipeline<ChangedRounding<R, zero_at_five_ranks>>(),
         world, unbiased},
        {"ZeroLaterBuckets", "bias", without_pipeline<ChangedRounding<R, zero_later_buckets>>(),
         world, unbiased},
        {"ZeroSome", "bias", without_pipeline<ChangedRounding<R, zero_some>>(), world, unbiased},
        {"SwapNeighbours", "bias", without_pipeline<ChangedRounding<R, swap_neighbours>>(), world,
         unbiased},
        {"BiasedRounding", "bias", without_pipeline<StochasticRounding<R, true>>(), world,
         unbiased},
        {"DrawByOwnSeed", "seed", without_pipeline<DrawByOwnSeed<R>>(), world, unbiased},
        {"DrawByAnySeed", "sequence", without_pipeline<DrawByAnySeed<R>>(), world, sequence},
        {"HideOverflowOfVectors", "overflow", without_pipeline<HideOverflowOfVectors<R>>(), world,
         overflow},
        {"HideOverflowOfVectorsOfFeedback", "overflow",
         without_pipeline<HideOverflowOfVectors<ErrorFeedback<R>>>(), world, overflow},
        {"HideOverflowAtSomeRanks", "overflow", without_pipeline<HideOverflowAtSomeRanks<R>>(),
         world, overflow},
        {"HideOverflow", "overflow", without_pipeline<HideOverflow<R>>(), world, overflow},
        {"KeepOwnNan", "overflow", without_pipeline<KeepOwnNan<R>>(), world, overflow},
        {"HideLossOfAllValues", "overflow", without_pipeline<HideLossOfAllValues<R>>(), world,
         overflow},
        {"HideOverflowOfFeedback", "overflow", without_pipeline<HideOverflow<ErrorFeedback<R>>>(),
         world, overflow},
        {"StaleByTwo", "staleness", under_test<StaleByTwo<R>>(), world, stale},
        {"StaleByTwoAndDoubleBuffered", "staleness",
         under_test<StaleByTwo<gx::DoubleBuffered<typename Place::template of<gx::Ring<>>>>>(),
         world, stale},
        {"ClaimComplete", "lost rank", without_pipeline<ClaimComplete<R>>(), world, lost},
        {"ClaimCompleteBetweenMachines", "lost rank",
         without_pipeline<ClaimCompleteBetweenMachines<R>>(), world, lost},
        {"StaleOnLoss", "lost rank", without_pipeline<StaleOnLoss<R>>(), world, lost},
        {"DecideByOwnGradient", "decision", without_pipeline<R>(), world,
         &seeded::run_decision<DecideByOwnGradient{}>},
        {"BlindRankZero", "decision", without_pipeline<R>(), world,
         &seeded::run_decision<SkipOneRanksOverflow{0}>},
        {"BlindRankOne", "decision", without_pipeline<R>(), world,
         &seeded::run_decision<SkipOneRanksOverflow{1}>},
        {"BlindRankTwo", "decision", without_pipeline<R>(), world,
         &seeded::run_decision<SkipOneRanksOverflow{2}>},
        {"BlindRankThree", "decision", without_pipeline<R>(), world,
         &seeded::run_decision<SkipOneRanksOverflow{3}>},
        {"OverlookNan", "decision", without_pipeline<R>(), world,
         &seeded::run_decision<OverlookNan{}>},
        {"OverlookMinusInfinity", "decision", without_pipeline<R>(), world,
         &seeded::run_decision<OverlookMinusInfinity{}>},
        {"OverlookFirstHalf", "decision", without_pipeline<R>(), world,
         &seeded::run_decision<OverlookHalf{}>},
        {"OverlookFirstHalfOnOneRank", "decision", without_pipeline<R>(), world,
         &seeded::run_decision<OverlookHalf{true, 1}>},
        {"OverlookSecondHalf", "decision", without_pipeline<R>(), world,
         &seeded::run_decision<OverlookHalf{false}>},
        {"OverlookSecondHalfOnOneRank", "decision", without_pipeline<R>(), world,
         &seeded::run_decision<OverlookHalf{false, 1}>},
        {"SkipLargeMeans", "decision", without_pipeline<R>(), world,
         &seeded::run_decision<SkipLargeMeans{}>},
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
        {"NoBlindRank", "", without_pipeline<R>(), world,
         &seeded::run_decision<SkipOneRanksOverflow{-1}>},
    };
}

}  // namespace testing_support
