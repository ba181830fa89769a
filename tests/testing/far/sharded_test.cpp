// Sharded over far memory: the weights, skips and checkpoints of threads, in any order of work.
#include <gx/sharded/reducer.hpp>

#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include <gx/optimizer/adamw.hpp>
#include <gx/optimizer/lamb.hpp>
#include <gx/optimizer/lars.hpp>
#include <gx/optimizer/sgd.hpp>
#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/multi_ring.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/testing/far/device.hpp>
#include <gx/testing/far/world.hpp>
#include <gx/trainer/trainer.hpp>
#include <trainer/small.hpp>

namespace {

using namespace testing_support;
using namespace gx;
using gx::testing::QueueProgress;
constexpr std::array orders{QueueProgress::late, QueueProgress::eager, QueueProgress::random};

/// Some gradients of one rank are not finite, at one element.
struct Overflowing : reference::Device {
    Overflowing(const Graph& graph, DeviceOptions options)
        : Device(graph, options), rank(options.rank) {}
    void backward(float scale, std::span<float> gradients, GradientsReady ready) {
        Device::backward(scale, gradients, [](std::size_t) {});
        const int call = calls++;
        if (rank == 0 && call == 1) spoil(gradients, gradients.size() - 1);
        if (rank == last_rank && (call == 4 || call == last_call)) spoil(gradients, 0);
        ready(0);
    }
    static void spoil(std::span<float> gradients, std::size_t i) {
        gradients[i] = std::numeric_limits<float>::infinity();
    }
    static inline int last_rank = 0, last_call = -1;
    int rank, calls = 0;
};
using Far = gx::testing::FarWorld<gx::testing::FarDevice<Overflowing>>;

template <class R, class O>
struct Run : Trainer<EveryRole, Sharded<R>, Warmup<Poly<2>>, O> {
    using Trainer = gx::Trainer<EveryRole, Sharded<R>, Warmup<Poly<2>>, O>;
    using Trainer::Trainer;
    using Whole = gx::Trainer<EveryRole, R, Warmup<Poly<2>>, O>;
};
template <class T>
typename T::Options options() {
    return {.batch = 3, .epochs = 2, .seed = 7};
}
/// The last gradient of a run overflows too.
void overflow(int ranks) {
    Overflowing::last_rank = ranks - 1;
    Overflowing::last_call = 2 * ((40 + 3 * ranks - 1) / (3 * ranks)) - 1;
}

template <class T>
class ShardedOnFarMemory : public ::testing::Test {};
using Runs = ::testing::Types<Run<Ring<fp32>, Lars>, Run<MultiRing<3, fp16>, AdamW>,
                              Run<Bucketed<Ring<bf16>, 100>, Sgd>,
                              Run<Bucketed<MultiRing<2, fp16>, 16>, Lamb>>;
TYPED_TEST_SUITE(ShardedOnFarMemory, Runs);

TYPED_TEST(ShardedOnFarMemory, WeightsAndSkipsAreThoseOfThreads) {
    for (const int ranks : {1, 2, 3, 4, 5}) {
        overflow(ranks);
        const TypeParam trainer(options<TypeParam>());
        auto wall = threads<Overflowing>(ranks);
        const RunRecord expected = trainer.train(wall, images());
        using Whole = typename TypeParam::Whole;
        expect_same_learning(expected, Whole(options<Whole>()).train(wall, images()));
        EXPECT_GE(expected.skipped_steps, 3);
        EXPECT_TRUE(expected.steps.at(1).skipped && expected.steps.at(4).skipped);
        EXPECT_TRUE(expected.steps.back().skipped);
        for (const QueueProgress order : orders)
            for (const std::uint64_t seed : {1, 2, 3}) {
                Far far({{ranks, 1}, seed, order});
                expect_same_learning(trainer.train(far, images()), expected);
            }
    }
}

// ---- A state that steps are settled in ---------------------------------------------------

struct CountIf {
    static constexpr std::string_view name = "count if";
    void operator()(Flag condition, std::span<float> count) const {
        if (condition) ++count[0];
    }
};
/// Counts the steps that were applied.
struct Counting : Sharded<Ring<fp32>> {
    using Sharded::Sharded;
    void reserve(const ReducePlan& plan) {
        Sharded::reserve(plan);
        applied = {plan.memory, 1, "applied steps"};
        on_device = plan.on_device();
    }
    StateList state() {
        StateVector v{.name = "applied steps"};
        if (on_device) v.on_device = &applied;
        else v.values = applied.view();
        return {v};
    }
    void settle(std::uint64_t, bool is_applied) {
        if (is_applied) ++applied.view()[0];
    }
    template <class Q>
    void settle_on(Q& queue, std::uint64_t, ScalarIn<Flag, memory_of<Q>> is_applied) {
        launch(queue, CountIf{}, is_applied, applied.template view<memory_of<Q>>());
    }
    Buffer<float> applied;
    bool on_device = false;
};
TEST(ShardsOnFarMemory, SettleEachStepBehindTheRanksDecision) {
    using T = Trainer<EveryRole, Counting, Warmup<Poly<2>>, AdamW>;
    const Graph graph = gx::graph<EveryRole>();
    const Folder folder;
    overflow(3);
    auto o = options<T>();
    o.output = folder.path;
    const auto expect_counted = [&](auto&& world) {
        const RunRecord r = T(o).train(world, images());
        EXPECT_GE(r.skipped_steps, 3);
        const auto c = read_checkpoint(folder / "epoch-0002.safetensors", graph);
        ASSERT_EQ(c.reducer.size(), 1u);
        for (const std::vector<float>& rank : c.reducer[0].ranks)
            EXPECT_EQ(rank, (std::vector{float(std::ssize(r.steps) - r.skipped_steps)}));
    };
    expect_counted(threads<Overflowing>(3));
    for (const QueueProgress order : orders) expect_counted(Far({{3, 1}, 1, order}));
}

// ---- Checkpoints ---------------------------------------------------------------------

/// One run writes checkpoints on either world; each is resumed on the other, on as many ranks and
/// on others.
TYPED_TEST(ShardedOnFarMemory, CheckpointsAreThoseOfThreads) {
    const Folder here, there;
    overflow(3);
    auto o = options<TypeParam>();
    o.epochs = 3;
    auto wall = threads<Overflowing>(3);
    o.output = here.path;
    const RunRecord whole = TypeParam(o).train(wall, images());
    const Graph graph = gx::graph<EveryRole>();
    o.output = there.path;
    Far far({{3, 1}, 5, QueueProgress::random});
    expect_same_learning(TypeParam(o).train(far, images()), whole);
    o.output.clear();
    for (const char* name : {"epoch-0001.safetensors", "epoch-0002.safetensors"}) {
        const auto a = read_checkpoint(here / name, graph),
                   b = read_checkpoint(there / name, graph);
        ASSERT_FALSE(a.optimizer.empty());
        EXPECT_EQ(a.optimizer, b.optimizer);
        EXPECT_EQ(a.parameters, b.parameters);
        EXPECT_EQ(a.statistics, b.statistics);
        EXPECT_TRUE(b.reducer.empty() && b.pending.empty());
        for (const int ranks : {2, 3, 5}) {
            auto again = threads<Overflowing>(ranks);
            o.resume = here / name;
            const RunRecord rest = TypeParam(o).train(again, images());
            const auto order = orders[static_cast<std::size_t>(ranks % 3)];
            Far other({{ranks, 1}, 9, order});
            expect_same_learning(TypeParam(o).train(other, images()), rest);
            o.resume = there / name;
            expect_same_learning(TypeParam(o).train(again, images()), rest);
        }
    }
}

// ---- What a step costs ---------------------------------------------------------------

thread_local const gx::testing::FarArena* arena = nullptr;
thread_local std::vector<std::size_t> used{};
/// Notes the far memory in use at each update.
struct Noting {
    struct Options {
        float peak_rate = 0.1f;
    };
    explicit Noting(Options o) : options(o) {}
    [[nodiscard]] float rate(Step) const {
        if (arena) used.push_back(arena->used());
        return options.peak_rate;
    }
    Options options;
};
struct Noted : Far {
    using Far::Far;
    void run(FunctionRef<void(Rank&)> f) {
        Far::run([&](Rank& rank) {
            arena = &rank.machine().arena(rank.rank());
            used.clear();
            f(rank);
            EXPECT_GE(used.size(), 10u);
            for (const std::size_t bytes : used) EXPECT_EQ(bytes, used.front());
            arena = nullptr;
        });
    }
};
TEST(ShardedOnFarMemory, StepsAllocateNoFarMemory) {
    using T = Trainer<EveryRole, Sharded<Bucketed<MultiRing<2, fp16>, 64>>, Noting, Lars>;
    overflow(3);
    Noted far({{3, 1}, 1, QueueProgress::random});
    EXPECT_GT(T({.batch = 3, .epochs = 2, .seed = 7}).train(far, images()).skipped_steps, 0);
}

/// Queued work that runs only while every host waits has not run from the first bucket of a
/// gradient to the exchange of parameters.
template <class R>
struct WaitsForNothing : Sharded<R> {
    using Sharded<R>::Sharded;
    template <Link T>
    ReduceReport all_reduce(T& link, const BucketOn<T>& bucket) {
        if (bucket.index == 0) done = link.queue().machine().done();
        return Sharded<R>::all_reduce(link, bucket);
    }
    template <Link T>
    ReduceReport updated(T& link, const OwnedUpdateIn<memory_of<T>>& made) {
        EXPECT_EQ(link.queue().machine().done(), done);
        if (steps++ == 0) first = done;
        EXPECT_TRUE(steps <= 3 || done > first) << "it waits between two steps";
        return Sharded<R>::updated(link, made);
    }
    std::uint64_t done = 0, first = 0;
    int steps = 0;
};
TEST(ShardedOnFarMemory, AStepWaitsForNothing) {
    using T = Trainer<EveryRole, WaitsForNothing<Bucketed<Ring<fp16>, 64>>, Constant, Lars>;
    overflow(3);
    Far far({{3, 1}, 1, QueueProgress::late});
    EXPECT_GT(T({.batch = 3, .epochs = 2, .seed = 7}).train(far, images()).skipped_steps, 0);
}
TEST(ShardedOnFarMemory, AStepSendsWhatThreadsSend) {
    using T = Trainer<EveryRole, Sharded<Bucketed<Ring<fp16>, 64>>, Constant, Sgd>;
    Overflowing::last_call = -1;
    Far far({{4, 1}, 1, QueueProgress::late});
    auto wall = threads<Overflowing>(4);
    const T trainer({.batch = 3, .epochs = 1, .seed = 7});
    const RunRecord a = trainer.train(far, images()), b = trainer.train(wall, images());
    EXPECT_GT(a.bytes_sent_per_step, 0);
    EXPECT_EQ(a.bytes_sent_per_step, b.bytes_sent_per_step);
}

// ---- A lost rank ---------------------------------------------------------------------

struct Lost : gx::EndsRank {};
/// Rank 1 leaves its third step: before it sends a gradient, agrees on the update, or exchanges the
/// parameters.
enum class Leaves { reducing, agreeing, exchanging } leaves{};
template <class R>
struct Leaving : Sharded<R> {
    using Sharded<R>::Sharded;
    template <Link T>
    ReduceReport all_reduce(T& link, const BucketOn<T>& bucket) {
        if (leaves == Leaves::reducing && link.rank() == 1 && bucket.gradient == 2) throw Lost{};
        return Sharded<R>::all_reduce(link, bucket);
    }
    template <Link T>
    ReduceReport updated(T& link, const OwnedUpdateIn<memory_of<T>>& made) {
        if (leaves == Leaves::exchanging && link.rank() == 1 && ++calls == 3) throw Lost{};
        return Sharded<R>::updated(link, made);
    }
    int calls = 0;
};
/// Its rate is asked for by the row of a step, and before the ranks agree on an update.
thread_local int rank_of_thread = -1, rates = 0;
struct LeavingRate : Constant {
    using Constant::Constant;
    [[nodiscard]] float rate(Step t) const {
        if (leaves == Leaves::agreeing && rank_of_thread == 1 && t == 2 && ++rates == 2)
            throw Lost{};
        return Constant::rate(t);
    }
};
struct LosesRanks : Far {
    using Far::Far;
    void run(FunctionRef<void(Rank&)> f) {
        Far::run([&](Rank& rank) {
            rank_of_thread = rank.rank();
            try {
                f(rank);
            } catch (const Lost&) {
            }
        });
    }
};
TEST(ShardedOnFarMemory, ALostRankIsNamed) {
    using T = Trainer<EveryRole, Leaving<Ring<fp32>>, LeavingRate, Lars>;
    overflow(3);
    const auto expect_error = [](Leaves when, const std::string& operation) {
        leaves = when;
        for (const QueueProgress order : orders)
            for (const std::uint64_t seed : {1, 2, 3}) {
                LosesRanks far({{3, 1}, seed, order});
                const std::string error = error_of(
                    [&] { (void)T({.batch = 3, .epochs = 2, .seed = 7}).train(far, images()); });
                EXPECT_TRUE(holds(error, "step 2, ", operation + ": rank 1 ")) << error;
            }
    };
    expect_error(Leaves::reducing, "operation all-reduce");
    expect_error(Leaves::agreeing, "operation agreeing on an update");
    expect_error(Leaves::exchanging, "operation exchanging the parameters");
}

}  // namespace
