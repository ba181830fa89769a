#include <gx/trainer/json.hpp>

#include <gmock/gmock.h>
#include <cmath>   // isnan
#include <limits>  // NaN

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>  // another reader

#include <trainer/runs.hpp>  // run

namespace {

using namespace testing_support;

TEST(Json, NamesItsUnits) {
    const auto j = nlohmann::ordered_json::parse(gx::to_json(run()));
    EXPECT_EQ(j.at("reducer"), "Ring<fp32>");
    EXPECT_EQ(j.at("seconds"), 1.0);
    EXPECT_EQ(j.at("batch_per_rank_images"), 32);
    EXPECT_EQ(j.at("test_accuracy_pct"), 62.5);
    EXPECT_EQ(j.at("test_top5_accuracy_pct"), 87.5);
    EXPECT_EQ(j.at("breakdown").at("compute_seconds"), 0.5);
    EXPECT_EQ(j.at("epochs").at(0).at("test_loss_nats"), 2.25);
    EXPECT_EQ(j.at("steps").at(1).at("loss_scale"), 512);
    EXPECT_EQ(j.at("event_hash"), "ffffffffffffffff") << "no number: jq would round it";
    EXPECT_EQ(j.at("weights_hash"), "0000000000000007");
    EXPECT_EQ(nlohmann::ordered_json::parse(gx::to_json(run(), 0)), j);
}
/// The keys that scripts read, in the order of the file.
TEST(Json, HasAllKeysAlways) {
    std::vector<std::string> keys, of_step, of_epoch, of_breakdown;
    const auto j = nlohmann::ordered_json::parse(gx::to_json(run()));
    for (const auto& [key, value] : j.items()) keys.push_back(key);
    for (const auto& [key, value] : j["steps"][0].items()) of_step.push_back(key);
    for (const auto& [key, value] : j["epochs"][0].items()) of_epoch.push_back(key);
    for (const auto& [key, value] : j["breakdown"].items()) of_breakdown.push_back(key);
    EXPECT_THAT(
        keys,
        testing::ElementsAre(
            "composition", "model", "reducer", "scheduler", "optimizer", "device", "world", "clock",
            "timed_as", "notes", "ranks", "batch_per_rank_images", "epochs_planned", "seed",
            "seconds", "images", "images_per_second", "test_accuracy_pct", "test_top5_accuracy_pct",
            "undisturbed_seconds", "scaling_efficiency_pct", "exposed_communication_pct", "dollars",
            "bytes_sent_per_step", "event_hash", "weights_hash", "wall_seconds", "at_chance",
            "warnings", "phases", "losses", "breakdown", "skipped_steps", "epochs", "steps"));
    EXPECT_THAT(of_step, testing::UnorderedElementsAre("step", "skipped", "seconds", "loss_nats",
                                                       "rate", "loss_scale"));
    EXPECT_THAT(of_epoch,
                testing::ElementsAre("epoch", "step", "seconds", "train_loss_nats",
                                     "train_accuracy_pct", "test_loss_nats", "test_accuracy_pct",
                                     "test_top5_accuracy_pct", "images_per_second"));
    EXPECT_THAT(of_breakdown,
                testing::ElementsAre("compute_seconds", "exposed_communication_seconds",
                                     "input_seconds", "idle_seconds"));
}
TEST(Json, HoldsWarningsAndNoNumberWhereThereIsNone) {
    gx::RunRecord r = run();
    r.scaling_efficiency_pct = std::numeric_limits<double>::quiet_NaN();
    r.warnings = {"a warning."};
    r.at_chance = true;
    const auto j = nlohmann::json::parse(gx::to_json(r));
    EXPECT_TRUE(j.at("scaling_efficiency_pct").is_null());
    EXPECT_EQ(j.at("warnings").at(0), "a warning.");
    EXPECT_EQ(j.at("at_chance"), true);
}
TEST(Json, HostileTextStaysText) {
    const auto j = nlohmann::ordered_json::parse(gx::to_json(hostile_run()));
    EXPECT_EQ(j.at("world"), "<script src=\"http://x/y\">&'\\");
}
TEST(RunRecord, AccuracyIsThatOfTheLastEpoch) {
    EXPECT_EQ(run().test_accuracy_pct(), 62.5);
    EXPECT_TRUE(std::isnan(gx::RunRecord{}.test_accuracy_pct()));
    gx::RunRecord untested = run();
    untested.epochs.back() = {.epoch = 1, .step = 2};
    const auto j = nlohmann::json::parse(gx::to_json(untested));
    EXPECT_TRUE(j.at("test_accuracy_pct").is_null());
    EXPECT_TRUE(j.at("epochs").at(1).at("test_loss_nats").is_null());
}

}  // namespace
