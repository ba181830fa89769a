#include <gx/trainer/json.hpp>

#include <gtest/gtest.h>

#include <trainer/runs.hpp>  // run

namespace {

using namespace testing_support;

TEST(Json, NamesItsUnits) {
    const auto j = gx::to_json(run());
    EXPECT_EQ(j.at("reducer"), "Ring<fp32>");
    EXPECT_EQ(j.at("seconds"), 1.0);
    EXPECT_EQ(j.at("batch_per_rank_images"), 32);
    EXPECT_EQ(j.at("test_accuracy_pct"), 62.5);
    EXPECT_EQ(j.at("breakdown").at("compute_seconds"), 0.5);
    EXPECT_EQ(j.at("epochs").at(0).at("test_loss_nats"), 2.25);
    EXPECT_EQ(j.at("steps").at(1).at("loss_scale"), 512);
    EXPECT_EQ(j.at("event_hash").get<std::uint64_t>(), ~std::uint64_t{0});
    EXPECT_EQ(nlohmann::ordered_json::parse(j.dump()), j);
}
TEST(Json, HostileTextStaysText) {
    const auto j = nlohmann::ordered_json::parse(gx::to_json(hostile_run()).dump());
    EXPECT_EQ(j.at("world"), "<script src=\"http://x/y\">&'\\");
}
TEST(RunRecord, AccuracyIsThatOfTheLastEpoch) {
    EXPECT_EQ(run().test_accuracy_pct(), 62.5);
    EXPECT_EQ(gx::RunRecord{}.test_accuracy_pct(), 0);
}

}  // namespace
