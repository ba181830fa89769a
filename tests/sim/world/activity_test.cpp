#include <gx/sim/world/activity.hpp>  // first, so the header is seen to stand alone

#include <map>     // threads
#include <set>     // names
#include <string>  // names
#include <vector>  // messages

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <rapidcheck/gtest.h>

#include <gx/collective/group.hpp>             // Group
#include <gx/reducer/bucketed.hpp>             // Bucketed
#include <gx/reducer/double_buffered.hpp>      // DoubleBuffered
#include <gx/reducer/multi_ring.hpp>           // MultiRing
#include <gx/reducer/pipeline.hpp>             // Pipeline
#include <gx/sim/world/cluster.hpp>            // Cluster
#include <gx/sim/catalog/simple_clusters.hpp>  // ethernet_10g, plain_p3_16xlarge
#include <gx/trainer/trace.hpp>                // chrome_trace

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
        const auto event = rank.stream().enqueue(
            {[](void* w, std::uint64_t) {
                 auto& [r, in, out] = *static_cast<Work*>(w);
                 const auto sent = r.transport().send(1 - r.rank(), 0, out);
                 EXPECT_TRUE(
                     r.transport().wait(r.transport().receive(1 - r.rank(), 0, in)).complete());
                 EXPECT_TRUE(r.transport().wait(sent).complete());
             },
             &work, 0});
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
    ASSERT_EQ(network.size(), 2u);
    std::set<std::string> names;
    for (const auto& s : network) {
        names.emplace(s.name.view());
        EXPECT_EQ(s.begin, Nanoseconds(0));
        EXPECT_EQ(s.end, 140_us);
    }
    EXPECT_EQ(names, (std::set<std::string>{"to rank 0", "from rank 0"}));
}

TEST(Trace, TracingChangesNothing) {
    gx::sim::TraceSink sink;
    EXPECT_EQ(run(&sink), run(nullptr));
}

// ---- The timeline of a pipeline, read back -------------------------------------------------
/// Three steps of a double buffer on machines of two GPUs, as Chrome's JSON.
std::string timeline(int machines, std::int64_t elements, std::int64_t bucket) {
    using Reducer = gx::DoubleBuffered<gx::MultiRing<2, gx::fp16>>;
    gx::sim::TraceSink sink;
    auto spec = gx::sim::plain_p3_16xlarge(machines);
    spec.machine.gpus = 2;
    gx::sim::Cluster<> world(spec, {.trace = &sink});
    world.run([&](auto& rank) {
        gx::Pipeline pipeline(rank.stream(), rank.transport(),
                              {.elements = elements, .bucket_elements = bucket}, Reducer());
        for (std::uint64_t t = 0; t < 3; ++t) {
            const auto gradients = pipeline.begin(t);
            std::ranges::fill(gradients, 1.0f);
            rank.charge(20_us, "backward", Activity::compute);
            pipeline.ready(0);
            (void)pipeline.collect(t);
        }
        while (pipeline.drain()) {
        }
    });
    return gx::chrome_trace(sink.spans, sink.rates);
}
using Json = nlohmann::json;
std::int64_t ns(const Json& microseconds) { return std::llround(microseconds.get<double>() * 1e3); }

RC_GTEST_PROP(Timeline, IsOneThatPerfettoReads, ()) {
    const int machines = *rc::gen::inRange(1, 4);
    const auto elements = *rc::gen::inRange<std::int64_t>(1, 200),
               bucket = *rc::gen::inRange<std::int64_t>(10, 200);
    const std::string text = timeline(machines, elements, bucket);
    RC_ASSERT(text == timeline(machines, elements, bucket));
    const Json events = Json::parse(text).at("traceEvents");

    std::map<int, std::string> processes;
    std::map<std::pair<int, int>, std::string> threads;
    for (const Json& e : events) {
        if (e.at("name") == "process_name") processes[e.at("pid")] = e.at("args").at("name");
        if (e.at("name") == "thread_name")
            threads[{e.at("pid"), e.at("tid")}] = e.at("args").at("name");
    }
    for (int r = 0; r < 2 * machines; ++r)
        RC_ASSERT(processes.at(r) == "rank " + std::to_string(r));
    RC_ASSERT(processes.size() == std::size_t(2 * machines + (machines > 1)));

    std::map<std::pair<int, int>, std::vector<std::int64_t>> open;  // ends of what is around
    std::map<std::string, std::int64_t> sends, waiting;             // by id: since when
    std::map<std::string, int> names;
    std::size_t arrows = 0;
    for (const Json& e : events) {
        const std::string kind = e.at("ph");
        if (kind == "M") continue;
        const std::int64_t at = ns(e.at("ts"));
        const std::pair<int, int> thread{e.at("pid"), e.at("tid")};
        RC_ASSERT(processes.contains(thread.first) && at >= 0);
        const std::string id = e.value("id", "");
        if (kind == "X") {
            ++names[e.at("name").get<std::string>()];
            RC_ASSERT(threads.contains(thread));
            auto& around = open[thread];
            while (!around.empty() && around.back() <= at) around.pop_back();
            const std::int64_t end = at + ns(e.at("dur"));
            const bool nests = around.empty() || end <= around.back();
            RC_ASSERT(nests);
            around.push_back(end);
        } else if (kind == "s") {
            RC_ASSERT(sends.emplace(id, at).second);
        } else if (kind == "b") {
            RC_ASSERT(waiting.emplace(id, at).second);
            RC_ASSERT(e.at("name") == "QUEUE");
        } else if (kind == "e") {
            RC_ASSERT(waiting.at(id) < at);
            waiting.erase(id);
        } else {
            RC_ASSERT(kind == "C" || kind == "f");
        }
    }
    for (const Json& e : events) {
        if (e.at("ph") != "f") continue;
        ++arrows;
        RC_ASSERT(ns(e.at("ts")) >= sends.at(e.at("id").get<std::string>()));
    }
    RC_ASSERT(arrows == sends.size());
    RC_ASSERT(waiting.empty());
    const int reductions = 3 * 2 * machines * int((elements + bucket - 1) / bucket);
    RC_ASSERT(names["ALLREDUCE"] == reductions);
    RC_ASSERT(names["MEMCPY_IN_FUSION_BUFFER"] == reductions);
    RC_ASSERT(names["MEMCPY_OUT_FUSION_BUFFER"] == reductions);
    RC_ASSERT(names["backward"] == 3 * 2 * machines);
}
TEST(Timeline, ShowsThePartsOfAnOperation) {
    gx::TraceSink sink;
    gx::sim::Cluster<> world(gx::sim::ethernet_10g(2), {.trace = &sink});
    world.run([](auto& rank) {
        const gx::collective::Members members(rank.transport().placement(), {1, 0});
        gx::collective::Group link(rank.transport(), members);
        rank.charge(5_us, "forward", Activity::compute);
        gx::working_on(link, {"all-reduce", 0, 0});
        gx::working_on_part(link, "MEMCPY_IN_FUSION_BUFFER");
        rank.charge(3_us, "copying", Activity::compute);
        gx::working_on_part(link, "COMPRESS");
        rank.charge(2_us, "compressing", Activity::compute);
        gx::working_on(link, {"summing the metrics", 0});
        rank.charge(1_us, "summing", Activity::compute);
    });
    std::vector<std::string> parts;
    for (const gx::Span& s : sink.spans)
        if (s.rank == 1 && s.track == gx::Track::communication)
            parts.push_back(std::string(s.name.view()) + " " + std::to_string(s.begin.count()) +
                            " " + std::to_string(s.end.count()));
    EXPECT_EQ(parts, (std::vector<std::string>{"MEMCPY_IN_FUSION_BUFFER 5000 8000",
                                               "COMPRESS 8000 10000"}));
}
TEST(Timeline, SaysWhichBucketOfWhichStepWaitedHowLong) {
    const Json events = Json::parse(timeline(2, 100, 40)).at("traceEvents");
    std::set<std::pair<int, int>> reduced, queued;  // (step, bucket)
    for (const Json& e : events) {
        if (e.at("pid") != 0 || !e.contains("args")) continue;
        const Json& args = e.at("args");
        if (e.at("name") == "ALLREDUCE") reduced.emplace(args.at("index"), args.at("bucket"));
        if (e.at("ph") == "b") queued.emplace(args.at("index"), args.at("bucket"));
    }
    EXPECT_EQ(reduced.size(), 9u);
    EXPECT_TRUE(reduced.contains({2, 1}));
    EXPECT_FALSE(queued.contains({0, 0})) << "the stream was free";
    EXPECT_TRUE(queued.contains({0, 1})) << "behind bucket 0";
    EXPECT_TRUE(queued.contains({1, 0})) << "behind the buckets of step 0";
}

TEST(Trace, ABreakdownAddsUpToTheElapsedTime) {
    gx::sim::BusyTime before, now;
    now.add(Activity::compute, 30_us);
    now.add(Activity::input, 20_us);
    before = now;
    now.add(Activity::compute, 7_us);
    now.add(Activity::exposed_communication, 2_us);
    const gx::sim::BusyTime step = now - before;
    EXPECT_EQ(step.compute, 7_us);
    EXPECT_EQ(step.input, Nanoseconds(0));
    EXPECT_EQ(step.idle(10_us), 1_us);
}

}  // namespace
