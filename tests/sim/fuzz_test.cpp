// A short campaign: what the generator draws, seeds that must pass, and seeded bugs that must not.
#include <fuzz/campaign.hpp>

#include <functional>  // what a bug needs
#include <map>         // by name
#include <set>         // classes

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

using namespace gx::sim;
using namespace gx::sim::fuzz;

/// The reducers that the seeds and hashes below were recorded with: the first of the list; those
/// that came next; both.
constexpr std::ptrdiff_t first_count = 15, recorded_count = 27;
std::vector<FuzzedReducer> first_reducers() {
    return {reducers().begin(), reducers().begin() + first_count};
}
std::vector<FuzzedReducer> later_reducers() {
    return {reducers().begin() + first_count, reducers().begin() + recorded_count};
}
std::vector<FuzzedReducer> recorded_reducers() {
    return {reducers().begin(), reducers().begin() + recorded_count};
}
std::vector<FuzzedReducer> reducer_named(const std::string& name) {
    for (const FuzzedReducer& r : reducers())
        if (r.name == name) return {r};
    return {};
}

// ---- What is drawn ------------------------------------------------------------------------
RC_GTEST_PROP(Fuzz, FaultsThatAreDrawnCanBe, (std::uint64_t seed)) {
    const Scenario s = draw(seed, 5);
    gx::Problems problems;
    check_faults(s.faults, s.cluster, problems);
    RC_ASSERT(problems.sentences() == std::vector<std::string>{});
    RC_ASSERT(s.elements >= 1 && s.samples >= s.cluster.ranks() && s.deadline > s.horizon);
}
RC_GTEST_PROP(Fuzz, ASeedIsAScenario, (std::uint64_t seed)) {
    const Scenario a = draw(seed, 5), b = draw(seed, 5);
    RC_ASSERT(fuzz::describe(a, reducers()) == fuzz::describe(b, reducers()));
}
RC_GTEST_PROP(Fuzz, AClassThatIsLeftOutShiftsNoOther, (std::uint64_t seed)) {
    const ClusterSpec spec = ethernet_10g(4);
    const auto all = random_faults(seed, spec, gx::Nanoseconds(1'000'000), {.absent = 0});
    const auto some = random_faults(seed, spec, gx::Nanoseconds(1'000'000),
                                    {.absent = 0, .corruption = false, .checkpoints = false});
    std::vector<std::string> kept, expected;
    for (std::size_t i = 0; i < some.size(); ++i) kept.push_back(gx::sim::describe(some[i], 0));
    for (const Fault& f : all) {
        const FaultClass c = class_of(f);
        if (c != FaultClass::bit_flip && c != FaultClass::nan && c != FaultClass::torn_checkpoint)
            expected.push_back(gx::sim::describe(f, 0));
    }
    RC_ASSERT(kept == expected);
}
TEST(Fuzz, EveryReducerIsDrawnInEverySizeWithEveryClassOfFault) {
    const std::size_t count = reducers().size();
    Coverage drawn(count);
    std::set<Fabric::Kind> fabrics;
    std::set<int> ranks;
    std::map<std::size_t, int> phases;
    int within = 0;  // an epoch there are checkpoints
    for (std::uint64_t seed = 1; seed <= 40'000; ++seed) {
        const Scenario s = draw(seed, static_cast<int>(count));
        ++phases[s.phases.size()];
        within += s.every_steps > 0;
        for (const gx::Phase& p : s.phases)
            ASSERT_LE(p.batch * s.cluster.ranks(), s.samples) << "seed " << seed;
        Verdict v;
        for (const Fault& f : s.faults) v.fired[static_cast<std::size_t>(class_of(f))] = true;
        drawn.add(s, v);
        fabrics.insert(s.cluster.fabric.kind);
        ranks.insert(s.cluster.ranks());
    }
    EXPECT_EQ(drawn.covered(), drawn.cells()) << drawn.table(reducers());
    EXPECT_EQ(fabrics.size(), 6u);
    EXPECT_EQ(drawn.stacks_covered(), Coverage::stack_cells()) << drawn.stacks();
    EXPECT_GT(drawn.races(), 40'000 / 5);
    EXPECT_GT(drawn.wired(), 40'000 / 20);
    EXPECT_GT(within, 40'000 / 8);
    for (int n = 1; n <= 12; ++n) EXPECT_TRUE(ranks.contains(n)) << n;
    for (std::size_t n = 0; n <= 3; ++n) EXPECT_GT(phases[n], 40'000 / 50) << n << " phases";
}

// ---- Seeds that must pass -------------------------------------------------------------------
TEST(Fuzz, ShortCampaign) {
    const CampaignReport r = campaign(reducers(), {}, {.count = 250});
    EXPECT_EQ(r.failing_seed, 0u) << name_of(r.failure.kind) << ": " << r.failure.sentence << "\n"
                                  << (r.failing_seed ? fuzz::describe(r.scenario, reducers()) : "")
                                  << "replay: gx_fuzz --seed " << r.failing_seed;
    EXPECT_GT(r.with_faults, 150);
    EXPECT_GT(r.worlds, 300) << "worlds that shrink are among them";
    EXPECT_GE(r.twice, 15u) << "seeds that ran twice gave the same events";
}

TEST(Fuzz, EventsAndBitsAreTheSameOnEveryCompiler) {
    const auto hash = [](const std::vector<FuzzedReducer>& from, const fuzz::Tampering& tampering,
                         bool phases = false) {
        EventHash all(0);
        for (std::uint64_t seed = 1; seed <= 40; ++seed) {
            Scenario s = draw(seed, static_cast<int>(from.size()));
            if (!phases) s.phases.clear();
            all.add(gx::Nanoseconds(0), EventKind::charge, 0,
                    from[static_cast<std::size_t>(s.reducer)].run(s, tampering).hash, 0);
        }
        return all.value();
    };
    EXPECT_EQ(hash(first_reducers(), {}), 0xadabe04447834beu);
    EXPECT_EQ(hash(first_reducers(), {.charge_reducer_kernels = false}), 0xea0410c61f63e969u)
        << "with kernels of reducers that take no time";
    EXPECT_EQ(hash(later_reducers(), {}), 0x8a251dae7078b304u);
    EXPECT_EQ(hash(recorded_reducers(), {}, true), 0x2f662a0c20d9259au)
        << "with the phases that seeds draw";
}

// Tori of 22 to 24 wired machines: with routes to every NIC the longest has 17 or 18 links.
TEST(Fuzz, SeedsWhoseClusterCouldNotBeBuilt) {
    for (const std::uint64_t seed :
         {102643u, 217904u, 735921u, 739845u, 965401u, 1014172u, 1073010u}) {
        const CampaignReport r = campaign(first_reducers(), {}, {.first = seed, .count = 1});
        EXPECT_EQ(r.failing_seed, 0u) << seed << ": " << r.failure.sentence;
    }
    const CampaignReport r =
        campaign(first_reducers(), {}, {.first = 9065629576482480454u, .count = 1});
    EXPECT_EQ(r.failing_seed, 0u) << r.failure.sentence;
}
// The rows of epoch 1 were read from its checkpoint, which was torn, where the record had them.
TEST(Fuzz, ASeedWhoseRecordLostRows) {
    const CampaignReport r = campaign(first_reducers(), {}, {.first = 15'417, .count = 1});
    EXPECT_EQ(r.failing_seed, 0u) << r.failure.sentence;
}
// A flipped bit of an index made TopK write outside of its bucket.
TEST(Fuzz, ASeedWhoseCorruptedIndexWasNotInTheBucket) {
    const auto top = reducer_named("DoubleBuffered<Bucketed<TopK, 64>>, 25 %");
    ASSERT_EQ(top.size(), 1u);
    const CampaignReport r = campaign(top, {}, {.first = 287, .count = 1});
    EXPECT_EQ(r.failing_seed, 0u) << r.failure.sentence;
}
// A rank died in the last message of an epoch whose steps were all skipped, and the first of the
// others to say so was named by those that waited for it.
TEST(Fuzz, ASeedWhoseRanksThrewWhatIsNoLoss) {
    const CampaignReport r = campaign(recorded_reducers(), {}, {.first = 34'520, .count = 1});
    EXPECT_EQ(r.failing_seed, 0u) << r.failure.sentence;
}
// Rank 0 died when the others had finished: who has finished need not be told.
TEST(Fuzz, ASeedWhoseRootDiesLast) {
    const CampaignReport r = campaign(recorded_reducers(), {}, {.first = 257'957, .count = 1});
    EXPECT_EQ(r.failing_seed, 0u) << r.failure.sentence;
}
// An epoch was done again by fewer ranks, and its checkpoint read as that of the first time.
TEST(Fuzz, ASeedWhoseEpochIsDoneAgainByFewerRanks) {
    const CampaignReport r =
        campaign(reducer_named("TopK, 10 %"), {}, {.first = 72'912, .count = 1});
    EXPECT_EQ(r.failing_seed, 0u) << r.failure.sentence;
}
RC_GTEST_PROP(Fuzz, EveryClusterThatIsDrawnCanBeBuilt, (std::uint64_t seed)) {
    const Scenario s = draw(seed, 5);
    check_cluster(s.cluster, true);
    (void)s.benign();  // asks whether faults leave routes
}

// ---- A harness that fails -------------------------------------------------------------------
TEST(Fuzz, AnExceptionIsACrashWithItsSentence) {
    const auto of = [](auto* run) {
        return campaign({{"throws", run}}, {}, {.first = 5, .count = 3});
    };
    const CampaignReport a = of(+[](const Scenario&, const Tampering&) -> Verdict {
        throw gx::Error("this world cannot be built");
    });
    EXPECT_EQ(a.failure.kind, Kind::crash);
    EXPECT_EQ(a.failing_seed, 5u);
    EXPECT_EQ(a.scenario.seed, 5u);
    EXPECT_EQ(a.failure.sentence, "an exception left the harness: this world cannot be built");
    const CampaignReport b =
        of(+[](const Scenario&, const Tampering&) -> Verdict { throw RankDied{1}; });
    EXPECT_EQ(b.failure.kind, Kind::crash);
    EXPECT_EQ(b.failure.sentence, "an exception that is no std::exception left the harness");
}
RC_GTEST_PROP(Fuzz, PartsOfARangeAreTheRange, ()) {
    const SeedRange all{*rc::gen::inRange<std::uint64_t>(1, 1'000),
                        *rc::gen::inRange<std::uint64_t>(1, 1'000)};
    const auto parts = *rc::gen::inRange<std::uint64_t>(1, all.count + 1);
    std::uint64_t next = all.first;
    for (std::uint64_t n = 1; n <= parts; ++n) {
        const SeedRange part = part_of(all, n, parts);
        RC_ASSERT(part.first == next);
        RC_ASSERT(part.count >= all.count / parts && part.count <= all.count / parts + 1);
        next += part.count;
    }
    RC_ASSERT(next == all.first + all.count);
}

// ---- Bugs that must be found ----------------------------------------------------------------
class Planted : public ::testing::TestWithParam<std::size_t> {};
TEST_P(Planted, BugIsFound) {
    const SeededBug& bug = seeded_bugs()[GetParam()];
    const CampaignReport r = campaign({bug.reducer}, bug.tampering, {.count = 1'200});
    EXPECT_NE(r.failing_seed, 0u) << bug.name << ": " << bug.what;
    EXPECT_NE(r.failure.kind, Kind::crash)
        << "the harness failed, not the bug: " << r.failure.sentence;
    RecordProperty("seeds", static_cast<int>(r.seeds));
}
TEST_P(Planted, BugIsFoundFromAnotherStart) {
    const SeededBug& bug = seeded_bugs()[GetParam()];
    const std::uint64_t first = gx::Rng(20'260, bug.name).below(0, std::uint64_t{1} << 62);
    const CampaignReport r =
        campaign({bug.reducer}, bug.tampering, {.first = first, .count = 3'000});
    EXPECT_NE(r.failing_seed, 0u) << bug.name << " from " << first << ": " << bug.what;
    EXPECT_NE(r.failure.kind, Kind::crash) << r.failing_seed << ": " << r.failure.sentence;
}
// Each of these ran into a limit of the simulator before it had waited for long enough: a million
// open messages, and a retry that met a message of another length.
TEST(Fuzz, AHangIsALivenessFailureFromAnyStart) {
    for (const SeededBug& bug : seeded_bugs())
        for (const std::uint64_t first : {1u, 2'078'200'003u, 1'657'700'005u}) {
            if (bug.name != "hang") continue;
            const CampaignReport r =
                campaign({bug.reducer}, bug.tampering, {.first = first, .count = 1'200});
            EXPECT_EQ(r.failure.kind, Kind::liveness) << first << ": " << r.failure.sentence;
        }
}
INSTANTIATE_TEST_SUITE_P(Fuzz, Planted, ::testing::Range(std::size_t{0}, seeded_bugs().size()),
                         [](const auto& i) {
                             std::string name = seeded_bugs()[i.param].name;
                             for (char& c : name)
                                 if (c == '-') c = '_';
                             return name;
                         });

// Without what they break being drawn, these bugs change nothing that is looked at.
TEST(Fuzz, SomeBugsAreFoundByOneDimensionAlone) {
    const auto lost = [](const Scenario& s) {
        return s.has(FaultClass::nic_lost) || s.has(FaultClass::switch_lost);
    };
    const std::map<std::string, std::function<bool(const Scenario&)>> needs{
        {"ready-early", [](const Scenario& s) { return s.races; }},
        {"twice-in-phase", [](const Scenario& s) { return s.phases.size() > 1; }},
        {"first-batch", [](const Scenario& s) { return s.phases.size() > 1; }},
        {"forget-place", [](const Scenario& s) { return s.phases.size() > 1; }},
        {"free-stack", [](const Scenario& s) { return s.cluster.profile.name.view() != "exact"; }},
        {"keep-lost-way", lost},
        {"drop-in-flight", lost}};
    std::size_t tried = 0;
    for (const SeededBug& p : seeded_bugs()) {
        const auto need = needs.find(p.name);
        if (need == needs.end()) continue;
        ++tried;
        const CampaignReport r =
            campaign({p.reducer}, p.tampering, {.count = 150, .leave_out = need->second});
        EXPECT_EQ(r.failing_seed, 0u) << p.name << ": " << r.failure.sentence;
        EXPECT_GT(r.seeds, 50u);
    }
    EXPECT_EQ(tried, needs.size());
}

}  // namespace
