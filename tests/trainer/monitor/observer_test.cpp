// Observers of a run: what they see and when, on every kind of world; one that throws.
#include <gx/trainer/monitor/observer.hpp>

#include <atomic>     // counts
#include <limits>     // an end
#include <stdexcept>  // runtime_error
#include <string>     // events
#include <vector>     // events

#include <gtest/gtest.h>

#include <gx/reducer/double_buffered.hpp>         // DoubleBuffered
#include <gx/reducer/multi_ring.hpp>              // MultiRing
#include <gx/reducer/ring.hpp>                    // Ring
#include <gx/sim/catalog/simple_clusters.hpp>     // ethernet_10g
#include <gx/sim/fault/faults.hpp>                // DeadInCollective
#include <gx/sim/world/cluster.hpp>               // Cluster
#include <gx/sim/world/device.hpp>                // sim::Device
#include <gx/survival/continue_on_survivors.hpp>  // ContinueOnSurvivors
#include <gx/testing/far/device.hpp>              // FarDevice
#include <gx/testing/processes.hpp>               // ProcessWorld
#include <gx/trainer/trainer.hpp>                 // Trainer
#include <support/counted_new.hpp>                // note_allocation
#include <trainer/small.hpp>                      // images, threads

namespace {
std::atomic<std::int64_t> allocations{0};
}
void testing_support::note_allocation(std::size_t, const void*) noexcept { ++allocations; }

namespace {

using namespace testing_support;
using gx::fp16;
using gx::fp32;
using Plain = gx::Trainer<Net, gx::Ring<fp32>, gx::Warmup<gx::Poly<2>>>;
using Late = gx::Trainer<Net, gx::DoubleBuffered<gx::MultiRing<2, fp16>>, gx::Warmup<gx::Poly<2>>>;
using Cluster = gx::sim::Cluster<gx::reference::Device>;
using Far = gx::testing::FarWorld<gx::testing::FarDevice<gx::reference::Device>>;

/// Writes down what it sees.
struct Diary : gx::Observer {
    std::vector<std::string> events{}, written{};
    std::vector<gx::StepDone> steps{};
    std::vector<gx::EpochRow> epochs{};
    std::vector<double> losses{};  // of all ranks
    std::string error{};

    void run_begins(const gx::RunStart& run) override {
        events.push_back("begin " + run.record.composition + " at " +
                         std::to_string(run.first_step) + " of " +
                         std::to_string(run.schedule_steps));
    }
    void step_done(const gx::StepDone& s) override {
        events.push_back("step " + std::to_string(s.step) + " of epoch " + std::to_string(s.epoch));
        steps.push_back(s);
    }
    void epoch_done(const gx::EpochDone& e) override {
        events.push_back("epoch " + std::to_string(e.row.epoch) + (e.tested ? " tested" : ""));
        epochs.push_back(e.row);
        for (const gx::StepRow& row : e.steps) losses.push_back(row.loss);
    }
    void checkpoint_written(const gx::CheckpointWritten& c) override {
        EXPECT_TRUE(std::filesystem::exists(c.file));
        written.push_back(c.file.filename().string());  // beside training: at any later step
    }
    void ranks_lost(const gx::RanksLost& lost) override {
        events.push_back("lost " + std::to_string(lost.row.lost.at(0)) + " at " +
                         std::to_string(lost.row.step));
    }
    void run_ended(const gx::RunRecord& r) override {
        events.push_back("end " + std::to_string(r.steps.size()));
    }
    void run_failed(std::string_view sentence) override {
        events.emplace_back("failed");
        error = sentence;
    }
};

// ---- Cases worked by hand -----------------------------------------------------------

TEST(Observer, SeesARunInItsOrder) {
    const Folder folder;
    Diary diary;
    auto world = threads(2);
    // 20 images, 2 ranks of 5: 2 steps an epoch
    const auto record =
        Plain({.batch = 5, .epochs = 2, .output = folder.path, .observers = {&diary}})
            .train(world, images(20));
    EXPECT_EQ(diary.events,
              (std::vector<std::string>{
                  "begin Trainer<Mlp<5>, Ring<fp32>, Warmup<Poly<2>>> at 0 of 4",
                  "step 0 of epoch 0", "step 1 of epoch 0", "epoch 0 tested", "step 2 of epoch 1",
                  "step 3 of epoch 1", "epoch 1 tested", "end 4"}));

    EXPECT_EQ(diary.written,
              (std::vector<std::string>{"epoch-0001.safetensors", "epoch-0002.safetensors"}));

    Diary rest;  // a resumed run begins where it goes on
    (void)Plain({.batch = 5,
                 .epochs = 2,
                 .output = folder.path,
                 .resume = folder / "epoch-0001.safetensors",
                 .evaluate = false,
                 .observers = {&rest}})
        .train(world, images(20));
    EXPECT_EQ(rest.events, (std::vector<std::string>{
                               "begin Trainer<Mlp<5>, Ring<fp32>, Warmup<Poly<2>>> at 2 of 4",
                               "step 2 of epoch 1", "step 3 of epoch 1", "epoch 1", "end 4"}));
}
TEST(Observer, CannotRunAnotherTrainerIntoTheFolderOfItsRun) {
    const Folder folder;
    struct Second : gx::Observer {
        std::filesystem::path output;
        std::string error;
        void epoch_done(const gx::EpochDone&) override {
            auto world = threads(1);
            error = error_of([&] {
                (void)Plain({.batch = 5, .output = output, .evaluate = false})
                    .train(world, images(10));
            });
        }
    } second;
    second.output = folder.path;
    auto world = threads(2);
    (void)Plain({.batch = 5, .output = folder.path, .evaluate = false, .observers = {&second}})
        .train(world, images(20));
    EXPECT_TRUE(holds(second.error,
                      "output folder '" + folder.path.string() + "' is in use by another run"));
    second.output /= "another";
    (void)Plain({.batch = 5, .output = folder.path, .evaluate = false, .observers = {&second}})
        .train(world, images(20));
    EXPECT_EQ(second.error, "no error");
}
TEST(Observer, SeesTheStepsOfTheRecord) {
    Diary diary;
    auto world = threads(1);
    Late::Options o{.batch = 4, .epochs = 3, .observers = {&diary}};
    o.loss_scale = {.initial = 0x1p22f, .growth_interval = 3};  // some steps overflow
    const gx::RunRecord r = Late(o).train(world, images(18));
    ASSERT_EQ(diary.steps.size(), r.steps.size());
    ASSERT_EQ(r.steps.size(), 15u);
    EXPECT_GT(r.skipped_steps, 0);
    double seconds = 0;
    for (std::size_t i = 0; i < r.steps.size(); ++i) {
        const gx::StepDone& seen = diary.steps[i];
        const gx::StepRow& row = r.steps[i];
        EXPECT_EQ(seen.step, row.step);
        EXPECT_EQ(seen.epochs, 3);
        EXPECT_EQ(seen.schedule_step, row.step + 1);
        EXPECT_EQ(seen.training_seconds, row.seconds);
        EXPECT_EQ(seen.loss_of_rank, row.loss) << "of the one rank";
        EXPECT_EQ(seen.rate, row.rate);
        EXPECT_EQ(seen.loss_scale, row.loss_scale);
        EXPECT_EQ(seen.skipped, row.skipped);
        const double images = i % 5 == 4 ? 2 : 4;
        EXPECT_NEAR(seen.images_per_second * seen.seconds, images, 1e-9);
        const gx::Breakdown& b = seen.breakdown;
        EXPECT_NEAR(b.compute + b.exposed_communication + b.input + b.idle, seen.seconds,
                    1e-9 + 1e-6 * seen.seconds);
        EXPECT_GT(b.compute, 0);
        seconds += seen.seconds;
        EXPECT_LE(seconds, seen.training_seconds * (1 + 1e-9));
        EXPECT_EQ(diary.losses[i], row.loss);
    }
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(diary.epochs[i].test_accuracy_pct, r.epochs[i].test_accuracy_pct);
        EXPECT_EQ(diary.epochs[i].train_loss, r.epochs[i].train_loss);
    }
}
TEST(Observer, SeesTheBytesOfASimulatedStep) {
    Diary diary;
    Cluster cluster(gx::sim::ethernet_10g(4));
    const gx::RunRecord r = Plain({.batch = 5, .observers = {&diary}}).train(cluster, images(40));
    ASSERT_EQ(diary.steps.size(), 2u);
    for (const gx::StepDone& s : diary.steps) {
        EXPECT_NEAR(s.sent_bytes_per_second * s.seconds, double(r.bytes_sent_per_step), 1e-6);
        EXPECT_GT(s.sent_bytes_per_second, 0);
        EXPECT_LT(s.sent_bytes_per_second, 1.25e9) << "10 Gb/s";
        EXPECT_NEAR(s.images_per_second * s.seconds, 20, 1e-9);
    }
}

// ---- What it must not change --------------------------------------------------------

template <class T, class W>
void expect_no_change(W make) {
    const gx::Split data = images();
    Diary diary;
    typename T::Options o{.batch = 3, .epochs = 2, .seed = 3};
    auto without = make();
    const gx::RunRecord expected = T(o).train(without, data);
    o.observers = {&diary};
    auto with = make();
    const gx::RunRecord r = T(o).train(with, data);
    expect_same_learning(r, expected);
    EXPECT_EQ(r.event_hash, expected.event_hash);
    EXPECT_EQ(diary.steps.size(), expected.steps.size());
    EXPECT_EQ(diary.losses.size(), expected.steps.size());
    for (std::size_t i = 0; i < diary.steps.size(); ++i) {
        EXPECT_EQ(diary.steps[i].step, std::int64_t(i));
        EXPECT_EQ(diary.steps[i].rate, expected.steps[i].rate);
        EXPECT_EQ(diary.steps[i].skipped, expected.steps[i].skipped);
    }
    EXPECT_EQ(diary.events.back(), "end " + std::to_string(expected.steps.size()));
}
TEST(Observer, ChangesNoBitsOnThreadsProcessesAClusterAndFarMemory) {
    expect_no_change<Plain>([] { return threads(3); });
    expect_no_change<Late>([] { return threads(3); });
    expect_no_change<Plain>([] { return Cluster(gx::sim::ethernet_10g(3)); });
    expect_no_change<Late>([] { return Cluster(gx::sim::ethernet_10g(3)); });
    for (const auto progress :
         {gx::testing::QueueProgress::late, gx::testing::QueueProgress::eager})
        expect_no_change<Late>([&] { return Far({{3, 1}, 1, progress}); });
    expect_no_change<Plain>(
        [] { return gx::testing::ProcessWorld<gx::reference::Device>({.placement = {3, 1}}); });
}
TEST(Observer, StepsAllocateNothing) {
    struct Counter : gx::Observer {
        std::int64_t steps = 0;
        void step_done(const gx::StepDone&) override { ++steps; }
    } counter;
    const auto allocated = [&](bool watched, std::int64_t count) {
        auto world = threads(1);
        Plain::Options o{.batch = 2, .evaluate = false};
        if (watched) o.observers = {&counter};
        const gx::Split data = images(count, 0);
        const auto before = allocations.load();
        (void)Plain(o).train(world, data);
        return allocations.load() - before;
    };
    (void)allocated(true, 16);
    const auto few = allocated(true, 64) - allocated(false, 64);
    const auto many = allocated(true, 512) - allocated(false, 512);
    EXPECT_EQ(many, few) << "224 steps more";
    EXPECT_EQ(counter.steps, 8 + 32 + 256);
}

// ---- Faults -------------------------------------------------------------------------

struct Thrower : gx::Observer {
    std::int64_t at = 0;
    void step_done(const gx::StepDone& s) override {
        if (s.step == at) throw std::runtime_error("the disk is full");
    }
};
TEST(Observer, ThatThrowsEndsTheRunWithASentence) {
    const auto expect_sentence = [](auto& world) {
        Diary diary;
        Thrower thrower;
        thrower.at = 2;
        const std::string error = error_of([&] {
            (void)Plain({.batch = 4, .observers = {&thrower, &diary}}).train(world, images());
        });
        EXPECT_TRUE(holds(error, "step 2: observer ", "Thrower threw: the disk is full. Mend it"))
            << error;
        EXPECT_EQ(diary.events.back(), "failed");
        EXPECT_EQ(diary.steps.size(), 2u);
        EXPECT_EQ(diary.error, error);
    };
    gx::testing::ProcessWorld<gx::reference::Device> processes({.placement = {2, 1}});
    expect_sentence(processes);  // forks: before there are threads
    auto wall = threads(3);
    expect_sentence(wall);
    Cluster cluster(gx::sim::ethernet_10g(2));
    expect_sentence(cluster);
}
TEST(Observer, OfARunThatCannotStartSeesNothing) {
    Diary diary;
    auto world = threads(2);
    const std::string error = error_of(
        [&] { (void)Plain({.batch = 0, .observers = {&diary, nullptr}}).train(world, images()); });
    EXPECT_TRUE(holds(error, "batch is 0", "observers holds a null pointer"));
    EXPECT_TRUE(holds(
        error_of([&] { (void)Plain({.observers = {&diary, &diary}}).train(world, images()); }),
        "observers holds one observer twice"));
    EXPECT_TRUE(diary.events.empty());
}
TEST(Observer, SeesALostRankAndWhatFollows) {
    using Survives =
        gx::Trainer<Net, gx::Ring<fp32>, gx::Warmup<gx::Poly<2>>, gx::ContinueOnSurvivors>;
    Diary diary;
    Cluster cluster(gx::sim::ethernet_10g(3),
                    {.deadline = std::chrono::seconds(1),
                     .faults = {gx::sim::DeadInCollective{.rank = 2, .step = 3, .bucket = 0}}});
    const gx::RunRecord r = Survives({.batch = 4, .observers = {&diary}}).train(cluster, images());
    ASSERT_EQ(r.losses.size(), 1u);
    EXPECT_EQ(std::ranges::count(diary.events, "lost 2 at 3"), 1);
    EXPECT_EQ(
        std::ranges::count_if(diary.events, [](const auto& e) { return e.starts_with("begin"); }),
        1);
    EXPECT_EQ(diary.events.back(), "end " + std::to_string(r.steps.size()));
    EXPECT_EQ(diary.steps.back().step, r.steps.back().step);
}

}  // namespace
