#include <gx/reducer/error_feedback_state.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/double_buffered.hpp>
#include <gx/reducer/pipeline.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/testing/error_feedback.hpp>
#include <gx/testing/rows.hpp>
#include <gx/threads/threads.hpp>

namespace {

using gx::ErrorFeedbackState;
using gx::testing::Rows;

// ---- By hand ------------------------------------------------------------------------

gx::Bucket bucket_of(std::vector<float>& values, std::uint64_t gradient, std::int64_t offset = 0) {
    gx::Bucket b(values);
    b.gradient = gradient;
    b.offset = offset;
    return b;
}

TEST(ErrorFeedbackState, TakesEffectWhenItIsSettled) {
    ErrorFeedbackState state;
    state.reserve(gx::ReducePlan::whole({1, 1}, 4));
    std::vector<float> two(2);
    state.of(bucket_of(two, 0, 2)).after[1] = 5;
    EXPECT_EQ(state.of(bucket_of(two, 0, 2)).before[1], 0);
    state.settle(0, false);
    EXPECT_EQ(state.of(bucket_of(two, 1, 2)).before[1], 0);
    state.of(bucket_of(two, 1, 2)).after[1] = 6;
    state.settle(1, true);
    EXPECT_EQ(state.of(bucket_of(two, 2, 2)).before[1], 6);
    EXPECT_EQ(state.kept(2)[3], 6);
}
TEST(ErrorFeedbackState, GradientsInFlightDoNotMeet) {
    ErrorFeedbackState state;
    gx::ReducePlan plan = gx::ReducePlan::whole({1, 1}, 1);
    plan.in_flight = 2;
    state.reserve(plan);
    std::vector<float> one(1);
    state.of(bucket_of(one, 0)).after[0] = 1;
    state.of(bucket_of(one, 1)).after[0] = 2;
    state.settle(0, true);
    EXPECT_EQ(state.of(bucket_of(one, 1)).before[0], 0);
    EXPECT_EQ(state.of(bucket_of(one, 2)).before[0], 1);
    state.settle(1, false);
    EXPECT_EQ(state.of(bucket_of(one, 3)).before[0], 0);
}
TEST(ErrorFeedbackState, NamesWhatACheckpointKeeps) {
    ErrorFeedbackState state;
    gx::ReducePlan plan = gx::ReducePlan::whole({1, 1}, 3);
    state.reserve(plan);
    ASSERT_EQ(state.state().size(), 1u);  // nothing is in flight between steps
    plan.in_flight = 2;
    state.reserve(plan);
    std::vector<std::string> names;
    for (const gx::StateVector& v : state.state()) {
        names.emplace_back(v.name);
        EXPECT_TRUE(v.is_gradient);
        EXPECT_EQ(v.scope, gx::StateScope::per_rank);
        EXPECT_EQ(v.values.size(), 3u);
    }
    EXPECT_EQ(names, (std::vector<std::string>{"residual 0", "residual 0, in flight", "residual 1",
                                               "residual 1, in flight"}));
}

// ---- Through a Pipeline: buckets, staleness, loss scales and skipped steps -------------

using Feedback = gx::testing::ErrorFeedback<gx::Ring<>>;

/// What one rank applied, in units without loss scale, and the residuals it ends with.
struct Books {
    std::vector<double> given, applied, residual;
};

/// Small integers and powers of two as loss scales: every operation is exact.
template <class R>
std::vector<Books> train(int ranks, std::int64_t elements, std::int64_t bucket,
                         const std::vector<std::pair<bool, float>>& steps) {
    std::vector<Books> books(static_cast<std::size_t>(ranks));
    gx::ThreadWorld<>({.placement = {1, ranks}}).run([&](auto& rank) {
        Books& b = books[std::size_t(rank.rank())];
        b.given = b.applied = b.residual = std::vector<double>(std::size_t(elements));
        gx::Pipeline pipeline(rank.stream(), rank.transport(),
                              {.elements = elements, .bucket_elements = bucket}, R());
        const auto take = [&](const gx::Reduced& got) {
            const auto [skipped, scale] = steps[got.index];
            if (skipped) return pipeline.skip();
            for (std::size_t i = 0; i < got.values.size(); ++i)
                b.applied[i] += double(got.values[i]) / double(scale);
        };
        for (std::uint64_t t = 0; t < steps.size(); ++t) {
            const auto [skipped, scale] = steps[t];
            const auto out = pipeline.begin(t, scale);
            const Rows rows = gx::testing::small_integers(t, ranks, elements);
            for (std::size_t i = 0; i < out.size(); ++i) {
                const float g = rows[std::size_t(rank.rank())][i];
                out[i] = g * scale;
                if (!skipped) b.given[i] += double(g);
            }
            pipeline.ready(0);
            if (const auto got = pipeline.collect(t)) take(*got);
        }
        while (const auto late = pipeline.drain()) take(*late);
        for (const gx::StateVector& v : pipeline.reducer().state())
            for (std::size_t i = 0; !v.name.ends_with("in flight") && i < v.values.size(); ++i)
                b.residual[i] += double(v.values[i]);
    });
    return books;
}

template <class R>
void expect_nothing_is_lost() {
    const int ranks = *rc::gen::element(1, 2, 4);  // the mean of integers is exact
    const auto elements = *rc::gen::inRange<std::int64_t>(1, 40);
    const auto bucket = *rc::gen::inRange<std::int64_t>(1, 41);
    std::vector<std::pair<bool, float>> steps;
    for (int n = *rc::gen::inRange(1, 12); n > 0; --n)
        steps.emplace_back(*rc::gen::inRange(0, 3) == 0, *rc::gen::element(1.0f, 0.25f, 1024.0f));
    const std::vector<Books> books = train<R>(ranks, elements, bucket, steps);
    for (std::size_t i = 0; i < std::size_t(elements); ++i) {
        double given = 0, residual = 0;
        for (const Books& b : books) given += b.given[i], residual += b.residual[i];
        for (const Books& b : books) RC_ASSERT(b.applied[i] * ranks + residual == given);
    }
}
RC_GTEST_PROP(ErrorFeedbackState, LosesNothing, ()) { expect_nothing_is_lost<Feedback>(); }
RC_GTEST_PROP(ErrorFeedbackState, LosesNothingOneStepLate, ()) {
    expect_nothing_is_lost<gx::DoubleBuffered<Feedback>>();
}
RC_GTEST_PROP(ErrorFeedbackState, LosesNothingTwoStepsLate, ()) {
    expect_nothing_is_lost<gx::DoubleBuffered<gx::DoubleBuffered<gx::Bucketed<Feedback, 16>>>>();
}

}  // namespace
