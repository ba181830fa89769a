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
                              Nanoseconds(2'000'008), 9}});
    ASSERT_EQ(all.size(), 3u);
    EXPECT_EQ(all[0].at("args").at("name"), "rank 3");
    EXPECT_EQ(all[1].at("args").at("name"), "communication");
    EXPECT_EQ(all[2].at("name"), "ALLREDUCE");
    EXPECT_EQ(all[2].at("ph"), "X");
    EXPECT_EQ(all[2].at("pid"), 3);
    EXPECT_EQ(all[2].at("tid"), 1);
    EXPECT_DOUBLE_EQ(all[2].at("ts").get<double>(), 1234.567);
    EXPECT_DOUBLE_EQ(all[2].at("dur").get<double>(), 765.441);
    EXPECT_EQ(all[2].at("args").at("index"), 9);
}
TEST(ChromeTrace, PutsTheWholeBeforeItsParts) {
    const auto all =
        events({{0, gx::Track::compute, "conv", Nanoseconds(5), Nanoseconds(7), 0},
                {0, gx::Track::compute, "relu", Nanoseconds(7), Nanoseconds(9), 0},
                {0, gx::Track::compute, "FORWARD", Nanoseconds(5), Nanoseconds(9), 0}});
    ASSERT_EQ(all.size(), 5u);
    EXPECT_EQ(all[2].at("name"), "FORWARD");
    EXPECT_EQ(all[3].at("name"), "conv");
    EXPECT_EQ(all[4].at("name"), "relu");
}
TEST(ChromeTrace, OfNothing) { EXPECT_TRUE(events({}).empty()); }
TEST(ChromeTrace, HostileNamesStayNames) {
    const auto all = events(hostile_run().spans);
    bool found = false;
    for (const auto& e : all) found |= e.at("name") == "<script src=\"http://x/y\">&'\\";
    EXPECT_TRUE(found);
    EXPECT_EQ(events({{0, gx::Track::compute, "a\nb\x01", {}, {}, 0}})[2].at("name"), "a\nb\x01");
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

}  // namespace
