// Compute<E> in a Trainer: its place, its loss scale, its bits in every world, resuming.
#include <gx/trainer/trainer.hpp>

#include <cmath>   // ldexp
#include <mutex>   // ranks are threads
#include <string>  // sentences
#include <vector>  // weights

#include <gtest/gtest.h>

#include <gx/local_sgd/reducer.hpp>               // LocalSgd: ranks that update apart
#include <gx/model/compute.hpp>                   // Compute
#include <gx/model/layers.hpp>                    // Network: with batch norm
#include <gx/onednn/device.hpp>                   // a device in fp32
#include <gx/optimizer/adamw.hpp>                 // AdamW
#include <gx/reducer/bucketed.hpp>                // Bucketed
#include <gx/reducer/double_buffered.hpp>         // DoubleBuffered
#include <gx/reducer/multi_ring.hpp>              // MultiRing
#include <gx/reducer/ring.hpp>                    // Ring
#include <gx/sharded/reducer.hpp>                 // Sharded: parameters that come from other ranks
#include <gx/sim/catalog/find_gpu.hpp>            // find_gpu
#include <gx/sim/catalog/simple_clusters.hpp>     // ethernet_10g
#include <gx/sim/world/cluster.hpp>               // Cluster
#include <gx/sim/world/device.hpp>                // Device
#include <gx/survival/continue_on_survivors.hpp>  // ContinueOnSurvivors
#include <gx/testing/far/device.hpp>              // FarDevice
#include <gx/testing/far/world.hpp>               // FarWorld
#include <gx/trainer/json.hpp>                    // to_json
#include <trainer/small.hpp>                      // images, threads

namespace {

using namespace testing_support;
using namespace gx;
using SimDevice = sim::Device<reference::Device>;
using Cluster = sim::Cluster<reference::Device>;
using FarDevice = gx::testing::FarDevice<reference::Device>;
using Far = gx::testing::FarWorld<FarDevice>;
using gx::testing::QueueProgress;

/// Convolution, batch norm, linear.
struct Normed : Network<ImageShape{1, 4, 4}, 3, Conv<4, 3, 1, 1>, BatchNorm, ReLU, GlobalAvgPool,
                        Classifier> {
    static constexpr std::string_view name = "Normed";
};
template <class... Policies>
using Plain = Trainer<Net, Ring<fp32>, Constant, Policies...>;

Cluster cluster(int ranks, sim::Precision timed = sim::Precision::mixed) {
    return Cluster(sim::ethernet_10g(ranks), {.compute = timed});
}

// ---- What the types promise ---------------------------------------------------------

template <class R, class... Policies>
using default_scale = detail::trainer::loss_scale_of<R, Policies...>;
template <class R, class... Policies>
constexpr bool scales = std::same_as<default_scale<R, Policies...>, DynamicLossScale>;

static_assert(scales<Ring<fp32>, Compute<fp16>>, "the device underflows");
static_assert(scales<Ring<fp16>, Compute<fp16>> && scales<Ring<fp16>, Compute<bf16>>, "the wire");
static_assert(scales<Ring<fp16>> && scales<Ring<fp16>, Compute<fp32>>, "as before");
static_assert(!scales<Ring<fp32>> && !scales<Ring<bf16>, Compute<bf16>>, "the exponents of fp32");
static_assert(!scales<LocalSgd<Ring<fp32>, 2>, Compute<fp16>>, "each rank would learn another");
static_assert(
    std::same_as<default_scale<Ring<fp32>, StaticLossScale, Compute<fp16>>, StaticLossScale>,
    "one that is named stays");

static_assert(std::same_as<detail::trainer::compute_of<AdamW, Compute<bf16>, StaticLossScale>,
                           Compute<bf16>>);
static_assert(std::same_as<detail::trainer::compute_of<AdamW>, Compute<fp32>>);

// Worlds in which a device is another's compute as that does.
static_assert(computes_in<SimDevice, bf16> && computes_in<FarDevice, fp16>);
static_assert(computes_in<SimDevice, tf32> && computes_in<FarDevice, tf32> &&
              !computes_in<onednn::Device, tf32>);
static_assert(!scales<Ring<fp32>, Compute<tf32>>, "it has the exponents of fp32");
struct NoHalves : onednn::Device {
    using Device::Device;
    template <class E>
    static constexpr bool computes = onednn::Device::computes<E> && !std::same_as<E, fp16>;
};
static_assert(computes_in<onednn::Device, bf16> && computes_in<onednn::Device, fp16>);
static_assert(computes_in<NoHalves, bf16> && !computes_in<NoHalves, fp16>);
static_assert(computes_in<sim::Device<NoHalves>, bf16> &&
              !computes_in<sim::Device<NoHalves>, fp16>);
static_assert(!computes_in<gx::testing::FarDevice<NoHalves>, fp16>);

TEST(ComputeOfATrainer, IsInItsNameUnlessItIsTheDefault) {
    EXPECT_EQ(Plain<>::name(), "Trainer<Mlp<5>, Ring<fp32>, Constant>");
    EXPECT_EQ(Plain<Compute<fp32>>::name(), Plain<>::name());
    EXPECT_EQ(Plain<Compute<bf16>>::name(), "Trainer<Mlp<5>, Ring<fp32>, Constant, Compute<bf16>>");
    EXPECT_EQ((Plain<Compute<fp16>>::name()),
              "Trainer<Mlp<5>, Ring<fp32>, Constant, Compute<fp16>>")
        << "its loss scale follows from it";
    EXPECT_EQ(Plain<Compute<tf32>>::name(), "Trainer<Mlp<5>, Ring<fp32>, Constant, Compute<tf32>>");
    EXPECT_EQ((Plain<ContinueOnSurvivors, Compute<fp16>, AdamW, StaticLossScale>::name()),
              "Trainer<Mlp<5>, Ring<fp32>, Constant, AdamW, StaticLossScale, Compute<fp16>, "
              "ContinueOnSurvivors>");
}

// ---- The same bits in every world ---------------------------------------------------

template <class T>
class ComputeInEveryWorld : public ::testing::Test {};
using Runs = ::testing::Types<
    Plain<Compute<bf16>>, Plain<Compute<fp16>>,
    Trainer<Normed, DoubleBuffered<MultiRing<2, fp16>>, Warmup<Poly<2>>, Compute<bf16>>,
    Trainer<Normed, Bucketed<Ring<bf16>, 64>, Warmup<Poly<2>>, AdamW, Compute<fp16>>>;
TYPED_TEST_SUITE(ComputeInEveryWorld, Runs);

TYPED_TEST(ComputeInEveryWorld, BitsAreTheSame) {
    const Split data = images();  // 40 images over 3 ranks: uneven tails
    const TypeParam trainer({.batch = 4, .epochs = 2, .seed = 3});
    auto wall = threads(3);
    auto virtual_time = cluster(3);
    const RunRecord a = trainer.train(wall, data);
    expect_same_learning(trainer.train(virtual_time, data), a);
    for (const std::uint64_t seed : {1, 2}) {
        Far far({{3, 1}, seed, QueueProgress::random});
        expect_same_learning(trainer.train(far, data), a);
    }
    EXPECT_LT(a.epochs.back().train_loss, a.epochs.front().train_loss);
    EXPECT_EQ(a.composition, TypeParam::name());
    EXPECT_TRUE(holds(to_json(a), a.composition, "Compute<"));
}
TEST(ComputeInTf32, BitsAreTheSameInEveryWorld) {
    const Split data = images();
    const Plain<Compute<tf32>> trainer({.batch = 4, .epochs = 2, .seed = 3});
    auto wall = threads(3);
    const RunRecord a = trainer.train(wall, data);
    sim::ClusterSpec spec = sim::ethernet_10g(3);
    spec.machine.gpu = sim::find_gpu("A100");
    Cluster virtual_time(spec, {.compute = sim::Precision::tf32});
    expect_same_learning(trainer.train(virtual_time, data), a);
    Far far({{3, 1}, 1, QueueProgress::random});
    expect_same_learning(trainer.train(far, data), a);
    const RunRecord exact = Plain<>({.batch = 4, .epochs = 2, .seed = 3}).train(wall, data);
    EXPECT_NE(a.weights_hash, exact.weights_hash);
    EXPECT_NEAR(a.epochs.back().train_loss, exact.epochs.back().train_loss, 0.01);
}
TEST(ComputeInOneWorld, BitsDifferBetweenElements) {
    const Split data = images();
    auto world = threads(2);
    const auto hash = [&]<class T>(const T& trainer) {
        return trainer.train(world, data).weights_hash;
    };
    const std::uint64_t plain = hash(Plain<>({.batch = 4}));
    EXPECT_EQ(hash(Plain<Compute<fp32>>({.batch = 4})), plain);
    const std::uint64_t half = hash(Plain<Compute<fp16>>({.batch = 4})),
                        brain = hash(Plain<Compute<bf16>>({.batch = 4}));
    EXPECT_NE(half, plain);
    EXPECT_NE(brain, plain);
    EXPECT_NE(brain, half);
}
TEST(ComputeInOneWorld, AReducerThatOwnsTheUpdateRefreshesTheCopyToo) {
    using Owned = Trainer<Net, Sharded<Ring<fp32>>, Constant, Compute<bf16>>;
    const Split data = images();
    auto wall = threads(2);
    auto virtual_time = cluster(2);
    const RunRecord a = Owned({.batch = 4, .epochs = 2}).train(wall, data);
    expect_same_learning(Owned({.batch = 4, .epochs = 2}).train(virtual_time, data), a);
    // Two ranks add alike in a ring and in its halves.
    EXPECT_EQ(Plain<Compute<bf16>>({.batch = 4, .epochs = 2}).train(wall, data).weights_hash,
              a.weights_hash);
}
/// Rank 1 loses its device in its third pass. Notes what each device computes in.
struct Mortal : reference::Device {
    Mortal(const Graph& graph, DeviceOptions o) : reference::Device(graph, o), rank(o.rank) {
        const std::lock_guard lock(mutex);
        made.push_back(o.compute);
    }
    ForwardReport forward(const Batch& batch, Mode mode) {
        if (rank == 1 && ++passes == 3) throw DeviceLost("the device of a rank is gone");
        return reference::Device::forward(batch, mode);
    }
    static inline std::mutex mutex{};
    static inline std::vector<ElementType> made{};
    int rank = 0, passes = 0;
};
TEST(ComputeInOneWorld, IsThatOfTheWorldAfterALossToo) {
    Mortal::made.clear();
    auto world = threads<Mortal>(2);
    const RunRecord r =
        Plain<Compute<bf16>, ContinueOnSurvivors>({.batch = 4}).train(world, images());
    EXPECT_EQ(r.losses.size(), 1u);
    EXPECT_EQ(Mortal::made, std::vector<ElementType>(3, ElementType::bf16));
}

// ---- Loss scaling -------------------------------------------------------------------

// A scale of 2^22 on 8 images: gradients of the logits of up to 2^22 / 8 pass 65504 and become
// infinite in fp16, and with them those of weights. Each such step is skipped and halves the scale.
TEST(ComputeInFp16, SkipsStepsThatOverflowAndHalvesTheScale) {
    const Split data = images(80);
    auto world = threads(2);
    const RunRecord r =
        Plain<Compute<fp16>>(
            {.batch = 4, .epochs = 3, .loss_scale = {.initial = 0x1p22f, .largest = 0x1p22f}})
            .train(world, data);
    ASSERT_GT(r.skipped_steps, 3);
    double scale = 0x1p22;
    for (const StepRow& row : r.steps) {
        EXPECT_EQ(row.loss_scale, scale) << row.step;
        if (row.skipped) scale /= 2;
    }
    EXPECT_EQ(scale, std::ldexp(1.0, 22 - int(r.skipped_steps)));
    EXPECT_TRUE(r.steps.front().skipped);
    EXPECT_FALSE(r.steps.back().skipped);
    EXPECT_LT(r.epochs.back().train_loss, r.epochs.front().train_loss);
    // bf16 has the exponents of fp32: the same scale loses nothing.
    const RunRecord b = Plain<Compute<bf16>, DynamicLossScale>(
                            {.batch = 4, .loss_scale = {.initial = 0x1p22f, .largest = 0x1p22f}})
                            .train(world, data);
    EXPECT_EQ(b.skipped_steps, 0);
}
TEST(ComputeInFp16, SaysThatADeviceInFp16MayBeWhyAllStepsAreSkipped) {
    auto world = threads(2);
    const std::string error = error_of([&] {
        (void)Plain<Compute<fp16>, StaticLossScale>({.batch = 4, .loss_scale = {.factor = 0x1p60f}})
            .train(world, images());
    });
    EXPECT_TRUE(holds(error, "skipped, because averaged gradients had infinities or NaN",
                      "compute in bf16 or fp32 in place of fp16"));
}
/// Gradients below the least number of fp16: without a scale there is nothing to learn from.
TEST(ComputeInFp16, KeepsSmallGradientsByItsScale) {
    const Split data = images();
    auto world = threads(2);
    const auto initial = [&](float scale) {
        return Plain<Compute<fp16>, StaticLossScale>({.batch = 4, .loss_scale = {.factor = scale}})
            .train(world, data)
            .weights_hash;
    };
    // Powers of two above underflow and below overflow change few bits or none; 2^-30 loses all.
    const std::uint64_t none = initial(0x1p-30f);
    EXPECT_NE(initial(0x1p10f), none);
    EXPECT_EQ(initial(0x1p-31f), none);
}

// ---- Resuming -----------------------------------------------------------------------

TEST(ComputeResumed, EqualsARunWithoutAStop) {
    using T = Trainer<Normed, DoubleBuffered<Ring<fp16>>, Warmup<Poly<2>>, Compute<bf16>>;
    const Folder folder;
    auto world = threads(2);
    typename T::Options o{.batch = 4, .epochs = 4, .output = folder.path};
    const RunRecord whole = T(o).train(world, images());
    o.output.clear();
    for (const char* name : {"epoch-0001.safetensors", "epoch-0003.safetensors"}) {
        o.resume = folder / name;
        expect_same_learning(T(o).train(world, images()), whole);
    }
    // What a checkpoint keeps are the master weights: most have more digits than bf16.
    const auto kept =
        read_checkpoint(folder / "epoch-0004.safetensors", graph<Normed>()).parameters;
    int beyond = 0;
    for (const float x : kept) beyond += bf16::decode(bf16::encode(x)) != x;
    EXPECT_GT(2 * beyond, std::ssize(kept));
}
TEST(ComputeResumed, UnderAnotherElementIsRefused) {
    const Folder folder;
    auto world = threads(2);
    (void)Plain<Compute<bf16>>({.batch = 4, .output = folder.path}).train(world, images());
    const auto error = [&]<class T>(const T&) {
        return error_of([&] {
            (void)T({.batch = 4, .epochs = 2, .resume = folder / "epoch-0001.safetensors"})
                .train(world, images());
        });
    };
    EXPECT_TRUE(holds(error(Plain<>()), "Trainer<Mlp<5>, Ring<fp32>, Constant, Compute<bf16>>",
                      "Trainer<Mlp<5>, Ring<fp32>, Constant>", "composition that wrote it"));
    EXPECT_TRUE(holds(error(Plain<Compute<fp16>>()), "Compute<fp16>", "composition that wrote it"));
    EXPECT_EQ(error(Plain<Compute<bf16>>()), "no error");
}

// ---- The simulated clock ------------------------------------------------------------

TEST(ComputeSimulated, IsTimedInMixedPrecisionOrRefused) {
    const auto run = [&]<class T>(const T&, sim::Precision timed) {
        auto world = cluster(2, timed);
        return error_of([&] { (void)T({.batch = 4}).train(world, images()); });
    };
    using sim::Precision;
    EXPECT_EQ(run(Plain<Compute<bf16>>(), Precision::mixed), "no error");
    EXPECT_TRUE(holds(run(Plain<Compute<bf16>>(), Precision::fp32),
                      "devices compute in bf16, and this cluster times kernels in fp32. Fix: "
                      "ClusterOptions{.compute = sim::Precision::mixed}"));
    EXPECT_TRUE(holds(run(Plain<Compute<fp16>>(), Precision::tf32), "compute in fp16", "in tf32"));
    EXPECT_TRUE(holds(run(Plain<Compute<tf32>>(), Precision::mixed),
                      "devices compute in tf32, and this cluster times kernels in mixed. Fix: "
                      "ClusterOptions{.compute = sim::Precision::tf32}"));
    EXPECT_TRUE(holds(run(Plain<Compute<tf32>>(), Precision::tf32), "V100",
                      "has no tensor cores for tf32, which begins with Ampere"));
    for (const Precision timed : {Precision::fp32, Precision::mixed, Precision::tf32})
        EXPECT_EQ(run(Plain<>(), timed), "no error") << "only the clock knows";
}

}  // namespace
