#include <gx/sim/trace.hpp>  // first, so the header is seen to stand alone

#include <vector>  // messages

#include <gtest/gtest.h>

#include <gx/sim/cluster.hpp>   // Cluster
#include <gx/sim/machines.hpp>  // ethernet_10g

namespace {

using gx::Nanoseconds;
using namespace gx::literals;
using gx::sim::Activity;
using gx::sim::Track;

std::uint64_t run(gx::sim::TraceSink* sink) {
    gx::sim::Cluster<> world(gx::sim::ethernet_10g(2), {.trace = sink});
    world.run([](auto& rank) {
        struct Work {
            decltype(rank)& r;
            std::vector<std::byte> in = std::vector<std::byte>(62'500), out = in;
        } work{rank};
        const auto event = rank.stream().enqueue({[](void* w, std::uint64_t) {
            auto& [r, in, out] = *static_cast<Work*>(w);
            const auto sent = r.transport().send(1 - r.rank(), 0, out);
            EXPECT_TRUE(r.transport().wait(r.transport().receive(1 - r.rank(), 0, in)).complete());
            EXPECT_TRUE(r.transport().wait(sent).complete());
        }, &work, 0});
        rank.charge(20_us, "load", Activity::input);
        rank.charge(30_us, "conv", Activity::compute);
        rank.stream().wait(event);
        rank.charge(5_us, "save");
    });
    return world.event_hash();
}

TEST(Trace, RecordsEveryIntervalOfEveryTrack) {
    gx::sim::TraceSink sink;
    run(&sink);
    const auto of_rank_1 = [&](Track track) {
        std::vector<gx::sim::Span> found;
        for (const auto& s : sink.spans)
            if (s.rank == 1 && s.track == track) found.push_back(s);
        return found;
    };
    const auto compute = of_rank_1(Track::compute);
    ASSERT_EQ(compute.size(), 3u);
    EXPECT_EQ(compute[1].name.view(), "conv");
    EXPECT_EQ(compute[1].begin, 20_us);
    EXPECT_EQ(compute[1].end, 50_us);
    EXPECT_EQ(compute[2].begin, 140_us) << "40 us, and 62.5 KB at 5 Gb/s";
    const auto communication = of_rank_1(Track::communication), network = of_rank_1(Track::network);
    ASSERT_EQ(communication.size(), 1u);
    EXPECT_EQ(communication[0].end, 140_us);
    ASSERT_EQ(network.size(), 1u);
    EXPECT_EQ(network[0].name.view(), "to rank 0");
    EXPECT_EQ(network[0].begin, Nanoseconds(0));
    EXPECT_EQ(network[0].end, 140_us);
}

TEST(Trace, TracingChangesNothing) {
    gx::sim::TraceSink sink;
    EXPECT_EQ(run(&sink), run(nullptr));
}

TEST(Trace, ABreakdownAddsUpToTheElapsedTime) {
    gx::sim::Busy before, now;
    now.add(Activity::compute, 30_us);
    now.add(Activity::input, 20_us);
    before = now;
    now.add(Activity::compute, 7_us);
    now.add(Activity::exposed_communication, 2_us);
    const gx::sim::Busy step = now - before;
    EXPECT_EQ(step.compute, 7_us);
    EXPECT_EQ(step.input, Nanoseconds(0));
    EXPECT_EQ(step.idle(10_us), 1_us);
}

}  // namespace
