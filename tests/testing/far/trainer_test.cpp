// The Trainer over far memory: the bits of threads, whatever order queued work runs in.
#include <gx/testing/far/device.hpp>

#include <algorithm>  // any_of
#include <atomic>     // ranks are threads
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include <gx/model/cifar_resnet.hpp>
#include <gx/optimizer/adamw.hpp>
#include <gx/optimizer/lars.hpp>
#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/double_buffered.hpp>
#include <gx/reducer/multi_ring.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/local_sgd/reducer.hpp>
#include <gx/quantized/reducer.hpp>
#include <gx/top_k/reducer.hpp>
#include <gx/trainer/trainer.hpp>
#include <trainer/small.hpp>

namespace {

using namespace testing_support;
using namespace gx;
using Far = gx::testing::FarWorld<gx::testing::FarDevice<reference::Device>>;
using gx::testing::QueueProgress;

/// A loss scale at which the first gradients overflow.
template <class O>
void overflow(O& o, bool half) {
    if constexpr (requires { o.initial; }) o.initial = o.largest = half ? 0x1p22f : 0x1p127f;
}

template <class T>
class OnFarMemory : public ::testing::Test {};
template <class R, class... Policies>
using Run = Trainer<Net, R, Warmup<Poly<2>>, Policies...>;
using Runs = ::testing::Types<Run<Ring<fp32>>, Run<DoubleBuffered<MultiRing<2, fp16>>>,
                              Run<Bucketed<Ring<fp16>, 64>, AdamW>,
                              Run<DoubleBuffered<Bucketed<Ring<bf16>, 128>>, Lars>,
                              Run<TopK, DynamicLossScale>, Run<DoubleBuffered<Bucketed<TopK, 256>>>,
                              Run<DoubleBuffered<Bucketed<Quantized<8>, 512>>, AdamW>,
                              Run<LocalSgd<Bucketed<Ring<fp32>, 256>, 3>, AdamW>>;
TYPED_TEST_SUITE(OnFarMemory, Runs);

TYPED_TEST(OnFarMemory, WeightsAreThoseOfThreads) {
    const Split data = images();  // 40 images over 3 ranks: uneven tails
    typename TypeParam::Options o{.batch = 4, .epochs = 3, .seed = 3};
    overflow(o.loss_scale, TypeParam::name().find("fp16") != std::string::npos);
    const TypeParam trainer(o);
    auto wall = threads(3);
    const RunRecord expected = trainer.train(wall, data);
    const bool overflows = requires { o.loss_scale.initial; };
    EXPECT_EQ(expected.skipped_steps > 0, overflows);
    for (const QueueProgress progress :
         {QueueProgress::late, QueueProgress::eager, QueueProgress::random})
        for (const std::uint64_t seed : {1, 2, 3}) {
            Far far({{3, 1}, seed, progress});
            expect_same_learning(trainer.train(far, data), expected);
        }
}

// The clock of far memory counts work done, of all ranks: a host that is a step ahead of its device
// takes the device's time, not that of its own calls.
TEST(TimeOnFarMemory, IsThatOfTheDevices) {
    using T = Trainer<Net, DoubleBuffered<Ring<fp32>>, Constant>;
    const Split data = images(80);
    const T trainer({.batch = 4, .epochs = 3, .seed = 3, .evaluate = false});
    const auto seconds_with = [&](QueueProgress progress) {
        Far far({{2, 1}, 1, progress});
        const RunRecord r = trainer.train(far, data);
        double in_epochs = 0;
        for (const EpochRow& e : r.epochs) {
            EXPECT_GT(e.seconds, in_epochs);
            in_epochs = e.seconds;
        }
        for (std::size_t i = 1; i < r.steps.size(); ++i)
            EXPECT_GE(r.steps[i].seconds, r.steps[i - 1].seconds);
        EXPECT_NEAR(r.seconds, in_epochs, 1e-15);
        EXPECT_NEAR(r.seconds,
                    r.breakdown.compute + r.breakdown.exposed_communication + r.breakdown.input +
                        r.breakdown.idle,
                    1e-15);
        return r.seconds;
    };
    // What runs as it is queued is counted where it is queued. The steps are the same; only what an
    // epoch's end leaves in the queues, a few units of hundreds, runs sooner or later.
    const double eager = seconds_with(QueueProgress::eager);
    EXPECT_NEAR(seconds_with(QueueProgress::late), eager, 0.05 * eager);
    EXPECT_NEAR(seconds_with(QueueProgress::random), eager, 0.05 * eager);
}

TEST(TimeOnFarMemory, OfOneRankIsNotCommunicationWhereGradientsAreLate) {
    using Late = Trainer<Net, DoubleBuffered<DoubleBuffered<Ring<fp32>>>, Constant>;
    for (const QueueProgress progress : {QueueProgress::late, QueueProgress::eager}) {
        Far far({{1, 1}, 1, progress});
        const RunRecord r =
            Late({.batch = 4, .seed = 3, .evaluate = false}).train(far, images(24, 0));
        EXPECT_EQ(r.breakdown.exposed_communication, 0);
        EXPECT_GT(r.breakdown.compute, 0);
    }
}

/// The second gradient of rank 1 is not finite.
struct OverflowsOnRankOne : reference::Device {
    OverflowsOnRankOne(const Graph& graph, DeviceOptions options)
        : Device(graph, options), on_rank_one(options.rank == 1) {}
    void backward(float scale, std::span<float> gradients, GradientsReady ready) {
        Device::backward(scale, gradients, [](std::size_t) {});
        if (on_rank_one && ++calls == 2) gradients[0] = std::numeric_limits<float>::infinity();
        ready(0);
    }
    bool on_rank_one;
    int calls = 0;
};
// Ranks descend apart, skip their own overflows, and average what they have come to.
TEST(LocalSgdOnFarMemory, HasTheWeightsOfThreadsWhateverBecomesOfTheState) {
    using T = Trainer<Net, LocalSgd<MultiRing<2, fp16>, 2>, Warmup<Poly<2>>, AdamW>;
    const Split data = images();
    auto wall = threads<OverflowsOnRankOne>(3);
    auto right = threads(3);
    for (const LocalState state : {LocalState::kept, LocalState::averaged, LocalState::reset}) {
        const T trainer({.batch = 4, .epochs = 2, .seed = 3, .reducer = {.state = state}});
        const RunRecord expected = trainer.train(wall, data);
        EXPECT_NE(expected.weights_hash, trainer.train(right, data).weights_hash);
        for (const QueueProgress progress :
             {QueueProgress::late, QueueProgress::eager, QueueProgress::random}) {
            gx::testing::FarWorld<gx::testing::FarDevice<OverflowsOnRankOne>> far(
                {{3, 1}, 7, progress});
            expect_same_learning(trainer.train(far, data), expected);
        }
    }
}

/// Counts the batches that it is given.
struct CountsLoads : gx::testing::FarDevice<reference::Device> {
    using Inner = reference::Device;
    using FarDevice::FarDevice;
    void load(const Batch& batch) {
        ++loads;
        FarDevice::load(batch);
    }
    static inline std::atomic<int> loads = 0;
};
TEST(MicroBatchesOnFarMemory, AreLoadedOnce) {
    using T = Trainer<Net, Ring<fp32>, Constant>;
    T::Options o{.batch = 4, .epochs = 1, .evaluate = false};
    o.micro_batches = 2;
    gx::testing::FarWorld<CountsLoads> far({{2, 1}, 1, QueueProgress::late});
    CountsLoads::loads = 0;
    EXPECT_EQ(T(o).train(far, images()).steps.size(), 5u);
    EXPECT_EQ(CountsLoads::loads, 2 * 5 * 2) << "ranks, steps, parts";
}

/// One rank that names what is taken of its memory.
struct NamingRank : gx::testing::FarRank<gx::testing::FarDevice<reference::Device>> {
    struct Names : MemoryResource {
        [[nodiscard]] std::byte* allocate(std::size_t bytes, const Label& name) override {
            all.emplace_back(name.view());
            return under->allocate(bytes, name);
        }
        void release(std::byte* memory, std::size_t bytes) noexcept override {
            under->release(memory, bytes);
        }
        [[nodiscard]] const void* memory() const override { return under->memory(); }
        MemoryResource* under = nullptr;
        static inline std::vector<std::string> all;
    };
    NamingRank(gx::testing::FarMachine& machine, int rank) : FarRank(machine, rank) {
        names.under = &FarRank::memory();
    }
    [[nodiscard]] MemoryResource& memory() { return names; }
    Names names;
};
struct NamingWorld {
    using Rank = NamingRank;
    [[nodiscard]] int ranks() const { return 1; }
    [[nodiscard]] Placement placement() const { return {1, 1}; }
    void run(FunctionRef<void(Rank&)> f) const {
        gx::testing::FarMachine machine(placement(), 1, QueueProgress::late);
        machine.run([&](int r) {
            Rank rank(machine, r);
            f(rank);
        });
    }
};
TEST(MicroBatchesOnFarMemory, AloneHaveASumOfTheirGradients) {
    using T = Trainer<Net, Ring<fp32>, Constant>;
    const auto sums = [](int micro_batches) {
        T::Options o{.batch = 4, .epochs = 1, .evaluate = false};
        o.micro_batches = micro_batches;
        NamingWorld world;
        NamingRank::Names::all.clear();
        (void)T(o).train(world, images());
        return std::ranges::count(NamingRank::Names::all, "sum of micro-batches");
    };
    EXPECT_EQ(sums(1), 0);
    EXPECT_EQ(sums(2), 1);
}

// A gradient that is applied behind the last step has no row: only the count shows its overflow.
TEST(LastGradient, ThatOverflowsIsCounted) {
    using T = Trainer<Net, DoubleBuffered<Ring<fp16>>, Warmup<Poly<2>>>;
    const Split data = images();
    auto wall = threads(3);
    for (float initial = 1; initial < 0x1p30f; initial *= 2) {  // it doubles with each step
        const T trainer({.batch = 4,
                         .epochs = 1,
                         .seed = 3,
                         .loss_scale = {.initial = initial, .growth_interval = 1}});
        const RunRecord expected = trainer.train(wall, data);
        const auto skipped = [](const StepRow& row) { return row.skipped; };
        if (expected.skipped_steps != 1 || std::ranges::any_of(expected.steps, skipped)) continue;
        for (const QueueProgress progress : {QueueProgress::late, QueueProgress::random}) {
            Far far({{3, 1}, 1, progress});
            expect_same_learning(trainer.train(far, data), expected);
        }
        return;
    }
    FAIL() << "in no run did the last gradient alone overflow";
}

// ---- Runs that end early ---------------------------------------------------------------

/// The image of one call is not a number.
struct Spoiled : reference::Device {
    using reference::Device::Device;
    static inline int call = 0;
    int calls = 0;
    ForwardReport forward(const Batch& batch, Mode mode) {
        if (++calls != call) return reference::Device::forward(batch, mode);
        std::vector<float> images(batch.images.begin(), batch.images.end());
        images[0] = std::numeric_limits<float>::quiet_NaN();
        return reference::Device::forward({images, batch.labels, batch.count, batch.draw}, mode);
    }
};
TEST(EarlyEnds, NameTheStepAndLayerOfABadLoss) {
    using T = Trainer<Net, DoubleBuffered<Ring<fp32>>, Constant>;
    const T trainer({.batch = 4, .epochs = 1, .seed = 3});
    const Split data = images(80);
    const auto error_on = [&](auto& world) {
        return error_of([&] { (void)trainer.train(world, data); }).substr(6);  // "rank r"
    };
    for (const int step : {4, 0}) {
        Spoiled::call = step + 1;
        auto wall = threads<Spoiled>(2);
        const std::string expected = error_on(wall);
        EXPECT_TRUE(holds(expected, ", step " + std::to_string(step) + ": the loss is not finite",
                          "outputs of input 'input'"));
        for (const QueueProgress progress :
             {QueueProgress::late, QueueProgress::eager, QueueProgress::random})
            for (const std::uint64_t seed : {1, 2, 3}) {
                gx::testing::FarWorld<gx::testing::FarDevice<Spoiled>> far(
                    {{2, 1}, seed, progress});
                EXPECT_EQ(error_on(far), expected);
            }
    }
}

struct Lost : gx::EndsRank {};
thread_local bool is_lost = false;
thread_local int calls = 0;
/// On some ranks, its fourth update ends in an exception.
struct Losing {
    struct Options {
        float peak_rate = 0.1f;
    };
    [[maybe_unused]] static constexpr std::string_view name = "Losing";
    explicit Losing(Options o) : options(o) {}
    [[nodiscard]] float rate(Step t) const {
        if (is_lost && t == 3 && ++calls == 2) throw Lost{};  // with work queued
        return options.peak_rate;
    }
    Options options;
};
/// Ranks that are lost leave without an error, as a process that is killed does.
struct LosesRanks : Far {
    using Far::Far;
    void run(FunctionRef<void(Rank&)> f) {
        Far::run([&](Rank& rank) {
            is_lost = rank.rank() == 1;
            try {
                f(rank);
            } catch (const Lost&) {
            }
        });
    }
};
template <class T>
void expect_lost_rank_is_named() {
    const T trainer({.batch = 4, .epochs = 3, .seed = 3});
    for (const QueueProgress progress :
         {QueueProgress::late, QueueProgress::eager, QueueProgress::random})
        for (const std::uint64_t seed : {1, 2, 3}) {
            LosesRanks far({{3, 1}, seed, progress});
            const std::string error = error_of([&] { (void)trainer.train(far, images(80)); });
            EXPECT_TRUE(holds(error, "operation all-reduce: rank 1 "));
        }
}
TEST(EarlyEnds, NameALostRank) {
    expect_lost_rank_is_named<Trainer<Net, Ring<fp32>, Losing>>();
    expect_lost_rank_is_named<Trainer<Net, DoubleBuffered<Bucketed<TopK, 256>>, Losing>>();
}

/// Can't load the fourth batch, when the third update is queued.
struct Stumbling : gx::testing::FarDevice<reference::Device> {
    using FarDevice::FarDevice;
    void load(const Batch& batch) {
        if (++loads == 4) throw Error("enough");
        FarDevice::load(batch);
    }
    int loads = 0;
};
// What is queued refers to memory of the run, which waits for it before it goes.
TEST(EarlyEnds, WaitForWhatIsQueued) {
    const Trainer<Net, Ring<fp32>, Constant> trainer({.batch = 4, .epochs = 3});
    for (const QueueProgress progress :
         {QueueProgress::late, QueueProgress::eager, QueueProgress::random})
        for (const std::uint64_t seed : {1, 2, 3}) {
            gx::testing::FarWorld<Stumbling> far({{3, 1}, seed, progress});
            const std::string error = error_of([&] { (void)trainer.train(far, images(80)); });
            EXPECT_TRUE(holds(error, "enough")) << error;
            EXPECT_FALSE(holds(error, "still queued")) << error;
        }
}

/// Rank 1 leaves before it takes part in the reduction of gradient `leaves_at`.
std::uint64_t leaves_at = 0;
template <class R>
struct Leaving : R {
    using R::R;
    ReduceReport all_reduce(auto& link, const auto& bucket) {
        if (link.rank() == 1 && bucket.gradient == leaves_at) throw Lost{};
        return R::all_reduce(link, bucket);
    }
};
/// As on a host, where the reduction of a gradient says what became of it.
template <class R>
void expect_the_gradients_own_step() {
    using T = Trainer<Net, Leaving<R>, Constant>;
    for (leaves_at = 0; leaves_at < 8; ++leaves_at)  // epochs end behind 3 and 7
        for (const QueueProgress progress :
             {QueueProgress::late, QueueProgress::eager, QueueProgress::random}) {
            LosesRanks far({{3, 1}, 1, progress});
            const std::string error = error_of(
                [&] { (void)T({.batch = 4, .epochs = 2, .seed = 3}).train(far, images()); });
            EXPECT_TRUE(holds(error, ", step " + std::to_string(leaves_at) + ", ",
                              "operation all-reduce: rank 1 "))
                << error;
        }
}
TEST(EarlyEnds, NameTheGradientThatARankIsMissingFrom) {
    expect_the_gradients_own_step<Ring<fp32>>();
    expect_the_gradients_own_step<DoubleBuffered<Ring<fp32>>>();
    expect_the_gradients_own_step<DoubleBuffered<DoubleBuffered<Bucketed<Ring<fp16>, 64>>>>();
}

/// One run writes checkpoints on either world; each is resumed on the other.
template <class T>
void expect_checkpoints_of_threads(typename T::Options o) {
    const Folder here, there;
    const Split data = images();
    auto wall = threads(3);
    o.output = here.path;
    const RunRecord whole = T(o).train(wall, data);
    for (const QueueProgress progress :
         {QueueProgress::late, QueueProgress::eager, QueueProgress::random}) {
        o.output = there.path;
        o.resume.clear();
        Far far({{3, 1}, 5, progress});
        expect_same_learning(T(o).train(far, data), whole);
        const Graph graph = gx::graph<Net>({.input = {1, 4, 4}, .classes = 3});
        for (const char* name : {"epoch-0001.safetensors", "epoch-0002.safetensors"}) {
            const auto a = read_checkpoint(here / name, graph),
                       b = read_checkpoint(there / name, graph);
            EXPECT_EQ(a.parameters, b.parameters);
            EXPECT_EQ(a.statistics, b.statistics);
            EXPECT_EQ(a.optimizer, b.optimizer);
            EXPECT_EQ(a.pending.size(), b.pending.size());
            EXPECT_EQ(a.reducer.size(), b.reducer.size());
            for (std::size_t i = 0; i < a.reducer.size(); ++i)
                EXPECT_EQ(a.reducer[i].ranks, b.reducer[i].ranks);
            o.output.clear();
            o.resume = here / name;
            expect_same_learning(T(o).train(far, data), whole);
            o.resume = there / name;
            expect_same_learning(T(o).train(wall, data), whole);
        }
    }
}
TYPED_TEST(OnFarMemory, CheckpointsAreThoseOfThreads) {
    typename TypeParam::Options o{.batch = 4, .epochs = 3, .seed = 3};
    overflow(o.loss_scale, TypeParam::name().find("fp16") != std::string::npos);
    expect_checkpoints_of_threads<TypeParam>(o);
}
// The mean of the state is queued behind that of the parameters, and read by nothing but these.
TEST(LocalSgdOnFarMemory, HasTheCheckpointsOfThreads) {
    using T = Trainer<Net, LocalSgd<Bucketed<Ring<fp32>, 256>, 2>, Warmup<Poly<2>>, AdamW>;
    for (const LocalState state : {LocalState::averaged, LocalState::reset})
        expect_checkpoints_of_threads<T>(
            {.batch = 4, .epochs = 3, .seed = 3, .reducer = {.state = state}});
}

}  // namespace
