#include <gx/trainer/rows.hpp>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>  // another reader

#include <trainer/runs.hpp>   // run
#include <trainer/small.hpp>  // error_of

namespace {

using namespace testing_support;

TEST(Rows, ComeBackBitForBit) {
    gx::RunRecord a = run();
    a.steps[0].loss = 0.1 + 0.2;  // no short decimal
    a.epochs[1].seconds = 1.0 / 3;
    gx::RunRecord b;
    b.steps.resize(5);  // what was there goes away
    gx::read_rows(gx::rows_text(a), b);
    EXPECT_EQ(gx::rows_text(b), gx::rows_text(a));
    ASSERT_EQ(b.steps.size(), 2u);
    EXPECT_EQ(b.steps[0].loss, a.steps[0].loss);
    EXPECT_TRUE(b.steps[1].skipped);
    EXPECT_EQ(b.epochs[1].seconds, a.epochs[1].seconds);
    EXPECT_EQ(b.breakdown.exposed_communication, 0.25);
    EXPECT_EQ(b.skipped_steps, 1);
}
TEST(Rows, AreJsonToOthers) {
    const auto j = nlohmann::json::parse(gx::rows_text(run()));
    EXPECT_EQ(j.at("breakdown").at("compute_seconds"), 0.5);
    EXPECT_EQ(j.at("epochs").at(0).at("test_loss_nats"), 2.25);
    EXPECT_EQ(j.at("steps").at(1).at("skipped"), true);
}
// Checkpoints of earlier versions can be resumed from.
TEST(Rows, OfFilesWithoutTopFiveHaveNone) {
    auto j = nlohmann::json::parse(gx::rows_text(run()));
    for (auto& epoch : j.at("epochs")) ASSERT_EQ(epoch.erase("test_top5_accuracy_pct"), 1u);
    gx::RunRecord r;
    gx::read_rows(j.dump(), r);
    ASSERT_EQ(r.epochs.size(), 2u);
    EXPECT_TRUE(std::isnan(r.epochs[1].test_top5_accuracy_pct));
    EXPECT_EQ(r.epochs[1].test_accuracy_pct, 62.5);
    for (auto& epoch : j.at("epochs")) epoch.erase("test_loss_nats");
    EXPECT_EQ(error_of([&] { gx::read_rows(j.dump(), r); }), "field 'test_loss_nats' is missing");
}
TEST(Rows, OfEarlierFilesThatWereNotTestedHaveNoTest) {
    auto j = nlohmann::json::parse(gx::rows_text(run()));
    for (const char* key : {"test_loss_nats", "test_accuracy_pct", "test_top5_accuracy_pct"})
        j.at("epochs").at(0).at(key) = 0;              // as they wrote it
    j.at("epochs").at(1).at("test_accuracy_pct") = 0;  // none was right
    gx::RunRecord r;
    gx::read_rows(j.dump(), r);
    EXPECT_TRUE(std::isnan(r.epochs[0].test_loss) && std::isnan(r.epochs[0].test_accuracy_pct) &&
                std::isnan(r.epochs[0].test_top5_accuracy_pct));
    EXPECT_EQ(r.epochs[1].test_accuracy_pct, 0);
    EXPECT_EQ(r.epochs[1].test_loss, 1.25);
}
TEST(Rows, AFieldThatIsMissingIsToldAndNothingIsTaken) {
    const std::string text = gx::rows_text(run());
    const std::string short_text = text.substr(0, text.find(",\"steps\"")) + "}";
    gx::RunRecord r = run();
    r.skipped_steps = 77;
    EXPECT_EQ(error_of([&] { gx::read_rows(short_text, r); }), "field 'steps' is missing");
    EXPECT_TRUE(holds(error_of([&] { gx::read_rows("[", r); }), "not JSON: line 1, column 2"));
    EXPECT_EQ(r.skipped_steps, 77);
    EXPECT_EQ(r.steps.size(), run().steps.size());
}

}  // namespace
