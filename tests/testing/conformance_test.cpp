#include <gx/testing/conformance.hpp>

#include <gtest/gtest.h>

#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/double_buffered.hpp>
#include <gx/reducer/multi_ring.hpp>
#include <gx/testing/error_feedback.hpp>

namespace {

using gx::testing::ConformanceReport;
using gx::testing::OnThreads;

// ---- What the types promise --------------------------------------------------------------
using Feedback = gx::testing::ErrorFeedback<gx::Ring<>>;
using Stochastic = gx::testing::StochasticRounding<gx::Ring<>>;
using Sparse = gx::testing::RandomSparse<gx::Ring<>>;
using SparseBlocks = gx::testing::RandomSparse<gx::Ring<>, 256>;
static_assert(gx::Reducer<Feedback> && gx::Reducer<Stochastic>);
static_assert(gx::accuracy<gx::Ring<>>() == gx::Accuracy::rounded);
static_assert(gx::accuracy<Feedback>() == gx::Accuracy::error_feedback);
static_assert(gx::accuracy<gx::DoubleBuffered<Stochastic>>() == gx::Accuracy::unbiased);

// ---- Every reducer of the core conforms ------------------------------------------------
template <class R>
class Conformance : public ::testing::Test {};
using Reducers =
    ::testing::Types<gx::Ring<gx::fp32>, gx::Ring<gx::fp16>, gx::Ring<gx::bf16, gx::DivideAfter>,
                     gx::Ring<gx::fp16, gx::DivideBefore>, gx::MultiRing<4, gx::fp16>,
                     gx::MultiRing<3, gx::fp32>, gx::Bucketed<gx::MultiRing<2, gx::fp16>, 32>,
                     gx::DoubleBuffered<gx::MultiRing<4, gx::fp16>>, Feedback, Stochastic>;
TYPED_TEST_SUITE(Conformance, Reducers);
TYPED_TEST(Conformance, Holds) {
    const ConformanceReport report = gx::testing::check<TypeParam>(OnThreads{});
    std::printf("%s on threads: %s\n", gx::reducer_name<TypeParam>().c_str(),
                report.summary().c_str());
    EXPECT_TRUE(report.empty()) << report.text();
    EXPECT_TRUE(report.skipped.empty());
    EXPECT_GT(report.values, 1000);
    EXPECT_GT(report.messages, 1000);
}

/// That what is seldom sent is not taken for what is never sent.
TEST(Unbiased, HoldsWhateverTheSeed) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        ConformanceReport report;
        gx::testing::check_unbiased<Sparse>(OnThreads{}, seed, report);
        gx::testing::check_unbiased<SparseBlocks>(OnThreads{}, seed, report);
        gx::testing::check_unbiased<Stochastic>(OnThreads{}, seed, report);
        gx::testing::check_unbiased<gx::testing::Ternary<gx::Ring<>>>(OnThreads{}, seed, report);
        EXPECT_EQ(report.text(), "") << seed;
    }
}

// ---- Two residuals: a rank's own and that of the mean, as of signs both ways ---------------
struct FeedbackBothWays : Feedback {
    void reserve(const gx::ReducePlan& plan) {
        Feedback::reserve(plan);
        mean_.assign(static_cast<std::size_t>(plan.elements), 0);
        next_ = sum_ = mean_;
    }
    gx::ReduceReport all_reduce(gx::Transport auto& link, const gx::Bucket& bucket) {
        const gx::ReduceReport report = Feedback::all_reduce(link, bucket);
        for (std::size_t i = 0; i < bucket.size(); ++i) {
            const std::size_t at = static_cast<std::size_t>(bucket.offset) + i;
            const float v = bucket[i] / bucket.loss_scale + mean_[at];
            const float sent = std::isfinite(v) ? gx::testing::coarse(v) : v;
            next_[at] = v - sent;
            bucket[i] = sent * bucket.loss_scale;
        }
        return report;
    }
    void settle(std::uint64_t gradient, bool applied) {
        Feedback::settle(gradient, applied);
        if (applied) mean_ = next_;
    }
    gx::StateList state() {
        gx::StateList list = Feedback::state();
        list.push_back({.name = "residual of the mean",
                        .values = mean_,
                        .scope = gx::StateScope::replicated,
                        .is_gradient = true});
        return list;
    }
    std::span<const float> residual() {
        const auto own = this->residual_.kept(0);
        for (std::size_t i = 0; i < sum_.size(); ++i) sum_[i] = own[i] + mean_[i];
        return sum_;
    }

private:
    std::vector<float> mean_, next_, sum_;
};
TEST(ResidualOfItsOwn, IsSeenThroughWrappers) {
    using R = FeedbackBothWays;
    ConformanceReport report;
    gx::testing::check_telescoping<R>(OnThreads{}, 1, report);
    gx::testing::check_telescoping<gx::DoubleBuffered<gx::Bucketed<R, 64>>>(OnThreads{}, 1, report);
    EXPECT_EQ(report.text(), "");
}

// ---- A law of one's own --------------------------------------------------------------------
TEST(OwnLaw, IsGivenGradientsAndResults) {
    ConformanceReport report;
    const auto sum_of_first = [](const std::vector<gx::testing::Rows>& before,
                                 const std::vector<gx::testing::Rows>& after) -> std::string {
        for (std::size_t j = 0; j < before.size(); ++j) {
            const double mean = gx::testing::column_means(before[j])[0];
            if (std::abs(static_cast<double>(after[j].back()[0]) - mean) > 1e-4 * 64)
                return "job " + std::to_string(j);
        }
        return {};
    };
    gx::testing::check_law<gx::Ring<>>(OnThreads{}, 1, sum_of_first, report);
    EXPECT_EQ(report.text(), "");
    gx::testing::check_law<Feedback>(OnThreads{}, 1, sum_of_first, report);
    EXPECT_TRUE(report.rejected_by("law"));
}

// ---- A reducer that hangs --------------------------------------------------------------------
/// Each rank waits for the other before it sends.
template <class Inner>
struct WaitsBeforeItSends : gx::testing::Mutant<Inner> {
    static inline std::atomic<int> calls = 0;
    gx::ReduceReport all_reduce(gx::Transport auto& link, const gx::Bucket& bucket) {
        ++calls;
        if (link.ranks() == 1) return this->inner_.all_reduce(link, bucket);
        std::byte in{};
        const int peer = link.rank() ^ 1;
        if (peer >= link.ranks()) return this->inner_.all_reduce(link, bucket);
        gx::ReduceReport report;
        report.delivery = link.wait(link.receive(peer, 0, {&in, 1}));
        return report;
    }
};
TEST(ReducerThatHangs, IsJudgedByItsFirstReductions) {
    using R = WaitsBeforeItSends<gx::Ring<>>;
    const OnThreads soon{.deadline = std::chrono::milliseconds(20)};
    EXPECT_EQ(soon.reordered(1).deadline, soon.deadline);
    const ConformanceReport report = gx::testing::check<R>(soon);
    EXPECT_TRUE(report.hangs);
    EXPECT_NE(report.text().find("is incomplete, for want of rank"), std::string::npos)
        << report.text();
    EXPECT_LT(R::calls, 200) << "no reduction behind the first world that hangs";
    ConformanceReport arrival;
    gx::testing::check_arrival<R>(soon, 1, arrival);
    EXPECT_TRUE(arrival.hangs);
}

/// Rank 0 waits for a message of every other one; rank 2 sends none, and goes on.
template <class Inner>
struct RankTwoDoesNotSend : gx::testing::Mutant<Inner> {
    gx::ReduceReport all_reduce(gx::Transport auto& link, const gx::Bucket& bucket) {
        gx::ReduceReport report = this->inner_.all_reduce(link, bucket);
        std::byte one{};
        if (link.rank() > 0 && link.rank() != 2) (void)link.wait(link.send(0, 0, {&one, 1}));
        for (int peer = 1; link.rank() == 0 && peer < link.ranks() && report.complete(); ++peer)
            report.delivery = link.wait(link.receive(peer, 0, {&one, 1}));
        return report;
    }
};
/// The same from four ranks on, and waits for all of them, whatever became of the first.
template <class Inner>
struct RankTwoDoesNotSendToAWaitForAll : gx::testing::Mutant<Inner> {
    gx::ReduceReport all_reduce(gx::Transport auto& link, const gx::Bucket& bucket) {
        gx::ReduceReport report = this->inner_.all_reduce(link, bucket);
        std::byte one[8]{};
        const bool sends = link.rank() != 2 || link.ranks() == 3;
        if (link.rank() > 0 && sends) (void)link.wait(link.send(0, 0, {one, 1}));
        std::vector<gx::Request> all;
        for (int peer = 1; link.rank() == 0 && peer < link.ranks(); ++peer)
            all.push_back(link.receive(peer, 0, {one + peer, 1}));
        for (const gx::Request r : all)
            if (const gx::Delivery d = link.wait(r); report.complete()) report.delivery = d;
        return report;
    }
};
template <class R>
class RankThatDidNotSend : public ::testing::Test {};
using NotSending =
    ::testing::Types<RankTwoDoesNotSend<gx::Ring<>>, RankTwoDoesNotSendToAWaitForAll<gx::Ring<>>>;
TYPED_TEST_SUITE(RankThatDidNotSend, NotSending);
TYPED_TEST(RankThatDidNotSend, IsNamed) {
    const OnThreads soon{.deadline = std::chrono::milliseconds(20)};
    ConformanceReport report;
    gx::testing::check_means<TypeParam>(soon, 1, report);
    EXPECT_TRUE(report.hangs);
    EXPECT_NE(report.text().find("rank 0: a reduction without a fault is incomplete, for want of "
                                 "rank 2"),
              std::string::npos)
        << report.text();
    EXPECT_FALSE(report.rejected_by("mean")) << "of rows that were never reduced";
}

// ---- A world that can't vary the order of arrival ------------------------------------------
TEST(FixedOrder, IsReportedAsSkipped) {
    const auto fixed = [](gx::Placement p, auto f) { OnThreads{}(p, f); };
    ConformanceReport report;
    gx::testing::check_arrival<gx::Ring<>>(fixed, 1, report);
    EXPECT_TRUE(report.empty());
    ASSERT_EQ(report.skipped.size(), 1u);
    EXPECT_EQ(report.skipped[0].check, "arrival");
}

// ---- A world that loses a rank before its work begins ---------------------------------------
TEST(RankThatNeverBegan, HasNoCompleteReduction) {
    const auto nobody = [](gx::Placement, auto) {};
    ConformanceReport report;
    gx::testing::check_lost_rank<gx::Ring<>>(nobody, 1, report);
    EXPECT_EQ(report.text().find("reports a complete reduction"), std::string::npos)
        << report.text();
    EXPECT_TRUE(report.rejected_by("lost rank")) << "and nobody named the one that was lost";
}

// ---- World independence ------------------------------------------------------------------
/// Rounds otherwise on every second world it is run on.
template <class Inner>
struct WorldDependent : gx::testing::Mutant<Inner> {
    static inline int world = 0;
    gx::ReduceReport all_reduce(gx::Transport auto& link, const gx::Bucket& bucket) {
        const gx::ReduceReport report = this->inner_.all_reduce(link, bucket);
        for (float& x : bucket) x += world == 1 ? x * 0x1p-22f : 0.0f;
        return report;
    }
};
TEST(Worlds, MustNotChangeTheBits) {
    using R = gx::MultiRing<2, gx::fp16>;
    ConformanceReport report;
    gx::testing::check_worlds<R>(OnThreads{}, OnThreads{}, 1, report);
    EXPECT_EQ(report.text(), "");
    const auto other = [](gx::Placement p, auto f) {
        WorldDependent<R>::world = 1;
        OnThreads{}(p, f);
        WorldDependent<R>::world = 0;
    };
    gx::testing::check_worlds<WorldDependent<R>>(OnThreads{}, other, 1, report);
    EXPECT_EQ(report.found, 8);
}

}  // namespace
