// Batches of 8-bit pixels: the bits of normalised floats, at a quarter of the copy.
#include <gx/trainer/trainer.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/loader/prefetch.hpp>              // Prefetched
#include <gx/loader/record_file.hpp>           // RecordFile
#include <gx/model/layers.hpp>                 // Network
#include <gx/reducer/double_buffered.hpp>      // DoubleBuffered
#include <gx/reducer/ring.hpp>                 // Ring
#include <gx/sim/catalog/simple_clusters.hpp>  // ethernet_10g
#include <gx/sim/world/cluster.hpp>            // Cluster
#include <gx/sim/world/device.hpp>             // Device
#include <gx/testing/far/device.hpp>           // FarDevice

#include <trainer/small.hpp>  // threads, Folder

namespace {

using namespace testing_support;
using gx::fp32;
using gx::ImageShape;
using Cluster = gx::sim::Cluster<gx::reference::Device>;
using Far = gx::testing::FarWorld<gx::testing::FarDevice<gx::reference::Device>>;
using Loaded = gx::Prefetched<gx::InMemory<gx::PadCrop<1>, gx::Flip>>;
struct Coloured : gx::Network<ImageShape{3, 6, 6}, 3, gx::Conv<4, 3, 1, 1>, gx::BatchNorm, gx::ReLU,
                              gx::GlobalAvgPool, gx::Classifier> {
    static constexpr std::string_view name = "Coloured";
};
using T =
    gx::Trainer<Coloured, gx::DoubleBuffered<gx::Ring<fp32>>, gx::Warmup<gx::Poly<2>>, Loaded>;

/// Three channels of unlike mean and deviation.
gx::Split colours() {
    gx::Split data = gx::synthetic({.shape = {3, 6, 6},
                                    .classes = 3,
                                    .train_count = 40,
                                    .test_count = 12,
                                    .noise = 80,
                                    .seed = 5});
    for (gx::Dataset* set : {&data.train, &data.test}) {
        for (std::size_t i = 0; i < set->pixels.size(); ++i)
            set->pixels[i] = std::uint8_t(set->pixels[i] / (1 + i / 36 % 3));
        gx::normalise_as(*set, data.train);
    }
    return data;
}

static_assert(gx::TakesPixels<gx::reference::Device>);
static_assert(gx::TakesPixels<gx::sim::Device<gx::reference::Device>>);
static_assert(gx::TakesPixels<Far::Rank::Device>);

// ---- The loader hands over bytes; normalised they are its floats, to the bit -------------------
TEST(Pixels, AreTheFloatsOfALoaderThatNormalises) {
    EXPECT_TRUE(rc::check([] {
        const gx::Split data = colours();
        gx::LoaderOptions o{.batch = *rc::gen::inRange(1, 9),
                            .ranks = *rc::gen::inRange(1, 4),
                            .rank = 0,
                            .seed = *rc::gen::arbitrary<std::uint64_t>(),
                            .image_side = *rc::gen::inRange(0, 9)};
        gx::InMemory<gx::PadCrop<2>, gx::Flip> floats(data.train, o);
        o.pixels = true;
        gx::Prefetched<gx::InMemory<gx::PadCrop<2>, gx::Flip>> bytes(data.train, o);
        floats.begin_epoch(3);
        bytes.begin_epoch(3);
        for (std::int64_t s = 0; s < floats.steps_per_epoch(); ++s) {
            const gx::Batch a = floats.next().batch, b = bytes.next().batch;
            RC_ASSERT(b.images.empty() && a.pixels.empty());
            RC_ASSERT(b.pixels.size() == a.images.size());
            RC_ASSERT(b.values.size() == 3u * 256);
            std::vector<float> normalised(b.elements(), -7.0f);
            gx::normalise_into(b, normalised.data());
            RC_ASSERT(std::ranges::equal(normalised, a.images));
            RC_ASSERT(std::ranges::equal(a.labels, b.labels));
        }
    }));
}

// ---- A run learns the same ---------------------------------------------------------------------
TEST(Pixels, LearnAsFloatsDoInEveryWorld) {
    const gx::Split data = colours();
    const Folder folder;
    gx::write_records(folder / "train", data.train);
    gx::write_records(folder / "test", data.test);
    const gx::RecordFile train(folder / "train"), test(folder / "test");
    T::Options o{.batch = 4, .epochs = 3, .seed = 3};
    for (const bool phases : {false, true}) {
        if (phases) o.phases = {{0, 4, 4}, {2, 3, 6}};
        o.pixels = false;
        auto wall = threads(3);
        const gx::RunRecord expected = T(o).train(wall, data);
        o.pixels = true;
        expect_same_learning(T(o).train(wall, data), expected);
        expect_same_learning(T(o).train(wall, gx::Sources{train, test}), expected);
        Cluster cluster(gx::sim::ethernet_10g(3), {.copy_inputs = true});
        expect_same_learning(T(o).train(cluster, data), expected);
        Far far({{3, 1}, 1, gx::testing::QueueProgress::random});
        expect_same_learning(T(o).train(far, data), expected);
    }
}
TEST(Pixels, ResumeARunOfFloats) {
    const Folder folder;
    auto wall = threads(2);
    T::Options o{.batch = 4, .epochs = 3, .seed = 3, .output = folder.path};
    const gx::RunRecord whole = T(o).train(wall, colours());
    o.output.clear();
    o.pixels = true;
    o.resume = folder / "epoch-0001.safetensors";
    const gx::RunRecord r = T(o).train(wall, colours());
    expect_same_learning(r, whole);
    EXPECT_EQ(r.notes, whole.notes);
}

// ---- The simulated copy takes the time of the bytes that are moved -----------------------------

struct Huge : gx::Network<ImageShape{1, 4, 4}, 3, gx::MaxPool<4>, gx::Classifier> {
    static constexpr std::string_view name = "Huge";
};
/// Virtual seconds that the first pass waits for its batch of a million pixels.
double first_copy(bool pixels, gx::sim::Precision compute) {
    const gx::Graph timed = gx::graph<Huge>({.input = {1, 4, 4}, .classes = 3});
    Cluster cluster(gx::sim::ethernet_10g(1), {.compute = compute, .copy_inputs = true});
    double copied = 0;
    cluster.run([&](auto& rank) {
        constexpr int count = 62'500;  // of 16 numbers
        auto device = rank.make_device(timed, {.batch = count});
        const std::vector<float> floats(pixels ? 0 : 16 * count), values(256, 0.0f);
        const std::vector<std::uint8_t> bytes(pixels ? 16 * count : 0);
        const std::vector<std::int32_t> labels(count);
        const gx::Batch batch{
            .images = floats,
            .labels = labels,
            .count = count,
            .pixels = bytes,
            .values = pixels ? std::span<const float>(values) : std::span<const float>()};
        const gx::Nanoseconds begin = rank.now();
        (void)device->forward(batch, gx::Mode::evaluate);
        copied = gx::seconds(rank.now() - begin) - gx::seconds(device->times().forward(count));
    });
    return copied;
}
TEST(Pixels, CrossToTheGpuInAQuarterOfTheTime) {
    const double rate = gx::sim::ethernet_10g(1).machine.host_bandwidth.count;
    ASSERT_GT(rate, 1e9);
    EXPECT_NEAR(first_copy(true, gx::sim::Precision::fp32), 1e6 / rate, 2e-9);
    EXPECT_NEAR(first_copy(false, gx::sim::Precision::fp32), 4e6 / rate, 2e-9);
    EXPECT_NEAR(first_copy(true, gx::sim::Precision::mixed), 1e6 / rate, 2e-9);
    EXPECT_NEAR(first_copy(false, gx::sim::Precision::mixed), 2e6 / rate, 2e-9);
}

// ---- Faults ------------------------------------------------------------------------------------

/// A device as programs have written them before there were pixels.
struct FloatsOnly : gx::reference::Device {
    using gx::reference::Device::Device;
    static constexpr bool takes_pixels = false;
};
TEST(Pixels, NeedADeviceThatTakesThem) {
    auto wall = threads<FloatsOnly>(2);
    EXPECT_EQ(T({.batch = 4}).train(wall, colours()).epochs.size(), 1u);
    EXPECT_TRUE(
        holds(error_of([&] { (void)T({.batch = 4, .pixels = true}).train(wall, colours()); }),
              "pixels is true", "FloatsOnly", "takes_pixels"));
}

}  // namespace
