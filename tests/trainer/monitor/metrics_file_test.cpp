// metrics.jsonl: its lines, what a resumed run makes of it, and what a killed one leaves.
#include <gx/trainer/monitor/metrics_file.hpp>

#include <fcntl.h>     // open
#include <sys/stat.h>  // mkfifo
#include <sys/wait.h>  // waitpid
#include <unistd.h>    // fork, pipe

#include <csignal>  // kill
#include <random>   // moments
#include <sstream>  // lines
#include <string>   // lines
#include <vector>   // lines

#include <gtest/gtest.h>

#include <fmt/core.h>         // hashes
#include <nlohmann/json.hpp>  // another reader

#include <gx/reducer/ring.hpp>        // Ring
#include <gx/trainer/trainer.hpp>     // Trainer
#include <testing/processes_run.hpp>  // WithProcesses
#include <trainer/small.hpp>          // images, threads

namespace {

using namespace testing_support;
using Plain = gx::Trainer<Net, gx::Ring<gx::fp32>, gx::Warmup<gx::Poly<2>>>;

std::vector<nlohmann::json> lines_of(const std::filesystem::path& path) {
    const std::string text = read_text(path);
    EXPECT_TRUE(text.empty() || text.back() == '\n') << "whole lines";
    std::vector<nlohmann::json> out;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) out.push_back(nlohmann::json::parse(line));
    return out;
}
std::vector<std::string> names(const std::vector<nlohmann::json>& lines) {
    std::vector<std::string> out;
    for (const auto& line : lines)
        if (line.at("event") != "checkpoint")  // written beside training: at any later step
            out.push_back(line.at("event").get<std::string>() + " " +
                          std::to_string(line.at("step").get<int>()));
    return out;
}
std::vector<nlohmann::json> checkpoints(const std::vector<nlohmann::json>& lines) {
    std::vector<nlohmann::json> out;
    std::ranges::copy_if(lines, std::back_inserter(out),
                         [](const auto& line) { return line.at("event") == "checkpoint"; });
    return out;
}

// ---- Cases worked by hand -----------------------------------------------------------

TEST(MetricsFile, HasTheEventsOfARun) {
    const Folder folder;
    const auto path = folder / "metrics.jsonl";
    write_text(path, "of another run\n");
    gx::MetricsFile metrics(path);
    auto world = threads(1);
    const gx::RunRecord r =
        Plain({.batch = 10, .epochs = 2, .seed = 9, .output = folder.path, .observers = {&metrics}})
            .train(world, images(20));
    const auto lines = lines_of(path);
    EXPECT_EQ(names(lines), (std::vector<std::string>{"start 0", "step 0", "step 1", "epoch 2",
                                                      "step 2", "step 3", "epoch 4", "end 4"}));
    EXPECT_EQ(lines[0].at("composition"), r.composition);
    EXPECT_EQ(lines[0].at("seed"), 9);
    EXPECT_EQ(lines[0].at("batch_per_rank_images"), 10);
    const auto& step = lines[2];
    EXPECT_EQ(step.at("epoch"), 0);
    EXPECT_EQ(step.at("loss_of_rank_nats"), r.steps[1].loss);
    EXPECT_EQ(step.at("rate"), r.steps[1].rate);
    EXPECT_EQ(step.at("loss_scale"), 1.0);
    EXPECT_EQ(step.at("skipped"), false);
    EXPECT_EQ(step.at("training_seconds"), r.steps[1].seconds);
    for (const char* key : {"seconds", "images_per_second", "sent_bytes_per_second",
                            "compute_seconds", "exposed_communication_seconds", "input_seconds",
                            "idle_seconds", "schedule_step", "epochs"})
        EXPECT_TRUE(step.at(key).is_number()) << key;
    EXPECT_EQ(lines[3].at("epoch"), 0);
    EXPECT_EQ(lines[3].at("train_loss_nats"), r.epochs[0].train_loss);
    EXPECT_EQ(lines[3].at("test_accuracy_pct"), r.epochs[0].test_accuracy_pct);
    ASSERT_EQ(checkpoints(lines).size(), 2u);
    EXPECT_EQ(checkpoints(lines)[0].at("file"), (folder / "epoch-0001.safetensors").string());
    EXPECT_EQ(checkpoints(lines)[0].at("step"), 2);
    EXPECT_EQ(lines.back().at("weights_hash"), fmt::format("{:016x}", r.weights_hash));
}
TEST(MetricsFile, OfAResumedRunHasEachStepOnce) {
    const Folder folder;
    const auto path = folder / "metrics.jsonl";
    gx::MetricsFile metrics(path);
    auto world = threads(2);
    Plain::Options o{
        .batch = 5, .epochs = 3, .output = folder.path, .evaluate = false, .observers = {&metrics}};
    (void)Plain(o).train(world, images(20));
    const auto whole = lines_of(path);
    std::string text = read_text(path);
    write_text(path, text + R"({"event":"step","st)");  // as a power cut leaves it
    o.resume = folder / "epoch-0001.safetensors";
    (void)Plain(o).train(world, images(20));
    const auto rest = lines_of(path);
    EXPECT_EQ(names(rest), (std::vector<std::string>{"start 0", "step 0", "step 1", "epoch 2",
                                                     "start 2", "step 2", "step 3", "epoch 4",
                                                     "step 4", "step 5", "epoch 6", "end 6"}));
    EXPECT_EQ(rest[3].count("test_loss_nats"), 0u) << "it does not test";
    const auto loss_at_2 = [](const std::vector<nlohmann::json>& all) {
        return std::ranges::find_if(all,
                                    [](const auto& line) {
                                        return line.at("event") == "step" && line.at("step") == 2;
                                    })
            ->at("loss_of_rank_nats");
    };
    EXPECT_EQ(loss_at_2(rest), loss_at_2(whole));
}
/// What a reader has had of a pipe stays; it is not read here.
TEST(MetricsFile, OfAResumedRunGoesToAPipe) {
    const Folder folder;
    const auto path = folder / "pipe";
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    const int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK);
    ASSERT_GE(reader, 0);
    auto world = threads(2);
    Plain::Options o{.batch = 5, .epochs = 2, .output = folder.path, .evaluate = false};
    (void)Plain(o).train(world, images(20));
    gx::MetricsFile metrics(path);
    o.observers = {&metrics};
    o.resume = folder / "epoch-0001.safetensors";
    (void)Plain(o).train(world, images(20));
    std::string text(1 << 16, '\0');
    text.resize(std::size_t(std::max<::ssize_t>(0, ::read(reader, text.data(), text.size()))));
    ::close(reader);
    EXPECT_TRUE(text.starts_with(R"({"event":"start","step":2,)")) << text;
    EXPECT_TRUE(holds(text, R"({"event":"end","step":4,)")) << text;
}
TEST(MetricsFile, ALineWithoutItsEndIsDropped) {
    const Folder folder;
    const auto path = folder / "metrics.jsonl";
    gx::MetricsFile metrics(path);
    auto world = threads(2);
    Plain::Options o{.batch = 5, .epochs = 2, .output = folder.path, .observers = {&metrics}};
    (void)Plain(o).train(world, images(20));
    const std::string text = read_text(path);
    const std::size_t after = text.find('\n', text.find(R"("event":"epoch")"));
    write_text(path, text.substr(0, after));  // whole but for its end
    o.resume = folder / "epoch-0001.safetensors";
    (void)Plain(o).train(world, images(20));
    EXPECT_EQ(names(lines_of(path)),
              (std::vector<std::string>{"start 0", "step 0", "step 1", "start 2", "step 2",
                                        "step 3", "epoch 4", "end 4"}));
}
/// Survivors of a loss may end an epoch again, and write its checkpoint again.
TEST(MetricsFile, HasACheckpointOnceWhoseEpochEndsAgain) {
    const Folder folder;
    const gx::RunRecord record;
    const std::filesystem::path within = folder / "step-00000003.safetensors",
                                first = folder / "epoch-0001.safetensors";
    gx::MetricsFile metrics(folder / "metrics.jsonl");
    metrics.run_begins({.record = record});
    const auto end_epoch = [&](bool again) {
        const gx::EpochRow row{.step = 4};
        metrics.epoch_done({.row = row, .steps = {}});
        metrics.checkpoint_written({first, 4});
        if (!again) metrics.checkpoint_written({within, 3});  // written beside training
    };
    for (int step = 0; step < 4; ++step) metrics.step_done({.step = step});
    end_epoch(false);
    metrics.step_done({.step = 4});
    metrics.ranks_lost({.row = {.step = 4, .ranks = 3, .lost = {1}}, .first_epoch = 0});
    end_epoch(true);
    const auto lines = lines_of(folder / "metrics.jsonl");
    EXPECT_EQ(names(lines), (std::vector<std::string>{"start 0", "step 0", "step 1", "step 2",
                                                      "step 3", "lost 4", "epoch 4"}));
    std::vector<int> steps;
    for (const auto& line : checkpoints(lines)) steps.push_back(line.at("step"));
    EXPECT_EQ(steps, (std::vector<int>{3, 4}));
}
/// A run that goes back to a checkpoint keeps it.
TEST(MetricsFile, KeepsTheCheckpointThatALossGoesBackTo) {
    const Folder folder;
    const gx::RunRecord record;
    const std::filesystem::path first = folder / "epoch-0001.safetensors";
    gx::MetricsFile metrics(folder / "metrics.jsonl");
    metrics.run_begins({.record = record});
    const gx::EpochRow row{.step = 1};
    metrics.step_done({.step = 0});
    metrics.epoch_done({.row = row, .steps = {}});
    metrics.step_done({.step = 1});
    metrics.checkpoint_written({first, 1});
    metrics.ranks_lost({.row = {.step = 1, .ranks = 3, .lost = {1}}, .first_epoch = 1});
    EXPECT_EQ(checkpoints(lines_of(folder / "metrics.jsonl")).size(), 1u);
}
TEST(MetricsFile, NamesWhatEndedTheRun) {
    struct Thrower : gx::Observer {
        void step_done(const gx::StepDone& s) override {
            if (s.step == 1) throw gx::Error("no \"more\" room");
        }
    } thrower;
    const Folder folder;
    gx::MetricsFile metrics(folder / "metrics.jsonl");
    auto world = threads(2);
    const std::string error = error_of([&] {
        (void)Plain({.batch = 5, .observers = {&metrics, &thrower}}).train(world, images());
    });
    const auto lines = lines_of(folder / "metrics.jsonl");
    EXPECT_EQ(names(lines), (std::vector<std::string>{"start 0", "step 0", "step 1", "failed 2"}));
    EXPECT_EQ(lines.back().at("error"), error);
}

// ---- Killed -------------------------------------------------------------------------

/// Writes a byte for each step: a test kills the process after so many.
struct Pulse : gx::Observer {
    int to = -1;
    void step_done(const gx::StepDone&) override { (void)!::write(to, "", 1); }
};

struct KilledMetrics : WithProcesses {};
TEST_F(KilledMetrics, LeaveWholeLinesThatAResumedRunGoesOnWith) {
    const gx::Split data = images();
    Plain::Options o{.batch = 2, .epochs = 3, .evaluate = false};  // 20 steps an epoch
    const Folder once;
    {
        gx::MetricsFile metrics(once / "metrics.jsonl");
        o.observers = {&metrics};
        auto world = threads(1);
        (void)Plain(o).train(world, data);
    }
    const auto steps_of = [](const std::vector<nlohmann::json>& lines) {
        std::vector<std::pair<int, double>> out;
        for (const auto& line : lines)
            if (line.at("event") == "step")
                out.emplace_back(line.at("step").get<int>(),
                                 line.at("loss_of_rank_nats").get<double>());
        return out;
    };
    const auto whole = steps_of(lines_of(once / "metrics.jsonl"));
    ASSERT_EQ(whole.size(), 60u);

    std::mt19937 draw(7);
    for (int i = 0; i < 12; ++i) {
        const Folder folder;
        gx::MetricsFile metrics(folder / "metrics.jsonl");
        const auto moment = std::uniform_int_distribution<int>(1, 55)(draw);
        o.output = folder.path;
        o.resume = "";
        int ends[2];
        ASSERT_EQ(::pipe(ends), 0);
        const pid_t child = ::fork();
        if (child == 0) {
            Pulse pulse;
            pulse.to = ends[1];
            o.observers = {&metrics, &pulse};
            auto world = threads(1);
            (void)Plain(o).train(world, data);
            ::_exit(0);
        }
        ::close(ends[1]);
        char byte;
        for (int k = 0; k < moment; ++k) ASSERT_EQ(::read(ends[0], &byte, 1), 1);
        ::kill(child, SIGKILL);
        ::waitpid(child, nullptr, 0);
        ::close(ends[0]);
        const auto left = steps_of(lines_of(folder / "metrics.jsonl"));
        EXPECT_GE(std::ssize(left), moment);
        EXPECT_TRUE(std::equal(left.begin(), left.end(), whole.begin()));

        for (int epoch = 2; epoch >= 1; --epoch)
            if (const auto file = folder.path / gx::checkpoint_name(epoch);
                o.resume.empty() && std::filesystem::exists(file))
                o.resume = file;
        o.observers = {&metrics};
        auto world = threads(1);
        (void)Plain(o).train(world, data);
        EXPECT_EQ(steps_of(lines_of(folder / "metrics.jsonl")), whole) << moment;
    }
}

}  // namespace
