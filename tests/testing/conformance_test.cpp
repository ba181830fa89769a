#include <gx/testing/conformance.hpp>

#include <gtest/gtest.h>

#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/double_buffered.hpp>
#include <gx/reducer/multi_ring.hpp>
#include <gx/testing/mutants.hpp>

namespace {

using gx::testing::Findings;
using gx::testing::OnThreads;

std::string told(const Findings& findings) {
    std::string text;
    for (const auto& f : findings) text += f.check + ": " + f.sentence + "\n";
    return text;
}

// ---- Every reducer of the core conforms ------------------------------------------------
template <class R>
class Conformance : public ::testing::Test {};
using Reducers =
    ::testing::Types<gx::Ring<gx::fp32>, gx::Ring<gx::fp16>, gx::Ring<gx::bf16, gx::DivideAfter>,
                     gx::Ring<gx::fp16, gx::DivideBefore>, gx::MultiRing<4, gx::fp16>,
                     gx::MultiRing<3, gx::fp32>, gx::Bucketed<gx::MultiRing<2, gx::fp16>, 32>,
                     gx::DoubleBuffered<gx::MultiRing<4, gx::fp16>>>;
TYPED_TEST_SUITE(Conformance, Reducers);
TYPED_TEST(Conformance, Holds) { EXPECT_EQ(told(gx::testing::check<TypeParam>(OnThreads{})), ""); }

TYPED_TEST(Conformance, DecidesByTheMean) {
    Findings findings;
    gx::testing::check_decision<TypeParam>(
        OnThreads{}, 1, gx::testing::SkipOneRanksOverflow{.blind_rank = -1}, findings);
    EXPECT_EQ(told(findings), "");
}

// ---- Every mutant is rejected, by the check that is meant for it ---------------------------
template <class Mutant>
void expect_rejected(std::string_view by) {
    const Findings findings = gx::testing::check<Mutant>(OnThreads{});
    bool found = false;
    for (const auto& f : findings) found |= f.check == by;
    EXPECT_TRUE(found) << by << " has missed it; the others say:\n" << told(findings);
}

using R = gx::MultiRing<2, gx::fp16>;
static_assert(gx::Reducer<gx::testing::IgnorePeers<R>> && gx::Reducer<gx::testing::StaleByTwo<R>>);

TEST(Mutants, IgnorePeers) { expect_rejected<gx::testing::IgnorePeers<R>>("mean"); }
TEST(Mutants, DropLastChunk) { expect_rejected<gx::testing::DropLastChunk<R>>("mean"); }
TEST(Mutants, ScaleTwice) { expect_rejected<gx::testing::ScaleTwice<R>>("mean"); }
TEST(Mutants, StaleByTwo) { expect_rejected<gx::testing::StaleByTwo<R>>("staleness"); }
TEST(Mutants, KeepResidue) { expect_rejected<gx::testing::KeepResidue<R>>("sequence"); }
TEST(Mutants, DriftOneRank) { expect_rejected<gx::testing::DriftOneRank<R>>("agreement"); }
TEST(Mutants, HideOverflow) { expect_rejected<gx::testing::HideOverflow<R>>("overflow"); }
TEST(Mutants, ClaimComplete) { expect_rejected<gx::testing::ClaimComplete<R>>("lost rank"); }
TEST(Mutants, OfFloatsAndOfLateReducers) {
    expect_rejected<gx::testing::DropLastChunk<gx::Ring<>>>("mean");
    expect_rejected<gx::testing::StaleByTwo<gx::DoubleBuffered<gx::Ring<>>>>("staleness");
}

TEST(Mutants, DecisionsThatDiffer) {
    for (int blind = 0; blind < 4; ++blind) {
        Findings findings;
        gx::testing::check_decision<R>(OnThreads{}, 1, gx::testing::SkipOneRanksOverflow{blind},
                                       findings);
        EXPECT_FALSE(findings.empty());
    }
    Findings findings;
    gx::testing::check_decision<R>(OnThreads{}, 1, gx::testing::DecideByOwnGradient{}, findings);
    EXPECT_FALSE(findings.empty());
}

// ---- World independence ------------------------------------------------------------------
/// Rounds otherwise on every second world it is run on.
template <class Inner>
struct WorldDependent : gx::testing::Mutant<Inner> {
    static inline int world = 0;
    gx::ReduceReport all_reduce(gx::Transport auto& link, std::span<float> bucket) {
        const gx::ReduceReport report = this->inner_.all_reduce(link, bucket);
        for (float& x : bucket) x += world == 1 ? x * 0x1p-22f : 0.0f;
        return report;
    }
};
TEST(Worlds, MustNotChangeTheBits) {
    Findings findings;
    gx::testing::check_worlds<R>(OnThreads{}, OnThreads{}, 1, findings);
    EXPECT_EQ(told(findings), "");
    const auto other = [](gx::Placement p, auto f) {
        WorldDependent<R>::world = 1;
        OnThreads{}(p, f);
        WorldDependent<R>::world = 0;
    };
    gx::testing::check_worlds<WorldDependent<R>>(OnThreads{}, other, 1, findings);
    EXPECT_EQ(findings.size(), 3u);
}

}  // namespace
