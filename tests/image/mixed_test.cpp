#include <gx/image/mixed.hpp>

#include <map>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/loader/prefetch.hpp>              // Prefetched
#include <gx/loader/synthetic.hpp>             // synthetic
#include <gx/model/layers.hpp>                 // Network
#include <gx/reducer/ring.hpp>                 // Ring
#include <gx/sim/catalog/simple_clusters.hpp>  // ethernet_10g
#include <gx/sim/world/cluster.hpp>            // Cluster
#include <gx/sim/world/device.hpp>             // Device
#include <gx/testing/far/device.hpp>           // FarDevice
#include <gx/trainer/trainer.hpp>              // Trainer

#include <trainer/small.hpp>  // images, threads

namespace {

using namespace gx;
using namespace testing_support;

// ---- What the type promises -----------------------------------------------------------------
static_assert(ImageMix<MixUp> && ImageMix<CutMix>);
static_assert(Source<Mixed<Dataset, MixUp>>);

/// An image of one colour for each of five labels.
Dataset colours() {
    Dataset d{.name = "colours", .shape = {3, 4, 6}, .classes = 5};
    for (int i = 0; i < 5; ++i) {
        d.pixels.insert(d.pixels.end(), 72, std::uint8_t(40 * (i + 1)));
        d.labels.push_back(std::uint8_t(i));
    }
    d.mean = {0, 0, 0};
    d.deviation = {1, 1, 1};
    return d;
}

// ---- Cases worked by hand -------------------------------------------------------------------
template <class Mix>
class Mixes : public ::testing::Test {};
using Both = ::testing::Types<MixUp, CutMix>;
TYPED_TEST_SUITE(Mixes, Both);

TYPED_TEST(Mixes, HaveTheSharesOfTheirLabels) {
    const Mixed source(colours(), TypeParam{.alpha = 1}, 7);
    const auto reader = source.open();
    std::vector<Sample> samples(5);
    const std::vector<std::uint32_t> indices{0, 1, 2, 3, 4};
    double shares = 0;
    for (int epoch = 0; epoch < 20; ++epoch) {
        reader->begin_epoch(epoch);
        reader->read(indices, samples);
        for (std::size_t i = 0; i < 5; ++i) {
            const Sample& s = samples[i];
            EXPECT_EQ(s.label, int(i));
            const SampleDraws draws(7, TypeParam::stream, epoch, i);
            EXPECT_EQ(s.second.label, int(partner(draws, 5)));
            shares += s.second.share / 100;
            const int a = 40 * (s.label + 1), b = 40 * (s.second.label + 1);
            double sum = 0;
            for (int p = 0; p < 72; ++p) {
                sum += s.pixels[p] / 72.0;
                if (std::same_as<TypeParam, CutMix>) {
                    EXPECT_TRUE(s.pixels[p] == a || s.pixels[p] == b);
                }
                EXPECT_EQ(s.pixels[p], s.pixels[p % 24]) << "channels alike";
            }
            const double share = double{s.second.share};
            EXPECT_NEAR(sum, (1 - share) * a + share * b, 0.51);
        }
    }
    EXPECT_GT(shares, 0.1);
    EXPECT_LT(shares, 0.7);
}
TYPED_TEST(Mixes, DoNotDependOnWhoReads) {
    const Mixed source(colours(), TypeParam{.alpha = 1}, 7);
    std::map<std::pair<int, int>, std::vector<float>> seen;
    for (const int ranks : {1, 2, 3})
        for (int rank = 0; rank < ranks; ++rank) {
            Prefetched<InMemory<>> loader(source,
                                          LoaderOptions{.batch = 2, .ranks = ranks, .rank = rank});
            for (const int epoch : {0, 3}) {
                loader.begin_epoch(epoch);
                for (std::int64_t s = 0; s < loader.steps_per_epoch(); ++s) {
                    const Batch b = loader.next().batch;
                    ASSERT_EQ(b.second_labels.size(), b.labels.size());
                    for (std::size_t i = 0; i < b.labels.size(); ++i) {
                        std::vector<float> all(&b.images[72 * i], &b.images[72 * i] + 72);
                        all.push_back(b.second_labels[i].share);
                        all.push_back(float(b.second_labels[i].label));
                        const auto [kept, first] = seen.try_emplace({epoch, b.labels[i]}, all);
                        EXPECT_EQ(kept->second, all);
                    }
                }
            }
        }
    EXPECT_EQ(seen.size(), 10u);
}

// ---- Training -------------------------------------------------------------------------------
template <class... More>
using T = Trainer<Net, Ring<fp32>, Constant, More...>;
RunRecord trained(auto&& world, const SourceRef& train, const Split& data, T<>::Options o) {
    return T<>(o).train(world, Sources{train, data.test});
}
T<>::Options options() {
    T<>::Options o{.batch = 3, .epochs = 3, .seed = 3, .label_smoothing = 0.1};
    o.scheduler = {.peak_rate = 0.05f};
    return o;
}
TEST(MixedTraining, IsTheSameInEveryWorldAndResumes) {
    const Split data = images();
    const Mixed train(data.train, MixUp{.alpha = 1}, 7);
    const Folder folder;
    T<>::Options o = options();
    o.output = folder.path;
    const RunRecord expected = trained(threads(3), train, data, o);
    o.output.clear();
    EXPECT_NE(trained(threads(3), data.train, data, o).weights_hash, expected.weights_hash);
    expect_same_learning(
        trained(sim::Cluster<reference::Device>(sim::ethernet_10g(3), {}), train, data, o),
        expected);
    using Far = gx::testing::FarWorld<gx::testing::FarDevice<reference::Device>>;
    expect_same_learning(trained(Far({{3, 1}, 1}), train, data, o), expected);
    o.resume = folder / checkpoint_name(1).c_str();
    expect_same_learning(trained(threads(3), train, data, o), expected);

    const Mixed weaker(data.train, MixUp{.alpha = 0.5}, 7);
    const Mixed seeded(data.train, MixUp{.alpha = 1}, 8);
    const Mixed cut(data.train, CutMix{.alpha = 1}, 7);
    for (const SourceRef other : {SourceRef(weaker), SourceRef(seeded), SourceRef(cut)})
        EXPECT_TRUE(holds(error_of([&] { (void)trained(threads(3), other, data, o); }),
                          "other images", "mixed, normalised or"));
}
struct Pooled : Network<ImageShape{1, 4, 4}, 3, Conv<2, 3, 1, 1>, GlobalAvgPool, Classifier> {
    static constexpr std::string_view name = "Pooled";
};
TEST(MixedTraining, OfPhasesReadsTheirSize) {
    const Split data = images();
    const Mixed train(data.train, CutMix{}, 7);
    using P = Trainer<Pooled, Ring<fp32>, Constant>;
    auto wall = threads(2);
    const RunRecord r =
        P({.epochs = 2, .phases = {{0, 3, 4}, {1, 5, 7}}}).train(wall, Sources{train, data.test});
    EXPECT_EQ(r.phases.size(), 2u);
    EXPECT_GT(r.epochs[1].train_loss, 0);
}

// ---- Faults ---------------------------------------------------------------------------------
struct OneLabel : reference::Device {
    using reference::Device::Device;
    static constexpr bool takes_second_labels = false;
};
TEST(MixedTraining, NeedsADeviceAndATestSetThatItCanBe) {
    const Split data = images();
    const Mixed train(data.train, MixUp{}, 7), test(data.test, MixUp{}, 7);
    auto wall = threads<OneLabel>(2);
    EXPECT_TRUE(holds(error_of([&] { (void)trained(wall, train, data, options()); }),
                      "training set", "mixes its images", "OneLabel", "takes_second_labels"));
    auto right = threads(2);
    EXPECT_TRUE(
        holds(error_of([&] { (void)T<>(options()).train(right, Sources{data.train, test}); }),
              "test set", "mixes its images"));
    T<>::Options o = options();
    o.evaluate = false;
    EXPECT_EQ(T<>(o).train(right, Sources{train, test}).epochs.size(), 3u);
}
TEST(MixedSamples, AreNotMixedAgain) {
    const Mixed once(colours(), MixUp{.alpha = 1}, 7);
    const Mixed twice(once, CutMix{}, 8);
    EXPECT_TRUE(holds(error_of([&] { InMemory<>(twice, {.batch = 2}); }), "'colours'",
                      "mixed already", "takes two labels an image"));
}
/// A second label that no class has.
struct Wrong {
    Dataset data = colours();
    [[nodiscard]] SourceInfo info() const { return data.info(); }
    [[nodiscard]] static bool mixes() { return true; }
    struct Reader final : SampleReader {
        std::vector<std::uint8_t> pixels = std::vector<std::uint8_t>(72);
        void read(std::span<const std::uint32_t>, std::span<Sample> out) override {
            for (Sample& s : out) s = {pixels.data(), 0, {3, 4, 6}, {5, 0.5f}};
        }
    };
    [[nodiscard]] std::unique_ptr<SampleReader> open() const { return std::make_unique<Reader>(); }
};
TEST(MixedSamples, NameASecondLabelThatNoClassHas) {
    const Wrong wrong;
    InMemory<> loader(wrong, {.batch = 2});
    loader.begin_epoch(0);
    EXPECT_TRUE(holds(error_of([&] { (void)loader.next(); }), "'colours'", "a second label 5",
                      "labels of 5 classes are 0 to 4"));
}

}  // namespace
