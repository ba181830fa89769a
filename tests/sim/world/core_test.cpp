#include <gx/sim/world/core.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/sim/catalog/cluster_of.hpp>       // with_gpus
#include <gx/sim/catalog/find_machine.hpp>     // find_machine
#include <gx/sim/catalog/simple_clusters.hpp>  // ethernet_10g
#include <gx/sim/fault/faults.hpp>             // LostNic
#include <gx/sim/world/cluster.hpp>            // Cluster

namespace {

using namespace gx::literals;
using namespace gx::sim;

// ---- Cases worked by hand -----------------------------------------------------------
TEST(Core, IsTheLargestOfEqualMachines) {
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

// ---- A property, for any survivors --------------------------------------------------
RC_GTEST_PROP(Core, IsOfSurvivorsOnEqualMachines, ()) {
    auto spec = ethernet_10g(*rc::gen::inRange(1, 6));
    spec.machine.gpus = *rc::gen::inRange(1, 5);
    std::vector<bool> left;
    int alive = 0;
    for (int r = 0; r < spec.ranks(); ++r) {
        left.push_back(*rc::gen::arbitrary<bool>());
        alive += left.back() ? 1 : 0;
    }
    const Core core = core_of(whole(spec), left);
    RC_ASSERT(core.members.empty() == (alive == 0));
    if (alive == 0) return;
    RC_ASSERT(std::ssize(core.members) == core.cluster.ranks());
    for (std::size_t r = 0; r < core.members.size(); ++r) {
        RC_ASSERT(left[std::size_t(core.members[r])]);
        if (r > 0) RC_ASSERT(core.members[r] > core.members[r - 1]);  // it evaluates all of ||
        // Ranks of one machine of the core lie on one machine of the cluster.
        const std::size_t first =
            r / std::size_t(core.cluster.machine.gpus) * std::size_t(core.cluster.machine.gpus);
        RC_ASSERT(core.members[r] / spec.machine.gpus == core.members[first] / spec.machine.gpus);
    }
}

// ---- The worlds that follow ---------------------------------------------------------
TEST(Survivors, OfAClusterAreThoseThatHaveNotDied) {
    Cluster<> world(ethernet_10g(4), {.deadline = 1'000_us, .faults = {DeadGpu{1, 0_us}}});
    const auto talk = [](auto& rank) {
        std::byte token{};
        auto& link = rank.transport();
        const int next = (rank.rank() + 1) % rank.ranks(),
                  before = (rank.rank() + rank.ranks() - 1) % rank.ranks();
        const auto sent = link.send(next, 0, {&token, 1});
        const gx::Delivery got = link.wait(link.receive(before, 0, {&token, 1}));
        const gx::Delivery put = link.wait(sent);
        if (!got.complete()) throw gx::LostRank({.rank = rank.rank()}, got);
        if (!put.complete()) throw gx::LostRank({.rank = rank.rank()}, put);
    };
    EXPECT_THROW(world.run(talk), gx::LostRank);
    const std::vector<int> named{3};  // wrong: the cluster knows better
    const auto left = world.survivors(named, 0_us);
    EXPECT_EQ(left.members, (std::vector<int>{0, 2, 3}));
    ASSERT_TRUE(left.world);
    EXPECT_TRUE(left.world->options().faults.empty()) << "its fault has gone with its rank";
    left.world->run(talk);
    EXPECT_EQ(left.world->ranks(), 3);
}
TEST(Survivors, OfAClusterWithoutDeathsAreThoseThatAreNotNamed) {
    Cluster<> world(ethernet_10g(3));
    world.run([](auto&) {});
    const std::vector<int> named{0};
    EXPECT_EQ(world.survivors(named, 0_us).members, (std::vector<int>{1, 2}));
    EXPECT_EQ(world.survivors({}, 0_us).members, (std::vector<int>{0, 1, 2}));
    const std::vector<int> all{0, 1, 2};
    EXPECT_EQ(world.survivors(all, 0_us).world, nullptr);
}
TEST(Survivors, MeetTheFaultsThatAreNotOver) {
    Cluster<> world(ethernet_10g(3), {.deadline = 1'000_us,
                                      .faults = {SlowGpu{2, 2, 0_us, 500_us}, SlowGpu{1, 2, 0_us},
                                                 DeadGpu{0, 0_us}, SlowGpu{1, 3, 2'000_us}}});
    EXPECT_THROW(world.run([](auto& rank) {
        rank.charge(100_us, "work", Activity::compute);
        std::byte token{};
        if (rank.rank() == 0) return;
        const auto d = rank.transport().wait(rank.transport().receive(0, 0, {&token, 1}));
        throw gx::LostRank({.rank = rank.rank()}, d);
    }),
                 gx::LostRank);
    const auto left = world.survivors({}, 300_us);
    const auto& faults = left.world->options().faults.list();
    ASSERT_EQ(faults.size(), 2u) << "the first is over, the dead GPU is gone";
    EXPECT_EQ(std::get<SlowGpu>(faults[0]).rank, 0);
    EXPECT_EQ(std::get<SlowGpu>(faults[1]).at, 2'000_us - world.elapsed() - 300_us);
    EXPECT_THROW(left.world->run([](auto&) {}), gx::Error) << "the second has not fired yet";
    EXPECT_EQ(left.world->unfired_faults().size(), 1u);
}
TEST(Core, AMachineWithoutAGpuKeepsTheLinksOfTheOthers) {
    for (const char* name : {"p3.16xlarge", "p3.8xlarge", "DGX-1P", "p4d.24xlarge"}) {
        const ClusterSpec spec{.machine = find_machine(name), .machines = 2};
        std::vector<bool> left(static_cast<std::size_t>(spec.ranks()), true);
        left[1] = false;
        const Core core = core_of(whole(spec), left);
        ASSERT_EQ(core.cluster.machine.gpus, spec.machine.gpus - 1) << name;
        EXPECT_NO_THROW(Cluster<>{core.cluster}) << name;
        // Its GPU number 1 was number 2.
        const Wiring &w = core.cluster.machine.wiring, &all = spec.machine.wiring;
        EXPECT_EQ(w.nvlinks[0][1], all.nvlinks[0][2]) << name;
        EXPECT_EQ(w.nvlinks[1][2], all.nvlinks[2][3]) << name;
    }
}
TEST(Core, StaysBehindTheUplinksOfItsLeaves) {
    ClusterSpec spec = ethernet_10g(4);
    spec.fabric = leaf_spine({.machines_per_leaf = 2, .oversubscription = 8});
    const Core core = core_of(whole(spec), {true, false, true, true});
    EXPECT_EQ(core.cluster.fabric, spec.fabric);
    EXPECT_NO_THROW(Cluster<>{core.cluster});
}
TEST(Core, OfAClusterThatCannotBeBuiltThereIsNone) {
    const ClusterSpec long_torus{
        .machine = with_gpus(find_machine("DGX-1V"), 1), .machines = 28, .fabric = torus(28, 1)};
    // GPUs that reach every NIC of their machine make the longest route longer than a path.
    try {
        Cluster<> world(long_torus, {.faults = FaultList{LostNic{.machine = 1, .at = 1_us}}});
        FAIL();
    } catch (const gx::Error& e) {
        EXPECT_STREQ(e.what(),
                     "this cluster cannot run:\n  - the longest route crosses 18 links, and a path "
                     "holds 16: choose a smaller torus, or fewer PCIe switches under each other");
    }
}

}  // namespace
