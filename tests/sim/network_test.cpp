#include <gx/sim/network.hpp>  // first, so the header is seen to stand alone

#include <algorithm>  // shuffle
#include <random>     // order of posting
#include <vector>     // flows

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

using gx::Bytes;
using gx::BytesPerSecond;
using gx::Nanoseconds;
using namespace gx::literals;

/// A network, and when each flow ended.
struct Bench {
    gx::sim::Engine engine{};
    gx::sim::Network network{engine};
    std::vector<Nanoseconds> ended{};
    struct Mark {
        Bench* bench;
        std::size_t index;
    };
    std::vector<std::unique_ptr<Mark>> marks{};

    int link(BytesPerSecond rate) { return network.add_link(rate); }
    gx::sim::Flow flow(std::vector<int> path, Bytes bytes) {
        gx::sim::Flow f{.bytes = bytes};
        for (const int l : path) f.path.add(l);
        marks.push_back(std::make_unique<Mark>(Mark{this, ended.size()}));
        ended.push_back(Nanoseconds(-1));
        f.done = {[](void* m, std::uint64_t) {
                      auto& mark = *static_cast<Mark*>(m);
                      mark.bench->ended[mark.index] = mark.bench->engine.now();
                  },
                  marks.back().get(), 0};
        return f;
    }
    void start(std::vector<int> path, Bytes bytes) { network.start(flow(std::move(path), bytes)); }
    void start_at(Nanoseconds t, const gx::sim::Flow& f) {
        later.push_back({this, f});
        engine.at(t, f.rank, {[](void* b, std::uint64_t i) {
                                  auto& bench = *static_cast<Bench*>(b);
                                  bench.network.start(bench.later[i].second);
                              },
                              this, later.size() - 1});
    }
    std::vector<std::pair<Bench*, gx::sim::Flow>> later{};
};

// ---- Cases worked by hand -----------------------------------------------------------
TEST(Network, TwoFlowsShareALinkFairly) {
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

TEST(Network, MaxMinOverThreeLinks) {
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

TEST(Network, ACapMakesOneFlowSlowAndFourFast) {
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

TEST(Network, WhatACappedFlowLeavesIsShared) {
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

TEST(Network, AWeightCountsAsManyFlows) {
    Bench b;
    const int l = b.link(1_GBps);
    auto heavy = b.flow({l}, Bytes{750'000});
    heavy.weight = 3;
    b.network.start(heavy);
    b.start({l}, Bytes{250'000});
    b.engine.drain();
    for (const Nanoseconds t : b.ended) EXPECT_EQ(t, 1'000_us);
}

TEST(Network, LatencyIsPaidBeforeTheFirstByte) {
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

TEST(Network, NothingIsSentInTheTimeOfItsLatency) {
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

TEST(Network, AMessageOfAnInstantMeetsTheOthersOfThatInstant) {
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
/// Calls set_capacity in virtual time, from an event.
void set_at(Bench& b, Nanoseconds t, int link, BytesPerSecond rate) {
    struct Change {
        Bench* bench;
        int link;
        BytesPerSecond rate;
    };
    static std::vector<std::unique_ptr<Change>> changes;
    changes.push_back(std::make_unique<Change>(Change{&b, link, rate}));
    b.engine.at(t, 0, {[](void* c, std::uint64_t) {
                           const auto& change = *static_cast<Change*>(c);
                           change.bench->network.set_capacity(change.link, change.rate);
                       },
                       changes.back().get(), 0});
}
TEST(Network, ASlowerLinkDelaysWhatIsLeft) {
    Bench b;
    const int l = b.link(1_GBps);
    b.start({l}, 4_MB);
    set_at(b, 1'000_us, l, {0.5e9});  // 1 MB is through; then 1 MB in 2 ms
    set_at(b, 3'000_us, l, 2_GBps);   // then 2 MB in 1 ms
    b.engine.drain();
    EXPECT_EQ(b.ended[0], 4'000_us);
    EXPECT_EQ(b.network.peak_load(l), 1.0);
}
TEST(Network, ACutLinkHoldsItsFlowsAndNoOthers) {
    Bench b;
    const int cut = b.link(1_GBps), other = b.link(1_GBps);
    b.start({cut, other}, 2_MB);
    b.start({other}, 2_MB);
    set_at(b, 1'000_us, cut, {0});  // each has sent 0.5 MB; the second goes on alone
    set_at(b, 10'000_us, cut, 1_GBps);
    b.engine.drain();
    EXPECT_EQ(b.ended[1], 2'500_us);
    EXPECT_EQ(b.ended[0], 11'500_us);
    EXPECT_EQ(b.network.carried(cut), 2_MB);
}
TEST(Network, AFlowThatGoesOnAfterACutSharesItsOtherLinksAnew) {
    Bench b;
    const int cut = b.link(4_GBps), other = b.link(1_GBps), third = b.link(3_GBps);
    b.network.set_capacity(cut, {0});
    b.start({cut, other}, 1_MB);
    b.start({other}, 2_MB);
    b.start({cut, third}, Bytes{250'000});
    set_at(b, 1'000_us, cut, 4_GBps);
    b.engine.drain();
    // The second has 1 MB left when the first comes to its link: 0.5 GB/s each, for 2 ms.
    EXPECT_EQ(b.ended[0], 3'000_us);
    EXPECT_EQ(b.ended[1], 3'000_us);
    EXPECT_EQ(b.ended[2], Nanoseconds(1'083'333)) << "3 GB/s from the end of the cut";
    EXPECT_EQ(b.network.peak_load(other), 1.0);
}
TEST(Network, AFlowThatIsNeverHealedPostsNoEvent) {
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
TEST(Network, EqualFlowsOfSeveralLengthsEndInTurn) {
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
    gx::sim::Network network{engine};
    std::vector<std::uint64_t> names{};

    void start(int link, int rank, std::int64_t bytes, std::uint64_t name,
               Nanoseconds latency = {}, BytesPerSecond cap = {0}) {
        gx::sim::Flow f{.bytes = {bytes}, .latency = latency, .cap = cap, .rank = rank,
                        .done = {[](void* told, std::uint64_t n) {
                                     static_cast<Told*>(told)->names.push_back(n);
                                 },
                                 this, name}};
        f.path.add(link);
        network.start(f);
    }
};
TEST(Network, EqualFlowsThatEndTogetherAreToldByRankThenByStart) {
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
TEST(Network, WhoJoinsAFlowAndEndsWithItIsToldInItsPlace) {
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
TEST(Network, AThousandEqualFlowsCostTheSolverWhatTwoDo) {
    EXPECT_EQ(flows_solved(1000, 0), flows_solved(2, 0));
    EXPECT_EQ(flows_solved(1000, 2), flows_solved(2, 2)) << "found behind others, too";
    EXPECT_LT(flows_solved(1000, 2), 100u);
}
TEST(Network, ManyKindsOnOneLinkAreEachSolvedOnce) {
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

// ---- Properties ---------------------------------------------------------------------
struct AnyFlow {
    std::vector<int> path;
    std::int64_t bytes, start_us, cap;
    int weight;
};
struct AnyTraffic {
    std::vector<std::int64_t> rates;  // MB/s
    std::vector<AnyFlow> flows;
};
AnyTraffic any_traffic() {
    AnyTraffic t;
    t.rates = *rc::gen::nonEmpty(
        rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(1, 5000)));
    const int count = *rc::gen::inRange(1, 20);
    for (int i = 0; i < count; ++i) {
        AnyFlow f;
        for (int l = 0; l < static_cast<int>(t.rates.size()) && f.path.size() < 6; ++l)
            if (*rc::gen::inRange(0, 3) == 0) f.path.push_back(l);
        f.bytes = *rc::gen::inRange(0, 5'000'000);
        f.start_us = *rc::gen::inRange(0, 50) * 10;  // several start at one instant
        const std::int64_t cap = *rc::gen::inRange(1, 2000) * std::int64_t{1'000'000};
        f.cap = *rc::gen::inRange(0, 3) == 0 ? cap : 0;
        f.weight = *rc::gen::inRange(1, 4);
        t.flows.push_back(f);
    }
    return t;
}
double rate_of(const AnyTraffic& t, int link) {
    return static_cast<double>(t.rates[static_cast<std::size_t>(link)]) * 1e6;
}
std::vector<Nanoseconds> ends(const AnyTraffic& t, const std::vector<std::size_t>& order,
                              Bench& b) {
    for (const auto rate : t.rates) b.link({static_cast<double>(rate) * 1e6});
    std::vector<gx::sim::Flow> flows;
    for (const AnyFlow& f : t.flows) {
        flows.push_back(b.flow(f.path, {f.bytes}));
        flows.back().cap = {static_cast<double>(f.cap)};
        flows.back().weight = f.weight;
    }
    for (const std::size_t i : order) b.start_at(Nanoseconds(t.flows[i].start_us * 1000), flows[i]);
    b.engine.drain();
    return b.ended;
}
std::vector<std::size_t> in_order(const AnyTraffic& t) {
    std::vector<std::size_t> order(t.flows.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    return order;
}

RC_GTEST_PROP(Network, AllBytesArriveAndNoLinkIsAboveItsRate, ()) {
    const AnyTraffic t = any_traffic();
    Bench b;
    const auto ended = ends(t, in_order(t), b);
    std::vector<std::int64_t> sent(t.rates.size(), 0);
    for (std::size_t i = 0; i < t.flows.size(); ++i) {
        const AnyFlow& f = t.flows[i];
        double slowest = f.cap > 0 ? static_cast<double>(f.cap) : 1e18;
        for (const int l : f.path) {
            sent[static_cast<std::size_t>(l)] += f.bytes;
            slowest = std::min(slowest, rate_of(t, l));
        }
        const double floor_ns = f.path.empty() ? 0 : static_cast<double>(f.bytes) / slowest * 1e9;
        RC_ASSERT(static_cast<double>(ended[i].count() - f.start_us * 1000) >= floor_ns - 0.5);
    }
    for (int l = 0; l < b.network.links(); ++l) {
        const double rate = rate_of(t, l);
        RC_ASSERT(b.network.carried(l).count == sent[static_cast<std::size_t>(l)]);
        RC_ASSERT(b.network.peak_load(l) <= 1.0);
        const double rounding = 0.5 * static_cast<double>(t.flows.size()) + 1;
        RC_ASSERT(static_cast<double>(sent[static_cast<std::size_t>(l)]) <=
                  rate * (gx::seconds(b.engine.now()) + rounding * 1e-9));
    }
}
RC_GTEST_PROP(Network, TheOrderOfPostingChangesNothing, (std::uint32_t seed)) {
    AnyTraffic t = any_traffic();
    for (AnyFlow& f : t.flows) {  // many that are over in an instant, and few instants
        if (*rc::gen::arbitrary<bool>()) f.bytes %= 4;
        f.start_us %= 30;
    }
    Bench a, b;
    auto order = in_order(t);
    const auto straight = ends(t, order, a);
    std::shuffle(order.begin(), order.end(), std::minstd_rand(seed));
    RC_ASSERT(ends(t, order, b) == straight);
}
RC_GTEST_PROP(Network, AnIdleLinkChangesNothing, ()) {
    AnyTraffic t = any_traffic();
    Bench a, b;
    const auto without = ends(t, in_order(t), a);
    t.rates.push_back(123);
    RC_ASSERT(ends(t, in_order(t), b) == without);
}

/// A link of its own, which it cannot fill, makes a flow differ from all others and changes
/// nothing else: then none is folded.
RC_GTEST_PROP(Network, FoldedFlowsEndWhenTheyWouldAlone, ()) {
    AnyTraffic t = any_traffic();
    const bool brief = *rc::gen::arbitrary<bool>();
    const auto kinds = static_cast<std::size_t>(*rc::gen::inRange(1, 5));
    for (std::size_t i = 0; i < t.flows.size(); ++i) {
        AnyFlow& f = t.flows[i];
        const AnyFlow& kind = t.flows[i % std::min(kinds, t.flows.size())];
        f.path = kind.path;
        f.cap = kind.cap;
        f.weight = kind.weight;
        if (brief) f.bytes %= 40;
    }
    AnyTraffic apart = t;
    for (AnyFlow& f : apart.flows) {
        if (!f.path.empty()) f.path.push_back(static_cast<int>(apart.rates.size()));
        apart.rates.push_back(1'000'000);  // MB/s
    }
    Bench a, b;
    const int shared = *rc::gen::inRange(0, static_cast<int>(t.rates.size()));
    const Nanoseconds slow(*rc::gen::inRange(0, 600'000));
    for (Bench* bench : {&a, &b}) {  // it stands still for a while, and is slower from then on
        set_at(*bench, slow, shared, {0});
        set_at(*bench, slow + 100_us, shared, {0.7e6 * double(t.rates[std::size_t(shared)])});
    }
    RC_ASSERT(ends(t, in_order(t), a) == ends(apart, in_order(apart), b));
    for (int l = 0; l < a.network.links(); ++l) {
        RC_ASSERT(a.network.carried(l) == b.network.carried(l));
        RC_ASSERT(a.network.peak_load(l) == b.network.peak_load(l));
    }
    RC_ASSERT(a.network.flows_solved() <= b.network.flows_solved());
}

/// The definition of max-min, plainly, in double: raise the rates of all flows together in the
/// smallest step that fills a link or meets a cap, freeze those flows, and go on; then move time
/// to the next start or end. Whole, for every flow, at every event.
std::vector<double> plain_ends(const AnyTraffic& t) {
    const std::size_t n = t.flows.size(), links = t.rates.size();
    std::vector<double> left(n), end(n, -1);
    for (std::size_t i = 0; i < n; ++i) {
        left[i] = static_cast<double>(t.flows[i].bytes);
        const bool at_once = t.flows[i].bytes == 0 || t.flows[i].path.empty();
        if (at_once) end[i] = static_cast<double>(t.flows[i].start_us) * 1e-6;
    }
    double now = 0;
    for (;;) {
        std::vector<double> rate(n, 0);
        std::vector<bool> frozen(n, true);
        double next = 1e18;
        for (std::size_t i = 0; i < n; ++i) {
            const double start = static_cast<double>(t.flows[i].start_us) * 1e-6;
            if (end[i] < 0 && start <= now) frozen[i] = false;
            if (end[i] < 0 && start > now) next = std::min(next, start);
        }
        const auto moving = frozen;
        for (;;) {
            double step = 1e18;
            std::vector<double> used(links, 0), growth(links, 0);
            for (std::size_t i = 0; i < n; ++i)
                for (const int l : t.flows[i].path) {
                    used[static_cast<std::size_t>(l)] += rate[i];
                    if (!frozen[i]) growth[static_cast<std::size_t>(l)] += t.flows[i].weight;
                }
            std::vector<double> room(links, 1e18);
            for (std::size_t l = 0; l < links; ++l)
                if (growth[l] > 0) room[l] = (rate_of(t, int(l)) - used[l]) / growth[l];
            const auto own = [&](std::size_t i) {
                const AnyFlow& f = t.flows[i];
                double r = 1e18;
                if (f.cap > 0) r = (static_cast<double>(f.cap) - rate[i]) / f.weight;
                for (const int l : f.path) r = std::min(r, room[static_cast<std::size_t>(l)]);
                return r;
            };
            bool any = false;
            for (std::size_t i = 0; i < n; ++i)
                if (!frozen[i]) step = std::min(step, own(i)), any = true;
            if (!any) break;
            std::vector<bool> stop = frozen;
            for (std::size_t i = 0; i < n; ++i)
                if (!frozen[i] && own(i) <= step * (1 + 1e-9) + 1e-3) stop[i] = true;
            for (std::size_t i = 0; i < n; ++i)
                if (!frozen[i]) rate[i] += step * t.flows[i].weight;
            frozen = stop;
        }
        for (std::size_t i = 0; i < n; ++i)
            if (!moving[i]) next = std::min(next, now + left[i] / rate[i]);
        if (next >= 1e18) return end;
        for (std::size_t i = 0; i < n; ++i) {
            if (moving[i]) continue;
            left[i] -= rate[i] * (next - now);
            if (left[i] <= 1e-9 * static_cast<double>(t.flows[i].bytes)) end[i] = next;
        }
        now = next;
    }
}
RC_GTEST_PROP(Network, EndsWhenAPlainMaxMinSimulationSays, ()) {
    const AnyTraffic t = any_traffic();
    Bench b;
    const auto ended = ends(t, in_order(t), b);
    const auto plain = plain_ends(t);
    for (std::size_t i = 0; i < ended.size(); ++i)
        RC_ASSERT(std::abs(gx::seconds(ended[i]) - plain[i]) <= 1e-6 * plain[i] + 1e-7);
}
RC_GTEST_PROP(Network, EqualFlowsOnOneLinkEndTogether, ()) {
    const int flows = *rc::gen::inRange(1, 50);
    const std::int64_t bytes = *rc::gen::inRange(1, 1'000'000);
    Bench b;
    const int l = b.link(1_GBps);
    for (int i = 0; i < flows; ++i) b.start({l}, {bytes});
    b.engine.drain();
    for (const Nanoseconds t : b.ended) RC_ASSERT(t == b.ended[0]);
    RC_ASSERT(std::abs(b.ended[0].count() - flows * bytes) <= 1 + flows * bytes / 1'000'000'000);
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
