// Resuming equals not having stopped, bit for bit; checkpoints that do not fit are told.
#include <gx/trainer/trainer.hpp>

#include <algorithm>  // copy_if
#include <iterator>   // back_inserter

#include <gtest/gtest.h>

#include <gx/loader/augment.hpp>               // PadCrop, Flip
#include <gx/loader/prefetch.hpp>              // Prefetched
#include <gx/reducer/double_buffered.hpp>      // DoubleBuffered
#include <gx/reducer/multi_ring.hpp>           // MultiRing
#include <gx/reducer/ring.hpp>                 // Ring
#include <gx/sim/catalog/simple_clusters.hpp>  // ethernet_10g
#include <gx/sim/world/cluster.hpp>            // Cluster
#include <gx/sim/world/device.hpp>             // sim::Device
#include <gx/testing/far/device.hpp>           // FarDevice
#include <gx/testing/processes.hpp>            // ProcessWorld
#include <gx/trainer/rows.hpp>                 // read_rows
#include <gx/trainer/safetensors.hpp>          // read_safetensors_metadata
#include <trainer/small.hpp>                   // images, threads, Folder

namespace {

using namespace testing_support;
using gx::fp16;
using gx::fp32;

// Batch norm and dropout: statistics and random draws go through a checkpoint too.
using Plain = gx::Trainer<EveryRoleWithDropout, gx::Ring<fp32>, gx::Constant>;
using Scaled = gx::Trainer<EveryRoleWithDropout, gx::MultiRing<2, fp16>, gx::Warmup<gx::Poly<2>>>;
using Late = gx::Trainer<EveryRoleWithDropout, gx::DoubleBuffered<gx::MultiRing<2, fp16>>,
                         gx::Warmup<gx::Poly<2>>>;
using Later =
    gx::Trainer<EveryRoleWithDropout, gx::DoubleBuffered<gx::DoubleBuffered<gx::Ring<fp32>>>,
                gx::Warmup<gx::Poly<2>>>;

template <class T>
typename T::Options options(const Folder& folder) {
    typename T::Options o{.batch = 4, .epochs = 4, .seed = 7, .output = folder.path};
    if constexpr (requires { o.loss_scale.growth_interval; }) {
        o.loss_scale.initial = 16384;  // 5 steps an epoch: it changes within epochs and across them
        o.loss_scale.growth_interval = 3;
    }
    return o;
}

// ---- Bit for bit --------------------------------------------------------------------

/// The file `name` of the folder holds the state that is in the bytes `expected` of another one.
void expect_same_state(const Folder& folder, const char* name, const std::string& expected) {
    const gx::Graph graph = gx::graph<EveryRoleWithDropout>();
    write_text(folder / "expected", expected);
    const auto first = gx::read_checkpoint(folder / "expected", graph);
    const auto again = gx::read_checkpoint(folder / name, graph);
    EXPECT_EQ(again.parameters, first.parameters);
    EXPECT_EQ(again.statistics, first.statistics);
    EXPECT_EQ(again.optimizer, first.optimizer);
    EXPECT_EQ(again.loss_scale.scale, first.loss_scale.scale);
    EXPECT_EQ(again.loss_scale.good_steps, first.loss_scale.good_steps);
}

template <class T>
class Resumed : public ::testing::Test {};
using Compositions = ::testing::Types<Plain, Scaled, Late, Later>;
TYPED_TEST_SUITE(Resumed, Compositions);

TYPED_TEST(Resumed, EqualsNotHavingStopped) {
    const Folder folder;
    const gx::Split data = images();
    auto world = threads(2);
    auto o = options<TypeParam>(folder);
    const gx::RunRecord whole = TypeParam(o).train(world, data);
    const std::string last = read_text(folder / "epoch-0004.safetensors");
    for (const char* from :
         {"epoch-0001.safetensors", "epoch-0002.safetensors", "epoch-0003.safetensors"}) {
        std::filesystem::remove(folder / "epoch-0004.safetensors");
        o.resume = folder / from;
        const gx::RunRecord rest = TypeParam(o).train(world, data);
        expect_same_learning(rest, whole);
        EXPECT_EQ(rest.images, whole.images);
        expect_same_state(folder, "epoch-0004.safetensors", last);
    }
}
/// Resumes from each checkpoint within an epoch, of all steps but those that end one.
template <class T, class W>
void expect_the_same_from_each_step(W make) {
    const Folder folder;
    const gx::Split data = images();
    auto world = make();
    auto o = options<T>(folder);
    o.epochs = 3;
    const gx::RunRecord plain = T(o).train(world, data);
    o.checkpoints.every_steps = 1;
    const gx::RunRecord whole = T(o).train(world, data);
    expect_same_learning(whole, plain);
    const std::string last = read_text(folder / "epoch-0003.safetensors");
    int resumed = 0;
    for (std::int64_t step = 1; step < std::ssize(whole.steps); ++step) {
        o.resume = folder.path / gx::step_checkpoint_name(step);
        EXPECT_EQ(std::filesystem::exists(o.resume), step % 5 != 0) << step;
        if (step % 5 == 0) continue;
        ++resumed;
        std::filesystem::remove(folder / "epoch-0003.safetensors");
        const gx::RunRecord rest = T(o).train(world, data);
        expect_same_learning(rest, whole);
        EXPECT_EQ(rest.images, whole.images);
        EXPECT_EQ(rest.notes, whole.notes);
        expect_same_state(folder, "epoch-0003.safetensors", last);
    }
    EXPECT_EQ(resumed, 12);
}
TYPED_TEST(Resumed, WithinAnEpochEqualsNotHavingStopped) {
    expect_the_same_from_each_step<TypeParam>([] { return threads(2); });
}
TEST(Resuming, WithinAnEpochOnWorldsOfOtherKinds) {
    expect_the_same_from_each_step<Late>([] {
        return gx::testing::FarWorld<gx::testing::FarDevice<gx::reference::Device>>(
            {{2, 1}, 1, gx::testing::QueueProgress::late});
    });
    expect_the_same_from_each_step<Late>(
        [] { return gx::sim::Cluster<gx::reference::Device>(gx::sim::ethernet_10g(2)); });
    expect_the_same_from_each_step<Late>(
        [] { return gx::testing::ProcessWorld<gx::reference::Device>({.placement = {2, 1}}); });
}
TEST(Resuming, WithinAnEpochBehindLoadersThatReadAheadAndInAnyPhase) {
    using Loader = gx::Prefetched<gx::InMemory<gx::PadCrop<1>, gx::Flip>>;
    using T = gx::Trainer<EveryRoleWithDropout, gx::DoubleBuffered<gx::Ring<fp32>>,
                          gx::Warmup<gx::Poly<2>>, Loader>;
    const Folder folder;
    auto world = threads(2);
    auto o = options<T>(folder);
    o.epochs = 3;
    o.phases = {{0, 4, 4}, {1, 2, 4}, {2, 5, 4}};  // 5, 10 and 4 steps an epoch
    o.checkpoints.every_steps = 1;
    const gx::RunRecord whole = T(o).train(world, images());
    ASSERT_EQ(whole.steps.size(), 19u);
    int resumed = 0;
    for (std::int64_t step = 1; step < 19; ++step) {
        o.resume = folder.path / gx::step_checkpoint_name(step);
        if (!std::filesystem::exists(o.resume)) continue;  // the epoch's own is there
        const gx::RunRecord rest = T(o).train(world, images());
        expect_same_learning(rest, whole);
        EXPECT_EQ(rest.notes, whole.notes);
        ++resumed;
    }
    EXPECT_EQ(resumed, 16);
}
TEST(Resuming, ACheckpointWithinAnEpochHidesNoTimeOfTheGradientInFlight) {
    const Folder folder;
    const auto trained = [&](std::int64_t every_steps) {
        gx::sim::Cluster<gx::reference::Device> cluster(gx::sim::ethernet_10g(4));
        auto o = options<Late>(folder);
        o.checkpoints.every_steps = every_steps;
        return Late(o).train(cluster, images());
    };
    const gx::RunRecord plain = trained(0), saved = trained(1);
    EXPECT_GT(saved.breakdown.exposed_communication, plain.breakdown.exposed_communication);
    EXPECT_GT(saved.seconds, plain.seconds);
}
TEST(Resuming, WithinAnEpochOnOtherRanksGoesOnByItsImages) {
    const Folder folder;
    auto two = threads(2), three = threads(3);
    auto o = options<Late>(folder);
    o.epochs = 2;
    o.checkpoints.every_steps = 1;
    const gx::RunRecord whole = Late(o).train(two, images());
    o.checkpoints = {};
    const Folder elsewhere;
    o.output = elsewhere.path;
    const gx::RunRecord fresh = Late(o).train(three, images());
    for (const std::int64_t step : {1, 4, 7}) {  // 8 images a step, 40 an epoch
        o.resume = folder.path / gx::step_checkpoint_name(step);
        const gx::RunRecord rest = Late(o).train(three, images());
        // 40 - 8 * step images are left of the epoch, in steps of 12
        const std::int64_t in_epoch = step % 5, left = (40 - 8 * in_epoch + 11) / 12;
        const std::int64_t steps = step / 5 * 5 + in_epoch + left + (step < 5 ? 4 : 0);
        EXPECT_EQ(std::ssize(rest.steps), steps) << step;
        EXPECT_EQ(rest.images, whole.images);
        EXPECT_EQ(rest.epochs.size(), 2u);
        for (std::int64_t s = 0; s < step; ++s)
            EXPECT_EQ(rest.steps[std::size_t(s)].loss, whole.steps[std::size_t(s)].loss);
        EXPECT_TRUE(
            holds(rest.notes.back(), "resumed within epoch ", " of its images with 3 ranks"));
        // The gradient of the first step has the rate of its place in the data.
        const std::int64_t place = step / 5 * 4 + 8 * in_epoch / 12;
        EXPECT_EQ(rest.steps[std::size_t(step + 1)].rate, fresh.steps[std::size_t(place + 1)].rate);
    }
}
TEST(Resuming, AgainWithinAnEpochThatOtherRanksHaveBegun) {
    const Folder folder, further;
    auto two = threads(2), three = threads(3);
    auto o = options<Late>(folder);
    o.epochs = 2;
    o.checkpoints.every_steps = 1;
    (void)Late(o).train(two, images());
    o.resume = folder.path / gx::step_checkpoint_name(1);  // 8 of 40 images
    o.output = further.path;
    const gx::RunRecord rest = Late(o).train(three, images());
    for (const std::int64_t step : {2, 3}) {  // 12 images each
        o.resume = further.path / gx::step_checkpoint_name(step);
        const gx::Checkpoint c = gx::read_checkpoint(o.resume, gx::graph<EveryRoleWithDropout>());
        EXPECT_EQ(c.within.images, 8 + 12 * (step - 1));
        o.output.clear();
        o.checkpoints = {};
        expect_same_learning(Late(o).train(three, images()), rest);
    }
}
// The rate of a gradient in flight is of the plan it was computed under, whichever part that was.
TEST(Resuming, AgainWhileGradientsOfBothPartsAreOnTheirWay) {
    const Folder folder;
    auto three = threads(3), two = threads(2);
    auto o = options<Later>(folder);
    const gx::RunRecord whole = Later(o).train(three, images());  // 4 steps an epoch
    o.resume = folder / "epoch-0002.safetensors";
    o.checkpoints.every_steps = 1;
    const gx::RunRecord rest = Later(o).train(two, images());
    for (const std::size_t step : {8u, 9u})
        EXPECT_EQ(rest.steps[step].rate, whole.steps[step].rate) << "of gradients 6 and 7";
    EXPECT_NE(rest.steps[10].rate, whole.steps[10].rate);
    int resumed = 0;
    for (const gx::StepRow& row : rest.steps) {
        o.resume = folder.path / gx::step_checkpoint_name(int(row.step) + 1);
        if (!std::filesystem::exists(o.resume)) continue;
        ++resumed;
        o.output.clear();
        o.checkpoints = {};
        expect_same_learning(Later(o).train(two, images()), rest);
    }
    EXPECT_EQ(resumed, 8);
}
TEST(Resuming, KeepsWhatIsOnItsWay) {
    const Folder folder;
    auto world = threads(2);
    (void)Later(options<Later>(folder)).train(world, images());
    const gx::Graph graph = gx::graph<EveryRoleWithDropout>();
    const auto middle = gx::read_checkpoint(folder / "epoch-0002.safetensors", graph);
    ASSERT_EQ(middle.pending.size(), 2u);
    EXPECT_EQ(middle.pending[0].index, 8u);
    EXPECT_EQ(middle.pending[1].index, 9u);
    EXPECT_NE(middle.pending[0].values, middle.pending[1].values);
    EXPECT_TRUE(gx::read_checkpoint(folder / "epoch-0004.safetensors", graph).pending.empty());
}
// Each checkpoint holds the step rows of its own epoch: a run writes O(steps) of them.
TEST(Resuming, RowsOfEarlierEpochsComeFromTheirOwnCheckpoints) {
    const Folder folder;
    auto world = threads(2);
    auto o = options<Plain>(folder);
    o.epochs = 8;
    const gx::RunRecord whole = Plain(o).train(world, images());
    const auto steps_in = [&](const char* name) {
        gx::RunRecord rows;
        gx::read_rows(gx::read_safetensors_metadata(folder / name).at("record"), rows);
        return rows.steps.size();
    };
    EXPECT_EQ(steps_in("epoch-0001.safetensors"), 5u);
    EXPECT_EQ(steps_in("epoch-0008.safetensors"), 5u);

    std::filesystem::remove(folder / "epoch-0002.safetensors");
    o.resume = folder / "epoch-0004.safetensors";
    const gx::RunRecord rest = Plain(o).train(world, images());
    EXPECT_EQ(rest.weights_hash, whole.weights_hash);
    EXPECT_EQ(rest.epochs.size(), 8u);
    ASSERT_EQ(rest.steps.size(), 35u) << "those of epoch 2 are gone";
    EXPECT_EQ(rest.steps[4].step, 4);
    EXPECT_EQ(rest.steps[5].step, 10);
    EXPECT_TRUE(holds(rest.notes.back(), "step rows of 5 of the 20 steps before epoch 5"));

    o.seed = 8;  // another run in the same folder
    o.epochs = 3;
    o.resume = "";
    (void)Plain(o).train(world, images());
    o.seed = 7;
    o.epochs = 8;
    o.resume = folder / "epoch-0005.safetensors";
    EXPECT_EQ(Plain(o).train(world, images()).steps.size(), 25u) << "not the other run's rows";
}

// ---- Checkpoints that do not fit ----------------------------------------------------

template <class T>
std::string trouble(typename T::Options o) {
    auto world = threads(2);
    return error_of([&] { (void)T(o).train(world, images()); });
}
TEST(Resuming, SaysWhatDoesNotFit) {
    const Folder folder;
    auto world = threads(2);
    const auto done = options<Plain>(folder);
    (void)Plain(done).train(world, images());

    auto o = done;
    o.resume = folder / "epoch-0002.safetensors";
    o.seed = 8;
    o.epochs = 2;
    EXPECT_TRUE(holds(trouble<Plain>(o), "this run can't go on from '", "epoch-0002.safetensors'",
                      "\n  - it was written with seed 7, and this run has seed 8",
                      "\n  - it has done 2 epochs, and this run ends after 2"));

    auto late = options<Late>(folder);
    late.resume = folder / "epoch-0002.safetensors";
    EXPECT_TRUE(holds(
        trouble<Late>(late), "was written by Trainer<EveryRoleWithDropout, Ring<fp32>, Constant>",
        "and this run is Trainer<EveryRoleWithDropout, DoubleBuffered<MultiRing<2, fp16>>, ",
        "resume with the composition that wrote it"));

    gx::Trainer<Net, gx::Ring<fp32>, gx::Constant>::Options other;
    other.epochs = 4;
    other.seed = 7;
    other.resume = folder / "epoch-0002.safetensors";
    EXPECT_TRUE(holds(trouble<gx::Trainer<Net, gx::Ring<fp32>, gx::Constant>>(other),
                      "epoch-0002.safetensors': it is of model 'EveryRoleWithDropout', and this "
                      "run trains 'Mlp<5>'"));
}
TEST(Resuming, IsMeantWhereARunBeginsAnewAmongCheckpoints) {
    const Folder folder;
    auto world = threads(2);
    using T = gx::Trainer<Net, gx::Ring<fp32>>;
    T::Options o{.batch = 4, .epochs = 2, .output = folder.path};
    const auto warned = [&] {
        for (const std::string& warning : T(o).train(world, images()).warnings)
            if (warning.find("of an earlier run") != warning.npos) return warning;
        return std::string();
    };
    EXPECT_EQ(warned(), "");
    EXPECT_TRUE(holds(warned(), "output folder '", "' held 2 checkpoints of an earlier run",
                      "such as 'epoch-0001.safetensors'", "set resume to 'latest'",
                      "name another 'output'"));
    o.resume = "latest";
    o.epochs = 3;
    EXPECT_EQ(warned(), "");
}
/// Three epochs of a run, of which `newest` is the newest.
Plain::Options three_epochs(const Folder& folder, const char* newest) {
    auto world = threads(2);
    auto o = options<Plain>(folder);
    o.epochs = 3;
    (void)Plain(o).train(world, images());
    const auto now = std::filesystem::last_write_time(folder / "epoch-0002.safetensors");
    std::filesystem::last_write_time(folder / newest, now + std::chrono::seconds(10));
    o.resume = "latest";
    return o;
}
TEST(Resuming, GoesOnWhereAFurtherCheckpointIsTorn) {
    const Folder folder;
    auto world = threads(2);
    const auto o = three_epochs(folder, "epoch-0003.safetensors");
    const auto newest = std::filesystem::last_write_time(folder / "epoch-0003.safetensors");
    write_text(folder / "epoch-0003.safetensors", "torn");
    std::filesystem::last_write_time(folder / "epoch-0003.safetensors", newest);
    const auto notes = Plain(o).train(world, images()).notes;
    EXPECT_EQ(
        std::ranges::count_if(notes,
                              [](const auto& n) {
                                  return n.find("A checkpoint as new or newer can't be used") == 0;
                              }),
        1);
}
/// As a copy of a folder may leave it: nothing is done twice, and nothing written over.
TEST(Resuming, RefusesALatestThatIsNotTheFurthestOfItsRun) {
    const Folder folder;
    auto o = three_epochs(folder, "epoch-0001.safetensors");
    const std::string third = read_text(folder / "epoch-0003.safetensors");
    const std::string refused = trouble<Plain>(o);
    EXPECT_TRUE(holds(refused, "the newest checkpoint by its time is 'epoch-0001.safetensors'",
                      "(after epoch 1), but 'epoch-0003.safetensors', of the same composition",
                      "is further (after epoch 3)", "name that one as 'resume'"))
        << refused;
    EXPECT_EQ(read_text(folder / "epoch-0003.safetensors"), third);
    o.resume = folder / "epoch-0003.safetensors";
    o.epochs = 4;
    EXPECT_EQ(trouble<Plain>(o), "no error");
}
/// Three epochs in large batches; then one in batches of 1, which is newer, and has more steps.
Plain::Options three_epochs_and_a_long_one(const Folder& folder) {
    auto o = options<Plain>(folder);
    o.epochs = 3;
    o.batch = 8;
    auto world = threads(2);
    (void)Plain(o).train(world, images());
    o.batch = 1;
    o.epochs = 1;
    (void)Plain(o).train(world, images());
    o.epochs = 4;
    o.resume = "latest";
    return o;
}
/// Gives all checkpoints the time of the first, and that one another `ahead` of it.
void set_times(const Folder& folder, std::chrono::seconds ahead) {
    const auto time = std::filesystem::last_write_time(folder / "epoch-0001.safetensors");
    for (const char* const name : {"epoch-0002.safetensors", "epoch-0003.safetensors"})
        std::filesystem::last_write_time(folder / name, time);
    std::filesystem::last_write_time(folder / "epoch-0001.safetensors", time + ahead);
}
/// Checkpoints are as far as their epochs.
TEST(Resuming, RefusesALatestThatIsNotTheFurthestWhateverTheBatches) {
    const Folder folder;
    const auto o = three_epochs_and_a_long_one(folder);
    const std::string third = read_text(folder / "epoch-0003.safetensors");
    set_times(folder, std::chrono::seconds(10));
    EXPECT_TRUE(holds(trouble<Plain>(o), "is further (after epoch 3)"));
    EXPECT_EQ(read_text(folder / "epoch-0003.safetensors"), third);
}
/// As clocks of whole seconds leave them.
TEST(Resuming, GoesOnFromTheFurthestOfEqualTimesWhateverTheBatches) {
    const Folder folder;
    const auto o = three_epochs_and_a_long_one(folder);
    const std::string third = read_text(folder / "epoch-0003.safetensors");
    set_times(folder, std::chrono::seconds(0));
    auto world = threads(2);
    const gx::RunRecord run = Plain(o).train(world, images());
    EXPECT_EQ(run.epochs.size(), 4u);
    EXPECT_EQ(read_text(folder / "epoch-0003.safetensors"), third);
}
TEST(Resuming, GoesOnFromTheLatestBesideAFurtherOneOfAnotherRun) {
    const Folder folder;
    auto o = three_epochs(folder, "epoch-0003.safetensors");
    o.resume.clear();
    o.seed += 1;
    o.epochs = 1;
    EXPECT_EQ(trouble<Plain>(o), "no error");  // its epoch-0001 is the newest
    o.resume = "latest";
    o.epochs = 2;
    std::filesystem::last_write_time(
        folder / "epoch-0001.safetensors",
        std::filesystem::last_write_time(folder / "epoch-0003.safetensors") +
            std::chrono::seconds(10));
    EXPECT_EQ(trouble<Plain>(o), "no error");
}
TEST(Resuming, SaysThatARunWithGradientsInFlightHasEnded) {
    const Folder folder;
    auto world = threads(2);
    using Stale = gx::Trainer<Net, gx::DoubleBuffered<gx::Ring<fp32>>>;
    auto o = options<Stale>(folder);
    o.epochs = 2;
    (void)Stale(o).train(world, images());
    o.epochs = 3;
    o.resume = folder / "epoch-0002.safetensors";
    EXPECT_TRUE(holds(error_of([&] { (void)Stale(o).train(world, images()); }),
                      "keeps no gradient in flight: the run that wrote it ended there",
                      "Resume from an earlier one"));
    o.resume = folder / "epoch-0001.safetensors";
    EXPECT_EQ(error_of([&] { (void)Stale(o).train(world, images()); }), "no error");
}
TEST(Resuming, SaysWhichFileIsTorn) {
    const Folder folder;
    auto world = threads(2);
    auto o = options<Plain>(folder);
    o.epochs = 2;
    (void)Plain(o).train(world, images());
    const std::string whole = read_text(folder / "epoch-0001.safetensors");
    o.resume = folder / "torn";
    for (const std::size_t kept : {whole.size() - 1, whole.size() / 2, std::size_t{20},
                                   std::size_t{8}, std::size_t{3}, std::size_t{0}}) {
        write_text(folder / "torn", whole.substr(0, kept));
        EXPECT_TRUE(holds(trouble<Plain>(o), "torn'", "take an earlier checkpoint")) << kept;
    }
    write_text(folder / "torn", whole + "x");
    EXPECT_TRUE(holds(trouble<Plain>(o), "torn'", "trailing bytes after the last tensor"));
    write_text(folder / "torn", "<html>not found</html>, says a server to who asks for a file");
    EXPECT_TRUE(holds(trouble<Plain>(o), "torn'", "not a whole safetensors file"));
    o.resume = folder / "absent";
    EXPECT_TRUE(holds(trouble<Plain>(o), "absent' cannot be opened: No such file"));
    o.resume = folder.path;
    EXPECT_TRUE(holds(trouble<Plain>(o), folder.path.string()));
}

// ---- Other options ------------------------------------------------------------------

std::vector<std::string> resumes(const gx::RunRecord& r) {
    std::vector<std::string> out;
    std::ranges::copy_if(r.notes, std::back_inserter(out),
                         [](const std::string& note) { return note.starts_with("resumed"); });
    return out;
}
TEST(OtherOptions, ThatLetBitsDifferAreNotedInTheRunAndBehindIt) {
    const Folder folder;
    auto world = threads(2);
    auto o = options<Scaled>(folder);
    const auto says = [](const gx::RunRecord& r) {
        return std::ranges::any_of(
            r.notes, [](const std::string& n) { return n.ends_with("'deterministic' is false."); });
    };
    EXPECT_FALSE(says(Scaled(o).train(world, images())));
    o.resume = folder / "epoch-0001.safetensors";
    o.deterministic = false;
    const gx::RunRecord differs = Scaled(o).train(world, images());
    EXPECT_TRUE(says(differs));
    EXPECT_EQ(resumes(differs), std::vector{std::string("resumed after epoch 1 with other options: "
                                                        "deterministic is 0 instead of one not "
                                                        "kept.")});
}
TEST(OtherOptions, ThatChangeTheTrajectoryAreNotedAndTheirNotesAccumulate) {
    const Folder folder;
    auto world = threads(2);
    auto o = options<Scaled>(folder);
    o.scheduler = {.climb_steps = 3, .next = {.peak_rate = 0.1f}};
    (void)Scaled(o).train(world, images());
    o.resume = folder / "epoch-0001.safetensors";
    EXPECT_TRUE(resumes(Scaled(o).train(world, images())).empty()) << "nothing has changed";

    o.scheduler.next.peak_rate = 0.05f;
    o.optimizer.weight_decay = 5e-4f;
    o.optimizer.nesterov = true;
    const gx::RunRecord first = Scaled(o).train(world, images());
    const std::string changed =
        "resumed after epoch 1 with other options: scheduler.next.peak_rate is 0.05 instead of "
        "0.1, optimizer.weight_decay is 0.0005 instead of 0.0001, optimizer.nesterov is 1 instead "
        "of 0.";
    EXPECT_EQ(resumes(first), std::vector{changed});

    o.resume = folder / "epoch-0002.safetensors";
    EXPECT_EQ(resumes(Scaled(o).train(world, images())), std::vector{changed}) << "once";
    o.resume = folder / "epoch-0003.safetensors";
    o.optimizer.momentum = 0.8f;
    o.loss_scale.growth_interval = 5;
    o.epochs = 5;
    EXPECT_EQ(resumes(Scaled(o).train(world, images())),
              (std::vector{changed, std::string("resumed after epoch 3 with other options: epochs "
                                                "is 5 instead of 4, optimizer.momentum is 0.8 "
                                                "instead of 0.9, loss_scale.growth_interval is 5 "
                                                "instead of 3.")}));
}
TEST(OtherOptions, OfAnotherScaleIsNotedAgainAndAgain) {
    const Folder folder;
    auto two = threads(2), three = threads(3);
    auto o = options<Plain>(folder);
    (void)Plain(o).train(two, images());
    o.resume = folder / "epoch-0001.safetensors";
    (void)Plain(o).train(three, images());
    o.resume = folder / "epoch-0002.safetensors";
    const auto notes = resumes(Plain(o).train(two, images()));
    ASSERT_EQ(notes.size(), 2u);
    EXPECT_TRUE(holds(notes[0], "resumed after epoch 1 with 3 ranks x batch 4 instead of 2 x 4"));
    EXPECT_TRUE(holds(notes[1], "resumed after epoch 2 with 2 ranks x batch 4 instead of 3 x 4"));
}
TEST(OtherOptions, ThatMakeItAnotherTaskAreRefused) {
    const Folder folder;
    auto world = threads(2);
    auto o = options<Plain>(folder);
    o.label_smoothing = 0.1;
    (void)Plain(o).train(world, images());
    o.resume = folder / "epoch-0001.safetensors";
    o.label_smoothing = 0;
    o.seed = 8;
    EXPECT_TRUE(holds(trouble<Plain>(o), "\n  - it was written with seed 7",
                      "\n  - it was written with label_smoothing 0.1, and this run has 0",
                      "set label_smoothing to 0.1"));
}
TEST(OtherOptions, ThatDoNotChangeTheTrajectoryMayDiffer) {
    const Folder folder, elsewhere;
    auto world = threads(2);
    auto o = options<Plain>(folder);
    const gx::RunRecord whole = Plain(o).train(world, images());
    o.resume = folder / "epoch-0002.safetensors";
    o.output = elsewhere.path;
    o.evaluate = false;
    o.trace_steps = 0;
    o.most_skips = 3;
    const gx::RunRecord rest = Plain(o).train(world, images());
    EXPECT_EQ(rest.weights_hash, whole.weights_hash);
    EXPECT_TRUE(resumes(rest).empty());
}

}  // namespace
