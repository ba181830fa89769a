#include <gx/sim/timing/all_reduce_time.hpp>  // first, so the header is seen to stand alone

#include <algorithm>  // shuffle
#include <array>      // rank counts
#include <bit>        // log2
#include <numeric>    // iota
#include <vector>     // gradients

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/collective/binary_tree.hpp>         // BinaryTree
#include <gx/collective/execute.hpp>             // execute: the same with payload
#include <gx/collective/halving_doubling.hpp>    // HalvingDoubling
#include <gx/collective/hierarchical.hpp>        // Hierarchical
#include <gx/collective/recursive_doubling.hpp>  // RecursiveDoubling
#include <gx/collective/ring.hpp>                // Ring, machine_ring
#include <gx/collective/tree.hpp>                // Tree
#include <gx/sim/world/cluster.hpp>              // Cluster
#include <gx/sim/catalog/simple_clusters.hpp>    // ethernet_10g, plain_p3_16xlarge

namespace {

using gx::Bytes;
using gx::Nanoseconds;
using gx::collective::Ring;
using namespace gx::literals;

/// One GPU a machine, 25 Gb/s all of which is payload, 10 us a message, no cap.
gx::sim::ClusterSpec star(int machines) {
    auto spec = gx::sim::ethernet_10g(machines);
    spec.machine.nic_line_rate = 25_Gbps;
    spec.goodput = 1;
    spec.flow_cap = {0};
    spec.latency = 10_us;
    return spec;
}
Nanoseconds time_of(const std::vector<Ring>& rings, const gx::sim::ClusterSpec& spec, Bytes b) {
    return gx::sim::all_reduce_time(std::span<const Ring>(rings), spec, b).time;
}
std::vector<Ring> machine_rings(const gx::sim::ClusterSpec& spec, int count) {
    std::vector<Ring> rings;
    for (int k = 0; k < count; ++k)
        rings.push_back(gx::collective::machine_ring(spec.placement(), k));
    return rings;
}

// ---- The closed form ----------------------------------------------------------------
// 2 (p - 1) (alpha + m / (p bandwidth)); four engines of others agree on these figures.
TEST(Timing, AnUncontendedRingTakesTheClosedForm) {
    struct Case {
        int ranks;
        double ms;
    };
    for (const auto [ranks, ms] : {Case{8, 56.140}, {64, 64.260}, {256, 68.850}, {1024, 84.3975}}) {
        const auto t = gx::sim::all_reduce_time(Ring(ranks), star(ranks), 100_MB);
        EXPECT_NEAR(gx::seconds(t.time) * 1e6, ms * 1e3, 1.0) << ranks << " ranks, microseconds";
        EXPECT_EQ(t.messages, 2ull * ranks * (ranks - 1));
        EXPECT_EQ(t.wire.count, 100'000'000LL * 2 * (ranks - 1)) << "each chunk, 2 (p - 1) times";
    }
}

// All of them, with alpha = 10 us, beta = 1 / 3.125 GB/s and m = 102.4 MB:
//   K rings     2 (p - 1) steps of a chunk m / (K p); a flow is capped at c, K c is below the NIC
//   tree        log2 p steps up and log2 p down, of all m
//   halving     steps of m / 2, m / 4, ..., m / p, and back: 2 (p - 1) / p of m in 2 log2 p steps
//   hierarchy   2 (G - 1) steps of m / G at 47.9 GB/s and 5.7 us in machines of G = 8, then
//               2 (M - 1) of m / (G M) between M = p / 8 of them, each GPU at 3.125 GB/s
constexpr double m_bytes = 102.4e6, beta_rate = 3.125e9, alpha = 10e-6;
double micros(const gx::sim::CollectiveTiming& t) { return gx::seconds(t.time) * 1e6; }

class ClosedForm : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, ClosedForm, ::testing::Values(8, 16, 64, 256, 1024));

TEST_P(ClosedForm, OfARing) {
    const int p = GetParam();
    const auto t = gx::sim::all_reduce_time(Ring(p), star(p), Bytes{102'400'000});
    EXPECT_NEAR(micros(t), 1e6 * 2 * (p - 1) * (alpha + m_bytes / p / beta_rate), 1.0);
}
TEST_P(ClosedForm, OfFourRings) {
    const int p = GetParam();
    auto spec = star(p);
    spec.flow_cap = 5_Gbps;
    const auto rings = machine_rings(spec, 4);
    // 8 million messages at 1,024 ranks: there, one machine stands for all
    const auto detail = p > 256 ? gx::sim::Detail::collapsed : gx::sim::Detail::every_message;
    const auto t =
        gx::sim::all_reduce_time(std::span<const Ring>(rings), spec, Bytes{102'400'000}, detail);
    EXPECT_NEAR(micros(t), 1e6 * 2 * (p - 1) * (alpha + m_bytes / (4.0 * p) / 0.625e9), 1.0);
    EXPECT_EQ(t.messages, 8ull * p * (p - 1));
}
TEST_P(ClosedForm, OfATree) {
    const int p = GetParam(), levels = std::countr_zero(unsigned(p));
    const auto t = gx::sim::all_reduce_time(gx::collective::Tree(p), star(p), Bytes{102'400'000});
    EXPECT_NEAR(micros(t), 1e6 * 2 * levels * (alpha + m_bytes / beta_rate), 1.0);
    EXPECT_EQ(t.messages, 2ull * (p - 1));
}
TEST_P(ClosedForm, OfHalvingAndDoubling) {
    const int p = GetParam(), levels = std::countr_zero(unsigned(p));
    const gx::collective::HalvingDoubling halves(p);
    const auto t = gx::sim::all_reduce_time(halves, star(p), Bytes{102'400'000});
    const double moved = 2.0 * (p - 1) / p * m_bytes;
    EXPECT_NEAR(micros(t), 1e6 * (2 * levels * alpha + moved / beta_rate), 1.0);
    EXPECT_EQ(t.messages, 2ull * levels * p);
}
TEST_P(ClosedForm, OfRecursiveDoubling) {
    const int p = GetParam(), levels = std::countr_zero(unsigned(p));
    const gx::collective::RecursiveDoubling swaps(p);
    const auto t = gx::sim::all_reduce_time(swaps, star(p), Bytes{102'400'000});
    EXPECT_NEAR(micros(t), 1e6 * levels * (alpha + m_bytes / beta_rate), 1.0);
    EXPECT_EQ(t.messages, 1ull * levels * p);
}
TEST_P(ClosedForm, OfAHierarchy) {
    const int p = GetParam(), machines = p / 8;
    auto spec = gx::sim::plain_p3_16xlarge(machines);
    spec.goodput = 1;
    spec.flow_cap = {0};
    spec.latency = 10_us;
    spec.machine.nic_line_rate = 200_Gbps;  // 25 for each GPU
    const gx::collective::Hierarchical levels(spec.placement());
    const auto t = gx::sim::all_reduce_time(levels, spec, Bytes{102'400'000});
    const double inside = 2 * 7 * (5.7e-6 + m_bytes / 8 / 47.9e9);
    const double between = 2 * (machines - 1) * (alpha + m_bytes / p / beta_rate);
    EXPECT_NEAR(micros(t), 1e6 * (inside + between), 1.0);
}

// ---- Two trees in a pipeline ----------------------------------------------------------
std::vector<gx::collective::BinaryTree> two_trees(int ranks, int pipeline) {
    return {{ranks, 0, pipeline}, {ranks, 1, pipeline}};
}
Nanoseconds time_of(const std::vector<gx::collective::BinaryTree>& trees,
                    const gx::sim::ClusterSpec& spec, Bytes b) {
    return gx::sim::all_reduce_time(std::span<const gx::collective::BinaryTree>(trees), spec, b)
        .time;
}
/// How many messages of the longest tree follow each other, at least, where a message takes one
/// unit however many are on the way: its sender sends it when it is done with its step before, and
/// both ends are done when it is there and the receiver has come so far.
int chain(const std::vector<gx::collective::BinaryTree>& trees) {
    int longest = 0;
    for (const auto& tree : trees) {
        std::vector<int> done(static_cast<std::size_t>(tree.ranks()), 0);
        for (int step = 0; step < tree.steps(); ++step) {
            std::vector<int> next = done;
            for (std::size_t r = 0; r < done.size(); ++r) {
                const gx::Exchange e = tree.exchange(static_cast<int>(r), step);
                if (e.to < 0) continue;
                const auto to = static_cast<std::size_t>(e.to);
                const int end = std::max(done[r] + 1, done[to]);
                next[r] = std::max(next[r], end);
                next[to] = std::max(next[to], end);
            }
            done = std::move(next);
        }
        longest = std::max(longest, *std::max_element(done.begin(), done.end()));
    }
    return longest;
}
TEST_P(ClosedForm, OfADoubleTree) {
    const int p = GetParam(), levels = std::countr_zero(unsigned(p));
    auto spec = star(p);
    spec.flow_cap = gx::BytesPerSecond{beta_rate / 2};  // two messages of one NIC have room
    for (const int n : {2, 4, 16, 64}) {
        const auto trees = two_trees(p, n);
        const int terms = 3 * n + (7 * levels - 9) / 2;
        const double term = alpha + m_bytes / (2 * n) / (beta_rate / 2);
        EXPECT_NEAR(gx::seconds(time_of(trees, spec, {102'400'000})) * 1e6, 1e6 * terms * term, 1.0)
            << n << " chunks a tree";
        EXPECT_EQ(chain(trees), terms);
    }
}
TEST(Timing, ADoubleTreeTakesItsLongestChainForAnyNumberOfRanks) {
    for (const int p : {2, 3, 9, 24, 31, 33, 100, 255, 1000, 1023})
        for (const int n : {1, 5, 16}) {
            auto spec = star(p);
            spec.flow_cap = gx::BytesPerSecond{beta_rate / 4};
            const auto trees = two_trees(p, n);
            const std::int64_t bytes = std::int64_t{2} * n * 1'000'000;
            const double term = alpha + 1e6 / (beta_rate / 4);
            EXPECT_NEAR(gx::seconds(time_of(trees, spec, {bytes})) * 1e6, 1e6 * chain(trees) * term,
                        1.0)
                << p << " ranks, " << n << " chunks a tree";
            EXPECT_LE(chain(trees), trees[0].steps());
        }
}
TEST(Timing, ADoubleTreeHasTheLatencyOfATreeAndSevenTenthsOfTheBandwidth) {
    const int p = 1024;
    const Nanoseconds ring = gx::sim::all_reduce_time(Ring(p), star(p), 64'000_B).time;
    EXPECT_LT(time_of(two_trees(p, 1), star(p), 64'000_B) * 20, ring);
    const Nanoseconds tree =
        gx::sim::all_reduce_time(gx::collective::Tree(p), star(p), 100_MB).time;
    EXPECT_LT(time_of(two_trees(p, 64), star(p), 100_MB) * 6, tree);
    const double floor = 2.0 * (p - 1) / p * 1e9 / beta_rate;
    EXPECT_LT(gx::seconds(time_of(two_trees(p, 256), star(p), 1000_MB)), floor / 0.7);
}

TEST(Timing, FourRingsUseWhatOneConnectionCannot) {
    const auto spec = gx::sim::ethernet_10g(8);  // 9.49 Gb/s, 5 of them for one connection
    const Nanoseconds one = gx::sim::all_reduce_time(Ring(8), spec, 100_MB).time;
    const Nanoseconds four = time_of(machine_rings(spec, 4), spec, 100_MB);
    // 14 steps of 12.5 MB at 0.625 GB/s; and of 12.5 MB in four parts at 1.18625 GB/s
    EXPECT_NEAR(gx::seconds(one) * 1e3, 14 * (0.040 + 20.0), 0.01);
    EXPECT_NEAR(gx::seconds(four) * 1e3, 14 * (0.040 + 12.5 / 1.18625), 0.01);
}

// ---- The same with payload ----------------------------------------------------------
Nanoseconds with_payload(const gx::sim::ClusterSpec& spec, std::int64_t elements) {
    gx::sim::Cluster<> world(spec);
    world.run([&](auto& rank) {
        const auto rings = machine_rings(spec, 4);
        std::vector<float> data(static_cast<std::size_t>(elements), float(rank.rank()));
        std::vector<float> scratch(data);
        std::array<gx::collective::Flow<gx::fp32, Ring>, 4> flows{
            {{rings[0]}, {rings[1]}, {rings[2]}, {rings[3]}}};
        for (int k = 0; k < 4; ++k) {
            const auto part = gx::chunk_range(elements, 4, k);
            const auto at = static_cast<std::size_t>(part.begin);
            const auto n = static_cast<std::size_t>(part.size());
            flows[static_cast<std::size_t>(k)].data = std::span(data).subspan(at, n);
            flows[static_cast<std::size_t>(k)].scratch = std::span(scratch).subspan(at, n);
            flows[static_cast<std::size_t>(k)].channel = k;
        }
        EXPECT_TRUE(gx::collective::execute(rank.transport(), flows).delivery.complete());
        for (const float x : data) ASSERT_EQ(x, float(rank.ranks() * (rank.ranks() - 1) / 2));
    });
    return world.elapsed();
}
TEST(Timing, PayloadTakesTheSameTime) {
    for (const auto& spec :
         {gx::sim::ethernet_10g(8), gx::sim::plain_p3_16xlarge(2), gx::sim::v100_box()}) {
        const std::int64_t elements = std::int64_t{4} * spec.ranks() * 1000;
        const Nanoseconds bare = time_of(machine_rings(spec, 4), spec, {4 * elements});
        EXPECT_EQ(with_payload(spec, elements), bare) << spec.name.view();
    }
}

// ---- Physics, for any cluster -------------------------------------------------------
gx::sim::ClusterSpec any_cluster() {
    auto spec = gx::sim::plain_p3_16xlarge(*rc::gen::inRange(1, 6));
    spec.machine.gpus = *rc::gen::inRange(1, 5);
    spec.machine.nic_line_rate = {1e6 * *rc::gen::inRange(100, 5000)};
    spec.machine.host_bandwidth = {1e6 * *rc::gen::inRange(100, 5000)};
    spec.flow_cap = {1e6 * *rc::gen::inRange(0, 2000)};
    spec.latency = Nanoseconds(*rc::gen::inRange(0, 100'000));
    return spec;
}
RC_GTEST_PROP(Timing, NoTimeIsBelowTheFloorAndNoLinkAboveItsRate, ()) {
    const auto spec = any_cluster();
    const auto rings = machine_rings(spec, *rc::gen::inRange(1, 5));
    const Bytes bytes{*rc::gen::inRange(0, 10'000'000)};
    const auto t = gx::sim::all_reduce_time(std::span<const Ring>(rings), spec, bytes);
    RC_ASSERT(t.peak_load <= 1.0);
    const double nic = spec.machine.nic_line_rate.count * spec.goodput;
    // Every machine must send 2 (m - 1) / m of the data at least; half a nanosecond a message.
    const double share = 2.0 * (spec.machines - 1) / spec.machines;
    const double floor_ns = share * static_cast<double>(bytes.count) / nic * 1e9;
    const double rounding_ns = 0.5 * static_cast<double>(t.messages) + 1;
    RC_ASSERT(gx::seconds(t.time) * 1e9 >= floor_ns - rounding_ns);
}
RC_GTEST_PROP(Timing, MoreBytesSlowerLinksAndLatencyNeverHelpOneRing, ()) {
    const auto spec = any_cluster();
    const Bytes bytes{*rc::gen::inRange(1, 1'000'000) * std::int64_t{spec.ranks()}};
    const auto time = [](const gx::sim::ClusterSpec& s, Bytes b) {
        return gx::sim::all_reduce_time(gx::collective::machine_ring(s.placement(), 0), s, b).time;
    };
    const Nanoseconds base = time(spec, bytes);
    auto slower = spec, later = spec;
    slower.machine.nic_line_rate = spec.machine.nic_line_rate * 0.5;
    later.latency += Nanoseconds(1000);
    RC_ASSERT(time(spec, bytes * 2) >= base);
    RC_ASSERT(time(slower, bytes) >= base);
    RC_ASSERT(time(later, bytes) >= base);
}

/// A ring in any order of the ranks.
struct AnyRing {
    std::vector<int> order;     // rank at each position
    std::vector<int> position;  // of each rank
    explicit AnyRing(std::vector<int> o) : order(std::move(o)), position(order.size()) {
        for (std::size_t p = 0; p < order.size(); ++p)
            position[static_cast<std::size_t>(order[p])] = static_cast<int>(p);
    }
    [[nodiscard]] int ranks() const { return static_cast<int>(order.size()); }
    [[nodiscard]] int chunks() const { return ranks(); }
    [[nodiscard]] int steps() const { return 2 * (ranks() - 1); }
    [[nodiscard]] gx::Exchange exchange(int rank, int step) const {
        gx::Exchange e = Ring(ranks()).exchange(position[static_cast<std::size_t>(rank)], step);
        e.to = order[static_cast<std::size_t>(e.to)];
        e.from = order[static_cast<std::size_t>(e.from)];
        return e;
    }
};
RC_GTEST_PROP(Timing, RelabellingTheRanksOfAStarChangesNothing, ()) {
    auto spec = star(*rc::gen::inRange(2, 20));
    spec.flow_cap = {1e6 * *rc::gen::inRange(100, 5000)};
    std::vector<int> order(static_cast<std::size_t>(spec.ranks()));
    std::iota(order.begin(), order.end(), 0);
    const Bytes bytes{*rc::gen::inRange(0, 10'000'000)};
    const auto straight = gx::sim::all_reduce_time(AnyRing(order), spec, bytes);
    for (int i = spec.ranks(); i > 1; --i)
        std::swap(order[std::size_t(i) - 1], order[std::size_t(*rc::gen::inRange(0, i))]);
    RC_ASSERT(gx::sim::all_reduce_time(AnyRing(order), spec, bytes).time == straight.time);
}

}  // namespace
