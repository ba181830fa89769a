// Checkpoints written beside training: which are kept, what can't be written, and killed programs.
#include <gx/trainer/monitor/checkpoint_writer.hpp>

#include <sys/fsuid.h>  // setfsuid
#include <sys/wait.h>   // waitpid
#include <unistd.h>     // chown, fork, pipe

#include <algorithm>  // sort
#include <csignal>    // kill
#include <random>     // moments
#include <set>        // names
#include <string>     // names

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/reducer/double_buffered.hpp>         // DoubleBuffered
#include <gx/reducer/ring.hpp>                    // Ring
#include <gx/survival/continue_on_survivors.hpp>  // ContinueOnSurvivors
#include <gx/trainer/trainer.hpp>                 // Trainer
#include <testing/processes_run.hpp>              // WithProcesses
#include <trainer/small.hpp>                      // images, threads

namespace {

using namespace testing_support;
using gx::fp32;
using gx::detail::trainer::KeptCheckpoint;
using gx::detail::trainer::to_delete;
using Plain = gx::Trainer<Net, gx::Ring<fp32>, gx::Warmup<gx::Poly<2>>>;
using Late = gx::Trainer<Net, gx::DoubleBuffered<gx::Ring<fp32>>, gx::Warmup<gx::Poly<2>>>;

std::set<std::string> names_in(const std::filesystem::path& folder) {
    std::set<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
        out.insert(entry.path().filename().string());
    return out;
}

// ---- Which are kept -----------------------------------------------------------------

std::vector<KeptCheckpoint> kept(std::initializer_list<double> accuracies) {  // below 0: no test
    std::vector<KeptCheckpoint> out;
    for (const double a : accuracies) {
        const auto step = std::int64_t(out.size()) + 1;
        out.push_back({.file = std::to_string(step), .step = step});
        if (!(a < 0)) out.back().test_accuracy_pct = a;
    }
    return out;
}
std::vector<int> steps(const std::vector<KeptCheckpoint>& all) {
    std::vector<int> out;
    for (const auto& k : all) out.push_back(int(k.step));
    return out;
}
TEST(CheckpointWriter, KeepsTheNewestAndTheBest) {
    EXPECT_EQ(steps(to_delete(kept({10, 90, 20, 30}), 2)), (std::vector{1}));
    EXPECT_EQ(steps(to_delete(kept({10, 20, 30, 90}), 2)), (std::vector{1, 2}));
    EXPECT_EQ(steps(to_delete(kept({90, 90, -1, -1, -1}), 1)), (std::vector{1, 3, 4}))
        << "of equal ones the newest";
    EXPECT_EQ(steps(to_delete(kept({NAN, 50, 60, 40}), 1)), (std::vector{1, 2}));
    EXPECT_EQ(steps(to_delete(kept({-1, -1, -1}), 1)), (std::vector{1, 2}));
    EXPECT_TRUE(to_delete(kept({1, 2, 3}), 0).empty());
    EXPECT_TRUE(to_delete(kept({1, 2, 3}), 3).empty());
}
RC_GTEST_PROP(CheckpointWriter, DeletesNeitherTheNewestNorTheBest, ()) {
    const auto accuracies = *rc::gen::container<std::vector<int>>(rc::gen::inRange(-3, 6));
    const int keep = *rc::gen::inRange(1, 6);
    std::vector<KeptCheckpoint> now;
    std::optional<double> best;
    for (const int a : accuracies) {  // as a run writes them
        now.push_back({.file = std::to_string(now.size()), .step = std::int64_t(now.size())});
        now.back().step = now.size() == 1 ? 1 : now[now.size() - 2].step + 1;
        now.back().file = std::to_string(now.back().step);
        if (a >= 0) now.back().test_accuracy_pct = a;
        if (a >= 0 && (!best || a >= *best)) best = a;
        const auto newest = now.back().step;
        for (const auto& old : to_delete(now, keep)) {
            RC_ASSERT(old.step <= newest - keep);
            std::erase(now, old);
        }
        RC_ASSERT(std::ssize(now) <= keep + 1);
        if (best)
            RC_ASSERT(std::ranges::any_of(
                now, [&](const auto& k) { return k.test_accuracy_pct == best; }));
    }
}
TEST(CheckpointWriter, OfARunKeepsTheNewestAndTheBest) {
    const Folder folder;
    auto world = threads(2);
    Plain::Options o{.batch = 4, .epochs = 6, .output = folder.path};
    o.checkpoints = {.every_steps = 2, .keep = 3};  // 5 steps an epoch
    const gx::RunRecord r = Plain(o).train(world, images());
    int best = 1;
    for (const gx::EpochRow& e : r.epochs)
        if (e.test_accuracy_pct >= r.epochs[std::size_t(best) - 1].test_accuracy_pct)
            best = e.epoch + 1;
    std::set<std::string> expected{"step-00000026.safetensors", "step-00000028.safetensors",
                                   "epoch-0006.safetensors", gx::checkpoint_name(best)};
    EXPECT_EQ(names_in(folder.path), expected);

    // A resumed run takes those of its earlier part for its own.
    o.epochs = 7;
    o.resume = "latest";
    const gx::RunRecord rest = Plain(o).train(world, images());
    EXPECT_EQ(rest.epochs.size(), 7u);
    const auto left = names_in(folder.path);
    EXPECT_FALSE(left.contains("step-00000026.safetensors"));
    EXPECT_TRUE(left.contains("epoch-0007.safetensors"));
    EXPECT_LE(left.size(), 4u);
}
TEST(CheckpointWriter, OfARunWithoutTestsThereIsNoBest) {
    const Folder folder;
    auto world = threads(2);
    Plain::Options o{.batch = 4, .epochs = 3, .output = folder.path, .evaluate = false};
    o.checkpoints = {.keep = 2};
    (void)Plain(o).train(world, images());
    std::filesystem::create_directory(folder / "epoch-0001.safetensors");  // nobody's checkpoint
    o.epochs = 6;
    o.resume = "latest";
    (void)Plain(o).train(world, images());
    EXPECT_EQ(names_in(folder.path),
              (std::set<std::string>{"epoch-0001.safetensors", "epoch-0005.safetensors",
                                     "epoch-0006.safetensors"}));
}
/// As on a full disk: room is made before the next is written.
TEST(CheckpointWriter, AResumedRunDeletesThoseBeyondItsKeepBeforeItWrites) {
    const Folder folder;
    auto world = threads(2);
    Plain::Options o{.batch = 4, .epochs = 3, .output = folder.path, .evaluate = false};
    o.checkpoints = {.every_steps = 2};  // 5 steps an epoch
    (void)Plain(o).train(world, images());
    struct InItsPlace final : gx::Observer {
        explicit InItsPlace(std::filesystem::path p) : path(std::move(p)) {}
        void step_done(const gx::StepDone&) override { std::filesystem::create_directories(path); }
        std::filesystem::path path;
    } obstacle(folder / "epoch-0004.safetensors/x");
    o.epochs = 4;
    o.resume = "latest";
    o.observers = {&obstacle};
    o.checkpoints = {.keep = 2};
    EXPECT_TRUE(holds(error_of([&] { (void)Plain(o).train(world, images()); }),
                      "epoch-0004.safetensors' is a folder"));
    EXPECT_EQ(names_in(folder.path),
              (std::set<std::string>{"step-00000014.safetensors", "epoch-0003.safetensors",
                                     "epoch-0004.safetensors"}));
}
TEST(CheckpointWriter, TheOneResumedFromStaysUntilTheNext) {
    const gx::Graph graph = gx::graph<Net>({.input = {1, 4, 4}, .classes = 3});
    const Folder folder;
    for (const char* name : {"a", "resumed", "as far"}) write_text(folder / name, "");
    gx::detail::trainer::CheckpointWriter writer(graph, 1);
    writer.begin({.before = {{.file = folder / "a", .step = 1},
                             {.file = folder / "resumed", .step = 2},
                             {.file = folder / "as far", .step = 2}}},
                 folder.path / "." / "resumed");
    EXPECT_EQ(names_in(folder.path), (std::set<std::string>{"as far", "resumed"}));
}
TEST(CheckpointWriter, ThoseOfTheCourseThatItLeavesGoWhenItPassesThem) {
    const Folder folder;
    auto world = threads(2);
    Plain::Options o{.batch = 4, .epochs = 4, .output = folder.path, .evaluate = false};
    o.checkpoints = {.every_steps = 2};  // 5 steps an epoch
    (void)Plain(o).train(world, images());
    o.epochs = 3;
    o.resume = folder / "epoch-0001.safetensors";
    o.checkpoints = {.every_steps = 3, .keep = 2};
    (void)Plain(o).train(world, images());
    EXPECT_EQ(names_in(folder.path),
              (std::set<std::string>{"step-00000012.safetensors", "epoch-0003.safetensors",
                                     // it has not come to these
                                     "step-00000016.safetensors", "step-00000018.safetensors",
                                     "epoch-0004.safetensors"}));
}
TEST(CheckpointWriter, ARunThatIsOverEndsWithItsRecordAgain) {
    struct Calls final : gx::Observer {
        void run_begins(const gx::RunStart&) override { ++number; }
        void run_ended(const gx::RunRecord&) override { ++number; }
        int number = 0;
    } calls;
    const auto expect_over = [&]<class T>(T, auto make) {
        const Folder folder;
        typename T::Options o{.batch = 4, .epochs = 3, .output = folder.path, .resume = "latest"};
        auto first = make();
        const gx::RunRecord whole = T(o).train(first, images());
        const auto files = names_in(folder.path);
        o.observers = {&calls};
        auto world = make();
        const gx::RunRecord over = T(o).train(world, images());
        expect_same_learning(over, whole);
        EXPECT_EQ(over.seconds, whole.seconds);
        EXPECT_EQ(over.dollars, whole.dollars);
        EXPECT_EQ(over.images, whole.images);
        EXPECT_EQ(over.breakdown.compute, whole.breakdown.compute);
        EXPECT_EQ(over.test_accuracy_pct(), whole.test_accuracy_pct());
        EXPECT_EQ(names_in(folder.path), files);
        EXPECT_EQ(calls.number, 0);
        EXPECT_TRUE(holds(over.notes.back(), "All 3 epochs had been done", "trained nothing",
                          "epoch-0003.safetensors'"))
            << over.notes.back();

        o.epochs = 2;
        EXPECT_TRUE(holds(error_of([&] { (void)T(o).train(world, images()); }),
                          "it has done 3 epochs, and this run ends after 2"));
        o.epochs = 3, o.resume = folder / "epoch-0003.safetensors";
        EXPECT_TRUE(holds(error_of([&] { (void)T(o).train(world, images()); }),
                          "it has done 3 epochs, and this run ends after 3"));
    };
    expect_over(Plain(), [] { return threads(2); });
    expect_over(Late(), [] { return threads(2); });
    expect_over(gx::Trainer<Net, gx::Ring<fp32>, gx::Constant, gx::ContinueOnSurvivors>(),
                [] { return threads(2); });
}

TEST(CheckpointWriter, AnErrorOfTheRunLosesNoneThatWaits) {
    const gx::Graph graph = gx::graph<Net>({.input = {1, 4, 4}, .classes = 3});
    const Folder folder, run;
    auto world = threads(2);
    (void)Plain({.batch = 4, .output = run.path}).train(world, images());
    const gx::Checkpoint c = gx::read_checkpoint(run / "epoch-0001.safetensors", graph);
    for (int i = 0; i < 30; ++i) {
        const std::string one = "a" + std::to_string(i), two = "b" + std::to_string(i);
        {
            gx::detail::trainer::CheckpointWriter writer(graph, 0);
            writer.begin({}, {});
            writer.write(c, {.file = folder.path / one, .step = 1});
            writer.write(c, {.file = folder.path / two, .step = 2});  // waits for the first
        }
        EXPECT_TRUE(names_in(folder.path).contains(one));
        EXPECT_TRUE(names_in(folder.path).contains(two));
    }
}

// ---- What can't be written ----------------------------------------------------------

TEST(CheckpointWriter, AFileThatCannotBeWrittenEndsTheRunOrIsAWarning) {
    const Folder folder;
    std::filesystem::create_directories(folder / "step-00000002.safetensors/x");  // in its place
    auto world = threads(2);
    Plain::Options o{.batch = 4, .epochs = 1, .output = folder.path};
    o.checkpoints = {.every_steps = 2};
    const std::string error = error_of([&] { (void)Plain(o).train(world, images()); });
    EXPECT_TRUE(holds(error, "step-00000002.safetensors' is a folder")) << error;

    o.checkpoints.stop_on_failure = false;
    const gx::RunRecord r = Plain(o).train(world, images());
    const auto at_step = std::ranges::find_if(r.warnings, [](const std::string& warning) {
        return warning.starts_with("checkpoint after step 2: ");
    });
    ASSERT_NE(at_step, r.warnings.end());
    EXPECT_TRUE(holds(*at_step, "checkpoint after step 2: file '",
                      "step-00000002.safetensors' is a folder"));
    EXPECT_EQ(r.epochs.size(), 1u);
    EXPECT_TRUE(names_in(folder.path).contains("epoch-0001.safetensors")) << "later ones are";
}
TEST(CheckpointWriter, OptionsThatCannotBeAreRefused) {
    auto world = threads(2);
    Plain::Options o{.batch = 4, .resume = "latest"};
    o.checkpoints = {.every_steps = -1};
    EXPECT_TRUE(holds(error_of([&] { (void)Plain(o).train(world, images()); }),
                      "checkpoints are every -1 steps and every 0 minutes, and 0 are kept: give 0 "
                      "or more",
                      "checkpoints are asked for, and there is no folder for them",
                      "resume is 'latest', and there is no folder to look in"));
    using Survives =
        gx::Trainer<Net, gx::Ring<fp32>, gx::Warmup<gx::Poly<2>>, gx::ContinueOnSurvivors>;
    const Folder folder;
    Survives::Options s{.batch = 4, .output = folder.path};
    s.checkpoints = {.every_steps = 1};
    EXPECT_TRUE(holds(error_of([&] { (void)Survives(s).train(world, images()); }),
                      "a run that continues on survivors from what they hold writes checkpoints "
                      "after epochs alone"));
}

// ---- The latest ---------------------------------------------------------------------

TEST(LatestCheckpoint, IsTheNewestThatIsWhole) {
    const Folder folder;
    auto world = threads(2);
    Late::Options o{.batch = 4, .epochs = 2, .output = folder.path};
    o.checkpoints = {.every_steps = 3};
    const gx::RunRecord whole = Late(o).train(world, images());
    const gx::Graph graph = gx::graph<Net>({.input = {1, 4, 4}, .classes = 3});
    const auto name = [&] { return gx::latest_checkpoint(folder.path, graph).file.filename(); };
    EXPECT_EQ(name(), "epoch-0002.safetensors");
    std::filesystem::remove(folder / "epoch-0002.safetensors");
    EXPECT_EQ(name(), "step-00000009.safetensors");
    write_text(folder / "step-00000009.safetensors",
               read_text(folder / "step-00000009.safetensors").substr(0, 1000));
    write_text(folder / "step-of-another-kind.safetensors", "");
    const auto found = gx::latest_checkpoint(folder.path, graph);
    EXPECT_EQ(found.file.filename(), "step-00000006.safetensors");
    EXPECT_EQ(found.checkpoint->step, 6);
    ASSERT_EQ(found.errors.size(), 2u);
    EXPECT_TRUE(holds(found.errors[1] + found.errors[0], "step-00000009.safetensors'"));

    o.resume = "latest";
    const gx::RunRecord rest = Late(o).train(world, images());
    expect_same_learning(rest, whole);
    EXPECT_TRUE(holds(rest.notes.back(), "A checkpoint as new or newer can't be used: "));
    EXPECT_EQ(gx::latest_checkpoint(folder / "none", graph).file, "");
}

/// While it lives, this thread has the rights of a user who is not root, on files at least.
class NotRoot {
public:
    static constexpr unsigned user = 65534;
    NotRoot() { setfsuid(user); }
    ~NotRoot() { setfsuid(geteuid()); }
};

TEST(LatestCheckpoint, InAFolderThatCannotBeListedIsNotTakenForNone) {
    const Folder folder;
    const auto output = folder / "runs", first = output / "epoch-0001.safetensors";
    std::filesystem::create_directory(output);
    write_text(folder / "a_file", "");
    auto world = threads(2);
    Plain::Options o{.batch = 4, .epochs = 1, .output = output};
    (void)Plain(o).train(world, images());
    const std::string before = read_text(first);
    for (const auto& path : {folder.path, output})
        ASSERT_TRUE(geteuid() != 0 || chown(path.c_str(), NotRoot::user, NotRoot::user) == 0);

    using std::filesystem::perms;
    o.epochs = 2;
    for (const char* const resume : {"latest", ""}) {
        o.resume = resume;
        std::filesystem::permissions(output, perms::owner_write | perms::owner_exec);
        const std::string error = [&] {
            const NotRoot user;
            return error_of([&] { (void)Plain(o).train(world, images()); });
        }();
        std::filesystem::permissions(output, perms::owner_all);
        EXPECT_TRUE(holds(error, "folder '" + output.string() +
                                     "' can't be listed: Permission "
                                     "denied. Checkpoints in it are not found"))
            << error;
        EXPECT_EQ(read_text(first), before);
        EXPECT_FALSE(std::filesystem::exists(output / "epoch-0002.safetensors"));
    }
    const gx::Graph graph = gx::graph<Net>({.input = {1, 4, 4}, .classes = 3});
    EXPECT_TRUE(holds(error_of([&] { (void)gx::latest_checkpoint(folder / "a_file", graph); }),
                      "can't be listed: Not a directory"));
}

TEST(LatestCheckpoint, OneThatCannotBeReplacedIsToldOfAtTheStart) {
    const Folder folder;
    std::filesystem::create_directory(folder / "epoch-0002.safetensors");
    auto world = threads(2);
    Plain::Options o{.batch = 4, .epochs = 2, .output = folder.path};
    const auto train = [&] { return error_of([&] { (void)Plain(o).train(world, images()); }); };
    const auto first = folder / "epoch-0001.safetensors";
    EXPECT_TRUE(holds(train(), "epoch-0002.safetensors' is a folder"));
    EXPECT_FALSE(std::filesystem::exists(first)) << "nothing was trained";
    o.checkpoints.keep = 1;
    EXPECT_TRUE(holds(train(), "epoch-0002.safetensors' is a folder"));
    EXPECT_FALSE(std::filesystem::exists(first)) << "nothing was trained";
    o.checkpoints.keep = 0;
    o.epochs = 1;
    EXPECT_EQ(train(), "no error") << "it is not in the way";
    o.epochs = 2;
    o.resume = first.string();
    EXPECT_TRUE(holds(train(), "epoch-0002.safetensors' is a folder"));
    EXPECT_EQ(names_in(folder.path).count("epoch-0002.safetensors.tmp"), 0u);
    o.checkpoints.stop_on_failure = false;
    EXPECT_EQ(train(), "no error") << "it goes on where one can't be written";
}

TEST(LatestCheckpoint, OfWhichNothingIsKnownIsNotTakenForNone) {
    const Folder folder;
    std::filesystem::create_symlink("epoch-0001.safetensors", folder / "epoch-0001.safetensors");
    std::filesystem::create_symlink("nowhere", folder / "epoch-0002.safetensors");
    const gx::Graph graph = gx::graph<Net>({.input = {1, 4, 4}, .classes = 3});
    const auto found = gx::latest_checkpoint(folder.path, graph);
    EXPECT_FALSE(found.checkpoint);
    ASSERT_EQ(found.errors.size(), 2u) << "a link to itself, and one to a disk that is not there";
    EXPECT_TRUE(holds(found.errors[0] + found.errors[1],
                      "epoch-0001.safetensors' can't be looked at: Too many",
                      "epoch-0002.safetensors' can't be looked at: No such file"));
}

TEST(LatestCheckpoint, WhereNoneCanBeUsedTheRunDoesNotOverwriteThem) {
    const Folder folder;
    auto world = threads(2);
    Plain::Options o{.batch = 4, .epochs = 2, .output = folder.path, .resume = "latest"};
    (void)Plain(o).train(world, images());
    using OtherNet = gx::Trainer<gx::Mlp<6>, gx::Ring<fp32>, gx::Warmup<gx::Poly<2>>>;
    const std::string before = read_text(folder / "epoch-0001.safetensors");
    const std::string error = error_of([&] {
        (void)OtherNet({.batch = 4, .output = folder.path, .resume = "latest"})
            .train(world, images());
    });
    EXPECT_TRUE(holds(error, "no checkpoint in '", "' can be used, and a run that begins anew",
                      "The newest: checkpoint '",
                      "epoch-0002.safetensors': ", "To begin anew name another 'output'."))
        << error;
    EXPECT_EQ(read_text(folder / "epoch-0001.safetensors"), before);
    for (const char* name : {"epoch-0001.safetensors", "epoch-0002.safetensors"})
        write_text(folder / name, "");
    EXPECT_TRUE(holds(error_of([&] { (void)Plain(o).train(world, images()); }),
                      "no checkpoint in '", "The newest: file '"));
}

// ---- Killed -------------------------------------------------------------------------

/// Writes a byte for each step: a test kills the process after so many.
struct Pulse : gx::Observer {
    int to = -1;
    void step_done(const gx::StepDone&) override { (void)!::write(to, "", 1); }
};

// One command starts a job and restarts it; it is killed again and again, wherever it is.
struct KilledRun : WithProcesses {};
TEST_F(KilledRun, LosesNoCheckpointAndEndsAsIfItHadNotBeen) {
    const gx::Split data = images();
    Late::Options o{.batch = 2, .epochs = 3};  // 10 steps an epoch
    gx::RunRecord expected;
    {
        auto world = threads(2);
        expected = Late(o).train(world, data);
    }
    ASSERT_EQ(expected.steps.size(), 30u);
    const gx::Graph graph = gx::graph<Net>({.input = {1, 4, 4}, .classes = 3});
    std::mt19937 draw(11);
    for (int i = 0; i < 8; ++i) {
        const Folder folder;
        o.output = folder.path;
        o.resume = "latest";
        o.checkpoints = {.every_steps = 1, .keep = i % 2 == 0 ? 2 : 0};
        std::int64_t had = 0;
        for (int kills = 0; kills < 4; ++kills) {
            int ends[2];
            ASSERT_EQ(::pipe(ends), 0);
            const auto moment = std::uniform_int_distribution<int>(0, 12)(draw);
            const pid_t child = ::fork();
            if (child == 0) {
                Pulse pulse;
                pulse.to = ends[1];
                o.observers = {&pulse};
                auto world = threads(2);
                (void)Late(o).train(world, data);
                ::_exit(0);
            }
            ::close(ends[1]);
            char byte;
            for (int k = 0; k < moment && ::read(ends[0], &byte, 1) == 1; ++k) {
            }
            ::kill(child, SIGKILL);
            ::waitpid(child, nullptr, 0);
            ::close(ends[0]);
            const auto found = gx::latest_checkpoint(folder.path, graph);
            EXPECT_TRUE(found.errors.empty()) << "all are whole: " << found.errors.at(0);
            const std::int64_t has = found.checkpoint ? found.checkpoint->step : 0;
            EXPECT_GE(has, had) << "none is lost";
            had = has;
        }
        const auto& last = gx::latest_checkpoint(folder.path, graph).checkpoint;
        if (last && last->epoch == 3) continue;  // it had ended
        o.observers = {};
        auto world = threads(2);
        const gx::RunRecord rest = Late(o).train(world, data);
        EXPECT_EQ(rest.weights_hash, expected.weights_hash);
        EXPECT_EQ(rest.epochs.back().train_loss, expected.epochs.back().train_loss);
        EXPECT_EQ(rest.epochs.back().test_accuracy_pct, expected.epochs.back().test_accuracy_pct);
        if (o.checkpoints.keep == 0) expect_same_learning(rest, expected);
    }
}

}  // namespace
