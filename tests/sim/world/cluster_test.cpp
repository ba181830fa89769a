#include <gx/sim/world/cluster.hpp>  // first, so the header is seen to stand alone

#include <array>      // messages
#include <stdexcept>  // runtime_error

#include <gtest/gtest.h>

#include <gx/sim/catalog/simple_clusters.hpp>  // ethernet_10g
#include <gx/sim/network/network.hpp>          // FlowNetwork
#include <gx/sim/topology/topology.hpp>        // Topology
#include <support/files.hpp>                   // error_of, holds

static_assert(gx::explain_world<gx::sim::Cluster<>>() &&
              gx::explain_shrinking_world<gx::sim::Cluster<>>());

namespace {

using gx::Delivery;
using gx::Nanoseconds;
using namespace gx::literals;
using World = gx::sim::Cluster<>;
using testing_support::error_of;
using testing_support::holds;

// ---- What the type promises ---------------------------------------------------------
static_assert(gx::World<World>);
static_assert(!gx::TrainingWorld<World>, "it only communicates");

/// One GPU a machine, 1 GB/s, 10 us, no cap: times can be worked out by hand.
constexpr gx::sim::ClusterSpec plain(int machines) {
    auto spec = gx::sim::ethernet_10g(machines);
    spec.machine.nic_line_rate = 1_GBps;
    spec.goodput = 1;
    spec.flow_cap = {0};
    spec.latency = 10_us;
    return spec;
}

std::span<const std::byte> bytes(const std::vector<std::byte>& v) { return v; }

// ---- Cases worked by hand -----------------------------------------------------------
TEST(Cluster, AMessageTakesLatencyAndBytesOverRate) {
    World world(plain(2));
    std::vector<std::byte> out(1'000'000, std::byte{7}), in(1'000'000);
    world.run([&](auto& rank) {
        if (rank.rank() == 0) {
            EXPECT_TRUE(rank.transport().wait(rank.transport().send(1, 0, out)).complete());
        } else {
            EXPECT_TRUE(rank.transport().wait(rank.transport().receive(0, 0, in)).complete());
        }
        EXPECT_EQ(rank.now(), 10_us + 1'000_us);
        EXPECT_EQ(rank.busy().exposed_communication, rank.now());
    });
    EXPECT_EQ(in, out);
    EXPECT_EQ(world.elapsed(), 1'010_us);
    EXPECT_EQ(world.network().carried(world.topology().nic_out(0)), 1_MB);
    EXPECT_EQ(world.network().carried(world.topology().nic_in(1)), 1_MB);
}

TEST(Cluster, MessagesToOneselfAndEmptyOnesArrive) {
    World world(plain(2));
    world.run([&](auto& rank) {
        const std::vector<std::byte> out(5, std::byte(rank.rank() + 1));
        std::vector<std::byte> in(5), nothing;
        auto sent = rank.transport().send(rank.rank(), 0, out);
        EXPECT_TRUE(rank.transport().wait(rank.transport().receive(rank.rank(), 0, in)).complete());
        EXPECT_TRUE(rank.transport().wait(sent).complete());
        EXPECT_EQ(in, out);
        EXPECT_EQ(rank.now(), Nanoseconds(0));
        const int peer = 1 - rank.rank();
        const auto empty = rank.transport().send(peer, 3, bytes(nothing));
        EXPECT_TRUE(rank.transport().wait(rank.transport().receive(peer, 3, nothing)).complete());
        EXPECT_TRUE(rank.transport().wait(empty).complete());
        EXPECT_EQ(rank.now(), 10_us);
    });
}

TEST(Cluster, WaitAnyAnswersTheFirstToArrive) {
    World world(plain(3));
    world.run([&](auto& rank) {
        std::vector<std::byte> a(8), b(8);
        auto& link = rank.transport();
        if (rank.rank() == 0) {
            const std::array both{link.receive(1, 0, a), link.receive(2, 0, b)};
            EXPECT_EQ(link.wait_any(both).index, 1u);
            EXPECT_EQ(link.wait_any({both.data(), 1}).index, 0u);
            EXPECT_GT(rank.now(), 50_us);
        } else {
            if (rank.rank() == 1) rank.charge(50_us, "late");
            EXPECT_TRUE(link.wait(link.send(0, 0, a)).complete());
        }
    });
}

TEST(Cluster, MessagesOfOneLaneKeepTheirOrder) {
    World world(plain(2));
    world.run([&](auto& rank) {
        auto& link = rank.transport();
        std::vector<std::byte> first(9, std::byte{1}), second(9, std::byte{2});
        if (rank.rank() == 0) {
            const auto a = link.send(1, 0, first), b = link.send(1, 0, second);
            EXPECT_TRUE(link.wait(b).complete());
            EXPECT_TRUE(link.wait(a).complete());
        } else {
            std::vector<std::byte> x(9), y(9);
            rank.charge(1'000_us, "the messages come before their receives");
            const auto a = link.receive(0, 0, x), b = link.receive(0, 0, y);
            EXPECT_TRUE(link.wait(b).complete());
            EXPECT_TRUE(link.wait(a).complete());
            EXPECT_EQ(x, first);
            EXPECT_EQ(y, second);
        }
    });
}

TEST(Cluster, ChargesBelowZeroAndBeyondTheEndOfTimeAreRefused) {
    constexpr Nanoseconds end = Nanoseconds::max() / 2;
    World world(plain(2));
    world.run([&](auto& rank) {
        rank.charge(end - 1'000_us - rank.now(), "nearly all of it");
        rank.charge(Nanoseconds(0), "nothing");
        EXPECT_EQ(rank.now(), end - 1'000_us);
    });
    const auto error_of_charge = [&](Nanoseconds duration) {
        return error_of([&] {
            World(plain(2)).run([&](auto& rank) {
                if (rank.rank() != 1) return;
                rank.charge(1'500_us, "work");
                rank.charge(duration, "input");
            });
        });
    };
    EXPECT_EQ(error_of_charge(Nanoseconds(-1)),
              "gx: rank 1 charges 'input' with -1 ns at 1.5 ms: expected 0 or more, and virtual "
              "time ends after 146 years");
    for (const Nanoseconds long_one : {end, Nanoseconds::max()})
        EXPECT_TRUE(holds(error_of_charge(long_one), "rank 1 charges 'input' with ", "146 years"));
}

TEST(Cluster, AStreamWorksBesideItsRank) {
    World world(plain(2));
    world.run([&](auto& rank) {
        struct Work {
            decltype(rank)& r;
            std::vector<std::byte> in = std::vector<std::byte>(1'000'000), out = in;
        } work{rank};
        const gx::Task exchange{[](void* context, std::uint64_t) {
                                    auto& w = *static_cast<Work*>(context);
                                    auto& link = w.r.transport();
                                    const int peer = 1 - w.r.rank();
                                    const auto sent = link.send(peer, 0, w.out);
                                    EXPECT_TRUE(link.wait(link.receive(peer, 0, w.in)).complete());
                                    EXPECT_TRUE(link.wait(sent).complete());
                                },
                                &work, 0};
        const auto event = rank.stream().enqueue(exchange);
        rank.charge(600_us, "compute", gx::sim::Activity::compute);
        rank.stream().wait(event);
        EXPECT_EQ(rank.now(), 1'010_us);  // full duplex, and 600 us of it hidden
        EXPECT_EQ(rank.busy().compute, 600_us);
        EXPECT_EQ(rank.busy().exposed_communication, 410_us);
        EXPECT_EQ(rank.busy().communication, 1'010_us);
        EXPECT_EQ(rank.busy().idle(rank.now()), Nanoseconds(0));
    });
}

TEST(Cluster, QueuedWorkIsDoneWhenRunReturns) {
    World world(plain(1));
    int done = 0;
    world.run([&](auto& rank) {
        for (int i = 0; i < 3; ++i)
            rank.stream().enqueue(
                {[](void* n, std::uint64_t) { ++*static_cast<int*>(n); }, &done, 0});
    });
    EXPECT_EQ(done, 3);
}

TEST(Cluster, StretchWeighsGradientsOnly) {
    World world(plain(2));
    world.run([&](auto& rank) {
        EXPECT_EQ(gx::wire_scale_of(rank), 1);
        rank.wire_scale({.timed = 10, .real = 1});
        EXPECT_EQ(gx::wire_scale_of(rank), 10);
        std::vector<std::byte> m(100'000);
        auto& link = rank.transport();
        const auto go = [&](int channel) {
            const auto r =
                rank.rank() == 0 ? link.send(1, channel, m) : link.receive(0, channel, m);
            EXPECT_TRUE(link.wait(r).complete());
        };
        go(0);
        EXPECT_EQ(rank.now(), 1'010_us);
        go(gx::control_channel);
        EXPECT_EQ(rank.now(), 1'010_us + 110_us);
    });
}

TEST(Cluster, ARunWithinARunOfItIsRefused) {
    World world(plain(2));
    try {
        world.run([&](auto&) { world.run([](auto&) {}); });
        FAIL() << "it ran";
    } catch (const gx::Error& e) {
        EXPECT_NE(std::string(e.what()).find("Make another cluster"), std::string::npos);
    }
    world.run([](auto&) {
        World other(plain(3));
        other.run([](auto& rank) { rank.charge(5_us, "work"); });
        EXPECT_EQ(other.elapsed(), 5_us);
    });
}

TEST(ClusterDeathTest, ARankThatThereIsNotIsRefused) {
    World world(plain(2));
    world.run([](auto&) {});
    EXPECT_DEATH((void)world.busy(2), "a rank of this cluster is asked for");
    EXPECT_DEATH((void)world.error_of(-1), "a rank of this cluster is asked for");
    const int none[]{2};
    EXPECT_DEATH((void)world.survivors(none, 0_us), "a lost rank is one of this cluster's");
    EXPECT_DEATH((void)world.died(2), "a rank of this cluster is asked for");
    EXPECT_DEATH((void)world.unreachable(2), "a rank of this cluster is asked for");
}

// ---- Faults -------------------------------------------------------------------------
TEST(Cluster, ALateRankIsNamedAtTheDeadline) {
    World world(plain(3), {.deadline = 1'000_us});
    std::array<Delivery, 3> told{};
    world.run([&](auto& rank) {
        std::vector<std::byte> in(8);
        if (rank.rank() == 2) return rank.charge(5'000_us, "late");
        told[static_cast<std::size_t>(rank.rank())] =
            rank.transport().wait(rank.transport().receive(rank.rank() + 1, 0, in));
        EXPECT_EQ(rank.now(), 1'000_us);
    });
    EXPECT_EQ(told[0].outcome, Delivery::Outcome::timed_out);
    EXPECT_EQ(told[0].peer, 2) << "rank 0 waits for 1, which waits for 2";
    EXPECT_EQ(told[1].outcome, Delivery::Outcome::cancelled);
    EXPECT_EQ(told[1].peer, 2);
}

TEST(Cluster, ARankThatHasEndedIsNamedAtOnce) {
    World world(plain(3));
    world.run([&](auto& rank) {
        std::vector<std::byte> in(8);
        auto& link = rank.transport();
        if (rank.rank() == 1) return;
        if (rank.rank() == 2) {
            EXPECT_TRUE(link.wait(link.send(0, 0, in)).complete());
            (void)link.send(0, 0, in);  // lost: its buffer goes away with this function
            return;
        }
        EXPECT_TRUE(link.wait(link.receive(2, 0, in)).complete());
        const Nanoseconds ended = rank.now();
        const Delivery d = link.wait(link.receive(2, 0, in));
        EXPECT_EQ(d.outcome, Delivery::Outcome::timed_out);
        EXPECT_EQ(d.peer, 2);
        EXPECT_EQ(rank.now(), ended);
    });
}

TEST(Cluster, ADeadlockIsAnAnswer) {
    World world(plain(2), {.deadline = gx::sim::forever});
    int timed_out = 0;
    world.run([&](auto& rank) {
        std::vector<std::byte> in(8);
        const Delivery d = rank.transport().wait(rank.transport().receive(1 - rank.rank(), 0, in));
        EXPECT_FALSE(d.complete());
        timed_out += d.outcome == Delivery::Outcome::timed_out;
        EXPECT_EQ(d.peer, 1);
    });
    EXPECT_EQ(timed_out, 1);
}

TEST(Cluster, ARankThatThrowsStopsTheOthers) {
    World world(plain(4));
    int cancelled = 0;
    const auto f = [&](auto& rank) {
        if (rank.rank() == 1) {
            rank.charge(5_us, "work");
            throw std::runtime_error("rank 1 is tired");
        }
        std::vector<std::byte> in(8);
        const Delivery d = rank.transport().wait(rank.transport().receive(1, 0, in));
        cancelled += d.outcome == Delivery::Outcome::cancelled;
        EXPECT_EQ(d.peer, 1);
        EXPECT_EQ(rank.now(), 5_us);
    };
    EXPECT_THROW(
        {
            try {
                world.run(f);
            } catch (const std::runtime_error& e) {
                EXPECT_STREQ(e.what(), "rank 1 is tired");
                throw;
            }
        },
        std::runtime_error);
    EXPECT_EQ(cancelled, 3);
}

TEST(Cluster, ATaskThatThrowsReachesItsRankAndTheCaller) {
    World world(plain(2));
    EXPECT_THROW(world.run([&](auto& rank) {
        if (rank.rank() == 0) {
            const auto e = rank.stream().enqueue(
                {[](void*, std::uint64_t) { throw std::runtime_error("bad task"); }, nullptr, 0});
            EXPECT_THROW(rank.stream().wait(e), std::runtime_error);
        } else {
            std::vector<std::byte> in(8);
            EXPECT_FALSE(rank.transport().wait(rank.transport().receive(0, 0, in)).complete());
        }
    }),
                 std::runtime_error);
}

// ---- The same run twice -------------------------------------------------------------
std::uint64_t hash_of(std::uint64_t seed, Nanoseconds late) {
    World world(plain(4), {.seed = seed});
    world.run([&](auto& rank) {
        std::vector<std::byte> out(1000), in(1000);
        auto& link = rank.transport();
        rank.charge(late * rank.rank(), "skew");
        const auto sent = link.send((rank.rank() + 1) % 4, 0, out);
        EXPECT_TRUE(link.wait(link.receive((rank.rank() + 3) % 4, 0, in)).complete());
        EXPECT_TRUE(link.wait(sent).complete());
    });
    return world.event_hash();
}
TEST(ClusterDeathTest, AReceiveOfAnotherLengthIsNamed) {
    EXPECT_DEATH(World(plain(2)).run([](auto& rank) {
        std::array<std::byte, 12> bytes{};
        auto& link = rank.transport();
        if (rank.rank() == 0) (void)link.wait(link.send(1, 5, bytes));
        else (void)link.wait(link.receive(0, 5, std::span(bytes).first(8)));
    }),
                 "rank 0 sends 12 bytes where rank 1 receives 8, on channel 5: .*equal length");
}
TEST(ClusterDeathTest, AReceiveInAnotherBucketIsNamed) {
    EXPECT_DEATH(World(plain(2)).run([](auto& rank) {
        std::array<std::byte, 12> bytes{};
        auto& link = rank.transport();
        gx::working_on(link, {"all-reduce", 7, rank.rank()});
        (void)link.wait(rank.rank() == 0 ? link.send(1, 5, bytes) : link.receive(0, 5, bytes));
    }),
                 "rank 0 sends bucket 0 of step 7 where rank 1 receives bucket 1 of step 7, on "
                 "channel 5: .*same order");
}
/// The rank itself may work on something else beside its stream.
TEST(Cluster, ABucketIsThatOfTheFiberThatPosts) {
    World(plain(2)).run([](auto& rank) {
        auto task = [&rank] {
            std::array<std::byte, 12> bytes{};
            auto& link = rank.transport();
            gx::working_on(link, {"all-reduce", 7, 3});
            rank.charge(1_us, "before it sends");
            const auto sent = link.send(1 - rank.rank(), 0, bytes);
            EXPECT_TRUE(link.wait(link.receive(1 - rank.rank(), 0, bytes)).complete());
            EXPECT_TRUE(link.wait(sent).complete());
        };
        const gx::Event done = rank.stream().enqueue(
            {[](void* run, std::uint64_t) { (*static_cast<decltype(task)*>(run))(); }, &task});
        if (rank.rank() == 1) gx::working_on(rank.transport(), {"all-reduce", 8, 0});
        rank.stream().wait(done);
    });
}
TEST(Cluster, EqualRunsHashEqually) {
    EXPECT_EQ(hash_of(1, 5_us), hash_of(1, 5_us));
    EXPECT_NE(hash_of(1, 5_us), hash_of(2, 5_us)) << "the seed is hashed";
    EXPECT_NE(hash_of(1, 5_us), hash_of(1, 6_us)) << "times are hashed";
    // The same on every compiler, at every level of optimisation, with and without sanitizers.
    EXPECT_EQ(hash_of(1, 5_us), 0xff04d507570f23f1u);
}

}  // namespace
