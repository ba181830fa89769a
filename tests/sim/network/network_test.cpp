#include <gx/sim/network/network.hpp>  // first, so the header is seen to stand alone

#include <vector>  // flows

#include <gtest/gtest.h>

#include <sim/network/network_bench.hpp>  // Bench

namespace {

using gx::Bytes;
using gx::BytesPerSecond;
using gx::Nanoseconds;
using namespace gx::literals;

// ---- Cases worked by hand -----------------------------------------------------------
TEST(FlowNetwork, TwoFlowsShareALinkFairly) {
    Bench b;
    const int l = b.link(1_GBps);
    b.start({l}, 1_MB);
    b.start({l}, 3_MB);
    b.engine.drain();
    // 500 MB/s each until the first has its 1 MB at 2 ms; then 2 MB are left at 1 GB/s.
    EXPECT_EQ(b.ended[0], 2'000_us);
    EXPECT_EQ(b.ended[1], 4'000_us);
    EXPECT_EQ(b.network.carried(l), 4_MB);
    EXPECT_EQ(b.network.peak_load(l), 1.0);
    EXPECT_EQ(b.network.solves(), 2u) << "both starts at once, then one end";
}

TEST(FlowNetwork, MaxMinOverThreeLinks) {
    // Links 1, 2 and 3 GB/s. A crosses 1 and 2, B crosses 2 and 3, C only 1, D only 3.
    // First link 1: A = C = 0.5; then link 2 leaves B 1.5 and link 3 gives B = D = 1.5.
    Bench b;
    const int one = b.link(1_GBps), two = b.link(2_GBps), three = b.link(3_GBps);
    b.start({one, two}, Bytes{500'000});
    b.start({two, three}, Bytes{1'500'000});
    b.start({one}, Bytes{500'000});
    b.start({three}, Bytes{1'500'000});
    b.engine.drain();
    for (const Nanoseconds t : b.ended) EXPECT_EQ(t, 1'000_us);
}

TEST(FlowNetwork, ACapMakesOneFlowSlowAndFourFast) {
    const auto time = [](int flows) {
        Bench b;
        const int l = b.link(25_Gbps);
        for (int i = 0; i < flows; ++i) {
            auto f = b.flow({l}, Bytes{100'000'000 / flows});
            f.cap = 10_Gbps;
            b.network.start(f);
        }
        b.engine.drain();
        return b.engine.now();
    };
    EXPECT_EQ(time(1), 80'000_us);
    EXPECT_EQ(time(2), 40'000_us);
    EXPECT_EQ(time(4), 32'000_us) << "the line rate";
}

TEST(FlowNetwork, WhatACappedFlowLeavesIsShared) {
    Bench b;
    const int l = b.link(1_GBps);
    auto capped = b.flow({l}, Bytes{200'000});
    capped.cap = {0.2e9};
    b.network.start(capped);
    b.start({l}, Bytes{400'000});
    b.start({l}, Bytes{400'000});
    b.engine.drain();
    for (const Nanoseconds t : b.ended) EXPECT_EQ(t, 1'000_us);
}

TEST(FlowNetwork, AWeightCountsAsManyFlows) {
    Bench b;
    const int l = b.link(1_GBps);
    auto heavy = b.flow({l}, Bytes{750'000});
    heavy.weight = 3;
    b.network.start(heavy);
    b.start({l}, Bytes{250'000});
    b.engine.drain();
    for (const Nanoseconds t : b.ended) EXPECT_EQ(t, 1'000_us);
}

TEST(FlowNetwork, LatencyIsPaidBeforeTheFirstByte) {
    Bench b;
    const int l = b.link(1_GBps);
    auto late = b.flow({l}, 1_MB);
    late.latency = 500_us;
    b.network.start(late);
    b.start({l}, 1_MB);
    b.engine.drain();
    // Alone for 500 us, then 500 MB/s each; the second has 0.5 MB left: 1 ms.
    EXPECT_EQ(b.ended[1], 1'500_us);
    EXPECT_EQ(b.ended[0], 2'000_us);
}

TEST(FlowNetwork, NothingIsSentInTheTimeOfItsLatency) {
    Bench b;
    auto empty = b.flow({b.link(1_GBps)}, 0_B);
    empty.latency = 7_us;
    b.network.start(empty);
    auto oneself = b.flow({}, 1_MB);
    oneself.latency = 3_us;
    b.network.start(oneself);
    b.engine.drain();
    EXPECT_EQ(b.ended[0], 7_us);
    EXPECT_EQ(b.ended[1], 3_us);
}

TEST(FlowNetwork, AMessageOfAnInstantMeetsTheOthersOfThatInstant) {
    for (const bool larger_first : {false, true}) {
        Bench b;
        const int l = b.link(8_GBps);
        b.start({l}, Bytes{larger_first ? 6 : 2});
        b.start({l}, Bytes{larger_first ? 2 : 6});
        b.engine.drain();
        // 4 bytes a ns each: the 2 are there at 0.5 ns, which is 1; then the 6 have all of the
        // link and end at 1 too. Alone, the 2 would be there at 0.25 ns, which is 0.
        EXPECT_EQ(b.ended[larger_first ? 1 : 0], Nanoseconds(1));
        EXPECT_EQ(b.ended[larger_first ? 0 : 1], Nanoseconds(1));
    }
}

// ---- Links that change while flows run ------------------------------------------------
TEST(FlowNetwork, ASlowerLinkDelaysWhatIsLeft) {
    Bench b;
    const int l = b.link(1_GBps);
    b.start({l}, 4_MB);
    b.set_at(1'000_us, l, {0.5e9});  // 1 MB is through; then 1 MB in 2 ms
    b.set_at(3'000_us, l, 2_GBps);   // then 2 MB in 1 ms
    b.engine.drain();
    EXPECT_EQ(b.ended[0], 4'000_us);
    EXPECT_EQ(b.network.peak_load(l), 1.0);
}
TEST(FlowNetwork, ACutLinkHoldsItsFlowsAndNoOthers) {
    Bench b;
    const int cut = b.link(1_GBps), other = b.link(1_GBps);
    b.start({cut, other}, 2_MB);
    b.start({other}, 2_MB);
    b.set_at(1'000_us, cut, {0});  // each has sent 0.5 MB; the second goes on alone
    b.set_at(10'000_us, cut, 1_GBps);
    b.engine.drain();
    EXPECT_EQ(b.ended[1], 2'500_us);
    EXPECT_EQ(b.ended[0], 11'500_us);
    EXPECT_EQ(b.network.carried(cut), 2_MB);
}
TEST(FlowNetwork, AFlowThatGoesOnAfterACutSharesItsOtherLinksAnew) {
    Bench b;
    const int cut = b.link(4_GBps), other = b.link(1_GBps), third = b.link(3_GBps);
    b.network.set_capacity(cut, {0});
    b.start({cut, other}, 1_MB);
    b.start({other}, 2_MB);
    b.start({cut, third}, Bytes{250'000});
    b.set_at(1'000_us, cut, 4_GBps);
    b.engine.drain();
    // The second has 1 MB left when the first comes to its link: 0.5 GB/s each, for 2 ms.
    EXPECT_EQ(b.ended[0], 3'000_us);
    EXPECT_EQ(b.ended[1], 3'000_us);
    EXPECT_EQ(b.ended[2], Nanoseconds(1'083'333)) << "3 GB/s from the end of the cut";
    EXPECT_EQ(b.network.peak_load(other), 1.0);
}
TEST(FlowNetwork, AFlowThatIsNeverHealedPostsNoEvent) {
    Bench b;
    const int l = b.link(1_GBps);
    b.network.set_capacity(l, {0});
    b.start({l}, 1_MB);
    b.engine.drain();  // comes back
    EXPECT_EQ(b.ended[0], Nanoseconds(-1));
    EXPECT_EQ(b.engine.now(), 0_us);
    EXPECT_EQ(b.network.peak_load(l), 0.0);
    b.network.set_capacity(l, 1_GBps);
    b.engine.drain();
    EXPECT_EQ(b.ended[0], 1'000_us);
}

// ---- Equal flows ----------------------------------------------------------------------
TEST(FlowNetwork, EqualFlowsOfSeveralLengthsEndInTurn) {
    Bench b;
    const int in = b.link(3_GBps), out = b.link(1_GBps);
    b.start_at(0_us, b.flow({in, out}, 3_MB));
    b.start_at(0_us, b.flow({in, out}, 1_MB));
    b.start_at(1'000_us, b.flow({in, out}, Bytes{250'000}));
    b.engine.drain();
    // 0.5 MB of each are through at 1 ms; then a third each, for 0.75 ms, until the last has its
    // 0.25 MB; the second has as much left and shares with the first; which goes on alone.
    EXPECT_EQ(b.ended[2], 1'750_us);
    EXPECT_EQ(b.ended[1], 2'250_us);
    EXPECT_EQ(b.ended[0], 4'250_us);
    EXPECT_EQ(b.network.carried(out), Bytes{4'250'000});
    EXPECT_EQ(b.network.peak_load(out), 1.0);
}
/// Names of flows in the order in which they are told that they have ended.
struct Told {
    gx::sim::Engine engine{};
    gx::sim::FlowNetwork network{engine};
    std::vector<std::uint64_t> names{};

    void start(int link, int rank, std::int64_t bytes, std::uint64_t name, Nanoseconds latency = {},
               BytesPerSecond cap = {0}) {
        gx::sim::Transfer f{.bytes = {bytes},
                            .latency = latency,
                            .cap = cap,
                            .rank = rank,
                            .done = {[](void* told, std::uint64_t n) {
                                         static_cast<Told*>(told)->names.push_back(n);
                                     },
                                     this, name}};
        f.path.add(link);
        network.start(f);
    }
};
TEST(FlowNetwork, EqualFlowsThatEndTogetherAreToldByRankThenByStart) {
    Told t;
    const int l = t.network.add_link(100_GBps);
    t.start(l, 2, 4003, 20);  // 20 bytes a nanosecond each: all end at the 200th
    t.start(l, 1, 4002, 10);
    t.start(l, 2, 4000, 21);
    t.start(l, 0, 4001, 0);
    t.start(l, 1, 4000, 11);
    t.engine.drain();
    EXPECT_EQ(t.engine.now(), Nanoseconds(200));
    EXPECT_EQ(t.names, (std::vector<std::uint64_t>{0, 10, 11, 20, 21}));
}
TEST(FlowNetwork, WhoJoinsAFlowAndEndsWithItIsToldInItsPlace) {
    Told t;
    const int l = t.network.add_link(10_GBps), other = t.network.add_link(1_GBps);
    t.start(l, 5, 1000, 5, {}, 1_GBps);
    t.start(l, 1, 600, 1, Nanoseconds(400), 1_GBps);  // there is room for both
    t.start(other, 3, 1000, 3);
    t.engine.drain();
    EXPECT_EQ(t.engine.now(), Nanoseconds(1000));
    EXPECT_EQ(t.names, (std::vector<std::uint64_t>{1, 3, 5}));
}
std::uint64_t flows_solved(int count, int others) {
    Bench b;
    const int in = b.link(2_GBps), out = b.link(1_GBps);
    for (int i = 0; i < others; ++i) {
        auto other = b.flow({in, out}, 1_MB);
        other.cap = {1e3};  // less than any of the equal ones gets
        b.network.start(other);
    }
    for (int i = 0; i < count; ++i) b.start_at(1_us, b.flow({in, out}, Bytes{10'000'000 / count}));
    for (int i = 0; i < 10; ++i) {
        auto rival = b.flow({out}, Bytes{1000});
        rival.weight = count;  // it gets half
        b.start_at(Nanoseconds(100'000 * (i + 1)), rival);
    }
    b.engine.drain();
    return b.network.flows_solved();
}
TEST(FlowNetwork, AThousandEqualFlowsCostTheSolverWhatTwoDo) {
    EXPECT_EQ(flows_solved(1000, 0), flows_solved(2, 0));
    EXPECT_EQ(flows_solved(1000, 2), flows_solved(2, 2)) << "found behind others, too";
    EXPECT_LT(flows_solved(1000, 2), 100u);
}
TEST(FlowNetwork, ManyKindsOnOneLinkAreEachSolvedOnce) {
    const auto solved = [](int of_each) {
        Bench b;
        const int in = b.link(2_GBps), out = b.link(1_GBps);
        for (int n = 0; n < of_each; ++n)
            for (int kind = 0; kind < 200; ++kind) {  // more than the first table of kinds holds
                auto f = b.flow({in, out}, 1_MB);
                f.cap = {1e9 + 1e3 * kind};  // above what it gets
                b.network.start(f);
            }
        b.engine.drain();
        return b.network.flows_solved();
    };
    EXPECT_EQ(solved(1), 200u) << "all at once, and all end at once";
    EXPECT_EQ(solved(5), 200u);
}

// ---- Bad input ----------------------------------------------------------------------
TEST(NetworkDeathTest, RefusesWhatIsNoLinkAndNoMessage) {
    Bench b;
    EXPECT_DEATH(b.link({0}), "a link needs a rate above 0");
    const int l = b.link(1_GBps);
    EXPECT_DEATH(b.network.set_capacity(l, {-1}), "carries at least 0 bytes");
    EXPECT_DEATH(b.start({}, Bytes{-1}), "at least 0 bytes");
    gx::sim::Path path;
    EXPECT_DEATH(for (int i = 0; i < 17; ++i) path.add(0), "at most 16 links");
}

}  // namespace
