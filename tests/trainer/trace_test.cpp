#include <gx/trainer/trace.hpp>

#include <map>  // last ends

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <rapidcheck/gtest.h>

#include <trainer/runs.hpp>  // run

namespace {

using namespace testing_support;
using gx::Nanoseconds;

nlohmann::json events(const std::vector<gx::Span>& spans) {
    return nlohmann::json::parse(gx::chrome_trace(spans)).at("traceEvents");
}

// ---- A case worked by hand ----------------------------------------------------------

TEST(ChromeTrace, NamesRanksAndTracksAndKeepsNanoseconds) {
    const auto all = events({{3, gx::Track::communication, "ALLREDUCE", Nanoseconds(1'234'567),
                              Nanoseconds(2'000'008), 9, 2}});
    ASSERT_EQ(all.size(), 5u);
    EXPECT_EQ(all[0].at("args").at("name"), "rank 3");
    EXPECT_EQ(all[1].at("args").at("sort_index"), 3);
    EXPECT_EQ(all[2].at("args").at("name"), "communication");
    EXPECT_EQ(all[3].at("args").at("sort_index"), 1);
    EXPECT_EQ(all[4].at("name"), "ALLREDUCE");
    EXPECT_EQ(all[4].at("ph"), "X");
    EXPECT_EQ(all[4].at("pid"), 3);
    EXPECT_EQ(all[4].at("tid"), 1);
    EXPECT_DOUBLE_EQ(all[4].at("ts").get<double>(), 1234.567);
    EXPECT_DOUBLE_EQ(all[4].at("dur").get<double>(), 765.441);
    EXPECT_EQ(all[4].at("args"), (nlohmann::json{{"index", 9}, {"bucket", 2}}));
}
TEST(ChromeTrace, PutsTheWholeBeforeItsParts) {
    const auto all =
        events({{0, gx::Track::compute, "conv", Nanoseconds(5), Nanoseconds(7), 0},
                {0, gx::Track::compute, "relu", Nanoseconds(7), Nanoseconds(9), 0},
                {0, gx::Track::compute, "FORWARD", Nanoseconds(5), Nanoseconds(9), 0}});
    ASSERT_EQ(all.size(), 7u);
    EXPECT_EQ(all[4].at("name"), "FORWARD");
    EXPECT_EQ(all[5].at("name"), "conv");
    EXPECT_EQ(all[6].at("name"), "relu");
}
/// Spans nest, so that of two alike the later recorded is the whole: viewers take the first for it.
TEST(ChromeTrace, PutsAWholeOfOnePartBeforeIt) {
    for (const gx::Track track : {gx::Track::compute, gx::Track::communication}) {
        const auto all = events({{0, track, "update", Nanoseconds(5), Nanoseconds(9)},
                                 {0, track, "UPDATE", Nanoseconds(5), Nanoseconds(9), 3}});
        ASSERT_EQ(all.size(), 6u);
        EXPECT_EQ(all[4].at("name"), "UPDATE");
        EXPECT_EQ(all[4].at("args"), (nlohmann::json{{"index", 3}}));
        EXPECT_EQ(all[5].at("name"), "update");
        EXPECT_TRUE(all[5].at("args").empty()) << "its step is not known";
    }
}
TEST(ChromeTrace, TimesMayBeNegative) {
    const auto all = events({{0, gx::Track::compute, "a", Nanoseconds(-1'500), Nanoseconds(-1)}});
    EXPECT_EQ(all.back().at("ts"), -1.5);
    EXPECT_EQ(all.back().at("dur"), 1.499);
}
TEST(ChromeTrace, MessagesThatOverlapLieOnThreadsOfTheirOwn) {
    const auto network = gx::Track::network;
    std::vector<int> threads;
    for (const auto& e : events({{0, network, "a", Nanoseconds(0), Nanoseconds(10)},
                                 {0, network, "b", Nanoseconds(5), Nanoseconds(15)},
                                 {0, network, "c", Nanoseconds(10), Nanoseconds(20)},
                                 {0, network, "d", Nanoseconds(12), Nanoseconds(13)}}))
        if (e.at("ph") == "X") threads.push_back(e.at("tid"));
    EXPECT_EQ(threads, (std::vector{2, 3, 2, 4}));
}
TEST(ChromeTrace, AnArrowGoesFromASendToItsReceive) {
    const auto network = gx::Track::network;
    const auto all = events(
        {{0, network, "to rank 1", Nanoseconds(1'000), Nanoseconds(9'000), 0, -1, 26},
         {1, network, "from rank 0", Nanoseconds(4'000), Nanoseconds(9'000), 0, -1, 26, true},
         {0, network, "to rank 1", Nanoseconds(9'000), Nanoseconds(9'500), 0, -1, 27}});
    std::vector<nlohmann::json> arrows;
    for (const auto& e : all)
        if (e.at("ph") == "s" || e.at("ph") == "f") arrows.push_back(e);
    ASSERT_EQ(arrows.size(), 2u) << "the third message has no receive here";
    EXPECT_EQ(arrows[0].at("id"), "0x1a");
    EXPECT_EQ(arrows[0].at("pid"), 0);
    EXPECT_EQ(arrows[0].at("ts"), 1.0);
    EXPECT_EQ(arrows[1].at("id"), "0x1a");
    EXPECT_EQ(arrows[1].at("pid"), 1);
    EXPECT_EQ(arrows[1].at("ts"), 8.999) << "while the receive is still open";
    EXPECT_EQ(arrows[1].at("bp"), "e");
}
TEST(ChromeTrace, BucketsThatWaitAreEventsOfTheirOwn) {
    const auto queue = gx::Track::queue;
    const auto all = events({{2, queue, "QUEUE", Nanoseconds(0), Nanoseconds(9), 4, 1},
                             {2, queue, "QUEUE", Nanoseconds(3), Nanoseconds(12), 4, 2}});
    ASSERT_EQ(all.size(), 6u);
    EXPECT_EQ(all[2].at("ph"), "b");
    EXPECT_EQ(all[3].at("ph"), "e");
    EXPECT_EQ(all[2].at("id"), all[3].at("id"));
    EXPECT_NE(all[2].at("id"), all[4].at("id"));
    EXPECT_EQ(all[5].at("ts"), 0.012);
    EXPECT_EQ(all[4].at("args").at("bucket"), 2);
}
TEST(ChromeTrace, RatesAreCountersBehindTheRanks) {
    const gx::LinkRates rates{.names = {"NIC out"},
                              .changes = {{0, Nanoseconds(7), {1.25e9}}, {0, Nanoseconds(9), {0}}}};
    const std::vector<gx::Span> spans{{4, gx::Track::compute, "a", {}, {}}};
    const auto all = nlohmann::json::parse(gx::chrome_trace(spans, rates)).at("traceEvents");
    const auto& last = all[all.size() - 2];
    EXPECT_EQ(last.at("ph"), "C");
    EXPECT_EQ(last.at("pid"), 5);
    EXPECT_EQ(last.at("name"), "NIC out");
    EXPECT_EQ(last.at("ts"), 0.007);
    EXPECT_EQ(last.at("args").at("bytes/s"), 1.25e9);
}
TEST(ChromeTrace, OfNothing) { EXPECT_TRUE(events({}).empty()); }
TEST(ChromeTrace, HostileNamesStayNames) {
    const auto all = events(hostile_run().spans);
    bool found = false;
    for (const auto& e : all) found |= e.at("name") == "<script src=\"http://x/y\">&'\\";
    EXPECT_TRUE(found);
    EXPECT_EQ(events({{0, gx::Track::compute, "a\nb\x01", {}, {}, 0}})[4].at("name"), "a\nb\x01");
}

// ---- A property ---------------------------------------------------------------------

RC_GTEST_PROP(
    ChromeTrace, TimesNeverGoBackOnATrack,
    (std::vector<std::tuple<std::uint8_t, std::uint8_t, std::uint32_t, std::uint16_t>> raw)) {
    std::vector<gx::Span> spans;
    for (const auto& [rank, track, begin, length] : raw)
        spans.push_back({rank % 3, gx::Track(track % 3), "work", Nanoseconds(begin),
                         Nanoseconds(std::int64_t{begin} + length), 0});
    std::map<std::pair<int, int>, double> last;
    std::size_t seen = 0;
    for (const auto& e : events(spans)) {
        if (e.at("ph") != "X") continue;
        ++seen;
        const double begin = e.at("ts");
        double& before = last[{e.at("pid").get<int>(), e.at("tid").get<int>()}];
        RC_ASSERT(begin >= before);
        RC_ASSERT(e.at("dur").get<double>() >= 0);
        before = begin;
    }
    RC_ASSERT(seen == spans.size());
}

// ---- The sink -----------------------------------------------------------------------

TEST(TraceSink, KeepsWhatComesWhileItRecords) {
    gx::TraceSink sink;
    sink.add({.index = 1});
    sink.recording = false;
    sink.add({.index = 2});
    sink.recording = true;
    sink.add({.index = 3});
    ASSERT_EQ(sink.spans.size(), 2u);
    EXPECT_EQ(sink.spans[1].index, 3);
}
TEST(TraceSink, KnowsTheRatesWhenItStartsToRecord) {
    gx::TraceSink sink{.recording = false};
    sink.name_links({"a", "b"});
    sink.set_rate(0, Nanoseconds(1), {10});
    sink.record(1, true, Nanoseconds(3));  // rates go with rank 0
    sink.record(0, true, Nanoseconds(5));
    sink.set_rate(1, Nanoseconds(6), {20});
    sink.set_rate(1, Nanoseconds(6), {30});
    sink.record(1, false, Nanoseconds(6));
    sink.record(0, false, Nanoseconds(7));
    sink.set_rate(0, Nanoseconds(8), {0});
    std::vector<std::tuple<int, int, double>> found;
    for (const auto& c : sink.rates.changes)
        found.emplace_back(c.link, int(c.at.count()), c.rate.count);
    EXPECT_EQ(found, (std::vector<std::tuple<int, int, double>>{
                         {0, 5, 10}, {1, 6, 30}, {0, 7, 10}, {1, 7, 30}}));
}

}  // namespace
