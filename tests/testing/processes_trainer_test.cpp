// One Trainer on processes: the bits of threads and of a simulated cluster; who writes; who throws.
#include <gx/testing/processes.hpp>

#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <fstream>

#include <gx/reducer/double_buffered.hpp>      // DoubleBuffered
#include <gx/reducer/multi_ring.hpp>           // MultiRing
#include <gx/reducer/ring.hpp>                 // Ring
#include <gx/sim/catalog/simple_clusters.hpp>  // ethernet_10g
#include <gx/sim/world/cluster.hpp>            // Cluster
#include <gx/sim/world/device.hpp>             // Device
#include <gx/trainer/trainer.hpp>              // Trainer

#include <support/run_checked.hpp>    // run_checked
#include <testing/one_rank.hpp>       // OneRank
#include <testing/processes_run.hpp>  // Shared, WithProcesses
#include <trainer/small.hpp>          // images, threads, Folder

namespace {

using namespace testing_support;
using gx::fp16;
using gx::fp32;
using Device = gx::reference::Device;
using Processes = gx::testing::ProcessWorld<Device>;
using Cluster = gx::sim::Cluster<Device>;
using ProcessesTrainer = WithProcesses;

// ---- The caller of run() is the root --------------------------------------------------

template <class R>
class OnProcesses : public WithProcesses {};
using Reducers = ::testing::Types<gx::Ring<fp32>, gx::MultiRing<2, fp16>,
                                  gx::DoubleBuffered<gx::MultiRing<2, fp16>>>;
TYPED_TEST_SUITE(OnProcesses, Reducers);

TYPED_TEST(OnProcesses, BitsAreThoseOfThreadsAndOfTheCluster) {
    using Composition = gx::Trainer<Net, TypeParam, gx::Warmup<gx::Poly<2>>>;
    const gx::Split data = images();
    const Composition trainer({.batch = 3, .epochs = 2, .seed = 3});
    Processes processes({.placement = {4, 1}});
    auto wall = threads(4);
    Cluster virtual_time(gx::sim::ethernet_10g(4), {});
    const gx::RunRecord a = trainer.train(processes, data);
    EXPECT_NE(a.weights_hash, 0u);
    EXPECT_EQ(a.epochs.size(), 2u);
    expect_same_learning(a, trainer.train(wall, data));
    expect_same_learning(a, trainer.train(virtual_time, data));
}
TYPED_TEST(OnProcesses, ResumesItsOwnAndOtherWorldsCheckpoints) {
    using Composition = gx::Trainer<Net, TypeParam, gx::Warmup<gx::Poly<2>>>;
    const gx::Split data = images();
    typename Composition::Options o{.batch = 3, .epochs = 4, .seed = 3};
    auto wall = threads(4);
    const Folder of_threads, of_processes;
    o.output = of_threads.path;
    const gx::RunRecord whole = Composition(o).train(wall, data);
    Processes processes({.placement = {4, 1}});
    o.output = of_processes.path;
    expect_same_learning(Composition(o).train(processes, data), whole);
    o.output.clear();
    for (const Folder* folder : {&of_threads, &of_processes}) {
        o.resume = *folder / "epoch-0002.safetensors";
        expect_same_learning(Composition(o).train(processes, data), whole);
        expect_same_learning(Composition(o).train(wall, data), whole);
    }
}

using Plain = gx::Trainer<Net, gx::Ring<fp32>, gx::Warmup<gx::Poly<2>>>;

// ---- Every process calls train() ------------------------------------------------------

static_assert(gx::SpansProcesses<OneRank<Processes::Rank>>);
static_assert(!gx::SpansProcesses<Processes> && !gx::SpansProcesses<Cluster>);

TEST_F(ProcessesTrainer, EveryProcessHasARecordAndOnlyTheRootWrites) {
    const gx::Split data = images();
    const Folder folder;
    Plain::Options o{.batch = 3, .epochs = 2, .seed = 3};
    auto wall = threads(4);
    const gx::RunRecord expected = Plain(o).train(wall, data);
    std::ofstream(folder / "file") << "a file is no folder";
    Processes world({.placement = {4, 1}});
    run_checked(world, [&](auto& rank) {
        Plain::Options mine = o;
        mine.output = rank.rank() == 0 ? folder / "out" : folder / "file/no";
        OneRank local(rank);
        const gx::RunRecord r = Plain(mine).train(local, data);
        expect_same_learning(r, expected);
        EXPECT_GT(r.bytes_sent_per_step, 0) << "its own: chunks differ by an element";
        EXPECT_EQ(r.images, expected.images);
        EXPECT_GT(r.breakdown.compute, 0);
    });
    EXPECT_TRUE(std::filesystem::exists(folder / "out/epoch-0002.safetensors"));

    o.epochs = 3;
    const gx::RunRecord longer = Plain(o).train(wall, data);
    o.resume = folder / "out/epoch-0002.safetensors";
    run_checked(world, [&](auto& rank) {
        OneRank local(rank);
        EXPECT_EQ(Plain(o).train(local, data).steps.size(), longer.steps.size());
    });
}
/// The sentences that four processes throw where rank 2 trains with `its` options and data.
std::array<std::string, 4> sentences(const Plain::Options& its, const gx::Split& its_data) {
    const Plain::Options o{.batch = 3, .epochs = 2, .seed = 3};
    const gx::Split data = images();
    const Shared<std::array<std::array<char, 400>, 4>> said;
    Processes world({.placement = {4, 1}});
    (void)error_of_run([&] {
        world.run([&](auto& rank) {
            OneRank local(rank);
            const bool odd = rank.rank() == 2;
            const std::string text = error_of_run(
                [&] { (void)Plain(odd ? its : o).train(local, odd ? its_data : data); });
            text.copy((*said)[std::size_t(rank.rank())].data(), 399);
        });
    });
    std::array<std::string, 4> all;
    for (std::size_t r = 0; r < 4; ++r) all[r] = (*said)[r].data();
    return all;
}
TEST_F(ProcessesTrainer, ProcessesThatTrainDifferentThingsEndWithOneSentence) {
    const Plain::Options o{.batch = 3, .epochs = 2, .seed = 3};
    for (const std::string& none : sentences(o, images())) EXPECT_EQ(none, "");
    Plain::Options seed = o, rate = o;
    seed.seed = 4;
    rate.scheduler.next.peak_rate = 0.125f;
    const std::array found{sentences(seed, images()), sentences(rate, images()),
                           sentences(o, images(41))};
    const std::array<std::string, 3> expected{
        "the seed of rank 2 is '4', that of rank 0 is '3'",
        "the option scheduler.next.peak_rate of rank 2 is '0.125', that of rank 0 is ",
        "the data source of rank 2 is 'training on 'synthetic': 41 images of 1 x 4 x 4"};
    for (std::size_t i = 0; i < found.size(); ++i)
        for (const std::string& text : found[i])
            EXPECT_NE(text.find(expected[i]), text.npos) << text;
}

/// A device whose process is killed in the evaluation on rank 2.
struct DiesInTheEvaluation : Device {
    DiesInTheEvaluation(const gx::Graph& graph, gx::DeviceOptions o)
        : Device(graph, o), options(o) {}
    gx::ForwardReport forward(const gx::Batch& batch, gx::Mode mode) {
        if (mode == gx::Mode::evaluate && options.rank == 2) raise(SIGKILL);
        return Device::forward(batch, mode);
    }
    gx::DeviceOptions options;
};
TEST_F(ProcessesTrainer, ALossInTheEvaluationIsNamedWithIt) {
    const gx::Split data = images();
    gx::testing::ProcessWorld<DiesInTheEvaluation> world({.placement = {3, 1}});
    const std::string text =
        error_of_run([&] { (void)Plain({.batch = 3, .epochs = 2, .seed = 3}).train(world, data); });
    EXPECT_TRUE(text.starts_with("rank 2 was killed by signal 9")) << text;
    EXPECT_TRUE(holds(text, "operation evaluating") ||
                holds(text, "operation summing the test results"))
        << text;
}
TEST_F(ProcessesTrainer, AnOptionThatIsWrongOnTheRootStopsAllProcesses) {
    const gx::Split data = images();
    const Folder folder;
    std::ofstream(folder / "file") << "a file is no folder";
    const Shared<std::array<int, 3>> cancelled;
    std::string text;
    Processes world({.placement = {3, 1}});
    run_checked(world, [&](auto& rank) {
        OneRank local(rank);
        try {
            (void)Plain({.batch = 3, .output = folder / "file/no"}).train(local, data);
        } catch (const gx::LostRank& e) {
            (*cancelled)[static_cast<std::size_t>(rank.rank())] =
                e.delivery().outcome == gx::Delivery::Outcome::cancelled && e.lost() == 0;
        } catch (const gx::Error& e) {
            text = e.what();
        }
    });
    EXPECT_NE(text.find("can't be written"), text.npos) << text;
    EXPECT_EQ(*cancelled, (std::array{0, 1, 1})) << "rank 0 stopped them, and did not just leave";
}

}  // namespace
