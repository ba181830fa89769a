#include <gx/report/chart.hpp>

#include <cmath>   // signbit
#include <limits>  // infinity

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

using gx::chart::ticks;

// ---- Ticks worked by hand -----------------------------------------------------------

void expect_ticks(double least, double most, const std::vector<double>& expected) {
    const auto got = ticks(least, most);
    ASSERT_EQ(got.size(), expected.size()) << least << " ... " << most;
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-9 * most);
}
TEST(Ticks, AreRound) {
    expect_ticks(0, 10, {0, 2, 4, 6, 8, 10});
    expect_ticks(0, 100, {0, 20, 40, 60, 80, 100});
    expect_ticks(0, 7, {0, 2, 4, 6});
    expect_ticks(0, 4, {0, 1, 2, 3, 4});
    expect_ticks(87.2, 93.9, {88, 90, 92});
    expect_ticks(0, 0.024, {0, 0.005, 0.010, 0.015, 0.020});
    expect_ticks(0, 2500, {0, 500, 1000, 1500, 2000, 2500});
}
TEST(Ticks, OfARangeThatIsNone) { EXPECT_EQ(ticks(5, 5), std::vector<double>{5}); }
TEST(Ticks, OfNumbersThatLieFartherApartThanASteps) {
    for (const double at : {1e17, 1e20, 1e300, -1e300}) EXPECT_LE(ticks(at, at).size(), 1u) << at;
    EXPECT_LE(ticks(0, std::numeric_limits<double>::infinity()).size(), 7u);
    EXPECT_LE(ticks(-1e308, 1e308).size(), 7u);
}
TEST(Ticks, ZeroHasNoSign) {
    for (const double x : ticks(-0.05, 0.9)) EXPECT_FALSE(std::signbit(x));
}

// ---- A property ---------------------------------------------------------------------

RC_GTEST_PROP(Ticks, AreFewWithinTheRangeAndEvenlySpaced, ()) {
    const double least = *rc::gen::inRange(-100000, 100000) / 128.0;
    const double range = *rc::gen::inRange(1, 1000000) / 1024.0;
    const auto got = ticks(least, least + range);
    RC_ASSERT(!got.empty() && got.size() <= 6u);
    const double slack = 1e-6 * range;
    for (std::size_t i = 0; i < got.size(); ++i) {
        RC_ASSERT(got[i] >= least - slack && got[i] <= least + range + slack);
        if (i > 1) RC_ASSERT(std::abs(got[i] - 2 * got[i - 1] + got[i - 2]) <= slack);
    }
}

// ---- Pictures -----------------------------------------------------------------------

TEST(Lines, PutThePointsWhereTheyBelong) {
    const std::string svg = gx::chart::lines("title", "x", "y", {{"a", {{0, 0}, {10, 10}}, true}});
    // x: 52 + (480 - 52 - 12) = 468; y: a twentieth above and below, 228 - 198 / 22 = 219 and 39
    EXPECT_NE(svg.find("points=\"52.0,219.0 468.0,39.0 \""), std::string::npos) << svg;
    EXPECT_NE(svg.find("<circle cx=\"468.0\" cy=\"39.0\""), std::string::npos) << svg;
}
TEST(Lines, WithoutPointsDrawTheirAxes) {
    const std::string svg = gx::chart::lines("title", "x", "y", {});
    EXPECT_NE(svg.find("class=\"g\""), std::string::npos);
    EXPECT_EQ(svg.find("nan"), std::string::npos);
}
TEST(Lines, OfOneValueHaveItInTheMiddle) {
    const auto with = [](double y) {
        return gx::chart::lines("t", "x", "y", {{"a", {{0, y}, {10, y}}}});
    };
    const std::string rate = with(1e-3);  // from 0.00095 to 0.00105
    EXPECT_NE(rate.find("points=\"72.0,129.0 468.0,129.0 \""), std::string::npos) << rate;
    EXPECT_NE(rate.find("y=\"133.0\">0.001</text>"), std::string::npos) << rate;
    EXPECT_EQ(rate.find(">0</text>\n<line class=\"g\" x1=\"52\""), std::string::npos);
    EXPECT_EQ(rate.find(">-"), std::string::npos) << "no rate is below 0";
    EXPECT_EQ(with(std::numeric_limits<double>::denorm_min()).find("nan"), std::string::npos);
    const std::string none = with(0);
    EXPECT_NE(none.find("points=\"52.0,228.0 468.0,228.0 \""), std::string::npos) << none;
    EXPECT_EQ(none.find(">-"), std::string::npos) << none;
}
TEST(Lines, OfOnePointShowIt) {
    const std::string svg = gx::chart::lines("t", "x", "y", {{"a", {{5, 1}}}});
    EXPECT_NE(svg.find("<circle cx=\"468.0\" cy=\"129.0\""), std::string::npos) << svg;
    EXPECT_EQ(gx::chart::lines("t", "x", "y", {{"a", {{5, 1}, {6, 1}}}}).find("<circle"),
              std::string::npos);
}
TEST(Lines, OfANarrowRangeHaveDifferentLabels) {
    const std::string svg =
        gx::chart::lines("t", "x", "y", {{"a", {{0, 2.3025851}, {10, 2.302589}}}});
    for (const char* label : {">2.302585<", ">2.302586<", ">2.302589<"})
        EXPECT_NE(svg.find(label), std::string::npos) << svg;
    EXPECT_NE(svg.find("points=\"78.0,"), std::string::npos)
        << "25 and 8 characters of 6.6: " << svg;
}
TEST(Lines, KeepTheirLastLabelOnThePage) {
    const auto with = [](double x) {
        return gx::chart::lines("t", "x", "y", {{"a", {{0, 0}, {x, 1}}}});
    };
    EXPECT_NE(with(100).find("x=\"468.0\" y=\"242\">100<"), std::string::npos) << with(100);
    EXPECT_NE(with(100000).find("x=\"460.2\" y=\"242\">100000<"), std::string::npos);
}
TEST(Lines, OfAScatterAreDotsOnly) {
    const std::string svg = gx::chart::lines(
        "t", "x", "y", {{.name = "s", .points = {{0, 0}, {1, 1}}, .dots = true, .line = false}});
    EXPECT_EQ(svg.find("<polyline"), std::string::npos);
    EXPECT_NE(svg.find("<circle"), std::string::npos);
}
TEST(Lines, LeaveOutWhatIsNoNumber) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    const std::string svg = gx::chart::lines(
        "t", "x", "y", {{"a", {{0, 0}, {5, std::nan("")}, {6, infinity}, {10, 10}}, true}});
    EXPECT_NE(svg.find("points=\"52.0,219.0 468.0,39.0 \""), std::string::npos) << svg;
    EXPECT_EQ(svg.find("nan"), std::string::npos);
    EXPECT_EQ(svg.find("inf"), std::string::npos);
}
TEST(Lines, OfOneColourHaveOtherDashes) {
    EXPECT_STREQ(gx::chart::colour(0), gx::chart::colour(6));
    EXPECT_STREQ(gx::chart::dashes(5), "");
    EXPECT_STREQ(gx::chart::dashes(6), "6 3");
    EXPECT_STREQ(gx::chart::dashes(12), "2 3");
    std::vector<gx::chart::Series> series(7, {"name", {{1, 1}}});
    const std::string svg = gx::chart::lines("t", "x", "y", series);
    EXPECT_NE(svg.find("stroke=\"#0072b2\" stroke-dasharray=\"6 3\" "), std::string::npos);
    series.pop_back();
    EXPECT_EQ(gx::chart::lines("t", "x", "y", series).find("dasharray"), std::string::npos);
}
TEST(Bars, HaveTheLengthsOfTheirParts) {
    const std::string svg = gx::chart::bars("title", "ms", {{"p", "#111111"}, {"q", "#222222"}},
                                            {{"a", {3, 1}}, {"b", {1, 1}}});
    // 980 - 12 - 110 = 858 for 4 ms
    for (const char* width : {"width=\"643.5\"", "width=\"214.5\""})
        EXPECT_NE(svg.find(width), std::string::npos) << svg;
    EXPECT_NE(svg.find(">4.0 ms<"), std::string::npos);
    EXPECT_EQ(gx::chart::bars("t", "ms", {{"p", "#111111"}}, {{"a", {0}}}).find("nan"),
              std::string::npos);
}
TEST(Escaped, LeavesNothingThatOpensATag) {
    EXPECT_EQ(gx::chart::escaped("a<b>&\"c\""), "a&lt;b&gt;&amp;&quot;c&quot;");
    const std::string svg = gx::chart::lines("<t>", "<x>", "<y>", {{"<n>", {{1, 1}}, true}});
    for (const char* raw : {"<t>", "<x>", "<y>", "<n>"})
        EXPECT_EQ(svg.find(raw), std::string::npos) << raw;
}

}  // namespace
