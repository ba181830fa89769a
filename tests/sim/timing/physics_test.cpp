#include <gx/sim/network/network.hpp>

#include <algorithm>  // max, min
#include <cmath>      // abs
#include <memory>     // senders
#include <numeric>    // iota
#include <vector>     // chains

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/collective/ring.hpp>
#include <gx/sim/catalog/simple_clusters.hpp>
#include <gx/sim/timing/all_reduce_time.hpp>

// What holds in every network, whatever is sent: laws that a wrong solver breaks.
namespace {

using gx::Bytes;
using gx::BytesPerSecond;
using gx::Nanoseconds;
using namespace gx::literals;

/// A message of a chain: it starts when the one before it has ended.
struct Message {
    int to = 0;
    std::int64_t bytes = 1;
    int weight = 1;
    std::int64_t cap = 0;  ///< bytes per second; 0: none
};
/// Hosts on leaves; each host sends its chain of messages. `leaf_rate` 0: a star.
struct Traffic {
    int hosts = 2, leaf_hosts = 1;
    std::int64_t host_rate = 1'000'000'000, leaf_rate = 0;
    std::vector<std::vector<std::int64_t>> latency_ns{};  ///< [from][to]
    std::vector<std::vector<Message>> chains{};           ///< of each host
    std::vector<std::int64_t> start_ns{};                 ///< of each chain
};

struct Outcome {
    std::vector<std::vector<Nanoseconds>> begun, ended;  ///< [host][message]
    std::vector<std::int64_t> carried;                   ///< [link]
    double peak_load = 0;
    std::uint64_t hash = 0;
    Nanoseconds last{};
};

/// `rank_of[host]`: under which rank its events are posted. `idle`: links that nobody uses.
class Fabric {
public:
    Fabric(const Traffic& t, std::vector<int> rank_of, int idle = 0)
        : t_(t), rank_of_(std::move(rank_of)), next_(std::size_t(t.hosts), 0) {
        for (int i = 0; i < idle; ++i) network_.add_link({17.0});
        host_ = network_.links();
        for (int i = 0; i < 2 * t.hosts; ++i) network_.add_link({double(t.host_rate)});
        leaf_ = network_.links();
        if (t.leaf_rate > 0)
            for (int i = 0; i < 2 * t.hosts; ++i) network_.add_link({double(t.leaf_rate)});
    }
    Outcome run() {
        for (const auto& chain : t_.chains) {
            out_.begun.emplace_back(chain.size(), Nanoseconds(-1));
            out_.ended.emplace_back(chain.size(), Nanoseconds(-1));
        }
        for (int h = 0; h < t_.hosts; ++h)
            engine_.at(Nanoseconds(t_.start_ns[std::size_t(h)]), rank_of_[std::size_t(h)],
                       {send_event, this, std::uint64_t(h)});
        engine_.drain();
        out_.last = engine_.now();
        for (int l = host_; l < network_.links(); ++l) {
            out_.carried.push_back(network_.carried(l).count);
            out_.peak_load = std::max(out_.peak_load, network_.peak_load(l));
        }
        out_.hash = hash_.value();
        return out_;
    }
    [[nodiscard]] std::vector<int> path(int from, int to) const {
        std::vector<int> links{2 * from};
        const int a = from / t_.leaf_hosts, b = to / t_.leaf_hosts;
        if (t_.leaf_rate > 0 && a != b)
            links.insert(links.end(), {2 * t_.hosts + 2 * a, 2 * t_.hosts + 2 * b + 1});
        links.push_back(2 * to + 1);
        return links;
    }

private:
    static void send_event(void* fabric, std::uint64_t host) {
        static_cast<Fabric*>(fabric)->send(static_cast<std::size_t>(host));
    }
    static void end_event(void* fabric, std::uint64_t host) {
        auto& self = *static_cast<Fabric*>(fabric);
        const auto h = static_cast<std::size_t>(host);
        self.out_.ended[h][self.next_[h]] = self.engine_.now();
        self.hash_.add(self.engine_.now(), gx::sim::EventKind::message_arrived, int(host),
                       self.next_[h], 0);
        ++self.next_[h];
        self.send(h);
    }
    void send(std::size_t h) {
        if (next_[h] == t_.chains[h].size()) return;
        const Message& m = t_.chains[h][next_[h]];
        out_.begun[h][next_[h]] = engine_.now();
        gx::sim::Transfer flow{.bytes = {m.bytes},
                               .latency = Nanoseconds(t_.latency_ns[h][std::size_t(m.to)]),
                               .cap = {double(m.cap)},
                               .weight = m.weight,
                               .rank = rank_of_[h],
                               .done = {end_event, this, h}};
        for (const int l : path(int(h), m.to)) flow.path.add(host_ + l);
        network_.start(flow);
    }

    Traffic t_;
    std::vector<int> rank_of_;
    std::vector<std::size_t> next_;
    gx::sim::Engine engine_{};
    gx::sim::FlowNetwork network_{engine_};
    gx::sim::EventHash hash_{0};
    Outcome out_{};
    int host_ = 0, leaf_ = 0;
};

std::vector<int> own_ranks(int hosts) {
    std::vector<int> rank_of(static_cast<std::size_t>(hosts));
    std::iota(rank_of.begin(), rank_of.end(), 0);
    return rank_of;
}
Outcome simulate(const Traffic& t) { return Fabric(t, own_ranks(t.hosts)).run(); }

/// A number of a seed: the same on every compiler, so that a hash of its traffic can be pinned.
struct Draw {
    std::uint64_t state;
    std::int64_t below(std::int64_t n) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        return static_cast<std::int64_t>((state >> 33) % static_cast<std::uint64_t>(n));
    }
};
/// 4:1 oversubscribed leaves, or a star; messages of all sizes, weights and caps.
Traffic any_traffic(std::uint64_t seed, int leaves, int leaf_hosts, int messages) {
    Draw draw{seed};
    Traffic t{.hosts = leaves * leaf_hosts, .leaf_hosts = leaf_hosts};
    t.host_rate = 1'000'000 * (1 + draw.below(5000));
    if (leaves > 1) t.leaf_rate = std::max<std::int64_t>(t.host_rate * leaf_hosts / 4, 1);
    for (int from = 0; from < t.hosts; ++from) {
        t.start_ns.push_back(draw.below(4) == 0 ? 0 : draw.below(50'000));
        auto& row = t.latency_ns.emplace_back();
        for (int to = 0; to < t.hosts; ++to) row.push_back(draw.below(3) * draw.below(20'000));
        auto& chain = t.chains.emplace_back();
        for (int m = 0; m < messages; ++m) {
            const int step = 1 + static_cast<int>(draw.below(std::max(t.hosts - 1, 1)));
            chain.push_back({.to = (from + step) % t.hosts,
                             .bytes = 1 + draw.below(draw.below(2) == 0 ? 1000 : 1'000'000),
                             .weight = 1 + static_cast<int>(draw.below(3)),
                             .cap = draw.below(4) == 0 ? 1'000'000 * (1 + draw.below(2000)) : 0});
        }
    }
    return t;
}
Traffic drawn_traffic(std::uint64_t seed) {
    const int leaves = *rc::gen::inRange(1, 5), leaf_hosts = *rc::gen::inRange(2, 5);
    return any_traffic(seed, leaves, leaf_hosts, *rc::gen::inRange(1, 6));
}
double floor_ns(const Traffic& t, int from, const Message& m) {
    double rate = double(t.host_rate);
    if (m.cap > 0) rate = std::min(rate, double(m.cap));
    if (t.leaf_rate > 0 && from / t.leaf_hosts != m.to / t.leaf_hosts)
        rate = std::min(rate, double(t.leaf_rate));
    const auto latency = double(t.latency_ns[std::size_t(from)][std::size_t(m.to)]);
    return latency + 1e9 * double(m.bytes) / rate;
}

/// The laws of any outcome; an empty string, or the first that is broken.
std::string broken_law(const Traffic& t, const Outcome& o) {
    std::vector<std::int64_t> sent(o.carried.size(), 0);
    const Fabric paths(t, own_ranks(t.hosts));
    for (int h = 0; h < t.hosts; ++h)
        for (std::size_t m = 0; m < t.chains[std::size_t(h)].size(); ++m) {
            const Message& message = t.chains[std::size_t(h)][m];
            const Nanoseconds ended = o.ended[std::size_t(h)][m];
            if (ended.count() < 0) return "a message never ends";
            const auto took = double((ended - o.begun[std::size_t(h)][m]).count());
            if (took < floor_ns(t, h, message) - 1) return "a message is faster than its path";
            for (const int l : paths.path(h, message.to)) sent[std::size_t(l)] += message.bytes;
        }
    if (sent != o.carried) return "a link carried other bytes than were sent over it";
    if (o.peak_load > 1) return "a link is above its capacity";
    const double seconds = gx::seconds(o.last) + 1e-9;
    for (std::size_t l = 0; l < sent.size(); ++l) {
        const auto rate = double(l < 2 * std::size_t(t.hosts) ? t.host_rate : t.leaf_rate);
        // Each message may end half a nanosecond early.
        const double slack = rate * 0.5e-9 * double(t.hosts) * double(t.chains[0].size());
        if (double(sent[l]) > rate * seconds + slack) return "a link carried more than it can";
    }
    return {};
}

// ---- Laws of any traffic ------------------------------------------------------------
RC_GTEST_PROP(Physics, AnyTrafficKeepsTheLaws, (std::uint64_t seed)) {
    const Traffic t = drawn_traffic(seed);
    RC_ASSERT(broken_law(t, simulate(t)) == "");
}
RC_GTEST_PROP(Physics, IdleLinksChangeNothing, (std::uint64_t seed)) {
    const Traffic t = drawn_traffic(seed);
    RC_ASSERT(Fabric(t, own_ranks(t.hosts), 3).run().ended == simulate(t).ended);
}
RC_GTEST_PROP(Physics, RanksOnlyOrderTies, (std::uint64_t seed)) {
    const Traffic t = drawn_traffic(seed);
    auto reversed = own_ranks(t.hosts);
    std::reverse(reversed.begin(), reversed.end());
    RC_ASSERT(Fabric(t, reversed).run().ended == simulate(t).ended);
}
/// Host h of a star becomes host (h + shift): the same times, under other names.
RC_GTEST_PROP(Physics, RelabellingAStarChangesNothing, (std::uint64_t seed)) {
    const Traffic t = any_traffic(seed, 1, *rc::gen::inRange(2, 9), 3);
    const int shift = *rc::gen::inRange(1, t.hosts);
    Traffic moved = t;
    const auto to = [&](int h) { return std::size_t((h + shift) % t.hosts); };
    for (int h = 0; h < t.hosts; ++h) {
        moved.start_ns[to(h)] = t.start_ns[std::size_t(h)];
        moved.chains[to(h)] = t.chains[std::size_t(h)];
        for (Message& m : moved.chains[to(h)]) m.to = int(to(m.to));
        for (int g = 0; g < t.hosts; ++g)
            moved.latency_ns[to(h)][to(g)] = t.latency_ns[std::size_t(h)][std::size_t(g)];
    }
    const Outcome a = simulate(t), b = simulate(moved);
    for (int h = 0; h < t.hosts; ++h) RC_ASSERT(a.ended[std::size_t(h)] == b.ended[to(h)]);
}
/// One message of weight k and cap k c is as k equal messages of cap c: equal flows fold.
RC_GTEST_PROP(Physics, EqualFlowsFoldIntoOneOfTheirWeight, ()) {
    const int k = *rc::gen::inRange(2, 9);
    const std::int64_t bytes = *rc::gen::inRange(1, 1'000'000);
    const std::int64_t cap = *rc::gen::inRange(0, 2) * 1024 * *rc::gen::inRange(1, 100'000);
    const std::int64_t other = *rc::gen::inRange(1, 1'000'000);
    const auto last_end = [&](bool folded) {
        gx::sim::Engine engine;
        gx::sim::FlowNetwork network(engine);
        const int shared = network.add_link({1e9}), second = network.add_link({0.7e9});
        std::int64_t ends = 0;
        struct Mark {
            gx::sim::Engine* engine;
            std::int64_t* end;
        } mark{&engine, &ends};
        const gx::Task note{[](void* m, std::uint64_t) {
                                const auto& at = *static_cast<Mark*>(m);
                                *at.end = at.engine->now().count();
                            },
                            &mark, 0};
        gx::sim::Transfer flow{.bytes = {bytes}, .cap = {double(cap)}, .done = note};
        flow.path.add(shared);
        flow.path.add(second);
        if (folded) {
            flow.weight = k;
            flow.bytes.count *= k;
            flow.cap.count *= k;
        }
        gx::sim::Transfer rival{.bytes = {other},
                                .done = {[](void*, std::uint64_t) {}, nullptr, 0}};
        rival.path.add(shared);
        network.start(rival);
        for (int i = 0; i < (folded ? 1 : k); ++i) network.start(flow);
        engine.drain();
        return ends;
    };
    RC_ASSERT(std::abs(last_end(true) - last_end(false)) <= 1 + k);  // rounding of k ends
}

// ---- Laws of one collective alone ---------------------------------------------------
gx::sim::ClusterSpec star(int machines, double gbps, Nanoseconds latency) {
    auto spec = gx::sim::ethernet_10g(machines);
    spec.machine.nic_line_rate = BytesPerSecond{gbps * 1.25e8};
    spec.goodput = 1;
    spec.flow_cap = {0};
    spec.latency = latency;
    return spec;
}
Nanoseconds ring_time(int machines, double gbps, std::int64_t latency_ns, std::int64_t bytes) {
    return gx::sim::all_reduce_time(gx::collective::Ring(machines),
                                    star(machines, gbps, Nanoseconds(latency_ns)), {bytes})
        .time;
}
RC_GTEST_PROP(Physics, ARingIsMonotoneAndAboveItsFloor, ()) {
    const int n = *rc::gen::inRange(2, 33);
    const double gbps = *rc::gen::inRange(1, 100);
    const std::int64_t latency = *rc::gen::inRange(0, 50'000);
    const std::int64_t bytes = *rc::gen::inRange(1, 20'000'000);
    const Nanoseconds time = ring_time(n, gbps, latency, bytes);
    // 2 (n - 1) / n of the bytes leave each rank, in 2 (n - 1) messages.
    const double steps = 2.0 * (n - 1);
    const double floor = steps * double(bytes / n) / (gbps * 0.125) + steps * double(latency);
    RC_ASSERT(double(time.count()) >= floor - 0.5 * steps);
    RC_ASSERT(ring_time(n, gbps, latency + *rc::gen::inRange(0, 9999), bytes) >= time);
    RC_ASSERT(ring_time(n, gbps, latency, bytes + *rc::gen::inRange(0, 9999)) >= time);
    RC_ASSERT(ring_time(n, gbps + *rc::gen::inRange(0, 100), latency, bytes) <= time);
}

// ---- Outcomes that must not pass ----------------------------------------------------
TEST(Physics, RejectsWhatBreaksALaw) {
    const Traffic t = any_traffic(7, 3, 4, 4);
    const Outcome good = simulate(t);
    ASSERT_EQ(broken_law(t, good), "");
    Outcome early = good;
    early.ended[2][1] = early.begun[2][1];
    EXPECT_EQ(broken_law(t, early), "a message is faster than its path");
    Outcome lost = good;
    lost.ended[5][3] = Nanoseconds(-1);
    EXPECT_EQ(broken_law(t, lost), "a message never ends");
    Outcome leak = good;
    --leak.carried[9];
    EXPECT_EQ(broken_law(t, leak), "a link carried other bytes than were sent over it");
    Outcome full = good;
    full.peak_load = 1.0001;
    EXPECT_EQ(broken_law(t, full), "a link is above its capacity");
    Outcome brief = good;
    brief.last /= 1000;
    EXPECT_EQ(broken_law(t, brief), "a link carried more than it can");
}

// ---- The same run everywhere --------------------------------------------------------
TEST(Physics, AContendedRunHashesEquallyOnEveryCompiler) {
    const Traffic t = any_traffic(42, 4, 8, 40);  // 1,280 messages that meet on 4:1 leaves
    const Outcome o = simulate(t);
    ASSERT_EQ(broken_law(t, o), "");
    EXPECT_EQ(o.peak_load, 1.0) << "it is contended";
    // The same with g++ and clang, with and without optimisation and sanitizers.
    EXPECT_EQ(o.hash, 0xfc699147b93ae3b7u);
    EXPECT_NE(simulate(any_traffic(43, 4, 8, 40)).hash, o.hash);
}

}  // namespace
