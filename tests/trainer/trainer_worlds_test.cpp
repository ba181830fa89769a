// One Trainer in two worlds: threads and a simulated cluster give the same bits; seeds and hashes.
#include <gx/trainer/trainer.hpp>

#include <algorithm>  // count_if
#include <cmath>      // isnan
#include <cstdint>    // int64_t
#include <optional>   // what is timed
#include <set>        // phases
#include <string>     // their names
#include <utility>    // pair
#include <vector>     // of each rank

#include <gtest/gtest.h>

#include <gx/core/world_info.hpp>              // WorldInfo
#include <gx/reducer/bucketed.hpp>             // Bucketed
#include <gx/reducer/double_buffered.hpp>      // DoubleBuffered
#include <gx/reducer/multi_ring.hpp>           // MultiRing
#include <gx/reducer/ring.hpp>                 // Ring
#include <gx/model/cifar_resnet.hpp>           // ResNet20: what is timed
#include <gx/model/resnet.hpp>                 // ResNet50: the same
#include <gx/sim/fault/faults.hpp>             // SlowGpu
#include <gx/sim/world/cluster.hpp>            // Cluster
#include <gx/sim/world/device.hpp>             // Device
#include <gx/sim/catalog/simple_clusters.hpp>  // ethernet_10g
#include <trainer/small.hpp>                   // images, threads

namespace {

using namespace testing_support;
using gx::fp16;
using gx::fp32;
using Cluster = gx::sim::Cluster<gx::reference::Device>;

Cluster cluster(int ranks, gx::sim::ClusterOptions options = {}) {
    return Cluster(gx::sim::ethernet_10g(ranks), std::move(options));
}

// ---- The same bits in every world ---------------------------------------------------

template <class R>
class InEveryWorld : public ::testing::Test {};
using Reducers = ::testing::Types<gx::Ring<fp32>, gx::MultiRing<2, fp16>,
                                  gx::DoubleBuffered<gx::MultiRing<2, fp16>>,
                                  gx::Bucketed<gx::MultiRing<2, fp16>, 64>>;
TYPED_TEST_SUITE(InEveryWorld, Reducers);

TYPED_TEST(InEveryWorld, BitsAreTheSame) {
    using Composition = gx::Trainer<Net, TypeParam, gx::Warmup<gx::Poly<2>>>;
    const gx::Split data = images();  // 40 images over 3 ranks: uneven tails
    const Composition trainer({.batch = 4, .epochs = 2, .seed = 3});
    auto wall = threads(3);
    auto virtual_time = cluster(3);
    const gx::RunRecord a = trainer.train(wall, data);
    const gx::RunRecord b = trainer.train(virtual_time, data);
    EXPECT_NE(a.weights_hash, 0u);
    expect_same_learning(a, b);
    EXPECT_EQ(a.bytes_sent_per_step, b.bytes_sent_per_step);
    EXPECT_EQ(b.clock, "virtual");

    auto again = cluster(3);
    const gx::RunRecord c = trainer.train(again, data);
    expect_same_learning(b, c);
    EXPECT_EQ(b.event_hash, c.event_hash);
    EXPECT_EQ(b.seconds, c.seconds);
    EXPECT_NE(b.event_hash, 0u);
    auto two = threads(2);
    EXPECT_NE(trainer.train(two, data).weights_hash, a.weights_hash) << "a hash that can differ";
}

// ---- Seeds --------------------------------------------------------------------------

using Plain = gx::Trainer<Net, gx::Ring<fp32>, gx::Warmup<gx::Poly<2>>>;

TEST(Seeds, AnotherSeedAnotherHash) {
    const gx::Split data = images();
    const auto hash = [&](std::uint64_t jitter_seed, std::uint64_t seed) {
        auto world = cluster(3, {.seed = jitter_seed, .compute_jitter = 0.1});
        const gx::RunRecord r = Plain({.batch = 4, .seed = seed}).train(world, data);
        EXPECT_EQ(r.event_hash, world.info().event_hash);
        return std::pair(r.event_hash, r.weights_hash);
    };
    const auto first = hash(1, 1);
    EXPECT_EQ(hash(1, 1), first);
    const auto other_world = hash(2, 1);
    EXPECT_NE(other_world.first, first.first);
    EXPECT_EQ(other_world.second, first.second) << "timing changes no bits";
    EXPECT_NE(hash(1, 2).second, first.second);
}

// ---- What a simulated run tells -----------------------------------------------------

TEST(Simulated, TimeIsOfTheTimedBatchAndCostsDollars) {
    const gx::Split data = images();  // 40 images: 4 steps of 3 x 4
    auto world = cluster(3, {.timed_batch = 8});
    const gx::RunRecord r = Plain({.batch = 4}).train(world, data);
    EXPECT_EQ(r.images, 80) << "each image stands for two on the clock";
    EXPECT_GT(r.seconds, 0);
    EXPECT_NEAR(r.images_per_second, 80 / r.seconds, 1e-9 * r.images_per_second);
    EXPECT_NEAR(r.dollars, 3 * 3.06 * r.seconds / 3600, 1e-8 * r.dollars + 1e-12);
    EXPECT_NE(r.timed_as, "");
    EXPECT_FALSE(r.notes.empty());
    const gx::Breakdown& b = r.breakdown;
    EXPECT_NEAR(b.compute + b.exposed_communication + b.input + b.idle, r.seconds, 1e-12);
    EXPECT_GT(b.exposed_communication, 0);
    EXPECT_NEAR(r.exposed_communication_pct, 100 * b.exposed_communication / r.seconds, 1e-9);
    EXPECT_LT(r.scaling_efficiency_pct, 100);
}
// The last update comes when the stream has been drained; it is an update.
TEST(Simulated, EveryUpdateIsComputeWhereGradientsAreLateToo) {
    using Late = gx::Trainer<Net, gx::DoubleBuffered<gx::Ring<fp32>>, gx::Warmup<gx::Poly<2>>>;
    const gx::Split data = images(48, 0);
    auto one = cluster(3), other = cluster(3);
    const gx::RunRecord on_time = Plain({.batch = 4, .evaluate = false}).train(one, data),
                        late = Late({.batch = 4, .evaluate = false}).train(other, data);
    EXPECT_NEAR(late.breakdown.compute, on_time.breakdown.compute, 1e-15);
    EXPECT_LT(late.seconds, on_time.seconds);
}
TEST(Simulated, WaitsForABatchOnItsWayAreInput) {
    const gx::Split data = images(48, 0);
    auto spec = gx::sim::ethernet_10g(3);
    spec.machine.host_bandwidth = gx::BytesPerSecond{1e6};
    const auto train = [&](bool copies) {
        gx::sim::Cluster<gx::reference::Device> world(spec, {.copy_inputs = copies});
        return Plain({.batch = 4, .evaluate = false}).train(world, data);
    };
    const gx::RunRecord with = train(true), without = train(false);
    EXPECT_GT(with.breakdown.input, 0);
    EXPECT_EQ(without.breakdown.input, 0);
    EXPECT_NEAR(with.breakdown.compute, without.breakdown.compute, 1e-15);
}
TEST(Simulated, WarnsOfBucketsThatRanksCantShare) {
    using Cut = gx::Trainer<Net, gx::Bucketed<gx::Ring<fp32>, 1 << 20>, gx::Warmup<gx::Poly<2>>>;
    const auto warnings = [](std::optional<gx::Graph> timed_as) {
        auto world = cluster(3, {.timed_as = std::move(timed_as)});
        return Cut({.batch = 4, .evaluate = false}).train(world, images(48, 0)).warnings;
    };
    EXPECT_TRUE(warnings(std::nullopt).empty());
    const auto small = warnings(gx::graph<gx::ResNet50>());
    ASSERT_EQ(small.size(), 1u);
    EXPECT_NE(small[0].find("which 3 ranks can't share equally"), std::string::npos) << small[0];
}
// Oracle: the efficiency of n ranks is their throughput over n times that of one rank, which runs
// without a network in its way; 48 images are 4 whole steps of any rank.
TEST(Simulated, EfficiencyIsThroughputAgainstTheUndisturbedSingleRank) {
    using Late = gx::Trainer<Net, gx::DoubleBuffered<gx::Ring<fp32>>, gx::Warmup<gx::Poly<2>>>;
    const gx::Split one_share = images(16, 0), all = images(48, 0);
    auto alone_world = cluster(1);
    const gx::RunRecord alone =
        Plain({.batch = 4, .evaluate = false}).train(alone_world, one_share);
    EXPECT_NEAR(alone.scaling_efficiency_pct, 100, 1e-6);
    const auto ten_times_slower = [](double chance) {
        return gx::sim::GpuVariation{.gpu = gx::sim::Jitter::straggler(chance, 10)};
    };
    const auto efficiency = [&](gx::sim::ClusterOptions options) {
        auto world = cluster(3, std::move(options));
        const gx::RunRecord r = Late({.batch = 4, .evaluate = false}).train(world, all);
        EXPECT_NEAR(r.scaling_efficiency_pct,
                    100 * r.images_per_second / (3 * alone.images_per_second), 1e-6);
        return r.scaling_efficiency_pct;
    };
    const double undisturbed = efficiency({});
    EXPECT_LT(undisturbed, 100);
    const double slowed = efficiency({.overlap_slowdown = {0.5}});
    EXPECT_LT(slowed, undisturbed) << "kernels that share the GPU with communication";
    EXPECT_LT(efficiency({.overlap_slowdown = {3}}), slowed);
    int slow_runs = 0;  // whether rank 0 is slow or another
    for (const std::uint64_t seed : {1, 2, 3, 4, 5, 6}) {
        const double e = efficiency({.seed = seed, .variation = ten_times_slower(0.5)});
        EXPECT_TRUE(e == undisturbed || e < undisturbed / 2) << e;
        slow_runs += e < undisturbed;
    }
    EXPECT_GE(slow_runs, 2);
    EXPECT_LT(efficiency({.variation = ten_times_slower(1)}), 12) << "all passes, not the updates";
}
TEST(Simulated, EfficiencyIsAtMost100WhereJitterMakesPassesFaster) {
    int faster = 0;
    for (const std::uint64_t seed : {1, 2, 3, 4, 5, 6, 7, 8}) {
        auto world = cluster(1, {.seed = seed, .compute_jitter = 0.3});
        const gx::RunRecord r = Plain({.batch = 4, .evaluate = false}).train(world, images());
        faster += r.seconds < r.undisturbed_seconds;
        EXPECT_LE(r.scaling_efficiency_pct, 100);
    }
    EXPECT_GE(faster, 1) << "else this tests nothing";
}
TEST(Simulated, OnRealHardwareTheSingleRankIsUnknown) {
    auto world = threads(2);
    const gx::RunRecord r = Plain({.batch = 4}).train(world, images());
    EXPECT_TRUE(std::isnan(r.scaling_efficiency_pct));
    EXPECT_EQ(r.undisturbed_seconds, 0);
}
TEST(Simulated, BytesAreThoseOfTheTimedModel) {
    auto world = cluster(3, {.timed_as = gx::graph<gx::ResNet20>()});
    const gx::RunRecord r = Plain({.batch = 4}).train(world, images());
    const double ring = 4.0 / 3 * 4 * double(gx::parameter_count<gx::ResNet20>());
    EXPECT_NEAR(double(r.bytes_sent_per_step), ring, 0.02 * ring);  // chunks differ by an element
}
TEST(Simulated, DoubleBufferingHidesTheNetwork) {
    using Late =
        gx::Trainer<Net, gx::DoubleBuffered<gx::MultiRing<2, fp16>>, gx::Warmup<gx::Poly<2>>>;
    using Prompt = gx::Trainer<Net, gx::MultiRing<2, fp16>, gx::Warmup<gx::Poly<2>>>;
    const gx::Split data = images();
    auto world = cluster(3);
    const double prompt = Prompt({.batch = 1}).train(world, data).seconds;
    const double late = Late({.batch = 1}).train(world, data).seconds;
    EXPECT_LT(late, prompt);
}
TEST(Simulated, SpansLieWithinTheirRunAndPhasesDoNotOverlap) {
    auto world = cluster(3);
    const gx::RunRecord r = Plain({.batch = 4, .trace_steps = 2}).train(world, images());
    ASSERT_FALSE(r.spans.empty());
    gx::Nanoseconds last{};
    int phases = 0;
    for (const gx::Span& s : r.spans) {
        EXPECT_LE(s.begin, s.end);
        EXPECT_LE(s.end, world.elapsed());
        if (s.rank != 0 || s.track != gx::Track::compute) continue;
        const auto name = s.name.view();
        if (name != "FORWARD" && name != "BACKWARD" && name != "UPDATE" && name != "INPUT" &&
            name != "WAIT_FOR_ALLREDUCE")
            continue;
        EXPECT_GE(s.begin, last) << name;
        last = s.end;
        ++phases;
    }
    EXPECT_EQ(phases, 2 * 5) << "five phases in each of two steps";
}
TEST(Simulated, SpansOfEachRankAreThoseOfItsLastSteps) {
    using Late = gx::Trainer<Net, gx::DoubleBuffered<gx::Ring<fp32>>, gx::Warmup<gx::Poly<2>>>;
    const auto phases = [](const gx::RunRecord& r) {  // and their step, by rank
        std::vector<std::multiset<std::pair<std::string, std::int64_t>>> found(3);
        for (const gx::Span& s : r.spans)
            if (s.track == gx::Track::compute && s.index >= 0)
                found[std::size_t(s.rank)].emplace(s.name.view(), s.index);
        return found;
    };
    auto world = cluster(3);
    const Plain::Options options{.batch = 4, .trace_steps = 2};  // 4 steps
    const auto prompt = phases(Plain(options).train(world, images()));
    EXPECT_EQ(prompt[0].size(), 2U * 5);
    EXPECT_EQ(prompt[1], prompt[0]);
    EXPECT_EQ(prompt[2], prompt[0]);
    const auto late = phases(Late({.batch = 4, .trace_steps = 2}).train(world, images()));
    EXPECT_EQ(late[0].size(), 2U * 5);
    EXPECT_EQ(late[1], late[0]);
    EXPECT_EQ(late[2], late[0]);
}

// ---- Resumed in another world -------------------------------------------------------

/// Trains two epochs in one world, then two in the other from the checkpoint.
template <class One, class Other>
gx::RunRecord resumed(const Folder& folder, One one, Other other) {
    Plain::Options o{.batch = 4, .epochs = 2, .output = folder.path, .evaluate = false};
    (void)Plain(o).train(one, images());
    o.resume = folder / "epoch-0002.safetensors";
    o.epochs = 4;
    return Plain(o).train(other, images());
}
void expect_no_sums(const gx::RunRecord& r) {
    EXPECT_TRUE(std::isnan(r.seconds)) << r.seconds;
    EXPECT_TRUE(std::isnan(r.images_per_second)) << r.images_per_second;
    EXPECT_TRUE(std::isnan(r.dollars)) << r.dollars;
    EXPECT_TRUE(std::isnan(r.scaling_efficiency_pct)) << r.scaling_efficiency_pct;
    EXPECT_TRUE(std::isnan(r.exposed_communication_pct)) << r.exposed_communication_pct;
    EXPECT_TRUE(std::isnan(r.breakdown.compute) && std::isnan(r.breakdown.idle));
    EXPECT_EQ(r.images, 4 * 40);
    ASSERT_EQ(r.epochs.size(), 4u);
    EXPECT_TRUE(std::isfinite(r.epochs[1].seconds)) << "of one clock";
    EXPECT_TRUE(std::isnan(r.epochs[2].seconds) && std::isnan(r.epochs[3].seconds));
    for (const gx::EpochRow& e : r.epochs) EXPECT_GT(e.images_per_second, 0);
}
int notes_with(const gx::RunRecord& r, const char* part) {
    return static_cast<int>(std::ranges::count_if(
        r.notes, [&](const std::string& note) { return note.find(part) != note.npos; }));
}
constexpr const char* virtual_after_wall =
    "resumed after epoch 2 by a virtual clock, and earlier epochs were timed by a wall clock";

TEST(ResumedInAnotherWorld, HasNoSumsOverTwoClocks) {
    const Folder folder;
    const gx::RunRecord r = resumed(folder, threads(3), cluster(3));
    expect_no_sums(r);
    EXPECT_EQ(notes_with(r, virtual_after_wall), 1);
    const Folder back;
    const gx::RunRecord other = resumed(back, cluster(3), threads(3));
    expect_no_sums(other);
    EXPECT_EQ(other.weights_hash, r.weights_hash);
    EXPECT_EQ(notes_with(other, "by a wall clock, and earlier epochs were timed by a virtual"), 1);
}
TEST(ResumedInAnotherWorld, StaysWithoutSumsAtTheNextResume) {
    const Folder folder;
    (void)resumed(folder, threads(3), cluster(3));
    auto world = cluster(3);
    const gx::RunRecord r = Plain({.batch = 4,
                                   .epochs = 4,
                                   .resume = folder / "epoch-0003.safetensors",
                                   .evaluate = false})
                                .train(world, images());
    expect_no_sums(r);
    EXPECT_EQ(notes_with(r, virtual_after_wall), 1) << "and none for the clock of this resume";
    EXPECT_EQ(notes_with(r, "clock, and earlier"), 1);
    EXPECT_EQ(r.steps.size(), 16u) << "those of epoch 3 too, whose times are NaN";
}
TEST(ResumedInAnotherWorld, TimesAddUpOnOneClock) {
    const Folder folder;
    const gx::RunRecord r = resumed(folder, cluster(3), cluster(3));
    auto world = cluster(3);
    const gx::RunRecord whole =
        Plain({.batch = 4, .epochs = 4, .evaluate = false}).train(world, images());
    EXPECT_NEAR(r.seconds, whole.seconds, 0.02 * whole.seconds);
    EXPECT_NEAR(r.dollars, whole.dollars, 0.02 * whole.dollars);
    EXPECT_EQ(notes_with(r, "clock, and earlier"), 0);
}
TEST(ResumedInAnotherWorld, FaultsAreNotesOfTheirOwnWorldAndNoChange) {
    const auto slow = [] { return gx::sim::FaultPlan{gx::sim::SlowGpu{.rank = 1, .factor = 3}}; };
    const Folder from_calm, from_slow, calm;
    const gx::RunRecord before = resumed(from_slow, cluster(3, {.faults = slow()}), cluster(3));
    const gx::RunRecord after = resumed(from_calm, cluster(3), cluster(3, {.faults = slow()}));
    const gx::RunRecord none = resumed(calm, cluster(3), cluster(3));
    EXPECT_EQ(before.notes, none.notes);
    EXPECT_EQ(after.notes.size(), none.notes.size() + 2) << "the deadline, and the fault";
    EXPECT_EQ(notes_with(after, "rank 1 computes 3 times slower throughout."), 1);
    EXPECT_EQ(before.weights_hash, none.weights_hash);
}
// Two epochs at three machines' price, and two at one's.
TEST(ResumedOnOtherRanks, DollarsOfEachPartAreAtItsOwnPrice) {
    const Folder folder;
    const gx::RunRecord r = resumed(folder, cluster(3), cluster(1));
    ASSERT_EQ(r.epochs.size(), 4u);
    const double before = r.epochs[1].seconds, after = r.seconds - before;
    const double hour = 3.06 / 3600;  // of one machine
    EXPECT_NEAR(r.dollars, hour * (3 * before + after), 1e-6 * r.dollars);
}
TEST(ResumedOnOtherRanks, ImagesOfEachPartAreInUnitsOfItsOwnBatch) {
    const Folder folder;
    const gx::sim::ClusterOptions timed{.timed_as = gx::graph<gx::ResNet20>(), .timed_batch = 16};
    Plain::Options o{.batch = 4, .epochs = 2, .output = folder.path, .evaluate = false};
    auto world = cluster(2, timed);
    (void)Plain(o).train(world, images());
    o.resume = folder / "epoch-0001.safetensors";
    o.batch = 8;
    EXPECT_EQ(Plain(o).train(world, images()).images, 40 * (16 / 4) + 40 * (16 / 8));
}

}  // namespace
