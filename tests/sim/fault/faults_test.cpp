#include <gx/sim/fault/faults.hpp>  // first, so the header is seen to stand alone

#include <algorithm>  // max
#include <array>      // messages

#include <limits>   // largest numbers
#include <string>   // sentences
#include <utility>  // pair

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/core/error.hpp>                   // LostRank
#include <gx/reducer/pipeline.hpp>             // Pipeline
#include <gx/reducer/ring.hpp>                 // Ring
#include <gx/sim/world/cluster.hpp>            // Cluster
#include <gx/sim/catalog/simple_clusters.hpp>  // ethernet_10g, v100_box
#include <gx/sim/world/matching.hpp>           // MessageMatcher
#include <gx/testing/rows.hpp>                 // small_integers

namespace {

using gx::Delivery;
using gx::LostRank;
using gx::Nanoseconds;
using namespace gx::literals;
using namespace gx::sim;
using World = Cluster<>;

/// One GPU a machine, 1 GB/s, 10 us, no cap: times can be worked out by hand.
constexpr ClusterSpec plain(int machines) {
    auto spec = ethernet_10g(machines);
    spec.machine.nic_line_rate = 1_GBps;
    spec.goodput = 1;
    spec.flow_cap = {0};
    spec.latency = 10_us;
    return spec;
}

std::string error_of(auto f) {
    try {
        f();
    } catch (const gx::Error& e) {
        return e.what();
    }
    return "no error";
}
bool holds(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

/// Rank 0 sends a megabyte to rank 1, once or more, each as soon as the last is done.
struct Transfer {
    std::vector<Nanoseconds> arrived{};
    std::vector<Delivery> told = std::vector<Delivery>(2);
    bool intact = true;

    explicit Transfer(World& world, int times = 1) {
        world.run([&](auto& rank) {
            if (rank.rank() > 1) return;
            auto& link = rank.transport();
            std::vector<std::byte> message(1'000'000);
            for (int i = 0; i < times; ++i) {
                const auto me = static_cast<std::size_t>(rank.rank());
                if (me == 0) std::fill(message.begin(), message.end(), std::byte(i + 1));
                const auto r = me == 0 ? link.send(1, 0, message) : link.receive(0, 0, message);
                told[me] = link.wait(r);
                if (!told[me].complete()) return;
                for (const std::byte b : message) intact = intact && b == std::byte(i + 1);
                if (me == 1) arrived.push_back(rank.now());
            }
        });
    }
};

// ---- Links, by hand: 10 us of latency, then 1000 us --------------------------------------
TEST(Faults, ASlowLinkCarriesItsShareMeanwhile) {
    World world(plain(2), {.faults = {SlowLink{{.machine = 0}, 0.25, 110_us, 400_us}}});
    // 100 us at full rate, 400 us at a quarter, and 800 more at full rate.
    EXPECT_EQ(Transfer(world).arrived.at(0), 10_us + 100_us + 400_us + 800_us);
}
TEST(Faults, ACutLinkIsWaitedFor) {
    World world(plain(2), {.faults = {CutLink{{.machine = 1}, 500_us, 3'000_us}}});
    EXPECT_EQ(Transfer(world).arrived.at(0), 1'010_us + 3'000_us);
}
TEST(Faults, ALinkCutOneWayCarriesTheOther) {
    World into(plain(2),
               {.faults = {CutLink{{.machine = 0, .direction = Direction::in}, 0_us, 3'000_us}}});
    EXPECT_EQ(Transfer(into).arrived.at(0), 1'010_us);
    World out(plain(2),
              {.faults = {CutLink{{.machine = 0, .direction = Direction::out}, 0_us, 3'000_us}}});
    EXPECT_EQ(Transfer(out).arrived.at(0), 4'000_us);
}
TEST(Faults, AFlappingLinkIsDownAndUpInTurns) {
    World world(plain(2), {.faults = {FlappingLink{{.machine = 0}, 100_us, 300_us, 10_us}}});
    // 300 us are carried in each 400; the last 100 us come after four breaks.
    EXPECT_EQ(Transfer(world).arrived.at(0), 10_us + 4 * 100_us + 1'000_us);
}
TEST(Faults, TheSlowestOfTwoCounts) {
    World world(plain(2), {.faults = {SlowLink{{.machine = 0}, 0.5, 10_us, 400_us},
                                      SlowLink{{.machine = 0}, 0.25, 10_us, 200_us}}});
    // 200 us at a quarter: 50; 200 at a half: 100; 850 at full rate.
    EXPECT_EQ(Transfer(world).arrived.at(0), 10_us + 400_us + 850_us);
}
TEST(Faults, ALostNicIsNamedByBothSides) {
    for (const int machine : {0, 1}) {
        World world(plain(2), {.deadline = 5'000_us, .faults = {LostNic{machine, 200_us}}});
        const Transfer t(world);
        EXPECT_TRUE(t.arrived.empty());
        for (const Delivery& d : t.told) {
            EXPECT_FALSE(d.complete());
            EXPECT_EQ(d.peer, machine);
        }
        EXPECT_EQ(world.elapsed(), 5'000_us);
    }
}
TEST(Faults, LinksInsideAMachineBreakToo) {
    auto spec = v100_box();
    World whole(spec), slow(spec, {.faults = {SlowLink{{.gpu = 1}, 0.01}}});
    EXPECT_GT(Transfer(slow).arrived.at(0), 2 * Transfer(whole).arrived.at(0));
}

// ---- GPUs -------------------------------------------------------------------------------
Nanoseconds charged(FaultList faults, Nanoseconds work) {
    World world(plain(2), {.faults = std::move(faults), .faults_must_fire = false});
    Nanoseconds end{};
    world.run([&](auto& rank) {
        if (rank.rank() != 0) return;
        rank.charge(work, "work", Activity::compute);
        end = rank.now();
    });
    return end;
}
TEST(Faults, ASlowGpuTakesLongerMeanwhile) {
    EXPECT_EQ(charged({SlowGpu{0, 3, 10_us, 30_us}}, 40_us), 10_us + 30_us + 20_us);
    EXPECT_EQ(charged({SlowGpu{1, 3, 10_us, 30_us}}, 40_us), 40_us) << "another rank's";
    EXPECT_EQ(charged({SlowGpu{0, 3, 40_us, 30_us}}, 40_us), 40_us) << "too late";
}
TEST(Faults, APausedGpuDoesNothingMeanwhile) {
    EXPECT_EQ(charged({PausedGpu{0, 10_us, 100_us}}, 40_us), 140_us);
}
TEST(Faults, StragglersComeInBursts) {
    // 5 times slower for 10 us of each 20, three times: 30 us pass and 24 us of work are not done.
    EXPECT_EQ(charged({StragglerBursts{0, 5, 0_us, 10_us, 20_us, 3}}, 100_us), 124_us);
}
TEST(Faults, APausedGpuAnswersLate) {
    World world(plain(2), {.faults = {PausedGpu{1, 0_us, 9'000_us}}});
    EXPECT_EQ(Transfer(world).arrived.at(0), 9'000_us);
}
TEST(Faults, ADeadGpuIsNamedAtTheDeadline) {
    World world(plain(2), {.deadline = 5'000_us, .faults = {DeadGpu{0, 700_us}}});
    const Transfer t(world);
    EXPECT_TRUE(world.died(0));
    EXPECT_FALSE(world.died(1));
    EXPECT_EQ(t.told[1].outcome, Delivery::Outcome::timed_out);
    EXPECT_EQ(t.told[1].peer, 0);
    EXPECT_EQ(world.elapsed(), 5'000_us);
}
TEST(Faults, ADeadGpuWhoseConnectionsCloseIsNamedAtOnce) {
    World world(plain(2), {.deadline = 5'000_us, .faults = {DeadGpu{0, 700_us, false}}});
    const Transfer t(world);
    EXPECT_EQ(t.told[1].peer, 0);
    EXPECT_EQ(world.elapsed(), 700_us);
}
TEST(Faults, ADeadRankIsUnwound) {
    struct Tells {
        int& count;
        explicit Tells(int& c) : count(c) {}
        Tells(const Tells&) = delete;
        ~Tells() { ++count; }
    };
    int unwound = 0, handled = 0;
    World world(plain(2), {.faults = {DeadGpu{0, 5_us}}});
    world.run([&](auto& rank) {
        const Tells tells(unwound);
        try {
            rank.charge(10_us, "work");
        } catch (const std::exception&) {
            ++handled;
        }
        if (rank.rank() == 0) ADD_FAILURE() << "a dead rank goes on";
    });
    EXPECT_EQ(unwound, 2);
    EXPECT_EQ(handled, 0);
    EXPECT_EQ(world.elapsed(), 10_us);
}

// ---- Messages: one (from, to, channel) keeps its order -------------------------------------
TEST(Faults, ADelayedMessageArrivesLater) {
    World world(plain(2), {.faults = {DelayedMessages{0, 1, 500_us, 0_us, 100_us}}});
    const auto arrived = Transfer(world, 2).arrived;
    EXPECT_EQ(arrived.at(0), 1'510_us);
    EXPECT_EQ(arrived.at(1), 2'520_us) << "posted when the fault is over";
}
TEST(Faults, OfADuplicateTheSecondCopyIsDiscarded) {
    World world(plain(2), {.faults = {DuplicatedMessages{0, 1}}});
    const Transfer t(world, 5);
    EXPECT_EQ(t.arrived.size(), 5u);
    EXPECT_TRUE(t.intact);
    EXPECT_GE(world.matcher().duplicates_discarded(), 4u);
    World blind(plain(2),
                {.faults = {DuplicatedMessages{0, 1}}, .delivery = {.discard_duplicates = false}});
    EXPECT_FALSE(Transfer(blind, 5).intact) << "without the rule the copy is taken for the next";
}

/// Six messages of one lane, all posted at once: do they arrive as they were sent?
bool in_order(World& world) {
    bool right = true;
    world.run([&](auto& rank) {
        auto& link = rank.transport();
        std::array<std::vector<std::byte>, 6> messages;
        std::vector<gx::Request> requests;
        for (std::size_t i = 0; i < 6; ++i) {
            messages[i].assign(1000, rank.rank() == 0 ? std::byte(i + 1) : std::byte{});
            requests.push_back(rank.rank() == 0 ? link.send(1, 0, messages[i])
                                                : link.receive(0, 0, messages[i]));
        }
        Nanoseconds last{};
        for (std::size_t i = 0; i < 6; ++i) {
            EXPECT_TRUE(link.wait(requests[i]).complete());
            right = right && messages[i] == std::vector<std::byte>(1000, std::byte(i + 1));
            EXPECT_GE(rank.now(), last);
            last = rank.now();
        }
    });
    return right;
}
TEST(Faults, OvertakingIsHealedByNumbers) {
    World world(plain(2), {.faults = {ReorderedMessages{0, 1, 300_us}}});
    EXPECT_TRUE(in_order(world));
    EXPECT_GT(world.matcher().reordered(), 0u);
    World blind(plain(2),
                {.faults = {ReorderedMessages{0, 1, 300_us}}, .delivery = {.in_order = false}});
    EXPECT_FALSE(in_order(blind)) << "without the rule the wrong message is taken";
}
TEST(Faults, AFlippedBitIsSeenByAChecksumOnly) {
    for (const Fault& fault : {Fault{FlippedBit{0, 1}}, Fault{NanInPayload{0, -1}}}) {
        World blind(plain(2), {.faults = {fault}});
        const Transfer t(blind);
        EXPECT_TRUE(t.told[1].complete());
        EXPECT_FALSE(t.intact);
        World checked(plain(2), {.faults = {fault}, .delivery = {.checksum = true}});
        const Transfer c(checked);
        EXPECT_EQ(c.told[1].outcome, Delivery::Outcome::corrupted);
        EXPECT_EQ(c.told[1].peer, 0);
    }
}

// ---- Every survivor is told rank, step, bucket and operation ------------------------------
/// `steps` steps of a gradient of 40 elements in buckets of 10; throws LostRank as a trainer does.
void train(World& world, std::uint64_t steps) {
    world.run([&](auto& rank) {
        gx::Pipeline pipeline(rank.stream(), rank.transport(),
                              {.elements = 40, .bucket_elements = 10}, gx::Ring<gx::fp32>());
        for (std::uint64_t t = 0; t < steps; ++t) {
            const auto g = pipeline.begin(t);
            std::fill(g.begin(), g.end(), 1.0f);
            rank.charge(100_us, "backward", Activity::compute);
            pipeline.ready(0);
            const auto r = pipeline.collect(t);
            if (!r->report.complete())
                throw LostRank({rank.rank(), static_cast<std::int64_t>(t), r->failed_bucket,
                                r->buckets, "all-reduce"},
                               r->report.delivery);
        }
    });
}
std::vector<LostRank::Where> told(World& world, std::uint64_t steps, int lost) {
    EXPECT_THROW(train(world, steps), LostRank);
    std::vector<LostRank::Where> all;
    for (int r = 0; r < world.ranks(); ++r) {
        EXPECT_EQ(world.died(r), r == lost);
        if (r == lost) {
            EXPECT_EQ(world.error_of(r), nullptr);
            continue;
        }
        try {
            std::rethrow_exception(world.error_of(r));
        } catch (const LostRank& e) {
            EXPECT_EQ(e.lost(), lost) << "rank " << r;
            EXPECT_EQ(e.where().rank, r);
            EXPECT_EQ(e.where().operation, "all-reduce");
            all.push_back(e.where());
        }
    }
    return all;
}
TEST(Faults, EverySurvivorNamesTheRankThatDiesInACollective) {
    for (const bool silent : {true, false})
        for (int message = 0; message < 6; ++message) {
            World world(plain(4), {.deadline = 50'000_us,
                                   .faults = {DeadInCollective{2, 3, 1, message, silent}}});
            const auto all = told(world, 10, 2);
            ASSERT_EQ(all.size(), 3u);
            for (const auto& where : all) {
                EXPECT_EQ(where.step, 3);
                // Some may have had all they need of bucket 1 when the last messages were lost.
                EXPECT_TRUE(where.bucket == 1 || (message == 5 && where.bucket == 2));
                EXPECT_EQ(where.buckets, 4);
            }
        }
}
TEST(Faults, EverySurvivorNamesTheRankThatDiesWhileItComputes) {
    for (const Nanoseconds at : {0_us, 50_us, 150_us, 333_us, 700_us}) {
        World world(plain(5), {.deadline = 50'000_us, .faults = {DeadGpu{4, at}}});
        EXPECT_EQ(told(world, 10, 4).size(), 4u) << at.count();
    }
}
TEST(Faults, ASentenceNamesRankStepBucketAndOperation) {
    World world(plain(3), {.faults = {DeadInCollective{1, 2, 0, 0, false}}});
    EXPECT_EQ(error_of([&] { train(world, 10); }),
              "rank 0, step 2, bucket 0 of 4, operation all-reduce: rank 1 timed "
              "out. Look at that rank's own error, or, if it has none, at the deadline, then go "
              "on from the last checkpoint.");
}
TEST(Faults, PartsAndControlOperationsAreNoOtherBucket) {
    World world(plain(2), {.faults = {DeadInCollective{1, 2, 0, 1, false}}});
    EXPECT_THROW(world.run([](auto& rank) {
        auto& link = rank.transport();
        std::byte x{};
        for (int i = 0; i < 2; ++i) {
            gx::working_on(link, {"all-reduce", 2, 0});
            gx::working_on_part(link, "MEMCPY_IN_FUSION_BUFFER");
            const auto in = link.receive(1 - rank.rank(), 0, {&x, 1});
            const auto out = link.send(1 - rank.rank(), 0, {&x, 1});
            const Delivery d = link.wait(in);
            if (!d.complete()) throw LostRank({.rank = rank.rank()}, d);
            EXPECT_TRUE(link.wait(out).complete());
            gx::working_on(link, {"summing the metrics", 2});
            gx::working_on(link, {"all-reduce", 2, 0});
        }
    }),
                 LostRank);
    EXPECT_TRUE(world.died(1)) << "in the second message of bucket 0, not of anything else";
}
TEST(Faults, ARunWithFaultsRepeatsToTheEvent) {
    const auto hash = [](std::uint64_t seed, bool charged = true) {
        World world(plain(4), {.seed = seed,
                               .charge_reducer_kernels = charged,
                               .faults = {SlowLink{{.machine = 1}, 0.3, 100_us, 500_us},
                                          DelayedMessages{0, -1, 50_us, 0_us, 1'000_us},
                                          StragglerBursts{3, 4, 0_us, 10_us, 50_us, 9}}});
        train(world, 12);
        return world.event_hash();
    };
    EXPECT_EQ(hash(1), hash(1));
    EXPECT_NE(hash(1), hash(2));
    EXPECT_EQ(hash(1, false), 0xc3f0c10887c6979au)
        << "the same on every compiler and at every level of optimisation";
    EXPECT_EQ(hash(1), 0x7cb3d403efe26787u) << "a reducer's scalings take time too";
}

// ---- Faults that cannot be ----------------------------------------------------------------
TEST(Faults, EverythingWrongIsToldAtOnce) {
    const std::string text = error_of([] {
        World world(plain(2), {.deadline = Nanoseconds(0),
                               .faults = {DeadGpu{7}, SlowLink{{.machine = 2}, 1.5},
                                          CutLink{{}, Nanoseconds(-1)}, SlowGpu{0, 0.5},
                                          DelayedMessages{1, 1}, PausedGpu{0, 0_us, forever},
                                          TornCheckpoint{-1}}});
    });
    for (const char* part :
         {"deadline is 0 ns: it ends every wait at once",
          "fault 0, GPU dead, rank 7, at 0 ns: rank is 7: this cluster has ranks 0 to 1",
          "fault 1, link slow, NIC of machine 2, at 0 ns: machine is 2: this cluster has machines "
          "0 to 1",
          "share is 1.5", "fault 2, link cut", "starts at -1 ns: a run begins at 0",
          "names a machine or a GPU", "factor is 0.5", "is from a rank to itself", "by is 0 ns",
          "that is a DeadGpu", "counts checkpoints from 0"})
        EXPECT_TRUE(holds(text, part)) << part << "\nis not in\n" << text;
}
TEST(Faults, BurstsAndNicsAreCounted) {
    const Nanoseconds day(86'400'000'000'000);
    const std::string text = error_of([&] {
        World world(plain(2), {.faults = {StragglerBursts{0, 2, 0_us, 1_us, 1_us, 10'001},
                                          StragglerBursts{0, 2, 0_us, 1_us, day, 366},
                                          StragglerBursts{0, 2, 0_us, 1_us, 365 * day,
                                                          std::numeric_limits<int>::max()},
                                          CutLink{{.machine = 0, .nic = -2}}}});
    });
    for (const char* part :
         {"fault 0, straggler, rank 0, at 0 ns: comes 10001 times: give 1 to 10000",
          "fault 1, straggler, rank 0, at 0 ns: comes 366 times, every 86400 s: give a "
          "year in all at most",
          "fault 2, straggler, rank 0, at 0 ns: comes 2147483647 times",
          "nic is -2: a machine has NICs 0 to 0, and -1 names all of them"})
        EXPECT_TRUE(holds(text, part)) << part << "\nis not in\n" << text;
    World world(plain(2), {.faults = {StragglerBursts{0, 2, 0_us, 1_us, day, 365}}});
}
// Each change of a link is an event: periods of nanoseconds would fill a run with them.
TEST(Faults, FlapsAreCounted) {
    const Nanoseconds ns(1);
    const std::string text = error_of([&] {
        World world(plain(2),
                    {.faults = {FlappingLink{{.machine = 0}, ns, ns},
                                FlappingLink{{.machine = 0}, 60_us, 30_us, 0_us, forever},
                                FlappingLink{{.machine = 0}, ns, ns, 0_us, 2'001_us},
                                FlappingLink{{.machine = 0}, ns, forever, 0_us, 1'000'000_us}}});
    });
    for (const char* part :
         {"fault 0, link flap, NIC of machine 0, at 0 ns: down and up together are 2 ns: give at "
          "least 100 us where lasts is forever",
          "fault 1, link flap, NIC of machine 0, at 0 ns: down and up together are 90 us",
          "fault 2, link flap, NIC of machine 0, at 0 ns: goes down 1000500 times in lasts: give "
          "longer down and up, or a shorter lasts, for at most 1000000"})
        EXPECT_TRUE(holds(text, part)) << part << "\nis not in\n" << text;
    EXPECT_FALSE(holds(text, "fault 3")) << "it goes down once";
    World world(plain(2), {.faults = {FlappingLink{{.machine = 0}, 60_us, 40_us},
                                      FlappingLink{{.machine = 0}, ns, ns, 0_us, 2'000_us}}});
    EXPECT_EQ(Transfer(world).arrived.size(), 1u);
}
TEST(Faults, TimesBeyondAYearAreRefused) {
    const std::string text = error_of([] {
        World world(plain(2),
                    {.faults = {DelayedMessages{0, 1, forever}, ReorderedMessages{0, 1, forever},
                                StragglerBursts{0, 2, 0_us, 1_us, forever, 3},
                                StragglerBursts{0, 2, forever, 1_us, 1_us, 3}}});
    });
    for (const char* part :
         {"fault 0, delayed, from rank 0 to rank 1, at 0 ns: by is forever: "
          "give a year at most; a message that never arrives is a CutLink",
          "fault 1, reordered", "fault 2, straggler", "every is forever: give a year at most",
          "starts at forever: give a year at most"})
        EXPECT_TRUE(holds(text, part)) << part << "\nis not in\n" << text;
}
TEST(Faults, ALinkMayBeDownForEverInItsFirstFlap) {
    World world(plain(2), {.deadline = 5'000_us,
                           .faults = {FlappingLink{{.machine = 0}, forever, 1_us, 10_us}}});
    EXPECT_FALSE(Transfer(world).told[1].complete());
}
// Whatever times are accepted, the run ends: with its messages, or with a failed rank.
RC_GTEST_PROP(Faults, AnyTimesEndTheRunOrAreRefused, ()) {
    const auto time = [] {
        return Nanoseconds(*rc::gen::element<std::int64_t>(
            1, 100'000, 1'000'000, 86'400'000'000'000, 31'536'000'000'000'000,
            1'000'000'000'000'000'000, forever.count() / 2, forever.count() - 1, forever.count()));
    };
    bool flaps = false;
    const auto fault = [&]() -> Fault {
        const Wire wire{.machine = *rc::gen::inRange(0, 2)};
        const double factor = *rc::gen::element(1.0, 2.5, 1e6);
        const Nanoseconds a = time(), b = time(), c = time(), d = time();
        const int times = *rc::gen::inRange(1, 9), kind = *rc::gen::inRange(0, 11);
        switch (kind) {
            case 0: return SlowLink{wire, 0.5, a, b};
            case 1: return CutLink{wire, a, b};
            case 2:  // each change is an event: not too many up to the deadline
                flaps = true;
                return FlappingLink{wire, std::max(a, 100_us), std::max(b, 100_us), c, d};
            case 3: return LostNic{0, a, 0, b};
            case 4: return SlowGpu{0, factor, a, b};
            case 5: return PausedGpu{0, a, b};
            case 6: return DeadGpu{0, a, times < 5};
            case 7: return StragglerBursts{0, factor, a, b, c, times};
            case 8: return DelayedMessages{0, 1, a, b, c};
            case 9: return DuplicatedMessages{0, 1, a, b};
            default: return ReorderedMessages{0, 1, a, b, c};
        }
    };
    FaultList faults;
    for (int n = *rc::gen::inRange(1, 3); n > 0; --n) faults.push_back(fault());
    const Nanoseconds deadline =
        flaps || *rc::gen::arbitrary<bool>() ? 1'000'000_us : forever - Nanoseconds(1);
    try {
        World world(plain(2), {.deadline = deadline, .faults = faults, .faults_must_fire = false});
        world.run([&](auto& rank) {
            auto& link = rank.transport();
            std::array<std::byte, 1000> message{};
            for (int i = 0; i < 3; ++i) {
                rank.charge(100_us, "work", Activity::compute);
                const auto r =
                    rank.rank() == 0 ? link.send(1, 0, message) : link.receive(0, 0, message);
                if (!link.wait(r).complete()) return;
            }
        });
    } catch (const gx::Error& e) {
        RC_ASSERT(holds(e.what(), "this cluster cannot run"));
    }
}
TEST(Faults, WithoutADeadlineALostRankWouldBeWaitedForForEver) {
    EXPECT_TRUE(holds(
        error_of([] { World world(plain(2), {.deadline = forever, .faults = {DeadGpu{1}}}); }),
        "there are faults and no deadline"));
}
TEST(Faults, ATimeThatNeverComesIsToldAtTheEnd) {
    World world(plain(2), {.faults = {SlowLink{{.machine = 0}, 0.5, 10'000_us},
                                      SlowLink{{.machine = 0}, 0.5, 10_us}}});
    const std::string text = error_of([&] { Transfer t(world); });
    EXPECT_TRUE(holds(text, "faults without effect"));
    EXPECT_TRUE(holds(text,
                      "fault 0, link slow, NIC of machine 0, at 10 ms: it had no "
                      "effect before the run ended at 2.01 ms"));
    EXPECT_FALSE(holds(text, "fault 1"));
}

// ---- In a report --------------------------------------------------------------------------

TEST(Faults, EffectsNameWhatIsHitHowMuchAndWhen) {
    const std::pair<Fault, const char*> cases[] = {
        {SlowLink{{.machine = 1}, 0.25, 1'000_us, 5'000_us},
         "Fault (link slow): each NIC of machine 1 carries 25 % of its rate from 1 ms for 5 ms."},
        {CutLink{{.gpu = 3}}, "Fault (link cut): each link of GPU 3 carries nothing throughout."},
        {CutLink{{.machine = 1, .direction = Direction::out, .nic = 2}, 8'000_us},
         "Fault (link one way): NIC 2 of machine 1 carries nothing outwards from 8 ms on."},
        {FlappingLink{{.machine = 0, .direction = Direction::in}, 100_us, 300_us, 10_us},
         "Fault (link flap): each NIC of machine 0 is cut inwards for 100 us and whole for 300 us "
         "in turns from 10 us on."},
        {LostNic{1, 200_us, 3, 50_us},
         "Fault (NIC lost): NIC 3 of machine 1 fails at 200 us, which is detected after 50 us."},
        {SlowSwitch{{SwitchKind::spine, 2}, 0.125},
         "Fault (switch slow): spine 2 carries 12.5 % of its rate on every port throughout."},
        {LostSwitch{{SwitchKind::leaf, 1}, 1_us, 2_us},
         "Fault (switch lost): leaf 1 fails from 1 us for 2 us."},
        {SlowGpu{2, 1.5, 8'000_us},
         "Fault (GPU slow): rank 2 computes 1.5 times slower from 8 ms on."},
        {PausedGpu{2, 1_us, 3_us}, "Fault (GPU paused): rank 2 is paused from 1 us for 3 us."},
        {DeadGpu{2, 8'000_us}, "Fault (GPU dead): rank 2 dies silently at 8 ms."},
        {DeadGpu{2, 8'000_us, false},
         "Fault (GPU dead): rank 2 dies and closes its connections at 8 ms."},
        {DeadInCollective{2, 7, 1, 3},
         "Fault (dead in collective): rank 2 dies silently before message 3 of bucket 1 in step "
         "7."},
        {StragglerBursts{2, 4, 0_us, 2_us, 10_us, 3},
         "Fault (straggler): rank 2 computes 4 times slower from 0 ns for 2 us, 3 times, every 10 "
         "us."},
        {StragglerBursts{2, 4, 0_us, forever},
         "Fault (straggler): rank 2 computes 4 times slower throughout."},
        {DelayedMessages{0, 1, 5_us},
         "Fault (delayed): messages from rank 0 to rank 1 depart 5 us later throughout."},
        {DuplicatedMessages{0, -1, 1_us, 2_us},
         "Fault (duplicated): messages from rank 0 to any rank are sent twice from 1 us for 2 "
         "us."},
        {ReorderedMessages{0, 1, 5_us},
         "Fault (reordered): every other message from rank 0 to rank 1 departs 5 us later "
         "throughout."},
        {FlippedBit{0, 1, 5_us},
         "Fault (bit flip): one bit of a gradient from rank 0 to rank 1 is flipped, the first from "
         "5 us on."},
        {NanInPayload{0, -1, 5_us},
         "Fault (NaN): a gradient from rank 0 to any rank ends with a NaN, the first from 5 us "
         "on."},
        {TornCheckpoint{3, 0.5},
         "Fault (torn checkpoint): checkpoint 3 keeps 50 % of its bytes, where the program tears "
         "it."}};
    for (const auto& [fault, sentence] : cases) EXPECT_EQ(effect_of(fault), sentence);
}
TEST(Faults, AreNotesOfTheWorldUpToEight) {
    const auto notes = [](std::size_t faults) {
        FaultList list;
        for (std::size_t i = 0; i < faults; ++i)
            list.push_back(SlowGpu{1, 2, Nanoseconds(std::int64_t(i) + 1)});
        return World(plain(2), {.faults = list}).info().notes;
    };
    const std::vector<std::string> none = notes(0), one = notes(1), eight = notes(8),
                                   many = notes(11);
    ASSERT_EQ(one.size(), none.size() + 2);
    EXPECT_TRUE(holds(one[none.size()], "Faults: a message is waited for 600 s at most"));
    EXPECT_EQ(one.back(), "Fault (GPU slow): rank 1 computes 2 times slower from 1 ns on.");
    ASSERT_EQ(eight.size(), none.size() + 9);
    EXPECT_TRUE(holds(eight.back(), "from 8 ns on."));
    ASSERT_EQ(many.size(), none.size() + 10);
    EXPECT_EQ(many[none.size() + 8], eight.back());
    EXPECT_EQ(many.back(), "Faults: and 3 more.");
}

}  // namespace
