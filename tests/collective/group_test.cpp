#include <gx/collective/group.hpp>

#include <algorithm>  // find, sort
#include <atomic>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <collective/worlds.hpp>
#include <gx/collective/all_gather_bytes.hpp>
#include <gx/collective/dissemination_barrier.hpp>
#include <gx/collective/execute.hpp>
#include <gx/collective/halving_doubling.hpp>
#include <gx/collective/hierarchical.hpp>
#include <gx/collective/pairwise_all_to_all.hpp>
#include <gx/collective/ring.hpp>
#include <gx/collective/tree.hpp>
#include <gx/collective/tree_gather.hpp>
#include <gx/reference/sum.hpp>
#include <gx/testing/far/world.hpp>
#include <gx/threads/mailbox.hpp>

using gx::Placement;
using gx::collective::Flow;
using gx::collective::Group;
using gx::collective::Members;

// ---- What the type promises ---------------------------------------------------------
static_assert(gx::Transport<Group<gx::detail::threads::Endpoint>>);
static_assert(gx::Transport<Group<Group<gx::archetype::Transport>>>, "a group has groups");
using FarGroup = Group<gx::testing::FarTransport>;
static_assert(gx::StreamOrdered<FarGroup> && !gx::Transport<FarGroup>);

namespace {

// ---- Cases worked by hand -----------------------------------------------------------
TEST(Members, OfAMachineAndAcrossMachines) {
    const Placement whole{3, 4};
    const Members machine = Members::of_machine(whole, 1),
                  across = Members::across_machines(whole, 2);
    EXPECT_EQ(machine.ranks(), 4);
    EXPECT_EQ(machine.at(0), 4);
    EXPECT_EQ(machine.index_of(6), 2);
    EXPECT_EQ(machine.index_of(8), -1);
    EXPECT_EQ(machine.placement(), (Placement{1, 4}));
    EXPECT_EQ(across.ranks(), 3);
    EXPECT_EQ(across.at(2), 10);
    EXPECT_EQ(across.placement(), (Placement{3, 1}));
}
TEST(Members, OfARaggedPlacement) {
    const std::vector<int> node{0, 1, 0, 0, 1}, local{0, 0, 1, 2, 1};
    const gx::NodeMap map{.node = node, .local_rank = local};
    const gx::Placement whole{2, 0, &map};
    const auto ranks = [](const Members& m) {
        std::vector<int> all;
        for (int i = 0; i < m.ranks(); ++i) all.push_back(m.at(i));
        return all;
    };
    EXPECT_EQ(ranks(Members::of_machine(whole, 0)), (std::vector{0, 2, 3}));
    EXPECT_EQ(ranks(Members::across_machines(whole, 1)), (std::vector{2, 4}));
    EXPECT_EQ(Members::of_machine(whole, 0).placement(), (gx::Placement{1, 3}));
    EXPECT_EQ(Members(whole, {0, 2, 1, 4}).placement(), (gx::Placement{2, 2}));
    EXPECT_THROW((void)Members::across_machines(whole, 2), gx::Error)
        << "machine 1 has only two ranks";
}
TEST(Members, HaveAPlacementOfTheirOwn) {
    const auto placed = [](std::vector<int> ranks) {
        return Members({3, 4}, std::move(ranks)).placement();
    };
    EXPECT_EQ(placed({0, 1, 4, 5, 8, 9}), (Placement{3, 2}));
    EXPECT_EQ(placed({9, 8, 1, 0}), (Placement{2, 2})) << "in any order";
    EXPECT_EQ(placed({0, 4, 1, 5}), (Placement{4, 1})) << "neighbours are far";
    EXPECT_EQ(placed({0, 1, 2, 4}), (Placement{4, 1})) << "3 and 1: no two machines of one size";
    EXPECT_EQ(placed({7}), (Placement{1, 1}));
}

/// Reduce-scatter inside machines, all-reduce between them, all-gather inside.
TEST(Group, MakesAHierarchicalAllReduce) {
    const Placement whole{3, 4};
    const auto rows = gx::testing::small_integers(7, whole.ranks(), 37);
    const auto sum = gx::reference::sum(rows);
    const std::vector<float> expected(sum.begin(), sum.end());
    on_both_worlds([&](const auto& on) {
        auto summed = rows;
        on(whole, [&](auto& rank) {
            auto& link = rank.transport();
            const Members inside = Members::of_machine(whole, rank.rank() / 4);
            const Members between = Members::across_machines(whole, rank.rank() % 4);
            Group near(link, inside), far(link, between);
            std::span<float> row(summed[static_cast<std::size_t>(rank.rank())]);
            std::vector<float> scratch(row.size());
            const gx::collective::RingReduceScatter scatter(near.ranks());
            EXPECT_TRUE(
                execute(near,
                        Flow<gx::fp32, gx::collective::RingReduceScatter>{scatter, row, scratch})
                    .delivery.complete());
            const auto shard =
                part(row, owned_range(scatter, static_cast<std::int64_t>(row.size()), near.rank()));
            EXPECT_TRUE(
                execute(far, Flow<gx::fp32, gx::collective::Ring>{gx::collective::Ring(far.ranks()),
                                                                  shard, scratch})
                    .delivery.complete());
            EXPECT_TRUE(execute(near,
                                Flow<gx::fp32, gx::collective::RingAllGather>{
                                    gx::collective::RingAllGather(near.ranks()), row})
                            .delivery.complete());
        });
        for (const auto& row : summed) EXPECT_EQ(row, expected);
    });
}

TEST(Group, QueuesAnyNumberOfMessagesAtOnce) {
    using gx::testing::FarMemory;
    for (const std::size_t count : {1u, 128u, 129u}) {
        const Members group({1, 4}, {3, 0, 2});  // rank 0 is its rank 1, and sends to its rank 2
        gx::testing::FarWorld<> world({.placement = {1, 4}});
        std::vector<float> received(count);
        world.run([&](auto& rank) {
            if (rank.rank() % 2 != 0) return;
            gx::Buffer<float> buffer(&rank.memory(), std::int64_t(count), "messages");
            const auto all = buffer.template view<FarMemory>();
            std::vector<float> values(count);
            for (std::size_t i = 0; i < count; ++i) values[i] = float(i) + 1;
            if (rank.rank() == 0)
                rank.stream().copy_in(std::span<const float>(values), all, {"load"});
            std::vector<gx::QueuedMessage<FarMemory>> messages(count);
            for (std::size_t i = 0; i < count; ++i) {
                const auto bytes = gx::writable_bytes_of(all.subspan(i, 1));
                if (rank.rank() == 0) messages[i] = {.peer = 2, .out = bytes};
                else messages[i] = {.peer = 1, .in = bytes};
            }
            FarGroup link(rank.transport(), group);
            link.exchange(messages);
            if (rank.rank() == 2)
                link.queue().copy_out(gx::ViewIn<const float, FarMemory>(all), std::span(received),
                                      {"store"});
            EXPECT_TRUE(link.queue().wait(link.queue().record()).complete());
        });
        for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(received[i], float(i) + 1);
    }
}

// ---- Properties -------------------------------------------------------------------------
/// All ranks, each in one group: a random order, cut at random places.
std::vector<Members> some_partition(Placement whole) {
    std::vector<int> ranks;
    for (int r = 0; r < whole.ranks(); ++r) ranks.push_back(r);
    if (*rc::gen::arbitrary<bool>()) {
        for (std::size_t i = ranks.size(); i > 1; --i)
            std::swap(ranks[i - 1], ranks[*rc::gen::inRange<std::size_t>(0, i)]);
    }
    std::vector<Members> groups;
    for (std::size_t first = 0; first < ranks.size();) {
        const auto several = *rc::gen::inRange<std::size_t>(1, ranks.size() - first + 1);
        const auto begin = ranks.begin() + static_cast<std::ptrdiff_t>(first);
        groups.emplace_back(whole,
                            std::vector<int>(begin, begin + static_cast<std::ptrdiff_t>(several)));
        first += several;
    }
    return groups;
}

TEST(Members, ThatArePlacedTogetherAreOnOneMachine) {
    EXPECT_TRUE(rc::check([] {
        const Placement whole = some_placement();
        for (const Members& group : some_partition(whole)) {
            const Placement own = group.placement();
            RC_ASSERT(own.ranks() == group.ranks());
            const auto together = [&](int i, int j, int gpus) {
                return i / gpus != j / gpus || group.at(i) / whole.ranks_per_machine ==
                                                   group.at(j) / whole.ranks_per_machine;
            };
            for (int i = 0; i < group.ranks(); ++i) {
                RC_ASSERT(group.index_of(group.at(i)) == i);
                for (int j = 0; j < i; ++j) RC_ASSERT(together(i, j, own.ranks_per_machine));
            }
            for (int gpus = own.ranks_per_machine + 1; gpus <= group.ranks(); ++gpus) {
                if (group.ranks() % gpus != 0) continue;
                bool all = true;
                for (int i = 0; i < group.ranks(); ++i)
                    for (int j = 0; j < i; ++j) all = all && together(i, j, gpus);
                RC_ASSERT(!all);  // no larger placement fits
            }
        }
    }));
}

/// Rows of the members, in the order of the group.
template <gx::Element E>
WireRows<E> rows_of(const Members& group, const WireRows<E>& rows) {
    WireRows<E> of;
    for (int i = 0; i < group.ranks(); ++i)
        of.push_back(rows[static_cast<std::size_t>(group.at(i))]);
    return of;
}

/// The rows that a collective leaves on ranks 0, 1, ... of a world of its own.
template <gx::Element E, class C>
WireRows<E> executed_alone(const C& c, WireRows<E> rows) {
    gx::testing::OnThreads{}({1, c.ranks()}, [&](auto& rank) {
        auto& row = rows[static_cast<std::size_t>(rank.rank())];
        std::vector<typename E::storage> scratch(row.size());
        RC_ASSERT(execute(rank.transport(), Flow<E, C>{c, row, scratch}).delivery.complete());
    });
    return rows;
}

/// Every group executes make(group) at the same time, on one channel; and ends as a world of its
/// ranks alone does. `fit` gives the length of the rows of a group of n ranks.
template <gx::Element E, class Make, class Fit>
void expect_groups_are_worlds(Make make, Fit fit) {
    const Placement whole = some_placement();
    const auto groups = some_partition(whole);
    auto rows = wire_rows<E>(whole.ranks(), some_length());
    for (const Members& group : groups)
        for (int i = 0; i < group.ranks(); ++i) {
            auto& row = rows[static_cast<std::size_t>(group.at(i))];
            row.resize(fit(row.size(), static_cast<std::size_t>(group.ranks())));
        }
    using C = decltype(make(groups[0]));
    on_both_worlds([&](const auto& on) {
        auto left = rows;
        on(whole, [&](auto& rank) {
            const Members& mine = *std::find_if(groups.begin(), groups.end(), [&](const auto& g) {
                return g.index_of(rank.rank()) >= 0;
            });
            Group link(rank.transport(), mine);
            RC_ASSERT(mine.at(link.rank()) == rank.rank());
            auto& row = left[static_cast<std::size_t>(rank.rank())];
            std::vector<typename E::storage> scratch(row.size());
            RC_ASSERT(execute(link, Flow<E, C>{make(mine), row, scratch}).delivery.complete());
        });
        for (const Members& group : groups)
            RC_ASSERT(rows_of<E>(group, left) ==
                      executed_alone<E>(make(group), rows_of<E>(group, rows)));
    });
}
constexpr auto any_length = [](std::size_t length, std::size_t) { return length; };
constexpr auto whole_chunks = [](std::size_t length, std::size_t n) { return length / n * n; };

TEST(Group, ExecutesEveryCollectiveAsAWorldDoes) {
    using namespace gx::collective;
    EXPECT_TRUE(rc::check("ring", [] {
        const int k = *rc::gen::inRange(0, 4);
        expect_groups_are_worlds<gx::fp32>(
            [k](const Members& g) { return machine_ring(g.placement(), k); }, any_length);
    }));
    EXPECT_TRUE(rc::check("reduce-scatter", [] {
        expect_groups_are_worlds<gx::fp16>(
            [](const Members& g) { return RingReduceScatter(g.ranks()); }, any_length);
    }));
    EXPECT_TRUE(rc::check("all-gather", [] {
        expect_groups_are_worlds<gx::bf16>(
            [](const Members& g) { return RingAllGather(g.ranks(), 1); }, any_length);
    }));
    EXPECT_TRUE(rc::check("broadcast", [] {
        expect_groups_are_worlds<gx::fp32>(
            [](const Members& g) { return TreeBroadcast(g.ranks(), g.ranks() / 2); }, any_length);
    }));
    EXPECT_TRUE(rc::check("gather", [] {
        expect_groups_are_worlds<gx::fp16>(
            [](const Members& g) { return TreeGather(g.ranks(), g.ranks() - 1); }, any_length);
    }));
    EXPECT_TRUE(rc::check("all-to-all", [] {
        expect_groups_are_worlds<gx::bf16>(
            [](const Members& g) { return PairwiseAllToAll(g.ranks()); }, whole_chunks);
    }));
    EXPECT_TRUE(rc::check("tree", [] {
        expect_groups_are_worlds<gx::fp32>([](const Members& g) { return Tree(g.ranks()); },
                                           any_length);
    }));
    EXPECT_TRUE(rc::check("halving-doubling", [] {
        expect_groups_are_worlds<gx::fp16>(
            [](const Members& g) { return HalvingDoubling(g.ranks()); }, any_length);
    }));
    EXPECT_TRUE(rc::check("hierarchical", [] {
        expect_groups_are_worlds<gx::bf16>(
            [](const Members& g) { return Hierarchical(g.placement()); }, any_length);
    }));
}

/// The serial oracle, in a group: ring k adds in the order of the group's own placement.
TEST(Group, SumsInTheOrderOfItsRanks) {
    EXPECT_TRUE(rc::check([] {
        const Placement whole = some_placement();
        const auto groups = some_partition(whole);
        const std::int64_t count = some_length();
        const auto rows = wire_rows<gx::fp16>(whole.ranks(), count);
        on_both_worlds([&](const auto& on) {
            auto left = rows;
            on(whole, [&](auto& rank) {
                for (const Members& mine : groups) {
                    if (mine.index_of(rank.rank()) < 0) continue;
                    Group link(rank.transport(), mine);
                    auto& row = left[static_cast<std::size_t>(rank.rank())];
                    std::vector<gx::fp16::storage> scratch(row.size());
                    using gx::collective::Ring;
                    RC_ASSERT(execute(link, Flow<gx::fp16, Ring>{Ring(link.ranks()), row, scratch})
                                  .delivery.complete());
                }
            });
            for (const Members& group : groups) {
                const int n = group.ranks();
                for (int c = 0; c < n; ++c) {
                    const gx::ChunkRange chunk = gx::chunk_range(count, n, c);
                    std::vector<int> order;
                    for (int k = 0; k < n; ++k) order.push_back(group.at((c + k) % n));
                    for (auto at = chunk.begin; at < chunk.end; ++at)
                        for (int i = 0; i < n; ++i) {
                            const auto e = static_cast<std::size_t>(at);
                            RC_ASSERT(left[static_cast<std::size_t>(group.at(i))][e] ==
                                      serial_sum<gx::fp16>(rows, order, e));
                        }
                }
            }
        });
    }));
}

TEST(Group, GathersBytesAndWaitsForItsOwnRanksOnly) {
    EXPECT_TRUE(rc::check([] {
        const Placement whole = some_placement();
        const auto groups = some_partition(whole);
        on_both_worlds([&](const auto& on) {
            std::vector<std::atomic<int>> come(groups.size());
            on(whole, [&](auto& rank) {
                for (std::size_t g = 0; g < groups.size(); ++g) {
                    if (groups[g].index_of(rank.rank()) < 0) continue;
                    Group link(rank.transport(), groups[g]);
                    const int n = link.ranks();
                    // member i has i bytes of its rank in the whole
                    const std::vector<std::byte> mine(static_cast<std::size_t>(link.rank()),
                                                      std::byte(rank.rank()));
                    std::vector<std::int64_t> offsets(static_cast<std::size_t>(n) + 1);
                    RC_ASSERT(
                        all_gather_offsets(link, link.rank(), offsets, 0).delivery.complete());
                    std::vector<std::byte> all(static_cast<std::size_t>(n * (n - 1) / 2));
                    RC_ASSERT(all_gather_bytes(link, mine, all, offsets, 0).delivery.complete());
                    std::vector<std::byte> expected;
                    for (int i = 0; i < n; ++i)
                        expected.insert(expected.end(), static_cast<std::size_t>(i),
                                        std::byte(groups[g].at(i)));
                    RC_ASSERT(all == expected);
                    ++come[g];
                    RC_ASSERT(barrier(link, 0).delivery.complete());
                    RC_ASSERT(come[g].load() == n);
                }
            });
        });
    }));
}

// ---- A fault --------------------------------------------------------------------------
TEST(Group, NamesTheMissingRankAsTheWholeDoes) {
    on_both_worlds([](const auto& on) {
        const Placement whole{2, 3};
        const Members odd(whole, {5, 1, 3});
        std::vector<gx::Delivery> deliveries(6);
        on(whole, [&](auto& rank) {
            if (odd.index_of(rank.rank()) < 0 || rank.rank() == 3) return;
            Group link(rank.transport(), odd);
            deliveries[static_cast<std::size_t>(rank.rank())] =
                gx::collective::barrier(link, 0).delivery;
        });
        for (const std::size_t r : {1u, 5u}) {
            EXPECT_FALSE(deliveries[r].complete());
            EXPECT_EQ(deliveries[r].peer, 3);
        }
    });
}

// ---- A broken contract ------------------------------------------------------------------
TEST(GroupDeathTest, HasMembersOfItsTransport) {
    EXPECT_DEATH(Members({1, 3}, {}), "at least one rank");
    EXPECT_DEATH(Members({1, 3}, {0, 3}), "ranks of the whole");
    EXPECT_DEATH(Members({1, 3}, {0, 2, 0}), "a member once");
    EXPECT_DEATH((void)Members::of_machine({2, 2}, 2), "a machine of the placement");
    EXPECT_DEATH((void)Members::across_machines({2, 2}, 2), "a rank of a machine");
    const auto join = [](const Members& members) {
        gx::testing::OnThreads{}({1, 1},
                                 [&](auto& rank) { const Group link(rank.transport(), members); });
    };
    EXPECT_DEATH(join(Members({1, 2}, {0})), "the placement that the transport has");
    EXPECT_DEATH(
        gx::testing::OnThreads{}(
            {1, 2}, [&](auto& rank) { const Group link(rank.transport(), Members({1, 2}, {0})); }),
        "a member of the group");
}

}  // namespace
