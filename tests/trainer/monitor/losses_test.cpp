// Observers of a run that loses ranks: each step and epoch of the record once, and no event before
// the run has begun for them or behind its end.
#include <gx/trainer/monitor/metrics_file.hpp>

#include <algorithm>   // any_of
#include <array>       // a line
#include <cstdio>      // lines of progress
#include <filesystem>  // checkpoints
#include <map>         // how often
#include <set>         // files
#include <sstream>     // lines
#include <string>      // events
#include <vector>      // events

#include <fmt/core.h>  // traces
#include <gtest/gtest.h>

#include <gx/io/json_value.hpp>                   // read_json
#include <gx/reducer/ring.hpp>                    // Ring
#include <gx/sim/catalog/simple_clusters.hpp>     // ethernet_10g
#include <gx/sim/fault/faults.hpp>                // DeadInCollective, DeadGpu
#include <gx/sim/world/cluster.hpp>               // Cluster
#include <gx/sim/world/device.hpp>                // sim::Device
#include <gx/survival/continue_on_survivors.hpp>  // ContinueOnSurvivors
#include <gx/trainer/json.hpp>                    // to_json
#include <gx/trainer/monitor/show_progress.hpp>   // ShowProgress
#include <gx/trainer/monitor/tensor_board.hpp>    // TensorBoard
#include <gx/trainer/trainer.hpp>                 // Trainer
#include <trainer/small.hpp>                      // images

namespace {

using namespace testing_support;
using namespace gx::literals;
using Survives = gx::Trainer<Net, gx::Ring<gx::fp32>, gx::Constant, gx::ContinueOnSurvivors>;

/// 37 images on four ranks: five steps an epoch.
gx::RunRecord run(const std::vector<gx::Observer*>& observers, gx::sim::FaultList faults,
                  int epochs = 2) {
    gx::sim::Cluster<gx::reference::Device> world(gx::sim::ethernet_10g(4),
                                                  {.deadline = std::chrono::seconds(1),
                                                   .faults = std::move(faults),
                                                   .faults_must_fire = false});
    return Survives({.batch = 2,
                     .epochs = epochs,
                     .seed = 7,
                     .scheduler = {.peak_rate = 0.05f},
                     .observers = observers})
        .train(world, images(37));
}

/// The names of what it sees.
struct Names : gx::Observer {
    std::vector<std::string> seen{};
    void run_begins(const gx::RunStart&) override { seen.emplace_back("begins"); }
    void step_done(const gx::StepDone&) override {
        if (seen.back() != "step") seen.emplace_back("step");
    }
    void epoch_done(const gx::EpochDone&) override { seen.emplace_back("epoch"); }
    void ranks_lost(const gx::RanksLost& lost) override {
        seen.push_back("lost " + std::to_string(lost.row.lost.at(0)));
    }
    void run_ended(const gx::RunRecord&) override { seen.emplace_back("ended"); }
    void run_failed(std::string_view) override { seen.emplace_back("failed"); }
};

// ---- A rank dies anywhere -----------------------------------------------------------
TEST(ObserversOfALoss, SeeEachStepAndEpochOfTheRecordOnce) {
    const Folder folder;
    int losses = 0, ends_again = 0;
    for (const int rank : {0, 2})
        for (int step = 0; step < 10; ++step)
            for (int message = 0; message < 6; ++message) {
                SCOPED_TRACE("rank " + std::to_string(rank) + " dies in step " +
                             std::to_string(step) + " before message " + std::to_string(message));
                gx::MetricsFile file(folder / "metrics.jsonl");
                std::FILE* const text = std::tmpfile();
                gx::ShowProgress progress(gx::Progress::Style::lines, text);
                const gx::RunRecord r =
                    run({&file, &progress},
                        {gx::sim::DeadInCollective{
                            .rank = rank, .step = step, .bucket = 0, .message = message}});
                losses += int(r.losses.size());
                ends_again += !r.losses.empty() && r.losses[0].step == 5;
                std::map<std::int64_t, int> steps, epochs;
                std::istringstream lines(read_text(folder / "metrics.jsonl"));
                for (std::string line; std::getline(lines, line);) {
                    const gx::JsonValue event = gx::read_json(line);
                    const std::string& name = event.at("event").string();
                    if (name == "step") {
                        const auto at = event.at("step").integer();
                        ++steps[at];
                        const gx::StepRow& row = r.steps.at(std::size_t(at));
                        if (rank > 0) {  // else the record has the clock of the next rank 0
                            EXPECT_EQ(event.at("training_seconds").number(), row.seconds);
                        }
                        EXPECT_EQ(event.at("rate").number(), row.rate);
                        EXPECT_GT(event.at("seconds").number(), 0) << "step " << at;
                    } else if (name == "epoch") {
                        const auto at = event.at("epoch").integer();
                        ++epochs[at];
                        const gx::EpochRow& row = r.epochs.at(std::size_t(at));
                        EXPECT_EQ(event.at("test_loss_nats").number(), row.test_loss);
                        EXPECT_EQ(event.at("train_loss_nats").number(), row.train_loss);
                        EXPECT_EQ(event.at("seconds").number(), row.seconds);
                    }
                }
                double before = 0;
                for (const gx::StepRow& row : r.steps) {
                    EXPECT_EQ(steps[row.step], 1) << "step " << row.step;
                    EXPECT_GT(row.seconds, before) << "step " << row.step;
                    before = row.seconds;
                }
                EXPECT_EQ(epochs, (std::map<std::int64_t, int>{{0, 1}, {1, 1}}));
                std::rewind(text);
                std::array<char, 256> line{};
                long long done = 0, total = 0;
                while (std::fgets(line.data(), int(line.size()), text) != nullptr) {
                    if (std::sscanf(line.data(), "training %*d %% %lld/%lld", &done, &total) == 2) {
                        EXPECT_LE(done, total) << line.data();
                    }
                }
                EXPECT_EQ(done, total) << "the last line is of the end";
                EXPECT_GT(total, 0);
                std::fclose(text);
            }
    EXPECT_GT(losses, 100);
    EXPECT_GT(ends_again, 0) << "one goes back to the end of an epoch";
}

/// A file is told of when it is there, though ranks are lost while it is written: its line, too.
TEST(ObserversOfALoss, AreToldOfEveryCheckpointThatIsOnDisk) {
    struct Written : gx::Observer {
        std::set<std::string> files{}, at_loss{};
        void ranks_lost(const gx::RanksLost&) override { at_loss = files; }
        void checkpoint_written(const gx::CheckpointWritten& c) override {
            files.insert(c.file.filename().string());
        }
    };
    for (const auto recovery : {gx::Recovery::survivors, gx::Recovery::checkpoint})
        for (const int rank : {0, 2})
            for (const int step : {3, 5, 6, 9}) {
                SCOPED_TRACE(
                    fmt::format("recovery {}, rank {} dies in step {}", int(recovery), rank, step));
                const Folder folder;
                Written written;
                gx::MetricsFile file(folder / "metrics.jsonl");
                gx::sim::Cluster<gx::reference::Device> world(
                    gx::sim::ethernet_10g(4),
                    {.deadline = std::chrono::seconds(1),
                     .faults = gx::sim::FaultList{
                         gx::sim::DeadInCollective{.rank = rank, .step = step, .bucket = 0}}});
                Survives::Options o{.batch = 2,
                                    .epochs = 3,
                                    .seed = 7,
                                    .output = folder.path,
                                    .observers = {&written, &file}};
                o.survival.recovery = recovery;
                if (recovery == gx::Recovery::checkpoint) o.checkpoints.every_steps = 2;
                EXPECT_EQ(Survives(o).train(world, images(37)).losses.size(), 1u);
                std::set<std::string> on_disk, lines;
                for (const auto& one : std::filesystem::directory_iterator(folder.path))
                    if (one.path().extension() == ".safetensors")
                        on_disk.insert(one.path().filename().string());
                std::istringstream text(read_text(folder / "metrics.jsonl"));
                for (std::string line; std::getline(text, line);) {
                    const gx::JsonValue event = gx::read_json(line);
                    if (event.at("event").string() == "checkpoint")
                        lines.insert(
                            std::filesystem::path(event.at("file").string()).filename().string());
                }
                EXPECT_GE(on_disk.size(), 3u);
                EXPECT_EQ(written.files, on_disk);
                EXPECT_EQ(written.at_loss.contains("epoch-0001.safetensors"), step >= 5);
                EXPECT_EQ(lines, on_disk);
            }
}
/// What could not be written ends the run, as it does without a loss, or is a warning.
TEST(CheckpointsOfALoss, ThatCannotBeWrittenAreTold) {
    for (const bool stops : {false, true}) {
        SCOPED_TRACE(stops);
        const Folder folder;
        struct Blocks : gx::Observer {  // the file of the second epoch
            std::filesystem::path folder{};
            void step_done(const gx::StepDone& s) override {
                if (s.step == 8)
                    std::filesystem::create_directories(folder / "epoch-0002.safetensors/in_it");
            }
        } blocks;
        blocks.folder = folder.path;
        gx::sim::Cluster<gx::reference::Device> world(
            gx::sim::ethernet_10g(4),
            {.deadline = std::chrono::seconds(1),
             .faults = gx::sim::FaultList{gx::sim::DeadInCollective{.rank = 0, .step = 10}}});
        Survives::Options o{.batch = 2,
                            .epochs = 3,
                            .seed = 7,
                            .output = folder.path,
                            .checkpoints = {.stop_on_failure = stops},
                            .observers = {&blocks}};
        std::vector<std::string> warnings;
        const std::string error =
            error_of([&] { warnings = Survives(o).train(world, images(37)).warnings; });
        if (stops) {
            EXPECT_TRUE(holds(error, "epoch-0002.safetensors"));
        } else {
            const bool told = std::ranges::any_of(warnings, [](const std::string& warning) {
                return holds(warning, "checkpoint after step 10", "epoch-0002.safetensors");
            });
            EXPECT_TRUE(told) << error;
        }
    }
}

// ---- Beginnings and ends ------------------------------------------------------------
TEST(ObserversOfALoss, BeginWhereRankZeroIsLostBeforeTheFirstStep) {
    const Folder folder;
    Names names;
    gx::MetricsFile file(folder / "metrics.jsonl");
    gx::TensorBoard board(folder.path);
    const gx::RunRecord r =
        run({&names, &file, &board}, {gx::sim::DeadGpu{.rank = 0, .at = 0_us}}, 1);
    EXPECT_EQ(r.losses.size(), 1u);
    EXPECT_EQ(names.seen, (std::vector<std::string>{"begins", "lost 0", "step", "epoch", "ended"}));
}
TEST(Observers, BehindOneThatCannotBeginSeeNothing) {
    const Folder folder;
    write_text(folder / "file", "");
    Names before, behind;
    gx::TensorBoard board(folder / "file/board");
    gx::MetricsFile file(folder / "metrics.jsonl");
    EXPECT_TRUE(holds(error_of([&] { (void)run({&before, &board, &behind, &file}, {}, 1); }),
                      "step 0: observer gx::TensorBoard threw"));
    EXPECT_EQ(before.seen, (std::vector<std::string>{"begins", "failed"}));
    EXPECT_TRUE(behind.seen.empty());
    EXPECT_FALSE(std::filesystem::exists(folder / "metrics.jsonl"));
}
TEST(Observers, BehindOneThatThrowsAtTheEndSeeAFailure) {
    struct Throws : gx::Observer {
        void run_ended(const gx::RunRecord&) override { throw gx::Error("no room"); }
        void run_failed(std::string_view) override { ADD_FAILURE() << "it has thrown"; }
    } throws;
    Names before, behind;
    EXPECT_TRUE(holds(error_of([&] { (void)run({&before, &throws, &behind}, {}, 1); }),
                      "step 5: observer ", "Throws threw: no room"));
    EXPECT_EQ(before.seen.back(), "ended");
    EXPECT_EQ(behind.seen.back(), "failed");
}

/// What an observer sees of a run that ends because `fails`, one before it in the list, throws.
std::vector<std::string> seen_beside(gx::Observer& fails, int epochs, const std::string& error) {
    struct Written : gx::Observer {
        std::vector<std::string> seen{};
        void checkpoint_written(const gx::CheckpointWritten& c) override {
            seen.push_back(c.file.filename().string());
        }
        void run_failed(std::string_view) override { seen.emplace_back("failed"); }
    } written;
    const Folder folder;
    gx::sim::Cluster<gx::reference::Device> world(gx::sim::ethernet_10g(4));
    Survives::Options o{.batch = 2,
                        .epochs = epochs,
                        .seed = 7,
                        .output = folder.path,
                        .evaluate = false,
                        .observers = {&fails, &written}};
    EXPECT_TRUE(holds(error_of([&] { (void)Survives(o).train(world, images(37)); }), error));
    return written.seen;
}
TEST(Observers, OfARunThatFailsAreToldOfTheCheckpointsThatItLeaves) {
    struct Stops : gx::Observer {
        void step_done(const gx::StepDone& s) override {
            if (s.step == 5) throw gx::Error("enough");
        }
    } stops;
    EXPECT_EQ(seen_beside(stops, 2, "threw: enough"),
              (std::vector<std::string>{"epoch-0001.safetensors", "failed"}));
}
TEST(Observers, AreAllToldOfACheckpointThoughOneThrows) {
    struct Throws : gx::Observer {
        void checkpoint_written(const gx::CheckpointWritten&) override { throw gx::Error("full"); }
        void run_failed(std::string_view) override { ADD_FAILURE() << "it has thrown"; }
    } throws;
    EXPECT_EQ(seen_beside(throws, 1, "threw: full"),
              (std::vector<std::string>{"epoch-0001.safetensors", "failed"}));
}

// ---- Files --------------------------------------------------------------------------
TEST(ObserversOfALoss, LeaveItInTheRecord) {
    const gx::RunRecord r = run({}, {gx::sim::DeadInCollective{.rank = 2, .step = 3, .bucket = 0}});
    const gx::JsonValue losses = gx::read_json(gx::to_json(r)).at("losses");
    ASSERT_EQ(losses.array().size(), 1u);
    const gx::JsonValue& loss = losses.array()[0];
    EXPECT_EQ(loss.at("step").integer(), r.losses[0].step);
    EXPECT_EQ(loss.at("ranks").integer(), 3);
    EXPECT_EQ(loss.at("lost").array()[0].integer(), 2);
    EXPECT_EQ(loss.at("error").string(), r.losses[0].error);
}

}  // namespace
