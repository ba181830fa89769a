#include <gx/trainer/report.hpp>

#include <limits>  // NaN

#include <gtest/gtest.h>

#include <gx/report/chart.hpp>  // colour, Part
#include <trainer/runs.hpp>     // run, hostile_run
#include <trainer/small.hpp>    // Folder

namespace {

using namespace testing_support;

std::size_t count(const std::string& text, const std::string& part) {
    std::size_t n = 0;
    for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++n;
    return n;
}

// ---- What stands on the page --------------------------------------------------------

TEST(Report, ShowsTablesCurvesAndTimelines) {
    const std::string html =
        gx::report_html({run(), run("MultiRing<4, fp16>")}, {.title = "A title"});
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
TEST(Report, ShowsTheScheduleAndTheLearningRate) {
    const std::string html = gx::report_html({run()}, {.title = "t"});
    EXPECT_TRUE(holds(html, "Learning rate against steps", "schedule Constant, optimizer Sgd"));
    using Points = std::vector<std::pair<double, double>>;
    gx::RunRecord r = run();
    EXPECT_EQ(gx::detail::report::rate_curve(r), (Points{{0, 0.25}, {1, 0.5}}));
    r.steps[0].rate = 0;  // no update
    EXPECT_EQ(gx::detail::report::rate_curve(r), (Points{{1, 0.5}}));
    r.steps.resize(1000, {.rate = 1});
    EXPECT_LE(gx::detail::report::rate_curve(r, 100).size(), 102u);
}
TEST(Report, ShowsTheTimeToAccuracies) {
    gx::RunRecord slow = run("Slow"), never = run("Never");
    slow.epochs[0].test_accuracy_pct = 59;
    never.epochs[1].test_accuracy_pct = 50;
    EXPECT_EQ(gx::seconds_to_accuracy(slow, 60), 1.0);
    EXPECT_EQ(gx::seconds_to_accuracy(slow, 59), 0.5) << "the first epoch that has it";
    EXPECT_FALSE(gx::seconds_to_accuracy(never, 60));
    const auto accuracies = gx::detail::report::round_accuracies({slow, never});
    EXPECT_EQ(accuracies, (std::vector<double>{45, 50, 55, 60}));
    EXPECT_TRUE(holds(gx::report_html({slow, never}, {.title = "t"}),
                      "<tr><th>Reducer<th>45 %<th>50 %<th>55 %<th>60 %</tr>",
                      "<tr><td>Slow<td>500 ms<td>500 ms<td>500 ms<td>1.0 s</tr>",
                      "<tr><td>Never<td>1.0 s<td>1.0 s<td>not reached<td>not reached</tr>",
                      "of the first test with the accuracy.",
                      "Accuracies of Net, seconds of ResNet50."));
    gx::RunRecord untested = run();
    for (gx::EpochRow& e : untested.epochs)
        e.test_accuracy_pct = e.test_top5_accuracy_pct = gx::EpochRow::untested;
    const std::string html = gx::report_html({untested});
    EXPECT_EQ(count(html, "Time to accuracy"), 0u);
    EXPECT_TRUE(holds(html, "<td>-<td>-<td>1.0 s"));
    EXPECT_EQ(count(html, "<circle"), 0u) << "no accuracy is shown";
}
TEST(Report, OfManyEpochsIsNoLargePage) {
    gx::RunRecord r = run();
    r.epochs.resize(25'000, r.epochs[1]);
    for (std::size_t i = 0; i < r.epochs.size(); ++i) r.epochs[i].step = std::int64_t(i) + 1;
    const auto curve = gx::detail::report::accuracy_curve(r, false, 100);
    EXPECT_LE(curve.size(), 101u);
    EXPECT_EQ(curve.front().first, 1);
    EXPECT_EQ(curve.back().first, 25'000);
    EXPECT_EQ(gx::detail::report::accuracy_curve(run(), false).size(), 2u);
    EXPECT_LT(gx::report_html({r}).size(), 100'000u);
}
TEST(Report, ShowsSmallNumbersOfBytes) {
    gx::RunRecord r = run();
    r.bytes_sent_per_step = 1440;
    r.seconds = 0.012;
    EXPECT_TRUE(
        holds(gx::report_html({r}), "<td>1.44 kB<td>", "<td>12 ms<td>", "The last 9 ms of"));
}
TEST(Report, ATimelineHasAnAxisAndALegend) {
    const std::string html = gx::report_html({run()}, {.title = "t"});
    // 750 ms over 980 - 108 = 872: 200 ms are 232.5
    EXPECT_TRUE(holds(html, "<text class=\"x\" x=\"332.5\" y=\"77\">200</text>", ">ms</text>"));
    for (const char* name : {"forward", "backward", "update", "input", "waiting", "communication"})
        EXPECT_EQ(count(html, std::string("</i>") + name + "</span>"), 1u) << name;
}
TEST(Report, WithoutATraceHasNoTimeline) {
    gx::RunRecord resumed = run();  // behind the first epoch
    resumed.spans.clear();
    resumed.notes.clear();
    const std::string html = gx::report_html({resumed});
    for (const char* part : {"of the first epoch, rank 0", "forward", "In force"})
        EXPECT_EQ(count(html, part), 0u) << part;
}
TEST(Report, ScalesTimelinesByTracedSteps) {
    gx::RunRecord r = run();
    r.seconds = 1000;  // it has waited for a lost rank
    for (const int ms : {880, 940, 1000})
        r.spans.push_back({.name = "UPDATE",
                           .begin = gx::Nanoseconds((ms - 10) * 1'000'000),
                           .end = gx::Nanoseconds(ms * 1'000'000)});
    EXPECT_TRUE(holds(gx::report_html({r}), "The last 90 ms of"));
}
TEST(Report, AColourHasOneMeaning) {
    std::vector<std::string> of_parts;
    for (int p = 0; p <= int(gx::chart::Part::idle); ++p)
        of_parts.emplace_back(gx::chart::colour(gx::chart::Part(p)));
    for (std::size_t i = 0; i < of_parts.size(); ++i) {
        for (std::size_t run = 0; run < 6; ++run) EXPECT_NE(of_parts[i], gx::chart::colour(run));
        for (std::size_t j = 0; j < i; ++j) EXPECT_NE(of_parts[i], of_parts[j]);
    }
    EXPECT_TRUE(holds(gx::breakdown_chart({run()}), of_parts[0], "exposed communication"));
}
TEST(Report, DividesTheTimesOfARunByAllOfItsSteps) {
    gx::RunRecord whole = run();
    whole.epochs.back().step = std::ssize(whole.steps);
    gx::RunRecord rest = whole;  // resumed, and the earlier checkpoints are gone
    rest.steps.erase(rest.steps.begin(), rest.steps.end() - 1);
    ASSERT_GT(whole.steps.size(), rest.steps.size());
    EXPECT_EQ(gx::breakdown_chart({rest}), gx::breakdown_chart({whole}));
}
TEST(Report, SaysHowItWasMadeAndLinksItsFiles) {
    const Folder folder;
    const auto path = folder / "a/report.html";
    (void)gx::write_report(path, {run()},
                           {.title = "t",
                            .command = "gx_demo --epochs 1 '<x>'",
                            .versions = gx::versions(),
                            .links = {{{"time<line>", folder / "a/trace 1.json"},
                                       {"record", folder / "b/run\".json"}}}});
    const std::string html = read_text(path);
    EXPECT_TRUE(holds(html, "<code>gx_demo --epochs 1 '&lt;x&gt;'</code>", "<p>gx 0.1.0, ",
                      "<a href=\"trace%201.json\">time&lt;line&gt;</a>",
                      "<a href=\"../b/run%22.json\">record</a>"));
    EXPECT_EQ(count(html, "href="), 2u);
}
TEST(Report, FitsNarrowScreensAndDarkOnes) {
    EXPECT_TRUE(holds(gx::report_html({run()}), "name=\"viewport\"", "@media(max-width:700px)",
                      "prefers-color-scheme:dark", "class=\"scroll\"", "@media print{"));
}
TEST(Report, ShowsTheLoadOfANicUnderTheTimeline) {
    gx::RunRecord r = run();
    EXPECT_EQ(count(gx::report_html({r}, {.title = "t"}), "aria-label=\"link load\""), 0u);
    const auto at = [](int ms) { return gx::Nanoseconds(ms * 1'000'000); };
    r.link_rates = {.names = {"machine 0 NIC out"},
                    .capacities = {{3e9}},
                    .changes = {{0, at(500), {1.5e9}}, {0, at(1000), {0}}}};
    EXPECT_TRUE(holds(gx::report_html({r}, {.title = "t"}), "aria-label=\"link load\"",
                      "machine 0 NIC out: 33 % of 3.00 GB/s on the mean<"))
        << "500 ms of the 750 ms that are shown, at half of the rate: it has no two updates";
    for (const int ms : {600, 1000})
        r.spans.push_back({.name = "UPDATE", .begin = at(ms - 10), .end = at(ms)});
    EXPECT_TRUE(holds(gx::report_html({r}, {.title = "t"}),
                      "machine 0 NIC out: 50 % of 3.00 GB/s on the mean of whole steps"));
}
TEST(Report, FlagsWhatAReaderMustKnow) {
    gx::RunRecord r = run();
    EXPECT_EQ(count(gx::report_html({r}, {.title = "t"}), "Warning:"), 0u);
    r.at_chance = true;
    r.scaling_efficiency_pct = std::numeric_limits<double>::quiet_NaN();
    r.warnings = {"<1> of 2 steps were skipped.", "no better than chance."};
    EXPECT_TRUE(holds(gx::report_html({r}, {.title = "t"}), "<td>62.50 % (chance)",
                      "<td>unknown<td>", "Ring&lt;fp32&gt;: &lt;1&gt; of 2 steps were skipped.",
                      "Ring&lt;fp32&gt;: no better than chance."));
}
TEST(Report, OfNoRuns) {
    EXPECT_TRUE(holds(gx::report_html({}, {.title = "t"}), "No runs.", "</html>"));
}
TEST(Report, OfARunThatHasNotTrained) {
    const std::string html = gx::report_html({gx::RunRecord{}}, {.title = "t"});
    EXPECT_EQ(html.find("nan"), std::string::npos);
    EXPECT_EQ(html.find("inf<"), std::string::npos);
}
TEST(Report, LoadsNothing) {
    const std::string html = gx::report_html({run()}, {.title = "t"});
    for (const char* loads : {"http:", "https:", "src=", "href=", "url(", "@import", "<script",
                              "<link", "<iframe", "<img"})
        EXPECT_EQ(html.find(loads), std::string::npos) << loads;
}
TEST(Report, HostileNamesStayNames) {
    const std::string html =
        gx::report_html({hostile_run()}, {.title = "<script src=\"http://x\">"});
    EXPECT_EQ(html.find("<script"), std::string::npos);
    EXPECT_EQ(html.find("src=\""), std::string::npos);
    EXPECT_EQ(count(html, "<svg"), count(html, "</svg>"));
    EXPECT_GE(count(html, "&lt;script src=&quot;http://x"), 8u);
}

// ---- Several runs -------------------------------------------------------------------

/// Two reducers, each in three scenarios: 8 ranks, 8 ranks with interference, 4 ranks with a fault.
std::vector<gx::RunRecord> scenarios() {
    std::vector<gx::RunRecord> runs;
    for (const char* reducer : {"Ring<fp32>", "MultiRing<4, fp16>"})
        for (const char* special : {"", "Kernels take longer.", "Fault: <rank 2>."}) {
            runs.push_back(run(reducer));
            gx::RunRecord& r = runs.back();
            if (r.reducer.starts_with("Multi")) r.notes.insert(r.notes.begin(), "four rings.");
            if (*special) r.notes.insert(r.notes.begin() + 1, special);
            if (*special == 'F') r.ranks = 4, r.world = "a small world";
        }
    return runs;
}
TEST(Report, NamesRunsOfOneReducerApart) {
    auto runs = scenarios();
    runs[2].warnings = {"slow."};
    const std::string html =
        gx::report_html(runs, {.title = "t", .links = {{}, {{"record", "a.json"}}}});
    for (const char* name :
         {"Ring&lt;fp32&gt; on 8 ranks, run 1", "Ring&lt;fp32&gt; on 8 ranks, run 2",
          "Ring&lt;fp32&gt; on 4 ranks", "MultiRing&lt;4, fp16&gt; on 8 ranks, run 4",
          "MultiRing&lt;4, fp16&gt; on 4 ranks"}) {
        const std::string n = name;
        EXPECT_TRUE(holds(html, "</i>" + n + "</span>")) << "key";
        EXPECT_EQ(count(html, "<tr><td>" + n + "<td>"), 2u) << "tables";
        EXPECT_EQ(count(html, "<title>" + n + "</title>"), 5u) << "loss, accuracy and rate";
        EXPECT_TRUE(holds(html, "<title>" + n + ": 62.5 at 1</title>")) << "accuracies";
        EXPECT_EQ(count(html, "y=\"12\">" + n + "</text>"), 1u) << "timeline";
        EXPECT_EQ(count(html, "<text class=\"l\" x=\"12\" "), 6u);
    }
    EXPECT_TRUE(holds(html, "<b>All runs</b>: schedule Constant", "<tr><th>Run<th>Test accuracy",
                      "<tr><th>Run<th>45 %", "<b>Warning:</b> Ring&lt;fp32&gt; on 4 ranks: slow.",
                      "<li>Ring&lt;fp32&gt; on 8 ranks, run 2: <a href=\"a.json\">"));
    EXPECT_EQ(count(html, ">Ring&lt;fp32&gt;<"), 0u) << "a name that three runs share";
    EXPECT_TRUE(holds(gx::breakdown_chart(runs), ">Ring&lt;fp32&gt; on 4 ranks</text>"));
}
TEST(Report, TakesNamesOfRuns) {
    const std::vector<std::string> names{"calm", "<b>busy"};
    const std::string html =
        gx::report_html({run(), run()}, {.title = "t", .links = {{{"a", "a"}}}, .names = names});
    EXPECT_TRUE(holds(html, "</i>calm</span>", "<tr><td>&lt;b&gt;busy<td>", "y=\"12\">calm</text>",
                      "<li>calm: <a", "<b>All runs</b>: reducer Ring&lt;fp32&gt;, schedule"));
    EXPECT_EQ(count(html, "<b>busy"), 0u);
    EXPECT_TRUE(holds(gx::breakdown_chart({run(), run()}, names), ">&lt;b&gt;busy</text>"));
    EXPECT_DEATH((void)gx::report_html({run()}, {.names = names}), "one for each run, or none");
    EXPECT_DEATH((void)gx::breakdown_chart({run()}, names), "one for each run, or none");
}
TEST(Report, DescribesEachGroupOfRunsOnce) {
    auto runs = scenarios();
    const std::string html = gx::report_html(runs, {.title = "t"});
    EXPECT_EQ(count(html, " trained on "), 2u);
    EXPECT_TRUE(holds(html,
                      "<p><b>Ring&lt;fp32&gt; on 8 ranks, run 1</b>, <b>Ring&lt;fp32&gt; on 8 "
                      "ranks, run 2</b>, <b>MultiRing&lt;4, fp16&gt; on 8 ranks, run 4</b>, "
                      "<b>MultiRing&lt;4, fp16&gt; on 8 ranks, run 5</b>: Net trained on 8 ranks, "
                      "32 images a rank and step, epochs: 2, seed 5. World: a world; clock: "
                      "virtual.</p>",
                      "<p><b>Ring&lt;fp32&gt; on 4 ranks</b>, <b>MultiRing&lt;4, fp16&gt; on 4 "
                      "ranks</b>: Net trained on 4 ranks, ",
                      "World: a small world"));
    EXPECT_EQ(count(html, "<p class=\"note\"><b>Timed as:</b> ResNet50."), 1u) << "all runs";
    EXPECT_EQ(count(gx::report_html({runs[0], runs[0]}, {.title = "t"}), "<p>Net trained"), 1u);
}
TEST(Report, SaysWhichRunsHaveWhichSchedule) {
    std::vector<gx::RunRecord> runs{run("A"), run("B"), run("C")};
    runs[1].scheduler = "Cosine";
    EXPECT_TRUE(holds(gx::report_html(runs, {.title = "t"}),
                      "<b>A</b>, <b>C</b>: schedule Constant, optimizer Sgd.<br>"
                      "<b>B</b>: schedule Cosine, optimizer Sgd.<br>"));
    EXPECT_TRUE(holds(gx::report_html({runs[0]}, {.title = "t"}), "<b>A</b>: schedule Constant"));
}
TEST(Report, RunsOfOneColourHaveOtherDashes) {
    const std::string html = gx::report_html(std::vector<gx::RunRecord>(7, run()), {.title = "t"});
    EXPECT_EQ(count(html, "stroke-dasharray=\"6 3\""), 6u) << "five curves, and the legend";
    EXPECT_TRUE(holds(html, "stroke-dasharray=\"6 3\"/></svg> Ring&lt;fp32&gt;, run 7</span>"));
    EXPECT_EQ(count(gx::report_html(std::vector<gx::RunRecord>(6, run())), "dasharray"), 0u);
}
TEST(Report, SaysOfWhichRunsTimesAreOfAnotherNetwork) {
    std::vector<gx::RunRecord> runs{run("A"), run("B"), run("C")};
    runs[1].timed_as = "VGG16";
    runs[2].timed_as = "";
    runs[2].clock = "wall";
    const std::string html = gx::report_html(runs, {.title = "t"});
    EXPECT_TRUE(holds(html, "<b>A</b>: <b>Timed as:</b> ResNet50.",
                      "<b>B</b>: <b>Timed as:</b> VGG16.",
                      "<b>A</b>: Accuracies of Net, seconds of ResNet50.",
                      "<b>B</b>: Accuracies of Net, seconds of VGG16.", ">time, s</text>"));
    EXPECT_EQ(count(html, "<b>C</b>: Acc") + count(html, "virtual time, s"), 0u);
    EXPECT_EQ(count(html, "Accuracy is that of the network that was trained"), 1u);
}
TEST(Report, SaysWhichNotesAreOfWhichRuns) {
    const std::string html =
        gx::report_html(scenarios(), {.title = "t", .names = {"r1", "r2", "r3", "m1", "m2", "m3"}});
    EXPECT_TRUE(holds(html,
                      "<h2>In force</h2><ul>\n<li>one note.</li>\n<li>another.</li>\n"
                      "<li><b>r2</b>, <b>m2</b>: <ul>\n<li>Kernels take longer.</li>\n"
                      "</ul></li>\n"
                      "<li><b>r3</b>, <b>m3</b>: <ul>\n<li>Fault: &lt;rank 2&gt;.</li>\n"
                      "</ul></li>\n"
                      "<li><b>m1</b>, <b>m2</b>, <b>m3</b>: <ul>\n<li>four rings.</li>\n"
                      "</ul></li>\n</ul>\n"));
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

/// As of a resume on another clock, or of a run that has diverged.
TEST(Report, DrawsNothingWhereNoTimeOrLossIsKnown) {
    for (const double seconds : {std::numeric_limits<double>::quiet_NaN(), 0.0}) {
        gx::RunRecord r = run();
        ASSERT_FALSE(r.spans.empty());
        r.seconds = seconds;
        r.epochs.back().test_accuracy_pct = std::numeric_limits<double>::quiet_NaN();
        r.steps.front().loss = 1e308;
        r.steps.back().loss = -1e308;
        const std::string html = gx::report_html({r}, {.title = "t"});
        EXPECT_EQ(count(html, "nan"), 0u) << seconds;
        EXPECT_EQ(count(html, "inf\""), 0u) << seconds;
    }
}

}  // namespace
