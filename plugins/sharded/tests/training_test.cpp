// Sharded in a Trainer: the weights of what it wraps, a shard of the optimizer's state, resumed.
#include <gx/sharded/reducer.hpp>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <limits>

#include <gx/optimizer/adamw.hpp>
#include <gx/optimizer/clip_by_global_norm.hpp>
#include <gx/optimizer/lamb.hpp>
#include <gx/optimizer/lars.hpp>
#include <gx/optimizer/sgd.hpp>
#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/multi_ring.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/reference/device.hpp>
#include <gx/sim/catalog/simple_clusters.hpp>
#include <gx/sim/compute/gpu_memory.hpp>
#include <gx/sim/race/monitor.hpp>
#include <gx/sim/world/cluster.hpp>
#include <gx/sim/world/device.hpp>
#include <gx/testing/processes.hpp>
#include <gx/trainer/trainer.hpp>
#include <testing/processes_run.hpp>
#include <trainer/small.hpp>

namespace {

using namespace testing_support;
using gx::Bucketed;
using gx::fp16;
using gx::fp32;
using gx::MultiRing;
using gx::Ring;
using gx::Sharded;

template <class R, class O = gx::Sgd>
using By = gx::Trainer<EveryRole, R, gx::Constant, O>;

template <class T>
typename T::Options options() {
    typename T::Options o{.batch = 3, .epochs = 3, .seed = 7, .scheduler = {.peak_rate = 0.125f}};
    if constexpr (requires { o.loss_scale.growth_interval; })
        o.loss_scale = {.initial = 0x1p20f, .growth_interval = 3};
    return o;
}

// ---- The weights of what it wraps, bit for bit -----------------------------------------
template <class R, class O>
struct Pair {
    using Whole = By<R, O>;
    using Shards = By<Sharded<R>, O>;
};
template <class P>
class SameWeights : public ::testing::Test {};
using Pairs = ::testing::Types<
    Pair<Ring<fp32>, gx::Sgd>, Pair<Ring<fp16>, gx::Sgd>, Pair<Ring<gx::bf16>, gx::AdamW>,
    Pair<Ring<fp32>, gx::ClipByGlobalNorm<gx::AdamW>>, Pair<Ring<fp32>, gx::Lars>,
    Pair<Bucketed<MultiRing<2, fp16>, 64>, gx::Lamb>, Pair<Bucketed<Ring<fp32>, 100>, gx::Sgd>>;
TYPED_TEST_SUITE(SameWeights, Pairs);

TYPED_TEST(SameWeights, OnAnyNumberOfRanks) {
    for (const int ranks : {1, 2, 3, 5}) {
        auto world = threads(ranks);
        using Whole = typename TypeParam::Whole;
        using Shards = typename TypeParam::Shards;
        const auto whole = Whole(options<Whole>()).train(world, images());
        const auto shards = Shards(options<Shards>()).train(world, images());
        expect_same_learning(shards, whole);
    }
}
TEST(Sharded, StepsThatOverflowAreAmongThoseCompared) {
    auto world = threads(2);
    using T = By<Sharded<Ring<fp16>>>;
    const auto r = T(options<T>()).train(world, images());
    EXPECT_GT(r.skipped_steps, 1);
    EXPECT_LT(r.skipped_steps, std::ssize(r.steps));
}
TEST(Sharded, TheClusterTrainsToTheSameWeights) {
    using T = By<Sharded<Bucketed<MultiRing<2, fp16>, 64>>, gx::Lars>;
    auto world = threads(3);
    gx::sim::Cluster<gx::reference::Device> cluster(gx::sim::ethernet_10g(3),
                                                    {.detect_races = true});
    expect_same_learning(T(options<T>()).train(cluster, images()),
                         T(options<T>()).train(world, images()));
}
using ShardedOnProcesses = WithProcesses;
TEST_F(ShardedOnProcesses, TrainToTheSameWeights) {
    using T = By<Sharded<Ring<fp16>>, gx::AdamW>;
    auto world = threads(3);
    gx::testing::Processes<3, gx::reference::Device> processes;
    expect_same_learning(T(options<T>()).train(processes, images()),
                         T(options<T>()).train(world, images()));
}

// ---- A step is skipped on all ranks, or on none ----------------------------------------

/// Sharded<Ring>, of which one rank's shard overflows in gradient 4.
template <class R>
struct OverflowsInOneShard : Sharded<R> {
    using Sharded<R>::Sharded;
    gx::ReduceReport all_reduce(gx::Transport auto& link, const gx::Bucket& bucket) {
        const auto done = Sharded<R>::all_reduce(link, bucket);
        if (bucket.gradient == 4 && link.rank() == 1)
            bucket[std::size_t(this->updated_by(1).front().begin)] =
                std::numeric_limits<float>::infinity();
        return done;
    }
};
TEST(Sharded, AShardThatOverflowsSkipsTheStepEverywhere) {
    using T = By<OverflowsInOneShard<Ring<fp32>>>;
    auto world = threads(3);
    const auto r = T(options<T>()).train(world, images());
    EXPECT_EQ(r.skipped_steps, 1);
    EXPECT_TRUE(r.steps[4].skipped);
}

// ---- Seeded bugs: replicas that differ are found at the end of the epoch --------------------
template <class R>
struct KeepsItsShard : Sharded<R> {
    using Sharded<R>::Sharded;
    gx::ReduceReport updated(gx::Transport auto&, const gx::OwnedUpdate&) { return {}; }
};
template <class R>
struct UpdatesTheNeighboursShard : Sharded<R> {
    using Sharded<R>::Sharded;
    [[nodiscard]] std::vector<gx::ChunkRange> updated_by(int rank) const {
        return Sharded<R>::updated_by((rank + 1) % 3);
    }
};
template <class R>
struct AppliesItsOwnGradient : Sharded<R> {
    using Sharded<R>::Sharded;
    gx::ReduceReport all_reduce(gx::Transport auto&, const gx::Bucket&) { return {}; }
};
template <class R>
std::string trouble() {
    auto world = threads(3);
    return error_of([&] { (void)By<R>(options<By<R>>()).train(world, images()); });
}
template <class R>
std::uint64_t weights() {
    auto world = threads(3);
    return By<R>(options<By<R>>()).train(world, images()).weights_hash;
}
TEST(Sharded, MutantsAreFound) {
    const std::uint64_t right = weights<Ring<fp32>>();
    EXPECT_TRUE(holds(trouble<KeepsItsShard<Ring<fp32>>>(), "differ"));
    EXPECT_EQ(weights<Sharded<Ring<fp32>>>(), right);
    EXPECT_NE(weights<UpdatesTheNeighboursShard<Ring<fp32>>>(), right);
    EXPECT_NE(weights<AppliesItsOwnGradient<Ring<fp32>>>(), right);
}

// ---- The optimizer's state is that of a shard -------------------------------------------

/// Sgd that counts the elements that it is reserved for.
struct Counted : gx::Sgd {
    struct Options {};
    static inline std::atomic<std::int64_t> elements = 0, largest = 0;
    explicit Counted(Options = {}) : Sgd(Sgd::Options{}) {}
    void reserve(std::size_t count, std::span<const gx::ParameterSlice> slices,
                 const gx::Graph& graph) {
        Sgd::reserve(count, slices, graph);
        elements += std::int64_t(count);
        std::int64_t seen = largest;
        while (seen < std::int64_t(count) && !largest.compare_exchange_weak(seen, count)) {
        }
    }
};
TEST(Sharded, ReservesTheStateOfItsShardAlone) {
    const std::int64_t all = gx::graph<EveryRole>().parameter_elements();
    auto world = threads(4);
    const auto reserved = [&]<class T>(T trainer) {
        Counted::elements = Counted::largest = 0;
        (void)trainer.train(world, images());
        return std::pair<std::int64_t, std::int64_t>(Counted::elements, Counted::largest);
    };
    using Whole = By<Ring<fp32>, Counted>;
    using Shards = By<Sharded<Bucketed<Ring<fp32>, 128>>, Counted>;
    static_assert(gx::Elementwise<Counted>);
    EXPECT_EQ(reserved(Whole(options<Whole>())), std::pair(4 * all, all));
    const auto [elements, largest] = reserved(Shards(options<Shards>()));
    EXPECT_EQ(elements, all);
    EXPECT_LE(largest, (all + 3) / 4 + 4) << "at most one more for each of 4 buckets";
}
TEST(Sharded, FitsWhereTheWholeStateDoesNot) {
    const auto graph = gx::graph<EveryRole>();
    auto spec = gx::sim::ethernet_10g(4);
    using Whole = By<Ring<fp32>, gx::AdamW>;
    using Shards = By<Sharded<Ring<fp32>>, gx::AdamW>;
    const auto o = options<Whole>();
    spec.machine.gpu.memory =
        gx::sim::memory_need(graph, o.batch, gx::sim::Precision::fp32,
                             {.bytes_per_parameter = 28, .state_vectors = 2, .shards = 4})
            .total();
    const auto complaint = [&]<class T>(T trainer) {
        gx::sim::Cluster<gx::reference::Device> cluster(spec);
        return error_of([&] { (void)trainer.train(cluster, images()); });
    };
    EXPECT_TRUE(holds(complaint(Whole(options<Whole>())), "does not fit"));
    EXPECT_EQ(complaint(Shards(options<Shards>())), "no error");
}
TEST(Sharded, ItsUpdateTakesAShardOfTheTime) {
    using Whole = By<Ring<fp32>>;
    using Shards = By<Sharded<Ring<fp32>>>;
    const auto compute = [&]<class T>(T trainer) {
        auto spec = gx::sim::ethernet_10g(4);
        spec.machine.gpu.launch = gx::Nanoseconds(0);
        spec.machine.gpu.memory_bandwidth = gx::BytesPerSecond{1e3};  // updates are all there is
        gx::sim::Cluster<gx::reference::Device> cluster(spec);
        return trainer.train(cluster, images()).breakdown;
    };
    const auto whole = compute(Whole(options<Whole>())),
               shards = compute(Shards(options<Shards>()));
    EXPECT_LT(shards.compute, whole.compute);
    EXPECT_GT(shards.exposed_communication, 0);
}

// ---- Checkpoints ------------------------------------------------------------------------
template <class P>
class Saved : public ::testing::Test {};
TYPED_TEST_SUITE(Saved, Pairs);

TYPED_TEST(Saved, TheStateIsThatOfTheWholeAndResumesBitForBit) {
    const Folder folder;
    auto world = threads(3);
    using Whole = typename TypeParam::Whole;
    using Shards = typename TypeParam::Shards;
    auto w = options<Whole>();
    w.output = folder / "whole";
    auto s = options<Shards>();
    s.output = folder / "shards";
    std::filesystem::create_directories(w.output);
    std::filesystem::create_directories(s.output);
    (void)Whole(w).train(world, images());
    const auto unbroken = Shards(s).train(world, images());
    for (int epoch = 1; epoch <= 3; ++epoch) {
        const auto graph = gx::graph<EveryRole>();
        const auto a = gx::read_checkpoint(w.output / gx::checkpoint_name(epoch), graph);
        const auto b = gx::read_checkpoint(s.output / gx::checkpoint_name(epoch), graph);
        ASSERT_FALSE(a.optimizer.empty());
        EXPECT_EQ(b.optimizer, a.optimizer);
        EXPECT_EQ(b.parameters, a.parameters);
        EXPECT_TRUE(b.reducer.empty());
    }
    for (int epoch = 1; epoch < 3; ++epoch) {
        s.resume = folder / "shards" / gx::checkpoint_name(epoch);
        expect_same_learning(Shards(s).train(world, images()), unbroken);
    }
}
TYPED_TEST(Saved, ResumesBitForBitWithinAnEpoch) {
    const Folder folder;
    auto world = threads(3);
    using Shards = typename TypeParam::Shards;
    auto s = options<Shards>();
    s.output = folder.path;
    s.checkpoints.every_steps = 1;
    const auto unbroken = Shards(s).train(world, images());
    int resumed = 0;
    for (int step = 1; step < std::ssize(unbroken.steps); ++step) {
        s.resume = folder.path / gx::step_checkpoint_name(step);
        if (!std::filesystem::exists(s.resume)) continue;  // the epoch's own is there
        expect_same_learning(Shards(s).train(world, images()), unbroken);
        ++resumed;
    }
    EXPECT_EQ(resumed, std::ssize(unbroken.steps) - std::ssize(unbroken.epochs));
}
TYPED_TEST(Saved, AnotherNumberOfRanksGoesOnAsTheWhole) {
    using Whole = typename TypeParam::Whole;
    using Shards = typename TypeParam::Shards;
    const Folder folder;
    const auto after = [&]<class T>(T, const char* name) {
        auto three = threads(3);
        auto o = options<T>();
        o.output = folder / name;
        std::filesystem::create_directories(o.output);
        (void)T(o).train(three, images());
        auto two = threads(2);
        o.resume = o.output / gx::checkpoint_name(2);
        return T(o).train(two, images());
    };
    expect_same_learning(after(Shards{}, "shards"), after(Whole{}, "whole"));
}

// ---- A fault ----------------------------------------------------------------------------
template <class R>
struct LeavesBeforeTheExchange : Sharded<R> {
    using Sharded<R>::Sharded;
    gx::ReduceReport updated(gx::Transport auto& link, const gx::OwnedUpdate& made) {
        if (++calls == 3 && link.rank() == 1) throw gx::Error("rank 1 has no disk");
        return Sharded<R>::updated(link, made);
    }
    int calls = 0;
};
TEST(Sharded, ARankThatIsLostInTheExchangeStopsTheOthers) {
    EXPECT_EQ(trouble<LeavesBeforeTheExchange<Ring<fp32>>>(), "rank 1 has no disk");
}

}  // namespace
