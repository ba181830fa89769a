// LocalSgd in a Trainer, against the serial answer bit for bit; resumed; near the synchronous run.
#include <gx/local_sgd/reducer.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include <gx/core/hash_bits.hpp>
#include <gx/model/init.hpp>
#include <gx/optimizer/adamw.hpp>
#include <gx/optimizer/sgd.hpp>
#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/reference/device.hpp>
#include <gx/reference/local_sgd.hpp>
#include <gx/reference/ring.hpp>
#include <gx/scheduler/piecewise_linear.hpp>
#include <gx/sim/catalog/simple_clusters.hpp>
#include <gx/sim/race/monitor.hpp>
#include <gx/sim/world/cluster.hpp>
#include <gx/sim/world/device.hpp>
#include <gx/survival/continue_on_survivors.hpp>
#include <gx/testing/processes.hpp>
#include <gx/trainer/trainer.hpp>
#include <testing/processes_run.hpp>
#include <trainer/losing.hpp>
#include <trainer/small.hpp>

namespace {

using namespace testing_support;
using gx::Bucketed;
using gx::fp16;
using gx::fp32;
using gx::LocalSgd;
using gx::LocalState;
using gx::Ring;
using gx::reference::Device;
using gx::reference::Rows;
using Schedule = gx::Warmup<gx::Poly<2>>;

/// The ranks' own gradients, one after the other.
class Serial {
public:
    Serial(const gx::Split& data, int ranks, int batch)
        : ranks_(ranks), graph_(gx::graph<Net>({.input = data.train.shape, .classes = 3})) {
        for (int r = 0; r < ranks; ++r) {
            const gx::LoaderOptions share{.batch = batch, .ranks = ranks, .rank = r, .seed = 1};
            loaders_.emplace_back(data.train, share);
            devices_.emplace_back(graph_, gx::DeviceOptions{.batch = batch, .seed = 1, .rank = r});
        }
    }
    [[nodiscard]] std::int64_t steps_per_epoch() const { return loaders_[0].steps_per_epoch(); }
    [[nodiscard]] std::vector<float> initial() const {
        std::vector<float> w(std::size_t(graph_.parameter_elements()));
        gx::initial_parameters(graph_, 1, w);
        return w;
    }
    [[nodiscard]] std::vector<float> decay() const {
        std::vector<float> of(std::size_t(graph_.parameter_elements()), 0.0f);
        for (const gx::Parameter& p : graph_.parameters)
            if (p.role == gx::ParameterRole::weight)
                std::fill_n(of.begin() + p.offset, p.count, 1e-4f);
        return of;
    }
    std::vector<float> gradient(int rank, std::uint64_t update, std::span<const float> w) {
        const auto steps = std::uint64_t(steps_per_epoch());
        const auto r = std::size_t(rank);
        loaders_[r].begin_epoch(int(update / steps));
        gx::RankBatch next = loaders_[r].next();
        for (std::uint64_t s = 0; s < update % steps; ++s) next = loaders_[r].next();
        devices_[r].update([&](std::span<float> mine) { std::ranges::copy(w, mine.begin()); });
        (void)devices_[r].forward(next.batch, gx::Mode::train);
        std::vector<float> g(w.size());
        devices_[r].backward(float(ranks_) / float(next.global_count), g, [](std::size_t) {});
        return g;
    }
    /// The bits of the final weights after `epochs`.
    std::uint64_t train(int epochs, int period, gx::reference::Momenta momenta,
                        std::function<std::vector<float>(const Rows&)> mean) {
        const std::int64_t steps = steps_per_epoch();
        const gx::Plan plan{
            .total_steps = epochs * steps, .steps_per_epoch = steps, .ranks = ranks_};
        const Schedule schedule(gx::complete_options<Schedule>({}, plan));
        const Rows w = gx::reference::local_sgd(
            initial(), ranks_, std::uint64_t(plan.total_steps),
            {.period = period,
             .momentum = 0.9f,
             .decay = decay(),
             .at_mean = momenta,
             .last = [=](std::uint64_t u) { return (std::int64_t(u) + 1) % steps == 0; }},
            [this](int r, std::uint64_t u, std::span<const float> at) {
                return gradient(r, u, at);
            },
            [&](std::uint64_t u) { return schedule.rate(gx::Step(u)); }, mean);
        return gx::hash_bits(w.back());
    }

private:
    int ranks_;
    gx::Graph graph_;
    std::vector<gx::InMemory<>> loaders_;
    std::vector<Device> devices_;
};

/// As a ring makes it of each bucket of so many elements, cut from the end.
template <class E>
std::vector<float> ring_of_buckets(const Rows& rows, std::size_t bucket) {
    std::vector<float> mean(rows[0].size());
    const auto order = gx::reference::natural_order(int(rows.size()));
    for (std::size_t end = mean.size(); end > 0;) {
        const std::size_t begin = end > bucket ? end - bucket : 0;
        Rows part;
        for (const auto& row : rows)
            part.emplace_back(row.begin() + std::ptrdiff_t(begin),
                              row.begin() + std::ptrdiff_t(end));
        std::ranges::copy(gx::reference::ring_mean<E, gx::DivideSplit>(part, order),
                          mean.begin() + std::ptrdiff_t(begin));
        end = begin;
    }
    return mean;
}

template <class R, class O = gx::Sgd>
using By = gx::Trainer<Net, R, Schedule, O>;

// ---- Bit for bit --------------------------------------------------------------------------
template <class R, class E, int H>
void expect_serial_answer(std::size_t bucket) {
    using gx::reference::Momenta;
    const gx::Split data = images();  // 40 images: 3 ranks of 4 have a tail
    for (const int ranks : {1, 2, 3})
        for (const auto& [state, momenta] : {std::pair(LocalState::kept, Momenta::kept),
                                             std::pair(LocalState::averaged, Momenta::averaged),
                                             std::pair(LocalState::reset, Momenta::reset)}) {
            auto world = threads(ranks);
            const gx::RunRecord record =
                By<LocalSgd<R, H>>({.batch = 4, .epochs = 3, .reducer = {.state = state}})
                    .train(world, data);
            const auto answer = [&](int period) {
                return Serial(data, ranks, 4).train(3, period, momenta, [&](const Rows& rows) {
                    return ring_of_buckets<E>(rows, bucket);
                });
            };
            EXPECT_EQ(record.weights_hash, answer(H)) << ranks << " ranks";
            if (ranks > 1) {
                EXPECT_NE(record.weights_hash, answer(H + 1));
            }
        }
}
TEST(LocalSgd, OfPeriodOneIsTheSerialAnswer) { expect_serial_answer<Ring<fp32>, fp32, 1>(1 << 20); }
TEST(LocalSgd, OfPeriodThreeIsTheSerialAnswer) {
    expect_serial_answer<Ring<fp32>, fp32, 3>(1 << 20);
}
TEST(LocalSgd, InBucketsOfHalvesIsTheSerialAnswer) {
    expect_serial_answer<Bucketed<Ring<fp16>, 100>, fp16, 2>(50);
}

// ---- One set of bits in every world -----------------------------------------------------
TEST(LocalSgd, TheClusterTrainsToTheSameWeights) {
    using T = By<LocalSgd<Bucketed<Ring<fp32>, 128>, 3>, gx::AdamW>;
    const T::Options o{.batch = 4, .epochs = 2};
    auto world = threads(3);
    gx::sim::Cluster<Device> cluster(gx::sim::ethernet_10g(3), {.detect_races = true});
    expect_same_learning(T(o).train(cluster, images()), T(o).train(world, images()));
}
using LocalSgdOnProcesses = WithProcesses;
TEST_F(LocalSgdOnProcesses, TrainsToTheSameWeights) {
    using T = By<LocalSgd<Ring<fp32>, 2>>;
    const T::Options o{.batch = 4, .epochs = 2};
    auto world = threads(3);
    gx::testing::Processes<3, Device> processes;
    expect_same_learning(T(o).train(processes, images()), T(o).train(world, images()));
}

// ---- One step of period one is near the synchronous one ----------------------------------
//
// Both are near the exact w - r (mean(g) + d w), g the ranks' gradients in float, by at most the
// sum of their roundings; u = 2^-24, S = mean |g| + d |w|, n ranks:
//
//     synchronous   the mean (n + 3) u mean|g|, the decay and its sum 2 u S, r v and w - r v
//     apart         decay and sum 2 u S, r v and w - r v on each rank, and their mean (n + 3) u
//                   (|w| + r S)
//
// each at most (2 n + 10) u (|w| + r S), and 1 + 1e-5 for products of these.
TEST(LocalSgd, OfPeriodOneIsNearTheSynchronousStep) {
    for (const int ranks : {1, 2, 3, 5}) {
        const std::int64_t one_step = 4 * ranks;
        const gx::Split data = images(one_step);
        const Folder folder;
        auto world = threads(ranks);
        const auto weights = [&]<class T>(T) {
            typename T::Options o{.batch = 4, .epochs = 1};
            o.scheduler.climb_steps = 1;
            o.scheduler.next.peak_rate = 0.25f;
            o.optimizer.momentum = 0;
            o.output = folder.path;
            EXPECT_EQ(T(o).train(world, data).steps.size(), 1u);
            return gx::read_checkpoint(folder / "epoch-0001.safetensors",
                                       gx::graph<Net>({.input = data.train.shape, .classes = 3}))
                .parameters;
        };
        const auto synchronous = weights(By<Ring<fp32>>{});
        const auto local = weights(By<LocalSgd<Ring<fp32>, 1>>{});
        Serial serial(data, ranks, 4);
        const auto initial = serial.initial(), decay = serial.decay();
        Rows gradients;
        for (int r = 0; r < ranks; ++r) gradients.push_back(serial.gradient(r, 0, initial));
        double moved = 0;
        for (std::size_t i = 0; i < initial.size(); ++i) {
            double sum = 0;
            for (const auto& g : gradients) sum += std::abs(double(g[i]));
            const double w = std::abs(double(initial[i]));
            const double S = sum / ranks + double(decay[i]) * w;
            const double bound = 2 * (2 * ranks + 10) * 0x1p-24 * (w + 0.25 * S) * (1 + 1e-5);
            EXPECT_LE(std::abs(double(local[i]) - double(synchronous[i])), bound);
            moved =
                std::max(moved, std::abs(double(synchronous[i] - initial[i])) / (bound + 1e-30));
        }
        EXPECT_GT(moved, 1000) << "a step is far larger than what the bound allows";
    }
}

// ---- Checkpoints ------------------------------------------------------------------------
TEST(LocalSgd, ResumesBitForBit) {
    for (const LocalState state : {LocalState::kept, LocalState::averaged, LocalState::reset}) {
        using T = By<LocalSgd<Ring<fp32>, 3>, gx::AdamW>;
        const Folder folder;
        T::Options o{.batch = 4, .epochs = 3, .reducer = {.state = state}, .output = folder.path};
        auto world = threads(3);
        const auto whole = T(o).train(world, images());
        for (int epoch = 1; epoch < 3; ++epoch) {
            o.resume = folder.path / gx::checkpoint_name(epoch);
            expect_same_learning(T(o).train(world, images()), whole);
        }
        const auto c = gx::read_checkpoint(folder / "epoch-0002.safetensors",
                                           gx::graph<Net>({.input = {1, 4, 4}, .classes = 3}));
        EXPECT_EQ(c.reducer.size(), state == LocalState::kept ? 2u : 0u);
        if (state == LocalState::kept) {
            EXPECT_NE(c.reducer[0].ranks[0], c.reducer[0].ranks[1]);
        }
        auto two = threads(2);
        const std::string trouble = error_of([&] { (void)T(o).train(two, images()); });
        EXPECT_EQ(trouble == "no error", state != LocalState::kept) << trouble;
    }
}

// Within an epoch there is one where the replicas are equal: behind each average.
TEST(LocalSgd, ResumesBitForBitWithinAnEpoch) {
    for (const LocalState state : {LocalState::kept, LocalState::averaged}) {
        using T = By<LocalSgd<Ring<fp32>, 3>, gx::AdamW>;
        const Folder folder;
        T::Options o{.batch = 2,  // 7 steps an epoch, averages behind 3, 6 and 7
                     .epochs = 2,
                     .reducer = {.state = state},
                     .output = folder.path,
                     .checkpoints = {.every_steps = 1}};
        auto world = threads(3);
        const auto whole = T(o).train(world, images());
        for (int step = 1; step < 14; ++step) {
            o.resume = folder.path / gx::step_checkpoint_name(step);
            const bool averaged = step % 7 == 3 || step % 7 == 6;
            EXPECT_EQ(std::filesystem::exists(o.resume), averaged) << step;
            if (averaged) expect_same_learning(T(o).train(world, images()), whole);
        }
    }
}

/// Replicas are equal between means too where nothing moves them, or where there is one.
TEST(LocalSgd, ACheckpointWaitsForAMeanThoughReplicasAreEqual) {
    for (const int ranks : {1, 3})
        for (const LocalState state : {LocalState::kept, LocalState::averaged, LocalState::reset}) {
            using T = gx::Trainer<Net, LocalSgd<Ring<fp32>, 3>, gx::PiecewiseLinear>;
            const Folder folder;
            T::Options o{.batch = 2,
                         .epochs = 2,
                         .reducer = {.state = state},
                         .scheduler = {.points = {{0, 0.0f}, {0.5, 0.1f}, {2, 0.01f}}},
                         .output = folder.path,
                         .checkpoints = {.every_steps = 1}};
            auto world = threads(ranks);
            const auto whole = T(o).train(world, images());
            int resumed = 0;
            for (std::int64_t step = 1; step < std::ssize(whole.steps); ++step) {
                o.resume = folder.path / gx::step_checkpoint_name(int(step));
                if (!std::filesystem::exists(o.resume)) continue;
                ++resumed;
                expect_same_learning(T(o).train(world, images()), whole);
            }
            EXPECT_EQ(resumed, ranks == 1 ? 12 : 4) << "behind each mean within an epoch";
        }
}

// ---- Overflow is a rank's own affair -----------------------------------------------------
template <class R>
struct OverflowsOnRankOne : LocalSgd<R, 2> {
    using LocalSgd<R, 2>::LocalSgd;
    gx::ReduceReport all_reduce(gx::Transport auto& link, const gx::Bucket& bucket) {
        if (bucket.gradient == 1 && link.rank() == 1)
            bucket[0] = std::numeric_limits<float>::quiet_NaN();
        return LocalSgd<R, 2>::all_reduce(link, bucket);
    }
};
TEST(LocalSgd, ARankSkipsItsOwnOverflowAndTakesPartInTheMean) {
    using T = By<OverflowsOnRankOne<Ring<fp32>>, gx::AdamW>;
    const T::Options o{.batch = 4, .epochs = 2};
    auto world = threads(3);
    const auto r = T(o).train(world, images());
    EXPECT_EQ(r.skipped_steps, 1) << "by rank 1, though the record is rank 0's";
    EXPECT_TRUE(std::ranges::any_of(r.warnings, [](const std::string& warning) {
        return warning.starts_with("1 of ") &&
               warning.ends_with(
                   " steps were skipped by at least one rank, because its own "
                   "gradients had infinities or NaN.");
    }));
    EXPECT_TRUE(r.steps[1].skipped && !r.steps[0].skipped && !r.steps[2].skipped);
    EXPECT_TRUE(std::isfinite(r.epochs.back().test_loss));
    gx::sim::Cluster<Device> cluster(gx::sim::ethernet_10g(3));
    expect_same_learning(T(o).train(cluster, images()), r);
    using Right = By<LocalSgd<Ring<fp32>, 2>, gx::AdamW>;
    EXPECT_NE(Right({.batch = 4, .epochs = 2}).train(world, images()).weights_hash, r.weights_hash);
}

template <class R>
struct OverflowsAlways : LocalSgd<R, 2> {
    using LocalSgd<R, 2>::LocalSgd;
    gx::ReduceReport all_reduce(gx::Transport auto& link, const gx::Bucket& bucket) {
        bucket[0] = std::numeric_limits<float>::quiet_NaN();
        return LocalSgd<R, 2>::all_reduce(link, bucket);
    }
};
TEST(LocalSgd, ARunWithoutAnyUpdateFails) {
    using T = By<OverflowsAlways<Ring<fp32>>>;
    auto world = threads(2);
    const Folder folder;
    T::Options o{.batch = 4, .epochs = 2, .output = folder.path};
    const auto told = [&] { return error_of([&] { (void)T(o).train(world, images()); }); };
    const std::string text = told();
    EXPECT_TRUE(holds(text,
                      "all 10 steps were skipped, because its own gradients had infinities or "
                      "NaN, and the loss scale is 1. The network does not learn. Lower the "
                      "learning rate or the loss scale"))
        << text;
    EXPECT_EQ(text.find("test reducer"), text.npos) << "it takes no part in gradients";
    o.resume = folder / "epoch-0001.safetensors";
    EXPECT_TRUE(holds(told(), "all 10 steps were skipped"));
}
/// Before a loss, from the checkpoint that survivors go back to, and behind it.
TEST(LocalSgd, SkippedStepsAreCountedAcrossALoss) {
    using T =
        gx::Trainer<Net, OverflowsOnRankOne<Ring<fp32>>, gx::Constant, gx::ContinueOnSurvivors>;
    const Folder folder;
    const T::Options o{.batch = 2,
                       .epochs = 2,
                       .survival = {.recovery = gx::Recovery::checkpoint},
                       .output = folder.path};
    set_script({{{2}, 9, true}});
    auto world = scripted_threads(3);
    const auto r = T(o).train(world, images());
    ASSERT_EQ(r.losses.size(), 1u);
    EXPECT_EQ(r.losses[0].step, 7) << "of the first epoch's end";
    EXPECT_EQ(r.skipped_steps, 1);
    EXPECT_EQ(std::ranges::count(r.steps, true, &gx::StepRow::skipped), 1);
}

// ---- Seeded bugs --------------------------------------------------------------------------
template <class R>
struct ForgetsTheEpochsEnd : LocalSgd<R, 100> {
    using LocalSgd<R, 100>::LocalSgd;
    gx::ReduceReport updated(gx::Transport auto& link, const gx::OwnedUpdate& made) {
        return LocalSgd<R, 100>::updated(link, {made.change, made.applied, false});
    }
};
TEST(LocalSgd, ReplicasThatWereNotAveragedAreFound) {
    using T = By<ForgetsTheEpochsEnd<Ring<fp32>>>;
    auto world = threads(2);
    EXPECT_TRUE(holds(error_of([&] { (void)T({.batch = 4, .epochs = 1}).train(world, images()); }),
                      "differ"));
}

// ---- Time -----------------------------------------------------------------------------------
TEST(LocalSgd, WaitsForTheNetworkOnceAPeriod) {
    const auto exposed = []<class T>(T) {
        gx::sim::Cluster<Device> cluster(gx::sim::ethernet_10g(4));
        typename T::Options o{.batch = 1, .epochs = 1, .evaluate = false};
        return T(o).train(cluster, images(48, 4)).breakdown.exposed_communication;  // 12 steps
    };
    const double each = exposed(By<LocalSgd<Ring<fp32>, 1>>{});
    const double fourth = exposed(By<LocalSgd<Ring<fp32>, 4>>{});
    EXPECT_NEAR(fourth, each / 4, 0.05 * each);
}

}  // namespace
