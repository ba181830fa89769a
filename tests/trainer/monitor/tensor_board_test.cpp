// The curves of a run as TensorBoard's files. tensorboard_test.py reads those of the first test by
// TensorBoard's own reader.
#include <gx/trainer/monitor/tensor_board.hpp>

#include <cstdlib>  // getenv
#include <string>   // bytes
#include <vector>   // events

#include <gtest/gtest.h>

#include <gx/io/crc32c.hpp>                     // masked_crc32c
#include <gx/reducer/multi_ring.hpp>            // MultiRing
#include <gx/sim/catalog/simple_clusters.hpp>   // ethernet_10g
#include <gx/sim/world/cluster.hpp>             // Cluster
#include <gx/sim/world/device.hpp>              // sim::Device
#include <gx/trainer/monitor/metrics_file.hpp>  // MetricsFile
#include <gx/trainer/trainer.hpp>               // Trainer
#include <trainer/small.hpp>                    // images

namespace {

using namespace testing_support;
using Scaled = gx::Trainer<Net, gx::MultiRing<2, gx::fp16>, gx::Warmup<gx::Poly<2>>>;

/// The payloads of a file whose frames and checksums are whole.
std::vector<std::string> payloads(const std::string& text) {
    std::vector<std::string> out;
    const auto number = [&](std::size_t at, int width) {
        std::uint64_t x = 0;
        for (int i = width; i-- > 0;)
            x = x << 8 | static_cast<unsigned char>(text.at(at + std::size_t(i)));
        return x;
    };
    const auto crc = [&](std::size_t at, std::size_t count) {
        return gx::masked_crc32c({reinterpret_cast<const std::uint8_t*>(&text.at(at)), count});
    };
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t length = number(at, 8);
        EXPECT_EQ(number(at + 8, 4), crc(at, 8));
        EXPECT_EQ(number(at + 12 + length, 4), crc(at + 12, length));
        out.push_back(text.substr(at + 12, length));
        at += 16 + length;
    }
    return out;
}

TEST(TensorBoard, WritesTheCurvesOfARunAndOfItsRest) {
    const Folder own;
    const char* const given = std::getenv("GX_TENSORBOARD_TEST");  // for the reader in Python
    const std::filesystem::path folder = given ? given : own.path;
    double now = 1.7e9;
    gx::TensorBoard board(folder / "board", [&] { return now += 0.5; });
    gx::MetricsFile metrics(folder / "metrics.jsonl");
    gx::sim::Cluster<gx::reference::Device> cluster(gx::sim::ethernet_10g(2));
    // The folder has a longer run, which the next ones begin anew.
    (void)Scaled({.batch = 4, .epochs = 4, .observers = {&board}}).train(cluster, images());
    Scaled::Options o{.batch = 4,
                      .epochs = 3,
                      .seed = 3,
                      .output = folder / "out",
                      .observers = {&board, &metrics}};
    o.loss_scale = {.initial = 0x1p22f, .growth_interval = 3};  // some steps overflow
    const gx::RunRecord whole = Scaled(o).train(cluster, images());
    ASSERT_EQ(whole.steps.size(), 15u);
    EXPECT_GT(whole.skipped_steps, 0);
    const auto first = board.file();
    EXPECT_TRUE(holds(first.filename().string(), "events.out.tfevents.17000000"));
    const auto events = payloads(read_text(first));
    EXPECT_EQ(events.size(), 2 + 15 + 3u) << "its version, a restart, steps and epochs";
    EXPECT_TRUE(holds(events[0], "brain.Event:2"));
    EXPECT_TRUE(holds(events[2], "step/loss_of_rank", "step/rate", "step/loss_scale",
                      "step/skipped", "step/images_per_second", "step/sent_bytes_per_second",
                      "step_ms/compute", "step_ms/exposed_communication", "step_ms/input",
                      "step_ms/idle"));
    EXPECT_TRUE(holds(events[7], "epoch/train_loss", "epoch/train_accuracy_pct", "epoch/test_loss",
                      "epoch/test_accuracy_pct", "epoch/images_per_second"));

    o.resume = folder / "out/epoch-0001.safetensors";
    gx::sim::Cluster<gx::reference::Device> again(gx::sim::ethernet_10g(2));
    expect_same_learning(Scaled(o).train(again, images()), whole);
    EXPECT_NE(board.file(), first) << "each part has a file of its own";
    const auto rest = payloads(read_text(board.file()));
    EXPECT_EQ(rest.size(), 2 + 10 + 2u);
}
TEST(TensorBoard, OmitsTestsThatWereNotMade) {
    const Folder folder;
    gx::TensorBoard board(folder.path);
    auto world = threads(1);
    (void)Scaled({.batch = 20, .evaluate = false, .observers = {&board}}).train(world, images());
    const auto events = payloads(read_text(board.file()));
    ASSERT_EQ(events.size(), 2 + 2 + 1u);
    EXPECT_TRUE(holds(events[4], "epoch/train_loss"));
    EXPECT_EQ(events[4].find("test"), std::string::npos);
}
TEST(TensorBoard, EndsTheRunWhereItCannotWrite) {
    const Folder folder;
    write_text(folder / "file", "");
    gx::TensorBoard board(folder / "file");
    auto world = threads(2);
    const std::string error = error_of(
        [&] { (void)Scaled({.batch = 20, .observers = {&board}}).train(world, images()); });
    EXPECT_TRUE(holds(error, "step 0: observer gx::TensorBoard threw: file '", "cannot be opened",
                      "writable. Mend it"))
        << error;
}

}  // namespace
