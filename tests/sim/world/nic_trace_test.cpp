#include <gx/sim/world/nic_trace.hpp>

#include <map>  // integrals

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/sim/world/cluster.hpp>            // Cluster
#include <gx/sim/catalog/simple_clusters.hpp>  // plain_p3_16xlarge
#include <gx/sim/network/network.hpp>          // FlowNetwork
#include <gx/sim/topology/topology.hpp>        // Topology

namespace {

using gx::Nanoseconds;
using namespace gx::literals;

/// Every rank sends to the next ones, `messages` of them at once, for a few rounds.
struct Load {
    int machines, gpus, messages, rounds;
    std::size_t bytes;
};
void exchange(auto& rank, const Load& load) {
    std::vector<std::byte> out(load.bytes), in(load.bytes * std::size_t(load.messages));
    const int n = rank.ranks();
    for (int round = 0; round < load.rounds; ++round) {
        std::vector<gx::Request> open;
        for (int m = 0; m < load.messages; ++m) {
            const int away = 1 + (round + m) % std::max(1, n - 1);
            const auto part = std::span(in).subspan(std::size_t(m) * load.bytes, load.bytes);
            open.push_back(rank.transport().send((rank.rank() + away) % n, m, out));
            open.push_back(rank.transport().receive((rank.rank() + n - away) % n, m, part));
        }
        for (const auto r : open) (void)rank.transport().wait(r);
    }
}
std::string machine(int m, const char* way) {
    return "machine " + std::to_string(m) + " NIC " + way;
}

// ---- By hand: 62.5 KB at 5 Gb/s after 40 us -----------------------------------------------
TEST(LinkRates, AMessageLoadsBothNicsWhileItFlows) {
    gx::sim::TraceSink sink;
    gx::sim::Cluster<> world(gx::sim::ethernet_10g(2), {.trace = &sink});
    world.run([](auto& rank) {
        std::vector<std::byte> bytes(62'500);
        auto& link = rank.transport();
        EXPECT_TRUE(link.wait(rank.rank() == 0 ? link.send(1, 0, bytes) : link.receive(0, 0, bytes))
                        .complete());
    });
    std::map<std::string, std::vector<std::pair<Nanoseconds, double>>> found;
    for (const auto& c : sink.rates.changes)
        found[std::string(sink.rates.names[std::size_t(c.link)].view())].emplace_back(c.at,
                                                                                      c.rate.count);
    const std::vector<std::pair<Nanoseconds, double>> expected{{40_us, 625e6}, {140_us, 0.0}};
    EXPECT_EQ(found.size(), 2u);
    EXPECT_EQ(sink.rates.capacities[std::size_t(world.topology().nic_out(0))].count,
              world.network().capacity(world.topology().nic_out(0)).count);
    EXPECT_EQ(found[machine(0, "out")], expected);
    EXPECT_EQ(found[machine(1, "in")], expected);
}

// ---- The area under a rate is what was carried -----------------------------------------------
RC_GTEST_PROP(LinkRates, AddUpToTheBytesCarried, ()) {
    const Load load{*rc::gen::inRange(2, 4), *rc::gen::inRange(1, 4), *rc::gen::inRange(1, 5),
                    *rc::gen::inRange(0, 4), *rc::gen::inRange<std::size_t>(0, 3'000'000)};
    auto spec = gx::sim::plain_p3_16xlarge(load.machines);
    spec.machine.gpus = load.gpus;
    gx::sim::TraceSink sink;
    gx::sim::Cluster<> world(spec, {.trace = &sink});
    world.run([&](auto& rank) { exchange(rank, load); });

    const auto& names = sink.rates.names;
    std::vector<double> area(names.size()), rate(names.size());
    std::vector<Nanoseconds> since(names.size());
    double most = 0;
    for (const auto& c : sink.rates.changes) {
        const auto l = std::size_t(c.link);
        RC_ASSERT(!names[l].view().empty());
        RC_ASSERT(c.at > since[l] || rate[l] == 0);
        area[l] += rate[l] * gx::seconds(c.at - since[l]);
        rate[l] = c.rate.count;
        since[l] = c.at;
        most = std::max(most, rate[l]);
    }
    int named = 0;
    for (std::size_t l = 0; l < names.size(); ++l) {
        if (names[l].view().empty()) continue;
        ++named;
        RC_ASSERT(rate[l] == 0.0);  // at the end
        // A message ends at a whole nanosecond, half of one too early or too late.
        const double slack = 1 + most * 1e-9 * double(world.network().messages());
        RC_ASSERT(std::abs(area[l] - double(world.network().carried(int(l)).count)) <= slack);
    }
    RC_ASSERT(named >= 2 * load.machines);
}

TEST(LinkRates, LookingChangesNothing) {
    const auto hash = [](gx::sim::TraceSink* sink) {
        gx::sim::Cluster<> world(gx::sim::plain_p3_16xlarge(2), {.trace = sink});
        world.run([](auto& rank) { exchange(rank, {2, 8, 3, 2, 100'000}); });
        return world.event_hash();
    };
    gx::sim::TraceSink sink;
    EXPECT_EQ(hash(&sink), hash(nullptr));
}
TEST(LinkRates, OneMachineHasNoNicToLookAt) {
    gx::sim::TraceSink sink;
    gx::sim::Cluster<> world(gx::sim::plain_p3_16xlarge(1), {.trace = &sink});
    world.run([](auto& rank) { exchange(rank, {1, 8, 1, 1, 100'000}); });
    EXPECT_TRUE(sink.rates.changes.empty());
}

}  // namespace
