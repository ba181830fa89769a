#include <gx/sim/elastic/elastic.hpp>  // first, so the header is seen to stand alone

#include <algorithm>  // count
#include <cmath>      // lround

#include <limits>  // largest numbers

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/reducer/double_buffered.hpp>      // DoubleBuffered
#include <gx/reducer/ring.hpp>                 // Ring
#include <gx/scheduler/constant.hpp>           // Constant
#include <gx/scheduler/linear_scaling.hpp>     // LinearScaling
#include <gx/sim/catalog/cluster_of.hpp>       // with_gpus
#include <gx/sim/fault/random_faults.hpp>      // random_faults
#include <gx/sim/catalog/find_machine.hpp>     // find_machine
#include <gx/sim/catalog/simple_clusters.hpp>  // ethernet_10g

/// A detector that fails while a world is built, as where memory runs out.
template <>
struct gx::sim::RaceMonitorMaker<bool> {
    static std::unique_ptr<RaceInterface> make(Engine&, int) {
        throw gx::Error("no room for clocks");
    }
};

namespace {

using gx::Nanoseconds;
using namespace gx::literals;
using namespace gx::sim;

/// Element s counts how often sample s was applied; the last one counts updates.
class Counter {
public:
    template <class Rank>
    Counter(Rank& rank, std::int64_t samples, Nanoseconds time)
        : charge_([&rank, time] { rank.charge(time, "gradient", Activity::compute); }),
          ranks_(rank.ranks()),
          counts_(static_cast<std::size_t>(samples) + 1, 0.0f) {}

    [[nodiscard]] std::int64_t elements() const { return std::ssize(counts_); }
    void gradient(std::span<const std::uint32_t> samples, float, std::span<float> out,
                  gx::GradientsReady ready) {
        std::fill(out.begin(), out.end(), 0.0f);
        for (const std::uint32_t s : samples) out[s] += static_cast<float>(ranks_);
        out.back() = 1;
        charge_();
        ready(out.size() / 2);
        charge_();
    }
    void apply(std::span<const float> mean, float, std::int64_t) {
        for (std::size_t i = 0; i < mean.size(); ++i)
            counts_[i] += static_cast<float>(std::lround(mean[i]));  // a third of three is not 1
    }
    [[nodiscard]] std::vector<float> state() const { return counts_; }
    void restore(std::span<const float> state) { counts_.assign(state.begin(), state.end()); }

private:
    std::function<void()> charge_;
    int ranks_;
    std::vector<float> counts_;
};
static_assert(Learner<Counter>);

/// A learner whose state depends on every bit: what was applied, in which order, at which rate.
class Chain {
public:
    template <class Rank>
    Chain(Rank& rank, Nanoseconds time)
        : charge_([&rank, time] { rank.charge(time, "gradient", Activity::compute); }) {}

    [[nodiscard]] std::int64_t elements() const { return std::ssize(weights_); }
    void gradient(std::span<const std::uint32_t> samples, float scale, std::span<float> out,
                  gx::GradientsReady) {
        for (std::size_t i = 0; i < out.size(); ++i) {
            out[i] = 0;
            for (const std::uint32_t s : samples)
                out[i] += scale * (weights_[i] * 0.1f - 1.0f / static_cast<float>(s + i + 1));
        }
        charge_();
    }
    void apply(std::span<const float> mean, float rate, std::int64_t) {
        for (std::size_t i = 0; i < mean.size(); ++i) weights_[i] -= rate * mean[i];
    }
    [[nodiscard]] std::vector<float> state() const { return weights_; }
    void restore(std::span<const float> state) { weights_.assign(state.begin(), state.end()); }

private:
    std::function<void()> charge_;
    std::vector<float> weights_ = std::vector<float>(13, 1.0f);
};

using Rate = gx::LinearScaling<gx::Constant>;
template <class R>
using Training = ElasticTraining<R, Rate>;
using Late = gx::DoubleBuffered<gx::Ring<gx::fp32>>;
using Plain = gx::Ring<gx::fp32>;

constexpr std::int64_t samples = 37;
ElasticOptions<Rate::Options> options(int epochs = 2) {
    return {.samples = samples,
            .batch = 2,
            .epochs = epochs,
            .bucket_elements = 11,
            .scheduler = {.reference_batch = 8, .next = {.peak_rate = 0.5f}}};
}
const auto counter = [](auto& rank) { return std::make_unique<Counter>(rank, samples, 50_us); };
const auto chain = [](auto& rank) { return std::make_unique<Chain>(rank, 50_us); };

/// Each sample once an epoch, in as many updates as the history has.
void expect_counted(const ElasticRecord& r, int epochs) {
    ASSERT_TRUE(r.finished);
    EXPECT_EQ(r.problems, std::vector<std::string>{});
    ASSERT_EQ(std::ssize(r.state), samples + 1);
    EXPECT_EQ(std::count(r.state.begin(), r.state.end() - 1, static_cast<float>(epochs)), samples);
    EXPECT_EQ(r.state.back(), static_cast<float>(r.updates.size()));
    std::int64_t reached = 0;
    std::uint64_t in_segments = 0;
    for (const ElasticUpdate& u : r.updates) {
        EXPECT_EQ(u.begin, reached);
        reached = u.end;
    }
    for (const ElasticSegment& s : r.segments) in_segments += s.updates;
    EXPECT_EQ(reached, samples * epochs);
    EXPECT_EQ(in_segments, r.updates.size());
}

// ---- Cases worked by hand ------------------------------------------------------------------
TEST(Elastic, WithoutFaultsItIsOneWorld) {
    Training<Plain> t(ethernet_10g(4), {}, options());
    const ElasticRecord r = t.run(counter);
    expect_counted(r, 2);
    ASSERT_EQ(r.segments.size(), 1u);
    EXPECT_EQ(r.updates.size(), 10u) << "four steps of 8 samples and one of 5, twice";
    EXPECT_EQ(r.updates[4], (ElasticUpdate{32, 37, 4, 0.5f}));
}
TEST(Elastic, GoesOnWithThreeOfFourInTheMiddleOfAnEpoch) {
    Training<Plain> t(ethernet_10g(4),
                      {.deadline = 100'000_us, .faults = {DeadInCollective{2, 2, 1, 3}}},
                      options());
    const ElasticRecord r = t.run(counter);
    expect_counted(r, 2);
    ASSERT_EQ(r.segments.size(), 2u);
    EXPECT_EQ(r.segments[0].lost, std::vector<int>{2});
    EXPECT_EQ(r.segments[0].reported.size(), 3u) << "every survivor";
    EXPECT_EQ(r.segments[0].updates, 2u) << "step 2 is redone";
    EXPECT_EQ(r.segments[1].core.members, (std::vector<int>{0, 1, 3}));
    EXPECT_EQ(r.updates[1].ranks, 4);
    EXPECT_EQ(r.updates[2], (ElasticUpdate{16, 22, 3, 0.375f})) << "6 of 8 samples, 6/8 of 0.5";
}
TEST(Elastic, GoesBackToTheLastWholeCheckpoint) {
    auto o = options();
    o.recovery = Recovery::checkpoint;
    o.checkpoint_every = 2;
    o.restart_time = 7'000'000_us;
    Training<Plain> t(
        ethernet_10g(4),
        {.deadline = 100'000_us, .faults = {DeadInCollective{0, 7, 0, 0}, TornCheckpoint{2, 0.5}}},
        o);
    const ElasticRecord r = t.run(counter);
    expect_counted(r, 2);
    EXPECT_EQ(r.segments[0].updates, 4u) << "the checkpoint after 6 is torn, 4 is whole";
    ASSERT_EQ(r.notes.size(), 1u);
    EXPECT_NE(r.notes[0].find("the checkpoint after update 6 is torn"), std::string::npos);
    EXPECT_GT(r.elapsed, 7'000'000_us) << "a restart takes its time";
}
TEST(Elastic, ACheckpointMayBeAheadOfEverySurvivor) {
    auto o = options();
    o.recovery = Recovery::checkpoint;
    o.checkpoint_every = 1;
    for (int at_us = 0; at_us < 2'000; at_us += 100) {  // rank 0 is done when rank 1 is told
        Training<Plain> t(ethernet_10g(2),
                          {.deadline = 100'000_us,
                           .faults = {FlippedBit{0, 1, Nanoseconds(at_us * 1000)}},
                           .delivery = {.checksum = true},
                           .faults_must_fire = false},
                          o);
        expect_counted(t.run(counter), 2);
    }
}
TEST(Elastic, GivesUpWithTooFew) {
    auto o = options();
    o.fewest_ranks = 4;
    Training<Plain> t(ethernet_10g(4), {.deadline = 100'000_us, .faults = {DeadGpu{1, 0_us}}}, o);
    const ElasticRecord r = t.run(counter);
    EXPECT_FALSE(r.finished);
    EXPECT_EQ(r.segments.size(), 1u);
}
TEST(Elastic, OfMachinesTheLargestCoreIsTaken) {
    const auto spec = [] {
        auto s = ethernet_10g(4);
        s.machine.gpus = 3;
        return s;
    }();
    std::vector<bool> left(12, true);
    left[4] = false;
    EXPECT_EQ(core_of(whole(spec), left).members, (std::vector<int>{0, 1, 2, 6, 7, 8, 9, 10, 11}));
    left[7] = left[8] = false;
    EXPECT_EQ(core_of(whole(spec), left).members, (std::vector<int>{0, 1, 3, 5, 9, 10}));
    left[1] = left[2] = left[5] = left[10] = left[11] = false;
    EXPECT_EQ(core_of(whole(spec), left).members, (std::vector<int>{0, 3, 6, 9}));
    EXPECT_TRUE(core_of(whole(spec), std::vector<bool>(12, false)).members.empty());
}

TEST(Elastic, ALostSwitchIsSeenByTheCoreBehindIt) {
    auto spec = ethernet_10g(6);
    spec.fabric = leaf_spine({.machines_per_leaf = 2, .spines = 2});
    const auto seen = [&](Switch s, std::vector<bool> left, Nanoseconds passed) {
        const auto f = as_seen_by(core_of(whole(spec), left), spec,
                                  LostSwitch{s, 100_us, 1'000_us, 400_us}, passed, 0);
        return f ? std::optional(std::get<LostSwitch>(*f)) : std::nullopt;
    };
    const std::vector<bool> all(6, true), no_leaf_1{true, true, false, false, true, true};
    const auto later = seen({SwitchKind::spine, 1}, all, 300_us);
    ASSERT_TRUE(later);
    EXPECT_EQ(later->at, 0_us);
    EXPECT_EQ(later->lasts, 800_us);
    EXPECT_EQ(later->unnoticed, 200_us) << "less than it lasts, as it must be";
    EXPECT_FALSE(seen({SwitchKind::leaf, 1}, no_leaf_1, 0_us)) << "with its machines";
    EXPECT_EQ(seen({SwitchKind::leaf, 2}, no_leaf_1, 0_us)->which, (Switch{SwitchKind::leaf, 1}));
    EXPECT_FALSE(seen({SwitchKind::spine, 1}, {true, true, true, true, true, false}, 0_us))
        << "five machines are on a star";
    EXPECT_FALSE(seen({SwitchKind::spine, 1}, all, 1'100_us)) << "it is over";
}

// ---- For any faults ------------------------------------------------------------------------
template <class R>
void survives(std::uint64_t seed, Recovery recovery) {
    auto spec = ethernet_10g(3);
    spec.machine.gpus = seed % 2 == 0 ? 1 : 2;
    spec.machine.peer_bandwidth = {10e9};
    auto o = options();
    o.recovery = recovery;
    o.checkpoint_every = 3;
    ClusterOptions world{
        .seed = seed,
        .deadline = 1'000'000_us,
        .faults = random_faults(seed, spec, 3'000_us, {.absent = 0.6, .corruption = false}),
        .faults_must_fire = false};
    Training<R> counting(spec, world, o);
    const ElasticRecord counted = counting.run(counter);
    if (counted.finished) expect_counted(counted, 2);
    Training<R> training(spec, world, o);
    const ElasticRecord r = training.run(chain);
    RC_ASSERT(r.problems.empty());
    RC_CLASSIFY(r.segments.size() > 1);
    if (!r.finished) return;  // all were lost
    const ElasticRecord same = training.replay(r, chain);
    RC_ASSERT(same.updates == r.updates);
    RC_ASSERT(same.state == r.state);  // bit for bit
}
RC_GTEST_PROP(Elastic, EqualsAFaultFreeRunOverTheSameWorlds, (std::uint64_t seed)) {
    survives<Plain>(seed, Recovery::survivors);
}
RC_GTEST_PROP(Elastic, ALateReducerLosesNothingEither, (std::uint64_t seed)) {
    survives<Late>(seed, Recovery::survivors);
}
RC_GTEST_PROP(Elastic, FromCheckpointsToo, (std::uint64_t seed)) {
    survives<Late>(seed, Recovery::checkpoint);
}

// ---- What cannot be ------------------------------------------------------------------------
TEST(Elastic, EverythingWrongIsToldAtOnce) {
    try {
        Training<Plain> t(ethernet_10g(4), {.deadline = Nanoseconds(0), .faults = {DeadGpu{9}}},
                          {.samples = 3, .batch = 0, .recovery = Recovery::checkpoint});
        FAIL();
    } catch (const gx::Error& e) {
        for (const char* part : {"batch is 0 and epochs is 1: both must be at least 1",
                                 "samples is 3: an epoch needs at least one for each of the 4",
                                 "checkpoint_every is 0: recovery", "deadline must be above 0",
                                 "rank is 9: this cluster has ranks 0 to 3"})
            EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << part;
    }
}
TEST(Elastic, AClusterThatCannotBeBuiltIsRefused) {
    const ClusterSpec long_torus{
        .machine = with_gpus(find_machine("DGX-1V"), 1), .machines = 28, .fabric = torus(28, 1)};
    // GPUs that reach every NIC of their machine make the longest route longer than a path.
    const ClusterOptions lost{.faults = FaultList{LostNic{.machine = 1, .at = 1_us}}};
    const auto refusal = [&](auto build) -> std::string {
        try {
            build();
        } catch (const gx::Error& e) {
            return e.what();
        }
        return "";
    };
    const std::string why =
        "the longest route crosses 18 links, and a path holds 16: choose a "
        "smaller torus, or fewer PCIe switches under each other";
    EXPECT_EQ(refusal([&] { Cluster<> world(long_torus, lost); }),
              "this cluster cannot run:\n  - " + why);
    EXPECT_EQ(refusal([&] {
                  ElasticTraining<gx::Ring<>, gx::Constant> training(long_torus, lost,
                                                                     {.samples = 28});
              }),
              "this elastic training cannot run:\n  - " + why);
}
TEST(Elastic, OptionsOutOfRangeAreToldAtOnce) {
    auto o = options();
    o.batch = std::numeric_limits<int>::max();
    o.samples = std::numeric_limits<std::int64_t>::max();
    o.bucket_elements = -1;
    o.fewest_ranks = 3;
    o.restart_time = Nanoseconds::max();
    const auto told = [](const auto& wrong) -> std::string {
        try {
            Training<Plain> training(ethernet_10g(2), {}, wrong);
        } catch (const gx::Error& e) {
            return e.what();
        }
        return "no error";
    };
    const std::string text = told(o);
    for (const char* part :
         {"samples is 9223372036854775807: an epoch has at most 2147483647",
          "batch is 2147483647: a step of all ranks has at most 2147483647 samples",
          "bucket_elements is -1", "fewest_ranks is 3: this cluster has 2 ranks",
          "restart_time is 9223372036854775807 ns: it must be from 0 to a year"})
        EXPECT_NE(text.find(part), text.npos) << part << "\nis not in\n" << text;
    o = options();
    o.scheduler.next.peak_rate = -1;
    EXPECT_EQ(
        told(o),
        "this elastic training cannot run:\n  - Constant: peak_rate must be above 0 and finite");
}
TEST(Elastic, ReplicasThatAreNaNAlikeDoNotDiffer) {
    Training<Plain> training(ethernet_10g(4), {.faults = {NanInPayload{0, 1}}}, options());
    const ElasticRecord r = training.run(chain);
    ASSERT_TRUE(r.finished);
    EXPECT_TRUE(std::any_of(r.state.begin(), r.state.end(), [](float x) { return std::isnan(x); }));
    EXPECT_EQ(r.problems, std::vector<std::string>{});
}
TEST(Elastic, AnErrorWhileAWorldIsBuiltPropagates) {
    Training<Plain> training(ethernet_10g(2), {.detect_races = true}, options());
    try {
        (void)training.run(chain);
        FAIL();
    } catch (const gx::Error& e) {
        EXPECT_STREQ(e.what(), "no room for clocks");
    }
}
TEST(Elastic, AFaultThatNeverComesIsToldAtTheEnd) {
    Training<Plain> t(ethernet_10g(2), {.faults = {DeadGpu{1, 3'600'000'000_us}}}, options());
    EXPECT_THROW((void)t.run(counter), gx::Error);
}

}  // namespace
