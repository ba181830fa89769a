// Resuming with another rank count or batch: learning rates against closed forms of the schedules.
#include <gx/trainer/trainer.hpp>

#include <algorithm>   // max
#include <cmath>       // cos, pow
#include <functional>  // function
#include <numbers>     // pi

#include <gtest/gtest.h>

#include <gx/reducer/double_buffered.hpp>     // DoubleBuffered
#include <gx/reducer/ring.hpp>                // Ring
#include <gx/scheduler/cosine.hpp>            // Cosine
#include <gx/scheduler/linear_scaling.hpp>    // LinearScaling
#include <gx/scheduler/one_cycle.hpp>         // OneCycle
#include <gx/scheduler/piecewise_linear.hpp>  // PiecewiseLinear
#include <gx/scheduler/step_decay.hpp>        // StepDecay
#include <trainer/small.hpp>                  // images, threads, Folder

namespace {

using namespace testing_support;

template <class S, class R = gx::Ring<gx::fp32>>
using Rated = gx::Trainer<Net, R, S>;

struct Scale {
    int ranks, batch;
    [[nodiscard]] int steps_per_epoch() const { return (40 + ranks * batch - 1) / (ranks * batch); }
};
constexpr int epochs = 4;

template <class T>
gx::RunRecord train(const Folder& folder, Scale scale, int resume_after,
                    decltype(typename T::Options{}.scheduler) schedule, bool saves = true) {
    typename T::Options o{
        .batch = scale.batch, .epochs = epochs, .scheduler = schedule, .evaluate = false};
    if (saves) o.output = folder.path;
    if (resume_after > 0)
        o.resume = folder.path / ("epoch-000" + std::to_string(resume_after) + ".safetensors");
    auto world = threads(scale.ranks);
    return T(o).train(world, images());
}

/// The rate at `t` of `total` steps with `batch` images each; written down from the literature.
using ClosedForm = std::function<double(int t, int total, int batch)>;

// ---- Rates go on by progress in the data --------------------------------------------

template <class S>
void expect_rates(typename S::Options options, const ClosedForm& rate) {
    constexpr Scale before{2, 4};
    const Folder folder;
    (void)train<Rated<S>>(folder, before, 0, options);
    for (const Scale after : {Scale{2, 4}, Scale{3, 4}, Scale{8, 4}, Scale{2, 10}, Scale{1, 1}})
        for (int epoch = 1; epoch < epochs; ++epoch) {
            const gx::RunRecord r = train<Rated<S>>(folder, after, epoch, options, false);
            const int steps = after.steps_per_epoch(), done = epoch * before.steps_per_epoch();
            ASSERT_EQ(r.steps.size(), std::size_t(done + (epochs - epoch) * steps));
            for (std::size_t i = 0; i < r.steps.size(); ++i) {
                const int t = int(i) < done ? int(i) : epoch * steps + int(i) - done;
                const Scale in_force = int(i) < done ? before : after;
                const double expected =
                    rate(t, epochs * in_force.steps_per_epoch(), in_force.ranks * in_force.batch);
                EXPECT_NEAR(r.steps[i].rate, expected, 1e-6 * 0.1)
                    << after.ranks << " ranks of batch " << after.batch << " after epoch " << epoch
                    << ", row " << i;
            }
        }
}

double poly(double t, double total) { return t < total ? std::pow(1 - t / total, 2) : 0; }
double half_wave(double from, double to, double share) {
    return to + (from - to) * (1 + std::cos(std::numbers::pi * share)) / 2;
}

TEST(AnotherScale, Poly) {
    expect_rates<gx::Poly<2>>({}, [](int t, int total, int) { return 0.1 * poly(t, total); });
}
TEST(AnotherScale, Cosine) {
    expect_rates<gx::Cosine>(
        {}, [](int t, int total, int) { return half_wave(0.1, 0, double(t) / total); });
}
TEST(AnotherScale, StepDecay) {
    expect_rates<gx::StepDecay>({}, [](int t, int total, int) {
        const int passed = (total / 3 <= t) + (total * 2 / 3 <= t) + (total * 8 / 9 <= t);
        return 0.1 * std::pow(0.1, passed);
    });
}
TEST(AnotherScale, WarmupOfPoly) {
    expect_rates<gx::Warmup<gx::Poly<2>>>({.climb_steps = 6}, [](int t, int total, int) {
        return 0.1 * (t < 6 ? (t + 1) / 6.0 : poly(t - 6, std::max(1, total - 6)));
    });
}
TEST(AnotherScale, WarmupOfStepDecay) {
    expect_rates<gx::Warmup<gx::StepDecay>>({.climb_steps = 2}, [](int t, int total, int) {
        const int passed = (total / 3 <= t) + (total * 2 / 3 <= t) + (total * 8 / 9 <= t);
        return 0.1 * std::pow(0.1, passed) * std::min(1.0, (t + 1) / 2.0);
    });
}
TEST(AnotherScale, LinearScaling) {
    expect_rates<gx::LinearScaling<gx::Poly<2>>>(
        {.reference_batch = 40},
        [](int t, int total, int batch) { return 0.1 * poly(t, total) * batch / 40; });
}
TEST(AnotherScale, OneCycle) {
    expect_rates<gx::OneCycle>({}, [](int t, int total, int) {
        const int climb = std::max(1, total * 3 / 10);
        if (t < climb) return half_wave(0.1 / 25, 0.1, double(t) / climb);
        return half_wave(0.1, 0.1 / 25 / 1e4, double(t - climb) / (total - climb));
    });
}
TEST(AnotherScale, PiecewiseLinear) {
    expect_rates<gx::PiecewiseLinear>(
        {.points = {{0, 0.02f}, {1.5, 0.1f}, {3, 0.1f}, {3, 0.05f}, {4, 0}}},
        [](int t, int total, int) {
            const double epoch = double(t) * epochs / total;
            if (epoch < 1.5) return 0.02 + 0.08 * epoch / 1.5;
            return epoch < 3 ? 0.1 : 0.05 * (4 - epoch);
        });
}

// ---- Gradients on their way ---------------------------------------------------------

// Two gradients of the first scale are applied by the first two steps of the second: each at the
// rate of the steps and of the batch that it was computed in.
TEST(AnotherScale, LateGradientsKeepTheRateOfTheirOwnBatch) {
    using Later = gx::DoubleBuffered<gx::DoubleBuffered<gx::Ring<gx::fp32>>>;
    using S = gx::LinearScaling<gx::Poly<2>>;
    const Folder folder;
    constexpr Scale before{2, 4};
    for (const Scale after : {Scale{2, 4}, Scale{3, 4}, Scale{1, 40}, Scale{1, 1}}) {
        (void)train<Rated<S, Later>>(folder, before, 0, {.reference_batch = 40});
        const gx::RunRecord r = train<Rated<S, Later>>(folder, after, 2, {.reference_batch = 40});
        const int steps = after.steps_per_epoch();
        ASSERT_EQ(r.steps.size(), std::size_t(10 + 2 * steps));
        for (int i = 0; i < 2 * steps; ++i) {
            const int late = i - 2;  // counted from the first gradient of the new scale
            const double expected =
                late < 0 ? 0.1 * poly(10 + late, 20) * 8 / 40
                         : 0.1 * poly(2 * steps + late, 4 * steps) * after.ranks * after.batch / 40;
            EXPECT_NEAR(r.steps[std::size_t(10 + i)].rate, expected, 1e-7) << i;
        }
    }
}
TEST(AnotherScale, MayComeAgainAndAgain) {
    const Folder folder;
    using T = Rated<gx::Poly<2>, gx::DoubleBuffered<gx::Ring<gx::fp32>>>;
    (void)train<T>(folder, {2, 4}, 0, {});
    (void)train<T>(folder, {1, 1}, 1, {});
    const gx::RunRecord r = train<T>(folder, {1, 20}, 3, {});
    ASSERT_EQ(r.steps.size(), 5u + 40 + 40 + 2);
    EXPECT_NEAR(r.steps[4].rate, 0.1 * poly(3, 20), 1e-7);
    EXPECT_NEAR(r.steps[5].rate, 0.1 * poly(4, 20), 1e-7) << "of a batch of 8";
    EXPECT_NEAR(r.steps[6].rate, 0.1 * poly(40, 160), 1e-7);
    EXPECT_NEAR(r.steps[85].rate, 0.1 * poly(119, 160), 1e-7) << "of a batch of 1";
    EXPECT_NEAR(r.steps[86].rate, 0.1 * poly(6, 8), 1e-7);
    EXPECT_EQ(r.epochs[3].step, 87);
}

// ---- Phases -------------------------------------------------------------------------

/// On 2 ranks 2 steps in the first epoch and 10 in each other one; on 4 ranks 1 and 5.
const std::vector<gx::Phase> phases{{0, 10, 4}, {1, 2, 4}};

template <class T>
gx::RunRecord train_phases(const Folder& folder, int ranks, int resume_after,
                           decltype(typename T::Options{}.scheduler) schedule,
                           std::vector<gx::Phase> in = phases) {
    typename T::Options o{
        .epochs = epochs, .phases = std::move(in), .scheduler = schedule, .evaluate = false};
    if (resume_after > 0) o.resume = folder.path / gx::checkpoint_name(resume_after).c_str();
    else o.output = folder.path;
    auto world = threads(ranks);
    return T(o).train(world, images());
}
TEST(AnotherScaleOfPhases, LateGradientsKeepTheRateOfTheirOwnPhase) {
    const Folder folder;
    using T = Rated<gx::LinearScaling<gx::Poly<2>>, gx::DoubleBuffered<gx::Ring<gx::fp32>>>;
    const gx::RunRecord whole = train_phases<T>(folder, 2, 0, {.reference_batch = 40});
    for (const int epoch : {1, 2, 3}) {
        const gx::RunRecord r = train_phases<T>(folder, 4, epoch, {.reference_batch = 40});
        const int done = 2 + (epoch - 1) * 10;
        const double expected =
            epoch == 1 ? 0.1 * poly(1, 8) * 20 / 40 : 0.1 * poly(epoch * 2 - 1, 8) * 4 / 40;
        EXPECT_NEAR(r.steps[std::size_t(done)].rate, expected, 1e-7) << epoch;
        EXPECT_EQ(r.steps[std::size_t(done)].rate, whole.steps[std::size_t(done)].rate) << epoch;
        EXPECT_NEAR(r.steps[std::size_t(done + 1)].rate, 0.1 * poly(epoch, 4) * 8 / 40, 1e-7);
    }
}
TEST(AnotherScaleOfPhases, OptionsInStepsCountThoseOfTheFirstPhase) {
    const Folder folder;
    using T = Rated<gx::StepDecay, gx::DoubleBuffered<gx::Ring<gx::fp32>>>;
    (void)train_phases<T>(folder, 2, 0, {.milestones = {5}});
    const gx::RunRecord r = train_phases<T>(folder, 4, 2, {.milestones = {5}});
    EXPECT_NEAR(r.steps[12].rate, 0.1, 1e-7) << "step 3 of 8";
}
TEST(AnotherScaleOfPhases, LateGradientsKeepTheRateOfPhasesThatHaveChanged) {
    const Folder folder;
    using T = Rated<gx::LinearScaling<gx::Poly<2>>, gx::DoubleBuffered<gx::Ring<gx::fp32>>>;
    (void)train_phases<T>(folder, 2, 0, {.reference_batch = 40});
    for (const std::vector<gx::Phase>& other :
         {std::vector<gx::Phase>{{0, 5, 4}}, {{0, 2, 4}, {1, 4, 4}, {3, 5, 4}}}) {
        const gx::RunRecord r = train_phases<T>(folder, 4, 2, {.reference_batch = 40}, other);
        EXPECT_NEAR(r.steps[12].rate, 0.1 * poly(3, 8) * 4 / 40, 1e-7);
    }
}
TEST(AnotherScaleOfPhases, LateGradientsOfARunWithoutPhasesKeepItsRate) {
    const Folder folder;
    using S = gx::LinearScaling<gx::Poly<2>>;
    using T = Rated<S, gx::DoubleBuffered<gx::Ring<gx::fp32>>>;
    (void)train<T>(folder, {2, 2}, 0, {.reference_batch = 40});
    const gx::RunRecord r = train_phases<T>(folder, 4, 2, {.reference_batch = 40});
    EXPECT_NEAR(r.steps[20].rate, 0.1 * poly(19, 40) * 4 / 40, 1e-7);
    EXPECT_NEAR(r.steps[21].rate, 0.1 * poly(2, 4) * 8 / 40, 1e-7);
}
TEST(AnotherScaleOfPhases, NotesTheStepsOfThePhase) {
    const Folder folder;
    using T = Rated<gx::Poly<2>>;
    (void)train_phases<T>(folder, 2, 0, {});
    const gx::RunRecord r = train_phases<T>(folder, 4, 2, {});
    EXPECT_EQ(r.epochs[2].step - r.epochs[1].step, 5);
    EXPECT_TRUE(std::ranges::any_of(r.notes, [](const std::string& note) {
        return holds(note,
                     "after epoch 2 with 4 ranks x batch 2 instead of 2 x 2: 5 steps an "
                     "epoch instead of 10; the schedule goes on at step 2 of 4 of the first "
                     "phase's batch, and options given in steps count these steps");
    })) << ::testing::PrintToString(r.notes);
}

// ---- What is told -------------------------------------------------------------------

TEST(AnotherScale, StandsInTheRecordAndInTheProgress) {
    const Folder folder;
    using T = Rated<gx::Poly<2>>;
    (void)train<T>(folder, {2, 4}, 0, {});
    const auto changed = [](const gx::RunRecord& r) {
        return std::ranges::count_if(r.notes, [](const std::string& note) {
            return note.find("resumed after epoch 2") != note.npos;
        });
    };
    ::testing::internal::CaptureStderr();
    gx::ShowProgress lines(gx::Progress::Style::lines);
    T::Options o{.batch = 4,
                 .epochs = epochs,
                 .resume = folder / "epoch-0002.safetensors",
                 .evaluate = false,
                 .observers = {&lines}};
    auto three = threads(3);
    const gx::RunRecord r = T(o).train(three, images());
    const std::string progress = ::testing::internal::GetCapturedStderr();
    ASSERT_EQ(changed(r), 1);
    const char* sentence =
        "resumed after epoch 2 with 3 ranks x batch 4 instead of 2 x 4: 4 steps "
        "an epoch instead of 5";
    EXPECT_TRUE(holds(r.notes.back(), sentence));
    EXPECT_TRUE(holds(progress, sentence, "training 100 %  16/16 steps"));
    auto two = threads(2);
    EXPECT_EQ(changed(T(o).train(two, images())), 0) << "nothing has changed";
}
TEST(AnotherScale, AnotherDataSetIsRefused) {
    const Folder folder;
    using T = Rated<gx::Poly<2>>;
    (void)train<T>(folder, {2, 4}, 0, {});
    auto world = threads(2);
    const T::Options o{.batch = 4,
                       .epochs = epochs,
                       .resume = folder / "epoch-0002.safetensors",
                       .evaluate = false};
    EXPECT_TRUE(holds(error_of([&] { (void)T(o).train(world, images(48)); }),
                      "it was trained on 40 images, and this run has 48"));
}

}  // namespace
