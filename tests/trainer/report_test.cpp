#include <gx/trainer/report.hpp>

#include <limits>  // NaN

#include <gtest/gtest.h>

#include <trainer/runs.hpp>   // run, hostile_run
#include <trainer/small.hpp>  // Folder

namespace {

using namespace testing_support;

std::size_t count(const std::string& text, const std::string& part) {
    std::size_t n = 0;
    for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++n;
    return n;
}

// ---- What stands on the page --------------------------------------------------------

TEST(Report, ShowsTablesCurvesAndTimelines) {
    const std::string html = gx::report_html({run(), run("MultiRing<4, fp16>")}, "A title");
    EXPECT_TRUE(
        holds(html, "<!doctype html>", "<h1>A title</h1>", "Net trained on 8 ranks",
              "clock: virtual", "<b>Timed as:</b> ResNet50", "MultiRing&lt;4, fp16&gt;",
              "<td>62.50 %<td>87.50 %<td>1.0 s<td>512<td>50.0 %<td>25.0 %<td>2.50 MB<td>0.125<td>1",
              "Training loss against steps", "Training loss against time",
              "Test accuracy against steps", "Test accuracy against time", "virtual time, s",
              "Where a step's time goes", "<li>one note.</li>", "ALLREDUCE 200.000 ms"));
    EXPECT_EQ(count(html, "aria-label=\"timeline\""), 2u);
    EXPECT_EQ(count(html, "conv"), 0u) << "a kernel is no phase";
    EXPECT_EQ(count(html, "<svg"), count(html, "</svg>"));
}
TEST(Report, ShowsTheLoadOfANicUnderTheTimeline) {
    gx::RunRecord r = run();
    EXPECT_EQ(count(gx::report_html({r}, "t"), "aria-label=\"link load\""), 0u);
    const auto at = [](int ms) { return gx::Nanoseconds(ms * 1'000'000); };
    r.link_rates = {.names = {"machine 0 NIC out"},
                    .capacities = {{3e9}},
                    .changes = {{0, at(500), {1.5e9}}, {0, at(1000), {0}}}};
    EXPECT_TRUE(holds(gx::report_html({r}, "t"), "aria-label=\"link load\"",
                      "machine 0 NIC out: 33 % of 3.00 GB/s on the mean"))
        << "500 ms of the 750 ms that are shown, at half of the rate";
}
TEST(Report, FlagsWhatAReaderMustKnow) {
    gx::RunRecord r = run();
    EXPECT_EQ(count(gx::report_html({r}, "t"), "Warning:"), 0u);
    r.at_chance = true;
    r.scaling_efficiency_pct = std::numeric_limits<double>::quiet_NaN();
    r.warnings = {"<1> of 2 steps were skipped.", "no better than chance."};
    EXPECT_TRUE(holds(gx::report_html({r}, "t"), "<td>62.50 % (chance)", "<td>unknown<td>",
                      "Ring&lt;fp32&gt;: &lt;1&gt; of 2 steps were skipped.",
                      "Ring&lt;fp32&gt;: no better than chance."));
}
TEST(Report, OfNoRuns) { EXPECT_TRUE(holds(gx::report_html({}, "t"), "No runs.", "</html>")); }
TEST(Report, OfARunThatHasNotTrained) {
    const std::string html = gx::report_html({gx::RunRecord{}}, "t");
    EXPECT_EQ(html.find("nan"), std::string::npos);
    EXPECT_EQ(html.find("inf<"), std::string::npos);
}
TEST(Report, LoadsNothing) {
    const std::string html = gx::report_html({run()}, "t");
    for (const char* loads : {"http:", "https:", "src=", "href=", "url(", "@import", "<script",
                              "<link", "<iframe", "<img"})
        EXPECT_EQ(html.find(loads), std::string::npos) << loads;
}
TEST(Report, HostileNamesStayNames) {
    const std::string html = gx::report_html({hostile_run()}, "<script src=\"http://x\">");
    EXPECT_EQ(html.find("<script"), std::string::npos);
    EXPECT_EQ(html.find("src=\""), std::string::npos);
    EXPECT_EQ(count(html, "<svg"), count(html, "</svg>"));
    EXPECT_GE(count(html, "&lt;script src=&quot;http://x"), 8u);
}

// ---- Curves -------------------------------------------------------------------------

TEST(LossCurve, IsMeansOfEqualRunsOfSteps) {
    gx::RunRecord r;
    for (int i = 0; i < 10; ++i)
        r.steps.push_back({.step = i, .seconds = i * 0.5, .loss = double(i)});
    using Points = std::vector<std::pair<double, double>>;
    EXPECT_EQ(gx::detail::report::loss_curve(r, false, 4),
              (Points{{3, 1}, {6, 4}, {9, 7}, {10, 9}}));
    EXPECT_EQ(gx::detail::report::loss_curve(r, true, 4),
              (Points{{1, 1}, {2.5, 4}, {4, 7}, {4.5, 9}}));
    EXPECT_EQ(gx::detail::report::loss_curve(r, false).size(), 10u);
    EXPECT_TRUE(gx::detail::report::loss_curve({}, false).empty());
}

// ---- Writing ------------------------------------------------------------------------

TEST(Report, MakesItsFolderAndNamesAFileItCantWrite) {
    const Folder folder;
    EXPECT_EQ(gx::write_report(folder / "a/b/report.html", {run()}), folder / "a/b/report.html");
    EXPECT_TRUE(holds(read_text(folder / "a/b/report.html"), "</html>"));
    write_text(folder / "file", "");
    EXPECT_TRUE(
        holds(error_of([&] { (void)gx::write_report(folder / "file/report.html", {run()}); }),
              "file/report.html' cannot be created: Not a directory"));
}

}  // namespace
