// Gradient accumulation: how a batch is cut, and runs that sum the gradients of its parts.
#include <gx/trainer/rank/micro_batches.hpp>  // first, so the header is seen to stand alone

#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/model/layers.hpp>                     // Network
#include <gx/model/resnet.hpp>                     // ResNet50
#include <gx/reducer/bucketed.hpp>                 // Bucketed
#include <gx/reducer/double_buffered.hpp>          // DoubleBuffered
#include <gx/reducer/ring.hpp>                     // Ring
#include <gx/sharded/reducer.hpp>                  // Sharded
#include <gx/sim/catalog/simple_clusters.hpp>      // ethernet_10g
#include <gx/sim/compute/gpu_memory.hpp>           // parameter_need
#include <gx/sim/compute/vector_kernels.hpp>       // VectorKernels
#include <gx/sim/world/cluster.hpp>                // Cluster
#include <gx/sim/world/device.hpp>                 // Device
#include <gx/testing/far/device.hpp>               // FarDevice
#include <gx/trainer/trainer.hpp>                  // Trainer
#include <trainer/rank/micro_batches_fixture.hpp>  // PyTorch's steps
#include <trainer/small.hpp>                       // threads, Folder

namespace {

using namespace testing_support;
using gx::fp16;
using gx::fp32;
using gx::detail::trainer::MicroBatches;
using Cluster = gx::sim::Cluster<gx::reference::Device>;
using Far = gx::testing::FarWorld<gx::testing::FarDevice<gx::reference::Device>>;

// ---- How a batch is cut --------------------------------------------------------------------

/// Image i holds the number i in each of its values, label i, and second label i + 1.
struct Numbered {
    Numbered(int count, int elements)
        : images(std::size_t(count * elements)),
          pixels(images.size()),
          values(256),
          labels(std::size_t(count)),
          second(labels.size()) {
        for (std::size_t i = 0; i < images.size(); ++i) {
            images[i] = float(int(i) / elements);
            pixels[i] = std::uint8_t(int(i) / elements);
        }
        for (std::size_t i = 0; i < labels.size(); ++i) {
            labels[i] = std::int32_t(i);
            second[i].label = std::int32_t(i + 1);
        }
    }
    std::vector<float> images;
    std::vector<std::uint8_t> pixels;
    std::vector<float> values;
    std::vector<std::int32_t> labels;
    std::vector<gx::SecondLabel> second;
};

TEST(MicroBatches, OfFiveImagesByTwo) {
    const Numbered all(5, 3);
    const gx::Batch whole{.images = all.images, .labels = all.labels, .count = 5, .draw = 7};
    const MicroBatches parts(whole, 2, 3);
    ASSERT_EQ(parts.count(), 3);
    const auto expect = [&](int part, std::vector<std::int32_t> labels, std::uint64_t draw) {
        const gx::Batch b = parts[part];
        EXPECT_EQ(b.count, int(labels.size()));
        EXPECT_EQ(std::vector(b.labels.begin(), b.labels.end()), labels);
        ASSERT_EQ(b.images.size(), labels.size() * 3);
        EXPECT_EQ(b.images.front(), float(labels.front()));
        EXPECT_EQ(b.images.back(), float(labels.back()));
        EXPECT_EQ(b.draw, draw);
    };
    expect(0, {0, 1}, 21);
    expect(1, {2, 3}, 22);
    expect(2, {4}, 23);
}
TEST(MicroBatches, OfNoImagesAreOneWithout) {
    const MicroBatches parts({.draw = 7}, 2, 3);
    ASSERT_EQ(parts.count(), 1);
    EXPECT_EQ(parts[0].count, 0);
    EXPECT_EQ(parts[0].draw, 21u);
}
TEST(MicroBatches, OfOneAreTheBatch) {
    const Numbered all(4, 1);
    const gx::Batch whole{.images = all.images, .labels = all.labels, .count = 4, .draw = 9};
    const MicroBatches parts(whole, 4, 1);
    ASSERT_EQ(parts.count(), 1);
    EXPECT_EQ(parts[0].draw, 9u);
    EXPECT_EQ(parts[0].images.data(), whole.images.data());
    EXPECT_EQ(parts[0].images.size(), whole.images.size());
}
TEST(MicroBatches, HaveEveryImageOnceInOrder) {
    EXPECT_TRUE(rc::check([] {
        const int most = *rc::gen::inRange(1, 6), in_full = *rc::gen::inRange(1, 5);
        const int count = *rc::gen::inRange(0, most * in_full + 1);
        const int elements = *rc::gen::inRange(1, 4);
        const bool as_pixels = *rc::gen::arbitrary<bool>(), mixed = *rc::gen::arbitrary<bool>();
        const Numbered all(count, elements);
        gx::Batch whole{.labels = all.labels, .count = count, .draw = 2};
        if (as_pixels) whole.pixels = all.pixels, whole.values = all.values;
        else whole.images = all.images;
        if (mixed) whole.second_labels = all.second;
        const MicroBatches parts(whole, most, in_full);
        int next = 0;
        for (int p = 0; p < parts.count(); ++p) {
            const gx::Batch b = parts[p];
            RC_ASSERT(b.elements() == std::size_t(b.count * elements));
            RC_ASSERT(b.labels.size() == std::size_t(b.count));
            RC_ASSERT(b.second_labels.size() == std::size_t(mixed ? b.count : 0));
            RC_ASSERT(b.values.size() == whole.values.size());
            RC_ASSERT(p + 1 == parts.count() || b.count == most);
            for (int i = 0; i < b.count; ++i, ++next) {
                const auto at = std::size_t(i), first = at * std::size_t(elements);
                RC_ASSERT(b.labels[at] == next);
                if (mixed) RC_ASSERT(b.second_labels[at].label == next + 1);
                RC_ASSERT((as_pixels ? float(b.pixels[first]) : b.images[first]) == float(next));
            }
        }
        RC_ASSERT(next == count);
    }));
}

// ---- Runs ------------------------------------------------------------------------------------

/// Samples of given values, whose order of reading is kept.
struct Exact {
    std::vector<std::vector<float>> images;
    std::vector<int> labels;
    std::vector<std::uint32_t>* order = nullptr;
    struct Reader : gx::SampleReader {
        explicit Reader(const Exact& of) : source(of) {}
        void read(std::span<const std::uint32_t> indices, std::span<gx::Sample> out) override {
            for (std::size_t i = 0; i < indices.size(); ++i) {
                out[i] = {.label = source.labels[indices[i]],
                          .shape = {1, 4, 4},
                          .values = source.images[indices[i]].data()};
                if (source.order != nullptr) source.order->push_back(indices[i]);
            }
        }
        const Exact& source;
    };
    [[nodiscard]] gx::SourceInfo info() const {
        return {.name = "exact",
                .count = std::ssize(images),
                .shape = {1, 4, 4},
                .classes = 1 + *std::ranges::max_element(labels),
                .mean = {0},
                .deviation = {1}};
    }
    [[nodiscard]] std::unique_ptr<gx::SampleReader> open() const {
        return std::make_unique<Reader>(*this);
    }
};
static_assert(gx::Source<Exact>);
/// The fixture's images: multiples of 1 / 64.
Exact exact(int count, int classes) {
    Exact data;
    for (int i = 0; i < count; ++i) {
        auto& image = data.images.emplace_back();
        for (int j = 0; j < 16; ++j) image.push_back(float((i * 37 + j * 101) % 129 - 64) / 64);
        data.labels.push_back(i % classes);
    }
    return data;
}
/// The reference device starts at zeros, and so does this file.
std::filesystem::path weights_of(const Folder& folder, const gx::Graph& graph, auto value) {
    gx::Weights w = gx::initial_weights(graph, 1);
    for (std::size_t k = 0; k < w.parameters.size(); ++k) w.parameters[k] = value(int(k));
    gx::write_weights(folder / "start", graph, w);
    return folder / "start";
}

// Logits of zeros give each of four classes a quarter, and images are multiples of 1 / 64: all
// sums of the first step are exact, so how they are cut leaves no trace.
struct Linear : gx::Network<gx::ImageShape{1, 4, 4}, 4, gx::Classifier> {
    static constexpr std::string_view name = "Linear";
};
TEST(Accumulation, OfExactSumsHasTheBitsOfOneBatch) {
    using T = gx::Trainer<Linear, gx::Ring<fp32>, gx::Constant>;
    const Exact data = exact(16, 4);
    const Folder folder;
    T::Options o{.batch = 8, .seed = 7, .scheduler = {.peak_rate = 0.5f}, .evaluate = false};
    o.weights.file = weights_of(folder, gx::graph<Linear>(), [](int) { return 0.0f; });
    auto world = threads(2);
    const auto trained = [&](int micro_batches) {
        o.micro_batches = micro_batches;
        return T(o).train(world, gx::Sources{data, {}});
    };
    const gx::RunRecord whole = trained(1);
    ASSERT_EQ(whole.steps.size(), 1u);
    for (const int k : {2, 4, 8}) {
        const gx::RunRecord parts = trained(k);
        EXPECT_EQ(parts.weights_hash, whole.weights_hash) << k;
        EXPECT_NEAR(parts.steps[0].loss, std::log(4.0), 1e-14);
        EXPECT_EQ(parts.images, whole.images);
        EXPECT_EQ(parts.bytes_sent_per_step, whole.bytes_sent_per_step) << "one reduction";
    }
}

// Devices, loaders and the optimizer by hand, on one thread; a mean of two ranks has one order.
// Dropout draws for each part.
TEST(Accumulation, IsTheSumOfItsPartsByHand) {
    constexpr int parts = 3, part = 2, epochs = 4;
    const gx::Split data = images(38);  // a step of one image a rank ends each epoch
    using T = gx::Trainer<EveryRoleWithDropout, gx::Ring<fp32>, gx::Constant>;
    const T trainer({.batch = parts * part,
                     .epochs = epochs,
                     .micro_batches = parts,
                     .seed = 7,
                     .scheduler = {.peak_rate = 0.125f},
                     .evaluate = false});
    auto world = threads(2);
    const gx::RunRecord run = trainer.train(world, data);

    const gx::Graph graph = gx::graph<EveryRoleWithDropout>();
    const auto n = std::size_t(graph.parameter_elements());
    std::vector<std::unique_ptr<gx::reference::Device>> devices;
    std::vector<gx::InMemory<>> loaders;
    loaders.reserve(2);
    for (int r = 0; r < 2; ++r) {
        devices.push_back(std::make_unique<gx::reference::Device>(
            graph, gx::DeviceOptions{.batch = part, .seed = 7, .rank = r}));
        loaders.emplace_back(
            data.train, gx::LoaderOptions{.batch = parts * part, .ranks = 2, .rank = r, .seed = 7});
        const gx::Weights w = gx::initial_weights(graph, 7);
        devices[std::size_t(r)]->update(
            [&](std::span<float> p) { std::ranges::copy(w.parameters, p.begin()); });
        std::ranges::copy(w.statistics, devices[std::size_t(r)]->statistics().begin());
    }
    gx::Sgd sgd({});
    sgd.reserve(n, devices[0]->slices(), graph);
    std::vector<float> state(n);
    std::int64_t step = 0;
    for (int epoch = 0; epoch < epochs; ++epoch) {
        for (auto& l : loaders) l.begin_epoch(epoch);
        for (std::int64_t s = 0; s < loaders[0].steps_per_epoch(); ++s, ++step) {
            std::vector<float> sum(n);
            double loss = 0, images = 0;
            for (std::size_t r = 0; r < 2; ++r) {
                const gx::RankBatch next = loaders[r].next();
                images = double(next.global_count);
                std::vector<float> mine(n), one(n);
                for (int first = 0; first < next.batch.count; first += part) {
                    const int count = std::min(part, next.batch.count - first);
                    const gx::Batch b{
                        .images = next.batch.images.subspan(std::size_t(first) * 16,
                                                            std::size_t(count) * 16),
                        .labels = next.batch.labels.subspan(std::size_t(first), std::size_t(count)),
                        .count = count,
                        .draw = next.batch.draw * parts + std::uint64_t(first / part)};
                    loss += devices[r]->forward(b, gx::Mode::train).loss_sum;
                    devices[r]->backward(2.0f / float(next.global_count), one, [](std::size_t) {});
                    for (std::size_t i = 0; i < n; ++i) mine[i] += one[i];
                }
                for (std::size_t i = 0; i < n; ++i) sum[i] += mine[i];
            }
            for (float& g : sum) g /= 2;
            for (auto& d : devices) {
                const std::vector<float> before = state;
                d->update([&](std::span<float> p) {
                    sgd.update({.parameters = p,
                                .gradients = sum,
                                .state = state,
                                .slices = d->slices(),
                                .rate = 0.125f,
                                .step = step});
                });
                if (&d != &devices.back()) state = before;
            }
            EXPECT_NEAR(run.steps[std::size_t(step)].loss, loss / images, 1e-12);
        }
        // Both go on with the mean of the statistics; each had as many images.
        const auto a = devices[0]->statistics(), b = devices[1]->statistics();
        for (std::size_t i = 0; i < a.size(); ++i)
            a[i] = b[i] = float((double(a[i]) * 19 + double(b[i]) * 19) / 38);
    }
    ASSERT_EQ(std::ssize(run.steps), step);
    EXPECT_EQ(run.weights_hash, gx::hash_bits(devices[0]->parameters()));
}

// ---- PyTorch ---------------------------------------------------------------------------------

TEST(Accumulation, TakesTheStepsOfPyTorch) {
    using T = gx::Trainer<EveryRole, gx::Ring<fp32>, gx::Constant>;
    namespace fixture = gx::testing::micro_batches;
    std::vector<std::uint32_t> order;
    Exact data = exact(12, 3);
    data.order = &order;
    const Folder folder;
    const gx::Graph graph = gx::graph<EveryRole>();
    T::Options o{.batch = 12,
                 .epochs = 5,
                 .micro_batches = 3,
                 .seed = 7,
                 .scheduler = {.peak_rate = 0.125f},
                 .optimizer = {.weight_decay = 0},
                 .output = folder / "out",
                 .evaluate = false};
    o.weights.file =
        weights_of(folder, graph, [](int k) { return float((k * 53) % 97 - 48) / 128; });
    auto world = threads(1);
    (void)T(o).train(world, gx::Sources{data, {}});
    const std::span<const unsigned> expected(&fixture::order[0][0], 60);
    EXPECT_TRUE(std::ranges::equal(order, expected))
        << "the loader's order is another one: write it into micro_batches_fixture.py:\n"
        << [&] {
               std::string text;
               for (std::size_t i = 0; i < order.size(); ++i)
                   text += std::to_string(order[i]) + (i % 12 == 11 ? "\n" : ", ");
               return text;
           }();
    const gx::Checkpoint end = gx::read_checkpoint(folder / "out" / gx::checkpoint_name(5), graph);
    // Parameters of about 1, stored in fp32: 5 updates with a velocity, each rounded twice.
    constexpr double bound = 5 * 4 * 0x1p-24;
    ASSERT_EQ(end.parameters.size(), std::size(fixture::parameters));
    for (std::size_t i = 0; i < end.parameters.size(); ++i)
        EXPECT_NEAR(end.parameters[i], fixture::parameters[i], bound) << i;
    ASSERT_EQ(end.statistics.size(), std::size(fixture::statistics));
    for (std::size_t i = 0; i < end.statistics.size(); ++i)
        EXPECT_NEAR(end.statistics[i], fixture::statistics[i], 2 * bound) << i;
}

// ---- Every world, late gradients, skipped steps, phases ---------------------------------------

struct Pooled : gx::Network<gx::ImageShape{1, 4, 4}, 3, gx::Conv<4, 3, 1, 1>, gx::BatchNorm,
                            gx::ReLU, gx::GlobalAvgPool, gx::Classifier> {
    static constexpr std::string_view name = "Pooled";
};

template <class R>
using Late = gx::Trainer<Pooled, R, gx::Warmup<gx::Poly<2>>>;
template <class T>
typename T::Options phased() {
    typename T::Options o;
    o.epochs = 3;
    o.micro_batches = 3;
    o.phases = {{0, 6, 4}, {2, 3, 6}};
    o.seed = 5;
    if constexpr (requires { o.loss_scale.growth_interval; })
        o.loss_scale = {.initial = 1 << 21, .growth_interval = 3};  // the first steps overflow
    return o;
}
template <class T>
class EveryWorld : public ::testing::Test {};
using Compositions =
    ::testing::Types<Late<gx::Bucketed<gx::Ring<fp32>, 16>>,
                     Late<gx::DoubleBuffered<gx::Ring<fp16>>>, Late<gx::Sharded<gx::Ring<fp32>>>>;
TYPED_TEST_SUITE(EveryWorld, Compositions);

// 38 images: one of three ranks has none in the last step of the first phase's epochs.
TYPED_TEST(EveryWorld, HasTheSameBits) {
    using T = TypeParam;
    const gx::Split data = images(38);
    typename T::Options o = phased<T>();
    auto wall = threads(3);
    const gx::RunRecord expected = T(o).train(wall, data);
    const bool overflows = requires { o.loss_scale.growth_interval; };
    EXPECT_EQ(expected.skipped_steps > 0, overflows) << "one part's overflow skips the step";
    Cluster cluster(gx::sim::ethernet_10g(3));
    expect_same_learning(T(o).train(cluster, data), expected);
    for (const auto progress : {gx::testing::QueueProgress::late, gx::testing::QueueProgress::eager,
                                gx::testing::QueueProgress::random}) {
        Far far({{3, 1}, 1, progress});
        expect_same_learning(T(o).train(far, data), expected);
    }
    o.pixels = true;
    expect_same_learning(T(o).train(wall, data), expected);
}
TYPED_TEST(EveryWorld, GoesOnFromACheckpointWithinAnEpoch) {
    using T = TypeParam;
    const gx::Split data = images(38);
    const Folder folder;
    typename T::Options o = phased<T>();
    o.output = folder.path;
    o.checkpoints.every_steps = 1;
    auto wall = threads(3);
    const gx::RunRecord whole = T(o).train(wall, data);
    for (const std::int64_t step : {1, 4, 8}) {
        o.output.clear();
        o.checkpoints = {};
        o.resume = folder.path / gx::step_checkpoint_name(step);
        const gx::RunRecord again = T(o).train(wall, data);
        expect_same_learning(again, whole);
        EXPECT_EQ(again.notes, whole.notes);
    }
}

// ---- The simulated cluster ---------------------------------------------------------------------

TEST(SimulatedAccumulation, TakesTheTimeOfItsPassesAndSums) {
    using T = gx::Trainer<Linear, gx::Ring<fp32>, gx::Constant>;
    const Exact data = exact(16, 4);
    const auto spec = gx::sim::ethernet_10g(1);
    T::Options o{.batch = 8, .evaluate = false};
    gx::Nanoseconds pass{}, update{};
    Cluster(spec).run([&](auto& rank) {
        const auto device = rank.make_device(gx::graph<Linear>(), {.batch = 2});
        pass = rank.undisturbed_pass(2);
        update = rank.undisturbed_update();
    });
    // All gradients of this network become final at once: three sums, each of two vectors read and
    // one written.
    const auto sum = gx::sim::VectorKernels(spec.machine.gpu)
                         .time(gx::Bytes{3 * 4 * gx::graph<Linear>().parameter_elements()});
    o.micro_batches = 4;
    Cluster cluster(spec);
    const gx::RunRecord r = T(o).train(cluster, gx::Sources{data, {}});
    EXPECT_NEAR(r.breakdown.compute, gx::seconds(2 * (4 * pass + 3 * sum + update)), 1e-12);
    EXPECT_NEAR(r.undisturbed_seconds, r.breakdown.compute, 1e-12) << "sums disturb no pass";
    EXPECT_EQ(r.images, 16);
}
TEST(SimulatedAccumulation, TimesAPartOfTheTimedBatch) {
    using T = gx::Trainer<Pooled, gx::Ring<fp32>, gx::Constant>;
    const gx::Split data = images(32);
    const auto rate = [&](int batch, int timed, int micro_batches) {
        Cluster cluster(gx::sim::ethernet_10g(2),
                        {.timed_as = gx::graph<gx::ResNet50>(), .timed_batch = timed});
        T::Options o{.batch = batch, .evaluate = false};
        o.micro_batches = micro_batches;
        return T(o).train(cluster, data).images_per_second;
    };
    const double whole = rate(8, 64, 1), parts = rate(8, 64, 4), small = rate(2, 16, 1);
    EXPECT_LT(parts, whole) << "passes of 16 images, and sums";
    EXPECT_GT(parts, small) << "a reduction and an update for four of them";
    EXPECT_NEAR(parts / whole, 1, 0.3);
}
TEST(SimulatedAccumulation, FitsWhereTheWholeBatchDoesNot) {
    using T = gx::Trainer<Pooled, gx::Ring<fp32>, gx::Constant>;
    const gx::Split data = images(32);
    T::Options o{.batch = 16, .evaluate = false};
    const auto error = [&] {
        Cluster cluster(gx::sim::ethernet_10g(1),
                        {.timed_as = gx::graph<gx::ResNet50>(), .timed_batch = 1024});
        return error_of([&] { (void)T(o).train(cluster, data); });
    };
    EXPECT_TRUE(holds(error(), "a batch of 1024 images of ResNet50 does not fit"));
    o.micro_batches = 16;
    EXPECT_EQ(error(), "no error");
    const gx::Graph graph = gx::graph<gx::ResNet50>();
    const auto need = [&](int parts) {
        return gx::sim::parameter_need(graph, gx::sim::Precision::fp32, {.micro_batches = parts})
            .count;
    };
    EXPECT_EQ(need(2) - need(1), 4 * graph.parameter_elements()) << "the sum";
    EXPECT_EQ(need(9), need(2));
}

// ---- Bad input, notes -----------------------------------------------------------------------

TEST(Accumulation, RefusesABatchWithoutSuchParts) {
    using T = gx::Trainer<Pooled, gx::Ring<fp32>, gx::Constant>;
    auto world = threads(2);
    const auto error = [&](T::Options o) {
        return error_of([&] { (void)T(o).train(world, images()); });
    };
    EXPECT_TRUE(holds(error({.batch = 4, .micro_batches = 0}),
                      "micro_batches is 0: a batch is computed in at least 1 part"));
    EXPECT_TRUE(holds(error({.batch = 4, .micro_batches = 3}),
                      "batch 4 has no 3 parts of one size: let micro_batches divide it"));
    const std::string phases =
        error({.micro_batches = 2, .phases = {{0, 4, 4}, {1, 3, 4}}, .seed = 1});
    EXPECT_TRUE(holds(phases,
                      "phase 2 (from epoch 1: batch 3, images of 4 x 4): batch 3 has no 2 "
                      "parts of one size"));
    EXPECT_FALSE(holds(phases, "phase 1 (")) << phases;
}
TEST(Accumulation, StandsInTheRecordAndInWhatAResumeChanges) {
    using T = gx::Trainer<Pooled, gx::Ring<fp32>, gx::Constant>;
    auto world = threads(2);
    const Folder folder;
    T::Options o{.batch = 4, .epochs = 2, .output = folder.path};
    EXPECT_TRUE(T(o).train(world, images()).notes.empty());
    o.output.clear();
    o.resume = folder.path / gx::checkpoint_name(1);
    o.micro_batches = 2;
    const auto notes = T(o).train(world, images()).notes;
    ASSERT_EQ(notes.size(), 2u);
    EXPECT_EQ(notes[0],
              "Each rank's batch is computed in 2 micro-batches, whose gradients are summed.");
    EXPECT_TRUE(holds(notes[1], "with other options: micro_batches is 2 instead of one not kept"));
}

}  // namespace
