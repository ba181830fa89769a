// The steps, bytes and times that the headers of collectives state, on a simulated star of machines
// with one GPU each: alpha = 10 us a message, beta = 1 ns a byte, links for both directions.
#include <bit>  // has_single_bit

#include <gtest/gtest.h>

#include <collective/worlds.hpp>
#include <gx/collective/all_gather_bytes.hpp>
#include <gx/collective/dissemination_barrier.hpp>
#include <gx/collective/execute.hpp>
#include <gx/collective/pairwise_all_to_all.hpp>
#include <gx/collective/ring.hpp>
#include <gx/collective/tree_broadcast.hpp>
#include <gx/collective/tree_gather.hpp>
#include <gx/sim/catalog/simple_clusters.hpp>
#include <gx/sim/world/cluster.hpp>

namespace {

using namespace gx::collective;
using namespace gx::literals;
using gx::Nanoseconds;

constexpr std::int64_t alpha = 10'000, chunk = 3'000;  // ns, bytes

gx::sim::ClusterSpec star(int ranks) {
    auto spec = gx::sim::ethernet_10g(ranks);
    spec.machine.nic_line_rate = 8_Gbps;
    spec.goodput = 1;
    spec.flow_cap = {0};
    spec.latency = Nanoseconds(alpha);
    return spec;
}

struct Cost {
    std::int64_t ns = 0;
    std::vector<std::int64_t> bytes{};  // bytes[rank], sent
};
/// f(link) on every rank; it returns an Execution.
template <class F>
Cost cost_on(int ranks, F f) {
    gx::sim::Cluster<> world(star(ranks));
    Cost cost{.bytes = std::vector<std::int64_t>(static_cast<std::size_t>(ranks))};
    world.run([&](auto& rank) {
        const Execution done = f(rank.transport());
        EXPECT_TRUE(done.delivery.complete());
        cost.bytes[static_cast<std::size_t>(rank.rank())] = done.bytes_sent;
    });
    cost.ns = world.elapsed().count();
    return cost;
}
/// Data of `chunk` bytes for each of the collective's chunks.
template <class C>
Cost cost_of(const C& c) {
    return cost_on(c.ranks(), [&](auto& link) {
        std::vector<float> data(static_cast<std::size_t>(c.chunks() * chunk / 4)), scratch(data);
        return execute(link, Flow<gx::fp32, C>{c, data, scratch});
    });
}
int log2_up(int n) {
    int levels = 0;
    while (1 << levels < n) ++levels;
    return levels;
}
std::int64_t sum(const std::vector<std::int64_t>& bytes) {
    std::int64_t total = 0;
    for (const std::int64_t b : bytes) total += b;
    return total;
}

TEST(Costs, OfTheRingAndItsHalves) {
    for (int n = 1; n <= 17; ++n) {
        const std::int64_t half = (n - 1) * (alpha + chunk);
        const Cost scatter = cost_of(RingReduceScatter(n)), gather = cost_of(RingAllGather(n));
        EXPECT_EQ(scatter.ns, half) << n;
        EXPECT_EQ(gather.ns, half) << n;
        EXPECT_EQ(cost_of(Ring(n)).ns, 2 * half) << n;
        for (const std::int64_t bytes : scatter.bytes) EXPECT_EQ(bytes, (n - 1) * chunk);
        for (const std::int64_t bytes : gather.bytes) EXPECT_EQ(bytes, (n - 1) * chunk);
    }
}
TEST(Costs, OfTrees) {
    for (int n = 1; n <= 17; ++n) {
        const Cost broadcast = cost_of(TreeBroadcast(n, n / 2)),
                   gather = cost_of(TreeGather(n, n / 3));
        EXPECT_EQ(broadcast.ns, log2_up(n) * (alpha + chunk)) << n;
        EXPECT_EQ(broadcast.bytes[static_cast<std::size_t>(n / 2)], log2_up(n) * chunk);
        EXPECT_EQ(sum(broadcast.bytes), (n - 1) * chunk);
        const std::int64_t in_turn = log2_up(n) * alpha + (n - 1) * chunk;
        if (std::has_single_bit(static_cast<unsigned>(n))) {
            EXPECT_EQ(gather.ns, in_turn) << n;
        }
        EXPECT_LE(gather.ns, in_turn) << n;
        EXPECT_GE(gather.ns, (n > 1 ? alpha : 0) + (n - 1) * chunk) << n;
        EXPECT_EQ(gather.bytes[static_cast<std::size_t>(n / 3)], 0);
    }
}
TEST(Costs, OfTheAllToAll) {
    for (int n = 1; n <= 17; ++n) {
        const Cost cost = cost_of(PairwiseAllToAll(n));
        if (n == 1 || n % 2 == 0) {
            EXPECT_EQ(cost.ns, (n - 1) * (alpha + chunk)) << n;
        } else {
            EXPECT_GE(cost.ns, n * (alpha + chunk)) << n;
            EXPECT_LE(2 * cost.ns, 2 * n * alpha + (3 * n + 1) * chunk) << n;
        }
        for (const std::int64_t bytes : cost.bytes) EXPECT_EQ(bytes, (n - 1) * chunk);
    }
}
TEST(Costs, OfTheBarrier) {
    for (int n = 1; n <= 17; ++n) {
        const Cost cost = cost_on(n, [](auto& link) { return barrier(link, 0); });
        EXPECT_EQ(cost.ns, log2_up(n) * (alpha + 1)) << n;
    }
}
/// The largest block goes round by itself, hop after hop, whatever the others are.
TEST(Costs, OfBlocksOfDifferentLengths) {
    for (int n = 1; n <= 17; ++n) {
        std::vector<std::int64_t> offsets{0};
        for (int r = 0; r < n; ++r)
            offsets.push_back(offsets.back() + (r == n / 2 ? 7'000 : 10 * r));
        const Cost cost = cost_on(n, [&](auto& link) {
            std::vector<std::byte> all(static_cast<std::size_t>(offsets.back()));
            const auto r = static_cast<std::size_t>(link.rank());
            return all_gather_bytes(link, part(all, {offsets[r], offsets[r + 1]}), all, offsets, 0);
        });
        EXPECT_EQ(cost.ns, (n - 1) * (alpha + 7'000)) << n;
        const Cost lengths = cost_on(n, [&](auto& link) {
            std::vector<std::int64_t> found(static_cast<std::size_t>(n) + 1);
            return all_gather_offsets(link, 1, found, 0);
        });
        EXPECT_EQ(lengths.ns, (n - 1) * (alpha + 8)) << n;
    }
}

}  // namespace
