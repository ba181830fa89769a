// Staged: a GPU of the runtime's double in worlds of the host, with the bits of threads.
#include <gx/cuda/staged.hpp>

#include <algorithm>  // equal
#include <atomic>     // whose GPU is lost
#include <numeric>    // iota
#include <vector>     // gradients

#include <gtest/gtest.h>

#include <gx/cuda_testing/host_computed.hpp>
#include <gx/model/cifar_resnet.hpp>
#include <gx/sim/catalog/simple_clusters.hpp>
#include <gx/sim/world/cluster.hpp>
#include <gx/sim/world/device.hpp>
#include <gx/survival/continue_on_survivors.hpp>
#include <gx/testing/processes.hpp>
#include <trainer/small.hpp>

#include "trainer_runs.hpp"

namespace {

using namespace testing_support;
using namespace gx;
using cuda_testing::HostComputed;
using cuda_testing::StreamProgress;
using Device = cuda::Staged<HostComputed<reference::Device>>;
static_assert(explain_device<Device>());
static_assert(explain_device<cuda::Staged<>>());
static_assert(computes_in<cuda::Staged<>, bf16> && TakesPixels<cuda::Staged<>>);

/// Trains on threads whose devices are new GPUs, and expects nothing left behind.
template <class T>
RunRecord train_staged(const T& trainer, const Split& data, Placement placement, std::uint64_t seed,
                       StreamProgress progress) {
    cuda_testing::reset({.seed = seed, .progress = progress});
    RunRecord record;
    {
        ThreadWorld<Device> world({.placement = placement});
        record = trainer.train(world, data);
    }
    cuda_testing::expect_clean();
    return record;
}

template <class T>
class Staged : public ::testing::Test {};
TYPED_TEST_SUITE(Staged, cuda_tests::Runs);

TYPED_TEST(Staged, WeightsAreThoseOfThreads) {
    cuda_tests::expect_weights_of_threads<TypeParam>(train_staged<TypeParam>);
}
TYPED_TEST(Staged, CheckpointsAreThoseOfThreads) {
    cuda_tests::expect_checkpoints_of_threads<TypeParam>(train_staged<TypeParam>);
}

/// The last two own the update, and exchange messages within it.
template <class T>
class StagedPolicies : public ::testing::Test {};
using StagedTrainers =
    ::testing::Types<Trainer<Net, DoubleBuffered<Ring<fp16>>, Warmup<Poly<2>>, AdamW>,
                     Trainer<Net, Sharded<Ring<fp32>>, Warmup<Poly<2>>, AdamW>,
                     Trainer<Net, LocalSgd<Ring<fp32>, 2>, Warmup<Poly<2>>>>;
TYPED_TEST_SUITE(StagedPolicies, StagedTrainers);

TYPED_TEST(StagedPolicies, SimulatedAndProcessesTrainThem) {
    cuda_testing::reset({});
    using T = TypeParam;
    const T trainer({.batch = 4, .epochs = 2, .seed = 3});
    const Split data = images(24, 8);
    auto wall = threads(2);
    const RunRecord expected = trainer.train(wall, data);
    sim::Cluster<Device> cluster(sim::ethernet_10g(2));
    expect_same_learning(trainer.train(cluster, data), expected);
    gx::testing::ProcessWorld<Device> processes({.placement = {2, 1}});
    expect_same_learning(trainer.train(processes, data), expected);
}

/// Loses the GPU of a rank in that rank's third pass.
struct Mortal : Device {
    static inline std::atomic<int> victim{-1};
    Mortal(const Graph& g, DeviceOptions o) : Device(g, o), rank(o.rank) {}
    ForwardReport forward(const Batch& batch, Mode mode) {
        int lost = rank;
        if (++passes == 3 && victim.compare_exchange_strong(lost, -1))
            cuda_testing::lose_device(rank, cudaErrorECCUncorrectable);
        return Device::forward(batch, mode);
    }
    int rank, passes = 0;
};
TEST(StagedWorlds, GoOnOnTheGpusThatAreLeft) {
    for (const int victim : {2, 0}) {
        cuda_testing::reset({.check_at_exit = false});
        Mortal::victim = victim;
        ThreadWorld<Mortal> world({.placement = {3, 1}});
        using T = Trainer<Net, Ring<fp32>, Constant, ContinueOnSurvivors>;
        const RunRecord run =
            T({.batch = 4, .epochs = 2, .progress = false}).train(world, images(24, 8));
        ASSERT_EQ(run.losses.size(), 1u);
        EXPECT_EQ(run.losses[0].lost, std::vector{victim});
        EXPECT_EQ(run.epochs.size(), 2u);
    }
}

/// The host waits for the first gradients alone, behind which most of backward is still queued.
TEST(StagedDevice, ReportsGradientsWhileBackwardGoesOn) {
    cuda_testing::reset({.progress = StreamProgress::late});
    const Graph g = gx::graph<CifarResNet<8>>({.input = {1, 8, 8}, .classes = 3});
    Device staged(g, {.batch = 2});
    std::vector<float> x(2 * 64, 0.5f), gradients(static_cast<std::size_t>(g.parameter_elements()));
    const std::vector<int> labels{0, 1};
    (void)staged.forward({.images = x, .labels = labels, .count = 2}, Mode::train);
    const auto mark = cuda_testing::counters();
    const auto done = [&] { return (cuda_testing::counters() - mark).operations; };
    std::vector<decltype(done())> at;
    staged.backward(1, gradients, [&](std::size_t) { at.push_back(done()); });
    EXPECT_LT(at.front(), done() / 4) << "of " << done() << " operations";
}

TEST(StagedDevice, GivesGradientsThatAreFinalFromTheEndDown) {
    for (const auto progress :
         {StreamProgress::late, StreamProgress::eager, StreamProgress::random}) {
        cuda_testing::reset({.seed = 7, .progress = progress});
        const Graph g = gx::graph<Net>({.input = {1, 4, 4}, .classes = 3});
        reference::Device plain(g, {.batch = 4});
        Device staged(g, {.batch = 4});
        const Split data = images(4, 0);
        const auto n = static_cast<std::size_t>(g.parameter_elements());
        std::vector<float> first(n), a(n), b(n);
        for (std::size_t i = 0; i < n; ++i) first[i] = 0.01f * float(i % 17) - 0.05f;
        for (auto set : {0, 1}) {
            const auto change = [&](std::span<float> p) { std::ranges::copy(first, p.begin()); };
            if (set == 0) plain.update(change);
            else staged.update(change);
        }
        EXPECT_TRUE(std::ranges::equal(staged.parameters(), first));
        std::vector<float> x(4 * 16);
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = 0.1f * float(i % 11) - 0.4f;
        const std::vector<std::int32_t> labels{0, 1, 2, 1};
        const Batch batch{x, labels, 4, 5};
        const ForwardReport p = plain.forward(batch, Mode::train),
                            s = staged.forward(batch, Mode::train);
        EXPECT_EQ(p.loss_sum, s.loss_sum);
        EXPECT_EQ(p.correct, s.correct);
        EXPECT_TRUE(std::ranges::equal(plain.statistics(), staged.statistics()));
        plain.backward(0.5f, a, [](std::size_t) {});
        std::vector<std::size_t> watermarks;
        staged.backward(0.5f, b, [&](std::size_t from) {
            watermarks.push_back(from);
            EXPECT_TRUE(std::equal(b.begin() + std::ptrdiff_t(from), b.end(),
                                   a.begin() + std::ptrdiff_t(from)));
        });
        EXPECT_EQ(a, b);
        EXPECT_TRUE(std::ranges::is_sorted(watermarks, std::greater<>()));
        EXPECT_EQ(watermarks.back(), 0u);
        EXPECT_EQ(staged.first_non_finite(), std::nullopt);
        std::vector<float> canonical(n), back(n);
        staged.to_canonical(first, canonical);
        EXPECT_EQ(canonical, first);
        staged.from_canonical(canonical, back);
        EXPECT_EQ(back, first);
    }
    cuda_testing::expect_clean();
}
TEST(StagedDevice, CopiesNothingOnceBackwardHasThrown) {
    cuda_testing::reset({.progress = StreamProgress::eager});
    const Graph g = gx::graph<Net>({.input = {1, 4, 4}, .classes = 3});
    std::vector<float> gradients(static_cast<std::size_t>(g.parameter_elements()));
    {
        Device staged(g, {.batch = 1});
        const std::vector<float> x(16, 1);
        const std::vector<std::int32_t> label{1};
        (void)staged.forward({x, label, 1, 5}, Mode::train);
        const auto stop = [](std::size_t) { throw Error("another rank is lost"); };
        EXPECT_EQ(error_of([&] { staged.backward(1, gradients, stop); }), "another rank is lost");
        std::ranges::fill(gradients, 7.0f);
        (void)staged.forward({x, label, 1, 5}, Mode::train);  // hands out copies that are reached
    }
    EXPECT_TRUE(std::ranges::all_of(gradients, [](float v) { return v == 7; }));
    cuda_testing::expect_clean();
}
TEST(StagedDevice, ComputesWithTheStatisticsThatTheHostHasChanged) {
    cuda_testing::reset({});
    GraphBuilder b("normed", {2, 1, 1}, 2);
    b.softmax_cross_entropy(b.flatten(b.batch_norm(b.input(), {}, "norm"), "flat"), 0, "loss");
    const Graph g = std::move(b).finish();
    reference::Device plain(g, {.batch = 1});
    Device staged(g, {.batch = 1});
    const auto ones = [](std::span<float> p) { std::ranges::fill(p, 1.0f); };
    plain.update(ones), staged.update(ones);
    const std::vector<float> x{0.5f, -0.25f};
    const std::vector<std::int32_t> label{1};
    const auto loss = [&](auto& device) {
        return device.forward({x, label, 1, 5}, Mode::evaluate).loss_sum;
    };
    const double before = loss(plain);
    EXPECT_EQ(loss(staged), before);
    ASSERT_EQ(staged.statistics().size(), 4u);
    for (const auto all : {plain.statistics(), staged.statistics()})
        for (std::size_t i = 0; i < all.size(); ++i) all[i] = 0.5f + float(i);
    const double after = loss(plain);
    EXPECT_NE(after, before);
    EXPECT_EQ(loss(staged), after);
}
TEST(StagedDevice, TakesTheGpuOfItsLocalRank) {
    cuda_testing::reset({});
    const Graph g = gx::graph<Net>({.input = {1, 4, 4}, .classes = 3});
    const auto gpu_of = [&](int rank) { return Device(g, {.batch = 1, .rank = rank}).gpu(); };
    EXPECT_EQ(gpu_of(0), 0);
    EXPECT_EQ(gpu_of(3), 3);
    EXPECT_EQ(gpu_of(9), 9 % cuda::device_count());
    ::setenv("OMPI_COMM_WORLD_RANK", "5", 1), ::setenv("OMPI_COMM_WORLD_SIZE", "6", 1);
    ::setenv("OMPI_COMM_WORLD_LOCAL_RANK", "2", 1), ::setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "3", 1);
    EXPECT_EQ(gpu_of(5), 2);
    for (const char* name : {"RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE"})
        ::unsetenv(("OMPI_COMM_WORLD_" + std::string(name)).c_str());
}

}  // namespace
