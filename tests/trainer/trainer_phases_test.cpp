// Phases: batch and image size change between epochs; all else goes on to the bit.
#include <gx/trainer/trainer.hpp>

#include <array>
#include <map>
#include <mutex>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/loader/prefetch.hpp>              // Prefetched
#include <gx/loader/record_file.hpp>           // RecordFile
#include <gx/loader/resize.hpp>                // Resize
#include <gx/model/layers.hpp>                 // Network
#include <gx/optimizer/adamw.hpp>              // AdamW
#include <gx/optimizer/lars.hpp>               // Lars
#include <gx/quantized/reducer.hpp>            // Quantized
#include <gx/reducer/double_buffered.hpp>      // DoubleBuffered
#include <gx/reducer/multi_ring.hpp>           // MultiRing
#include <gx/reducer/ring.hpp>                 // Ring
#include <gx/scheduler/linear_scaling.hpp>     // LinearScaling
#include <gx/scheduler/piecewise_linear.hpp>   // PiecewiseLinear
#include <gx/sharded/reducer.hpp>              // Sharded
#include <gx/sim/catalog/simple_clusters.hpp>  // ethernet_10g
#include <gx/sim/race/monitor.hpp>             // monitor
#include <gx/sim/world/cluster.hpp>            // Cluster
#include <gx/sim/world/device.hpp>             // Device
#include <gx/testing/far/device.hpp>           // FarDevice
#include <gx/testing/processes.hpp>            // ProcessWorld
#include <gx/top_k/reducer.hpp>                // TopK
#include <gx/trainer/json.hpp>                 // to_json
#include <gx/trainer/json.hpp>                 // to_json

#include <testing/processes_run.hpp>  // WithProcesses
#include <trainer/small.hpp>          // threads, Folder

namespace {

using namespace testing_support;
using gx::fp16;
using gx::fp32;
using gx::ImageShape;
using gx::Phase;
using Cluster = gx::sim::Cluster<gx::reference::Device>;
using Processes = gx::testing::ProcessWorld<gx::reference::Device>;
using Far = gx::testing::FarWorld<gx::testing::FarDevice<gx::reference::Device>>;
using PhasesOnProcesses = WithProcesses;

/// Takes images of any size. With a batch norm and dropout: statistics, and draws by step.
struct Pooled : gx::Network<ImageShape{1, 6, 6}, 3, gx::Conv<4, 3, 1, 1>, gx::BatchNorm, gx::ReLU,
                            gx::GlobalAvgPool, gx::Dropout<0.2>, gx::Classifier> {
    static constexpr std::string_view name = "Pooled";
};
/// The same without dropout: runs that number their steps otherwise draw alike.
struct Dry : gx::Network<ImageShape{1, 6, 6}, 3, gx::Conv<4, 3, 1, 1>, gx::BatchNorm, gx::ReLU,
                         gx::GlobalAvgPool, gx::Classifier> {
    static constexpr std::string_view name = "Dry";
};
template <class R, class... More>
using Runs = gx::Trainer<Pooled, R, gx::Warmup<gx::Poly<2>>, More...>;
using Plain = Runs<gx::Ring<fp32>>;

gx::Split squares(int side = 6) {
    return gx::synthetic({.shape = {1, side, side},
                          .classes = 3,
                          .train_count = 40,
                          .test_count = 12,
                          .noise = 80,
                          .seed = 5});
}
/// `data` resized beforehand; normalised as it was.
gx::Split resized(gx::Split data, int side) {
    for (gx::Dataset* set : {&data.train, &data.test}) {
        const ImageShape to{set->shape.channels, side, side};
        gx::Resize resize(set->shape, to);
        std::vector<std::uint8_t> pixels(std::size_t(set->count() * to.elements()));
        for (std::int64_t i = 0; i < set->count(); ++i)
            resize(&set->pixels[std::size_t(i * set->shape.elements())],
                   &pixels[std::size_t(i * to.elements())]);
        set->pixels = std::move(pixels);
        set->shape = to;
    }
    return data;
}

// ---- What goes on between two phases ---------------------------------------------------------

template <class T>
class Compositions : public ::testing::Test {};
using Composed =
    ::testing::Types<Plain, Runs<gx::DoubleBuffered<gx::MultiRing<2, fp16>>>,
                     Runs<gx::Ring<fp32>, gx::AdamW>,
                     Runs<gx::DoubleBuffered<gx::Ring<fp32>>, gx::Lars>, Runs<gx::TopK>,
                     Runs<gx::DoubleBuffered<gx::Quantized<8>>, gx::AdamW>,
                     Runs<gx::Sharded<gx::Ring<fp32>>, gx::AdamW>,
                     Runs<gx::Ring<fp32>, gx::Prefetched<gx::InMemory<gx::PadCrop<1>, gx::Flip>>>>;
TYPED_TEST_SUITE(Compositions, Composed);

// A device that is rebuilt between the epochs of one batch and size changes no bit.
TYPED_TEST(Compositions, PhasesOfOneBatchAndSizeAreARunWithoutPhases) {
    typename TypeParam::Options o{.batch = 3, .epochs = 4, .seed = 3};
    auto wall = threads(3);
    const gx::RunRecord expected = TypeParam(o).train(wall, squares());
    EXPECT_TRUE(expected.phases.empty());
    for (const std::vector<Phase>& phases :
         {std::vector<Phase>{{0, 3, 6}}, std::vector<Phase>{{0, 3, 6}, {1, 3, 6}, {3, 3, 6}}}) {
        o.batch = 32;  // the phases' own is taken
        o.phases = phases;
        const gx::RunRecord r = TypeParam(o).train(wall, squares());
        expect_same_learning(r, expected);
        EXPECT_EQ(r.phases.size(), phases.size());
    }
}
TYPED_TEST(Compositions, AreTheSameInEveryWorld) {
    typename TypeParam::Options o{
        .epochs = 4, .phases = {{0, 4, 4}, {1, 2, 6}, {3, 5, 9}}, .seed = 3};
    auto wall = threads(3);
    const gx::RunRecord expected = TypeParam(o).train(wall, squares());
    Cluster cluster(gx::sim::ethernet_10g(3), {.detect_races = true});
    expect_same_learning(TypeParam(o).train(cluster, squares()), expected);
}

template <class T>
class ResumedInPhases : public ::testing::Test {};
using Resuming =
    ::testing::Types<Plain, Runs<gx::DoubleBuffered<gx::MultiRing<2, fp16>>, gx::AdamW>,
                     Runs<gx::Sharded<gx::Ring<fp32>>, gx::AdamW>>;
TYPED_TEST_SUITE(ResumedInPhases, Resuming);

TYPED_TEST(ResumedInPhases, WithinAndBetweenPhases) {
    typename TypeParam::Options o{
        .epochs = 6, .phases = {{0, 4, 4}, {2, 2, 6}, {4, 5, 5}}, .seed = 3};
    const Folder folder;
    auto wall = threads(2);
    o.output = folder.path;
    const gx::RunRecord whole = TypeParam(o).train(wall, squares());
    o.output.clear();
    Cluster cluster(gx::sim::ethernet_10g(2), {});
    for (int epoch = 1; epoch < 6; ++epoch) {
        o.resume = folder / gx::checkpoint_name(epoch).c_str();
        const gx::RunRecord r = TypeParam(o).train(wall, squares());
        expect_same_learning(r, whole);
        EXPECT_EQ(r.notes.size(), whole.notes.size()) << "nothing has changed";
        expect_same_learning(TypeParam(o).train(cluster, squares()), whole);
    }
}

// ---- Independent oracles ---------------------------------------------------------------------

/// A data set that does not tell the hash of its samples: resized ones are others.
struct Unhashed {
    const gx::Dataset& data;
    [[nodiscard]] gx::SourceInfo info() const { return data.info(); }
    [[nodiscard]] std::unique_ptr<gx::SampleReader> open() const { return data.open(); }
};

// A phase is what a run is that resumes with that batch on data resized beforehand.
TEST(Phases, AreRunsThatResumeEachOther) {
    using T = gx::Trainer<Dry, gx::DoubleBuffered<gx::Ring<fp32>>, gx::Constant, gx::AdamW>;
    auto wall = threads(2);
    T::Options o{.epochs = 6, .phases = {{0, 4, 4}, {2, 7, 9}, {5, 2, 6}}, .seed = 3};
    const gx::RunRecord phased = T(o).train(wall, squares());
    const Folder folder;
    T::Options part{.epochs = o.epochs, .seed = 3, .output = folder.path};
    for (std::size_t p = 0; p < o.phases.size(); ++p) {
        part.batch = o.phases[p].batch;
        const gx::Split data = resized(squares(), o.phases[p].image_side);
        const Unhashed train{data.train}, test{data.test};
        const gx::RunRecord r = T(part).train(wall, gx::Sources{train, test});
        const int end = p + 1 < o.phases.size() ? o.phases[p + 1].first_epoch : o.epochs;
        part.resume = folder / gx::checkpoint_name(end).c_str();
        for (auto e = std::size_t(o.phases[p].first_epoch); e < std::size_t(end); ++e) {
            EXPECT_EQ(r.epochs[e].step, phased.epochs[e].step);
            EXPECT_EQ(r.epochs[e].train_loss, phased.epochs[e].train_loss) << e;
            EXPECT_EQ(r.epochs[e].test_loss, phased.epochs[e].test_loss) << e;
        }
        if (end == o.epochs) {
            EXPECT_EQ(r.weights_hash, phased.weights_hash);
        }
    }
    EXPECT_EQ(phased.steps.size(), 2u * 5 + 3 * 3 + 10);
}

// Rates by progress in the data, for the batch of the phase.
TEST(Phases, ScaleTheRateWithTheirBatch) {
    using T = gx::Trainer<Dry, gx::DoubleBuffered<gx::Ring<fp32>>, gx::LinearScaling<gx::Poly<1>>>;
    T::Options o{.epochs = 5, .phases = {{0, 5, 4}, {2, 2, 4}, {4, 10, 4}}, .seed = 3};
    o.scheduler = {.reference_batch = 8, .next = {.peak_rate = 0.1f}};
    auto wall = threads(2);
    const gx::RunRecord r = T(o).train(wall, squares());
    std::vector<double> of_gradient;
    for (int epoch = 0; epoch < 5; ++epoch) {
        const int batch = 2 * (epoch < 2 ? 5 : epoch < 4 ? 2 : 10);
        for (int image = 0; image < 40; image += batch)
            of_gradient.push_back(0.1 * batch / 8 * (1 - (epoch * 4 + image / 10) / 20.0));
    }
    ASSERT_EQ(r.steps.size(), of_gradient.size());
    EXPECT_EQ(r.steps[0].rate, 0) << "there is no gradient to apply";
    for (std::size_t i = 1; i < r.steps.size(); ++i)
        EXPECT_NEAR(r.steps[i].rate, of_gradient[i - 1], 1e-6) << i;
}

// The rates of fast.ai's run on one machine at each boundary: train.py of imagenet18 multiplies by
// bs / bs[0]. Batches are a 32nd of the published ones, and the schedule's own curve is flat.
TEST(Phases, RescaleTheRateAsThePublishedRun) {
    using T = gx::Trainer<Dry, gx::Ring<fp32>, gx::LinearScaling<gx::Constant>>;
    constexpr std::array bs{512, 224, 128};
    T::Options o{
        .epochs = 3, .phases = {{0, 16, 4}, {1, 7, 6}, {2, 4, 9}}, .seed = 3, .evaluate = false};
    o.scheduler = {.reference_batch = 16, .next = {.peak_rate = 1.0f}};
    auto wall = threads(1);
    const gx::RunRecord r = T(o).train(wall, squares());
    for (std::size_t epoch = 0; epoch < 3; ++epoch) {
        const auto first = std::size_t(epoch == 0 ? 0 : r.epochs[epoch - 1].step);
        EXPECT_EQ(r.steps[first].rate, float(bs[epoch]) / float(bs[0])) << epoch;
    }
}

// 'four_machines' of train.py of imagenet18, with its calc_linear_lr: lines from `rate` at epoch
// `first` to `end` at epoch `last`. Batches are a 32nd of the published ones; the points hold rates
// for a batch of 256, and LinearScaling rescales them for each phase's.
TEST(Phases, FollowThePublishedRatesByEpoch) {
    constexpr double lr = 0.5 * 4;
    constexpr std::array bs_scale{1.0, 224.0 / 256, 128.0 / 256};
    struct Part {
        int first;
        double rate, end;
        int last;
    };
    const std::vector<Part> published{{0, lr, lr * 2, 6},
                                      {6, lr * 2, lr * 2, 11},
                                      {11, lr * 2, lr, 13},
                                      {13, lr * bs_scale[1], lr * bs_scale[1], 16},
                                      {16, lr * bs_scale[1], lr / 10 * bs_scale[1], 23},
                                      {23, lr / 10 * bs_scale[1], lr / 100 * bs_scale[1], 28},
                                      {28, lr / 100 * bs_scale[2], lr / 1000 * bs_scale[2], 30}};

    using T = gx::Trainer<Dry, gx::Ring<fp32>, gx::LinearScaling<gx::PiecewiseLinear>>;
    T::Options o{.epochs = 30,
                 .phases = {{0, 8, 4}, {6, 16, 4}, {13, 7, 6}, {28, 4, 9}},
                 .seed = 3,
                 .evaluate = false};
    o.scheduler = {.reference_batch = 8,
                   .next = {.points = {{0, 2},
                                       {6, 4},
                                       {6, 2},
                                       {11, 2},
                                       {13, 1},
                                       {13, 2},
                                       {16, 2},
                                       {23, 0.2f},
                                       {28, 0.02f},
                                       {30, 0.002f}}}};
    auto wall = threads(1);
    const gx::RunRecord r = T(o).train(wall, squares());
    std::size_t step = 0;
    for (const Part& part : published)
        for (int epoch = part.first; epoch < part.last; ++epoch) {
            const int batch = epoch < 6 ? 8 : epoch < 13 ? 16 : epoch < 28 ? 7 : 4;
            for (int image = 0; image < 40; image += batch, ++step) {
                // Progress is counted in whole steps of the first phase's 8 images.
                const double done = epoch - part.first + image / 8 * 8 / 40.0;
                const double expected =
                    part.rate + (part.end - part.rate) * done / (part.last - part.first);
                ASSERT_LT(step, r.steps.size());
                EXPECT_NEAR(r.steps[step].rate, expected, 1e-6) << epoch << ", image " << image;
            }
        }
    EXPECT_EQ(step, r.steps.size());
}

// ---- Each sample once an epoch, whatever the ranks and phases ----------------------------------

/// Notes which images each step trains on, and under which number.
class Noting : public gx::InMemory<> {
public:
    Noting(gx::SourceRef source, const gx::LoaderOptions& o) : InMemory(source, o), options(o) {}
    void begin_epoch(int e, std::int64_t done = 0) {
        epoch = e;
        InMemory::begin_epoch(e, done);
    }
    gx::RankBatch next() {
        const gx::RankBatch b = InMemory::next();
        const std::scoped_lock lock(mutex);
        const auto pixels = std::size_t(shape().elements());
        for (std::size_t i = 0; i < std::size_t(b.batch.count); ++i)
            ++seen[{epoch, std::lround(b.batch.images[i * pixels])}];
        ++draws[{options.rank, b.batch.draw}];
        return b;
    }
    gx::LoaderOptions options;
    int epoch = 0;
    static inline std::mutex mutex;
    static inline std::map<std::pair<int, long>, int> seen;
    static inline std::map<std::pair<int, std::uint64_t>, int> draws;
};
TEST(Phases, ShowEachSampleOnceAnEpoch) {
    EXPECT_TRUE(rc::check([] {
        const int count = *rc::gen::inRange(4, 60), ranks = *rc::gen::inRange(1, 5);
        gx::Split data{.train = {.name = "plain", .shape = {1, 3, 3}, .classes = 2}};
        for (int i = 0; i < count; ++i) {  // one colour an image, whatever its size
            data.train.pixels.insert(data.train.pixels.end(), 9, std::uint8_t(i));
            data.train.labels.push_back(std::uint8_t(i % 2));
        }
        data.train.mean = {0.0f};
        data.train.deviation = {1.0f / 255};
        using T = gx::Trainer<Dry, gx::Ring<fp32>, gx::Constant, Noting>;
        T::Options o{.seed = *rc::gen::arbitrary<std::uint64_t>(), .evaluate = false};
        o.scheduler.peak_rate = 1e-6f;
        for (int n = *rc::gen::inRange(1, 4); n > 0; --n) {
            o.phases.push_back(
                {o.epochs - 1, *rc::gen::inRange(1, count / ranks + 1), *rc::gen::inRange(1, 7)});
            o.epochs += *rc::gen::inRange(1, 3);
        }
        --o.epochs;
        Noting::seen.clear();
        Noting::draws.clear();
        auto world = threads(ranks);
        const gx::RunRecord r = T(o).train(world, data);
        RC_ASSERT(Noting::seen.size() == std::size_t(count * o.epochs));
        for (const auto& [sample, times] : Noting::seen) RC_ASSERT(times == 1);
        RC_ASSERT(Noting::draws.size() == std::size_t(ranks) * r.steps.size());
        for (const auto& [draw, times] : Noting::draws) {
            RC_ASSERT(times == 1);
            RC_ASSERT(draw.second < r.steps.size());
        }
    }));
}

// ---- Other worlds ------------------------------------------------------------------------------

TEST(Phases, RunOnFarMemory) {
    using T = Runs<gx::DoubleBuffered<gx::MultiRing<2, fp16>>, gx::AdamW>;
    T::Options o{.epochs = 4, .phases = {{0, 4, 4}, {1, 2, 6}, {3, 5, 9}}, .seed = 3};
    auto wall = threads(3);
    const gx::RunRecord expected = T(o).train(wall, squares());
    for (const auto progress : {gx::testing::QueueProgress::late, gx::testing::QueueProgress::eager,
                                gx::testing::QueueProgress::random})
        for (const std::uint64_t seed : {1, 2, 3}) {
            Far far({{3, 1}, seed, progress});
            expect_same_learning(T(o).train(far, squares()), expected);
        }
}
TEST_F(PhasesOnProcesses, ReadAFileByShares) {
    const gx::Split data = squares();
    const Folder folder;
    gx::write_records(folder / "train", data.train);
    gx::write_records(folder / "test", data.test);
    Plain::Options o{.epochs = 3, .phases = {{0, 4, 4}, {1, 2, 6}}, .seed = 3};
    auto wall = threads(3);
    const gx::RunRecord expected = Plain(o).train(wall, data);
    Processes processes({.placement = {3, 1}});
    const gx::RecordFile train(folder / "train"), test(folder / "test");
    expect_same_learning(Plain(o).train(processes, gx::Sources{train, test}), expected);
}

// ---- Simulated time ----------------------------------------------------------------------------

gx::Graph of_side(int side) { return gx::graph<Pooled>({.input = {1, side, side}, .classes = 3}); }

/// Virtual seconds of each epoch.
std::vector<double> seconds_of(const std::vector<Phase>& phases, gx::sim::ClusterOptions c,
                               gx::RunRecord* record = nullptr) {
    Cluster cluster(gx::sim::ethernet_10g(2), std::move(c));
    const gx::RunRecord r = Plain({.epochs = 4, .phases = phases, .seed = 3, .evaluate = false})
                                .train(cluster, squares());
    if (record) *record = r;
    std::vector<double> out;
    double before = 0;
    for (const gx::EpochRow& e : r.epochs)
        out.push_back(e.seconds - std::exchange(before, e.seconds));
    return out;
}
TEST(SimulatedPhases, AreTimedAsTheyAreTrained) {
    const auto small = seconds_of({{0, 4, 4}}, {}), large = seconds_of({{0, 2, 64}}, {});
    const auto both = seconds_of({{0, 4, 4}, {2, 2, 64}}, {});
    EXPECT_GT(large[0], 1.5 * small[0]);
    EXPECT_NEAR(both[0], small[0], 1e-9);
    EXPECT_NEAR(both[1], small[1], 1e-9);
    EXPECT_NEAR(both[2], large[2], 1e-9);
    EXPECT_NEAR(both[3], large[3], 1e-9);
}
// A device that is rebuilt goes on with the draws of its rank.
TEST(SimulatedPhases, GoOnWithTheDrawsOfTheirRank) {
    const std::vector<Phase> one{{0, 4, 4}}, four{{0, 4, 4}, {1, 4, 4}, {2, 4, 4}, {3, 4, 4}};
    for (const gx::sim::ClusterOptions& c :
         {gx::sim::ClusterOptions{.compute_jitter = 0.5},
          gx::sim::ClusterOptions{.variation = {.pass = gx::sim::Jitter::uniform(0.5)}}}) {
        const auto expected = seconds_of(one, c), phased = seconds_of(four, c);
        EXPECT_EQ(phased, expected);
        EXPECT_NE(expected[0], expected[1]) << "draws differ";
    }
}
TEST(SimulatedPhases, AreTimedAsTheClusterSays) {
    const gx::sim::TimedPhase small{of_side(64), 16}, large{of_side(128), 6};
    const std::vector<Phase> phases{{0, 4, 4}, {2, 2, 6}};
    const auto a = seconds_of({{0, 4, 4}}, {.timed_phases = {small}});
    const auto b = seconds_of({{0, 2, 6}}, {.timed_phases = {large}});
    const auto as = seconds_of({{0, 4, 4}}, {.timed_as = small.graph, .timed_batch = 16});
    gx::RunRecord r;
    const auto both = seconds_of(phases, {.timed_phases = {small, large}}, &r);
    EXPECT_EQ(a, as);
    EXPECT_NEAR(both[1], a[1], 1e-9);
    EXPECT_NEAR(both[2], b[2], 1e-9);
    EXPECT_EQ(r.images, 2 * 40 * 16 / 4 + 2 * 40 * 6 / 2);
    EXPECT_TRUE(holds(r.timed_as, "Pooled at 64 x 64, 16 images a GPU; Pooled at 128 x 128, 6"));
    EXPECT_NEAR(r.dollars / r.seconds, 2 * gx::sim::ethernet_10g(2).machine.price.count / 3600,
                1e-9);
}
TEST(SimulatedPhases, NeedATimedShapeEach) {
    const auto text = [](gx::sim::ClusterOptions o) {
        return error_of([&] { (void)seconds_of({{0, 4, 4}, {2, 2, 6}}, std::move(o)); });
    };
    EXPECT_TRUE(holds(text({.timed_as = of_side(64)}), "phase 2 (from epoch 2: batch 2",
                      "would be timed as Pooled with images of 64 x 64", "timed_phases"));
    EXPECT_TRUE(holds(text({.timed_batch = 16}), "phase 2", "16 images"));
    EXPECT_TRUE(holds(text({.timed_phases = {{of_side(64), 4}}}), "phase 2",
                      "none of the 1 that the cluster times"));
    EXPECT_TRUE(holds(text({.timed_as = of_side(64), .timed_phases = {{of_side(64), 4}}}),
                      "beside timed_as"));
    EXPECT_TRUE(holds(text({.timed_phases = {{of_side(64), -4}}}), "timed_phases[0].batch is -4"));
    EXPECT_TRUE(holds(text({.timed_phases = {{of_side(64), 4}, {gx::graph<Net>(), 4}}}),
                      "timed_phases[1]", "parameters"));
}
TEST(SimulatedPhases, NameThePhaseThatDoesNotFitInTheGpu) {
    const std::string text = error_of([&] {
        (void)seconds_of({{0, 4, 4}, {2, 2, 6}},
                         {.timed_phases = {{of_side(64), 16}, {of_side(1024), 4096}}});
    });
    EXPECT_TRUE(holds(text, "phase 2 (from epoch 2: batch 2, images of 6 x 6)",
                      "a batch of 4096 images of Pooled does not fit in a"));
}

/// Its memory is too small for images of 6 x 6: as it is made, or as it first computes.
template <bool at_once>
struct Small : gx::reference::Device {
    Small(const gx::Graph& graph, gx::DeviceOptions o) : Device(graph, o) {
        full = graph.input.height == 6 && o.rank == 1;
        if (full && at_once) throw std::bad_alloc();
    }
    gx::ForwardReport forward(const gx::Batch& batch, gx::Mode mode) {
        if (full) throw std::bad_alloc();
        return Device::forward(batch, mode);
    }
    bool full = false;
};
template <class Device>
void expect_the_phase_without_memory() {
    const Folder folder;
    Plain::Options o{
        .epochs = 3, .phases = {{0, 4, 4}, {2, 3, 6}}, .seed = 3, .output = folder.path};
    auto wall = threads<Device>(2);
    const char* expected = "rank 1: there is not enough memory for batch 3 of images of 1 x 6 x 6";
    EXPECT_TRUE(holds(error_of([&] { (void)Plain(o).train(wall, squares()); }), expected));
    o.output.clear();
    o.resume = folder / gx::checkpoint_name(2).c_str();
    EXPECT_TRUE(holds(error_of([&] { (void)Plain(o).train(wall, squares()); }), expected));
}
TEST(Phases, ThatDoNotFitInMemoryAreNamed) {
    expect_the_phase_without_memory<Small<true>>();
    expect_the_phase_without_memory<Small<false>>();
}

// ---- The record ------------------------------------------------------------------------------

TEST(Phases, AreInTheRecord) {
    auto wall = threads(2);
    const gx::RunRecord r =
        Plain({.epochs = 2, .phases = {{0, 4, 4}, {1, 3, 6}}, .seed = 3}).train(wall, squares());
    EXPECT_EQ(r.phases, (std::vector<gx::PhaseRow>{{0, 4, 4, 4, 5}, {1, 3, 6, 6, 7}}));
    EXPECT_EQ(r.batch_per_rank, 4);
    EXPECT_TRUE(holds(r.notes.back(),
                      "Phase 2, from epoch 1: batch 3 a rank, images of 6 x 6, 7 steps "
                      "an epoch."));
    EXPECT_TRUE(holds(gx::to_json(r), "\"phases\"", "\"image_height\""));
}
TEST(Phases, ThatChangeAreNotedByAResume) {
    const Folder folder;
    auto wall = threads(2);
    Plain::Options o{
        .epochs = 1, .phases = {{0, 4, 4}, {2, 3, 6}}, .seed = 3, .output = folder.path};
    (void)Plain(o).train(wall, squares());
    o.epochs = 3;
    o.output.clear();
    o.resume = folder / "epoch-0001.safetensors";
    o.phases[1].image_side = 5;
    EXPECT_TRUE(holds(Plain(o).train(wall, squares()).notes.back(),
                      "phases.1.image_side is 5 instead of 6"));
    o.phases.clear();
    o.batch = 4;
    EXPECT_TRUE(holds(Plain(o).train(wall, squares()).notes.back(),
                      "phases.0.batch is not set instead of 4"));
}

// ---- Faults ----------------------------------------------------------------------------------

template <class T = Plain>
std::string refused(std::vector<Phase> phases) {
    auto wall = threads(2);
    return error_of([&] {
        (void)T({.epochs = 4, .phases = std::move(phases), .seed = 3}).train(wall, squares());
    });
}
TEST(Phases, NameWhatIsWrong) {
    EXPECT_TRUE(holds(refused({{1, 4, 4}}), "phase 1 (from epoch 1", "begins at epoch 0"));
    EXPECT_TRUE(holds(refused({{0, 4, 4}, {2, 4, 4}, {2, 4, 6}}), "phase 3 (from epoch 2",
                      "the phase before begins at epoch 2"));
    EXPECT_TRUE(holds(refused({{0, 4, 4}, {3, 4, 4}, {2, 4, 6}}), "phase 3 (from epoch 2",
                      "the phase before begins at epoch 3"));
    EXPECT_TRUE(
        holds(refused({{0, 4, 4}, {2, 0, 4}}), "phase 2", "batch 0", "at least 1 image a step"));
    EXPECT_TRUE(holds(refused({{0, -4, 4}}), "phase 1", "batch -4", "at least 1 image"));
    EXPECT_TRUE(holds(refused({{0, 4, 0}}), "phase 1", "image_side is 1 to"));
    EXPECT_TRUE(holds(refused({{0, 4, 4}, {1, 4, 1 << 20}}), "phase 2", "image_side is 1 to"));
    EXPECT_TRUE(holds(refused({{0, 4, 4}, {1, 21, 4}}), "phase 2", "has 42 images",
                      "training set 40", "at most 20"));
    EXPECT_TRUE(holds(refused({{0, 4, 4}, {1, 2000000000, 4}}), "phase 2", "4000000000 images"));
    auto many = threads(41);
    const std::string more = error_of(
        [&] { (void)Plain({.phases = {{0, 1, 4}}, .evaluate = false}).train(many, squares()); });
    EXPECT_TRUE(holds(more, "there are 41 ranks and 40 training images")) << more;
    EXPECT_FALSE(holds(more, "lower batch")) << "no batch would fit";
    EXPECT_EQ(refused({{0, 4, 4}, {1, 20, 4}}), "no error");
    EXPECT_EQ(refused({{0, 4, 4}, {9, 20, 4}}), "no error") << "it is not reached";
}
/// Two poolings: images of at least 4 x 4.
struct Deep : gx::Network<ImageShape{1, 6, 6}, 3, gx::MaxPool<2>, gx::MaxPool<2>, gx::GlobalAvgPool,
                          gx::Classifier> {
    static constexpr std::string_view name = "Deep";
};
TEST(Phases, NameTheLayerThatAnImageIsTooSmallFor) {
    using T = gx::Trainer<Deep, gx::Ring<fp32>>;
    EXPECT_EQ(refused<T>({{0, 4, 4}, {2, 4, 8}}), "no error");
    EXPECT_TRUE(holds(refused<T>({{0, 4, 4}, {2, 4, 3}}), "phase 2", "images of 1 x 3 x 3",
                      "do not fit Deep", "at least 4 x 4"));
}
TEST(Phases, NameTheParametersThatDependOnTheImage) {
    using T = gx::Trainer<Net, gx::Ring<fp32>>;  // fully connected
    EXPECT_EQ(refused<T>({{0, 4, 6}, {2, 8, 6}}), "no error");
    EXPECT_TRUE(holds(refused<T>({{0, 4, 6}, {2, 4, 8}}), "phase 2", "Mlp<5>",
                      "320 elements with images of 8 x 8", "180 elements with images of 6 x 6",
                      "global pooling"));
}
/// A loader as programs have written them before there were phases.
class FixedSize : public gx::InMemory<> {
public:
    FixedSize(gx::SourceRef source, gx::LoaderOptions o) : InMemory(source, without(o)) {}
    static gx::LoaderOptions without(gx::LoaderOptions o) {
        o.image_side = 0;
        return o;
    }
};
TEST(Phases, NameALoaderThatDoesNotResize) {
    using T = gx::Trainer<Pooled, gx::Ring<fp32>, gx::Warmup<gx::Poly<2>>, FixedSize>;
    EXPECT_TRUE(holds(refused<T>({{0, 4, 6}, {2, 4, 8}}), "phase 2", "FixedSize",
                      "images of 1 x 6 x 6", "the phase has 1 x 8 x 8"));
}
/// A device whose layout depends on the batch.
struct Shifting : gx::reference::Device {
    Shifting(const gx::Graph& graph, gx::DeviceOptions o)
        : Device(graph, o), odd(o.batch % 2 == 1) {}
    void from_canonical(std::span<const float> from, std::span<float> to) const {
        Device::from_canonical(from, to);
        if (odd) std::ranges::reverse(to);
    }
    bool odd;
};
TEST(Phases, NameADeviceWithAnotherLayout) {
    auto wall = threads<Shifting>(2);
    EXPECT_TRUE(holds(error_of([&] {
                          (void)Plain(
                              {.epochs = 2, .phases = {{0, 4, 6}, {1, 3, 6}}, .evaluate = false})
                              .train(wall, squares());
                      }),
                      "phase 2", "Shifting", "lays the parameters out otherwise"));
}

}  // namespace
