#include <gx/trainer/features.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>

#include <gx/image/mix.hpp>        // MixUp
#include <gx/image/mixed.hpp>      // Mixed
#include <gx/loader/augment.hpp>   // Flip
#include <gx/loader/prefetch.hpp>  // Prefetched
#include <gx/model/layers.hpp>     // Network
#include <gx/reducer/ring.hpp>     // Ring
#include <gx/trainer/trainer.hpp>  // Trainer
#include <trainer/small.hpp>       // images, Threads

namespace {

using namespace testing_support;
using namespace gx;
using reference::Device;

struct Deep
    : Network<ImageShape{1, 4, 4}, 3, Named<"stem", Conv<6, 3, 1, 1>>, Named<"norm", BatchNorm>,
              ReLU, Named<"block", Residual<Conv<6, 3, 1, 1>, BatchNorm>>, ReLU, GlobalAvgPool,
              Named<"fc", Classifier>> {
    static constexpr std::string_view name = "Deep";
};

/// Weights without zeros, and running statistics of a network that has been trained.
Weights trained(const Graph& g) {
    Weights w = initial_weights(g, 5);
    const Rng r(5, "statistics");
    for (std::size_t i = 0; i < w.statistics.size(); ++i)
        w.statistics[i] = w.statistics[i] * 0.75f + 0.25f * r.uniform(i);
    return w;
}
std::vector<double> logits_of(const Graph& g, const Weights& w, const Batch& batch) {
    Device d(g, {.batch = batch.count});
    d.update([&](std::span<float> mine) { std::ranges::copy(w.parameters, mine.begin()); });
    std::ranges::copy(w.statistics, d.statistics().begin());
    (void)d.forward(batch, Mode::evaluate);
    const auto all = d.activation(g.ops.back().inputs[0]);
    return {all.begin(), all.end()};
}
Weights of_head(const Graph& g, const Weights& w, const Graph& prefix) {
    (void)g;
    return {{w.parameters.begin() + prefix.parameter_elements(), w.parameters.end()},
            {w.statistics.begin() + prefix.statistic_elements(), w.statistics.end()}};
}
Batch first_batch(const SourceRef& source, int count, std::vector<float>& keep,
                  std::vector<std::int32_t>& labels) {
    InMemory<> loader(source, {.batch = count, .shuffle = false});
    loader.begin_epoch(0);
    const Batch b = loader.next().batch;
    keep.assign(b.images.begin(), b.images.end());
    labels.assign(b.labels.begin(), b.labels.end());
    return {keep, labels, b.count};
}

// ---- What it promises ---------------------------------------------------------------
static_assert(Source<Features<Device>> && Source<CachedFeatures>);

// Features are rounded to float, 2^-24 of each; fc and the block multiply that by less than 2^4.
TEST(Features, AndTheirHeadGiveTheLogitsOfTheNetwork) {
    const Split data = images();
    const Graph whole = graph<Deep>();
    const Weights w = trained(whole);
    std::vector<float> pixels, numbers;
    std::vector<std::int32_t> labels, same_labels;
    const auto expected = logits_of(whole, w, first_batch(data.train, 7, pixels, labels));
    const auto check = [&](const char* layer, const Graph& head) {
        const Features<Device> features(data.train, whole, w, layer, 3);
        EXPECT_EQ(features.info().shape, head.input);
        const Batch batch = first_batch(features, 7, numbers, same_labels);
        EXPECT_EQ(labels, same_labels);
        const auto logits = logits_of(head, of_head(whole, w, prefix_of(whole, layer)), batch);
        ASSERT_EQ(logits.size(), expected.size());
        for (std::size_t i = 0; i < logits.size(); ++i)
            EXPECT_NEAR(logits[i], expected[i], 0x1p-20) << layer << ", " << i;
    };
    check("fc", graph<Head<Deep, "fc">>());
    check("block", graph<Head<Deep, "block">>());
}

TEST(CachedFeatures, AreTheFeaturesOfTheFirstEpoch) {
    const Split data = images(23, 5);
    const Graph whole = graph<Deep>();
    const Features<Device> features(data.train, whole, trained(whole), "fc", 4);
    const CachedFeatures cached(features);
    EXPECT_EQ(cached.info(), features.info());
    EXPECT_EQ(std::ssize(cached.values()), 23 * 6);
    EXPECT_NE(cached.content(), 0u);
    EXPECT_NE(cached.content(),
              CachedFeatures(Features<Device>(data.train, whole, initial_weights(whole, 6), "fc"))
                  .content());
    std::vector<float> a, b;
    std::vector<std::int32_t> of_a, of_b;
    (void)first_batch(features, 23, a, of_a);
    (void)first_batch(cached, 23, b, of_b);
    EXPECT_EQ(a, b);
    EXPECT_EQ(of_a, of_b);
    EXPECT_EQ(a, std::vector<float>(cached.values().begin(), cached.values().end()));
}

/// Its layer "act" has no weights, and the shape of what it is given.
struct Flat
    : Network<ImageShape{1, 4, 4}, 3, Named<"stem", Conv<6, 3, 1, 1>>, Named<"norm", BatchNorm>,
              Named<"act", ReLU>, Named<"pool", GlobalAvgPool>, Named<"fc", Classifier>> {
    static constexpr std::string_view name = "Flat";
};
// A resumed run, and the ranks of one, compare it.
TEST(Features, HaveTheContentOfImagesAndPrefix) {
    const Split data = images(), others = images(24, 8);
    const Graph whole = graph<Flat>();
    const Weights w = trained(whole);
    const auto content = [&](const SourceRef& source, const Weights& weights, const char* layer) {
        return Features<Device>(source, whole, weights, layer).content();
    };
    const std::uint64_t known = content(data.train, w, "pool");
    EXPECT_NE(known, 0u);
    EXPECT_EQ(content(data.train, w, "pool"), known);
    Weights behind = w, parameters = w, statistics = w;
    behind.parameters.back() += 1;
    parameters.parameters[0] += 1;
    statistics.statistics[0] += 1;
    EXPECT_EQ(content(data.train, behind, "pool"), known);
    EXPECT_NE(content(data.train, parameters, "pool"), known);
    EXPECT_NE(content(data.train, statistics, "pool"), known);
    EXPECT_NE(content(data.train, w, "act"), known) << "of the same weights and shape";
    EXPECT_NE(content(others.train, w, "pool"), known);
    Dataset brighter = data.train;
    brighter.mean[0] += 0.25f;
    EXPECT_NE(content(brighter, w, "pool"), known) << "what the prefix is given differs";
}

// ---- Fine-tuning --------------------------------------------------------------------
TEST(Features, TrainAHeadWhosePrefixStaysAsItWas) {
    const Split data = images(40, 12);
    const Graph whole = graph<Deep>();
    const Weights w = trained(whole);
    const Features<Device> train(data.train, whole, w, "fc"), test(data.test, whole, w, "fc");
    const CachedFeatures cached_train(train), cached_test(test);
    const Folder folder;
    using Tuner = Trainer<Head<Deep, "fc">, Ring<fp32>, Constant>;
    const auto options = [&](const char* output) {
        return Tuner::Options{.batch = 5,
                              .epochs = 6,
                              .scheduler = {.peak_rate = 0.2f},
                              .output = output[0] ? folder / output : std::filesystem::path()};
    };
    auto world = threads(2), other = threads(2);
    const RunRecord run = Tuner(options("out")).train(world, Sources{cached_train, cached_test});
    expect_same_learning(run, Tuner(options("")).train(other, Sources{train, test}));
    EXPECT_LT(run.epochs.back().train_loss, run.epochs.front().train_loss);
    EXPECT_EQ(run.bytes_sent_per_step, (6 * 3 + 3) * 4)
        << "each of two ranks sends the head's gradient once, and nothing of the prefix";

    const Graph head = graph<Head<Deep, "fc">>();
    const Weights tuned = read_weights(folder / "out" / checkpoint_name(6), head);
    const Weights joined = with_head(whole, w, head, tuned);
    const std::size_t frozen = std::size_t(whole.parameter_elements() - head.parameter_elements());
    EXPECT_TRUE(std::equal(w.parameters.begin(), w.parameters.begin() + std::ptrdiff_t(frozen),
                           joined.parameters.begin()));
    EXPECT_EQ(joined.statistics, w.statistics);
    std::vector<float> pixels;
    std::vector<std::int32_t> labels;
    const auto logits = logits_of(whole, joined, first_batch(data.test, 12, pixels, labels));
    int hits = 0;
    for (std::size_t i = 0; i < 12; ++i)
        hits += std::max_element(&logits[3 * i], &logits[3 * i] + 3) - &logits[3 * i] == labels[i];
    EXPECT_NEAR(run.epochs.back().test_accuracy_pct, hits * 100.0 / 12, 1e-9)
        << "the joined network is what was tested";
}

TEST(Features, OfAnotherPrefixEndTheResumedRun) {
    const Split data = images(40, 12);
    const Graph whole = graph<Deep>();
    const Weights w = trained(whole), newer = initial_weights(whole, 6);
    const Features<Device> train(data.train, whole, w, "fc"), other(data.train, whole, newer, "fc");
    const Folder folder;
    using Tuner = Trainer<Head<Deep, "fc">, Ring<fp32>, Constant>;
    Tuner::Options o{.batch = 5, .epochs = 2, .output = folder.path, .evaluate = false};
    auto world = threads(2);
    const RunRecord run = Tuner(o).train(world, Sources{train, {}});
    o.resume = folder.path / checkpoint_name(1);
    o.output.clear();
    expect_same_learning(Tuner(o).train(world, Sources{train, {}}), run);
    EXPECT_TRUE(holds(error_of([&] { (void)Tuner(o).train(world, Sources{other, {}}); }),
                      "before fc'", "made into features otherwise"));
}

// Their loss needs both labels, and what is mixed changes with the epoch.
TEST(Features, OfMixedImagesHaveBothLabels) {
    const Split data = images();
    const Graph whole = graph<Deep>();
    const Mixed mixed(data.train, MixUp{.alpha = 1}, 1);
    const Features<Device> features(mixed, whole, trained(whole), "fc");
    EXPECT_TRUE(SourceRef(features).mixes());
    InMemory<> of_images(mixed, {.batch = 8}), of_features(features, {.batch = 8});
    of_images.begin_epoch(1), of_features.begin_epoch(1);
    const Batch a = of_images.next().batch, b = of_features.next().batch;
    ASSERT_EQ(b.second_labels.size(), 8u);
    for (std::size_t i = 0; i < 8; ++i) {
        EXPECT_EQ(a.labels[i], b.labels[i]);
        EXPECT_EQ(a.second_labels[i].label, b.second_labels[i].label);
        EXPECT_EQ(a.second_labels[i].share, b.second_labels[i].share);
    }
}

// ---- Errors -------------------------------------------------------------------------
/// Samples that are not as info() has them.
struct Lying {
    Sample sample{};
    [[nodiscard]] static SourceInfo info() {
        return {.name = "lying",
                .count = 4,
                .shape = {1, 4, 4},
                .classes = 3,
                .mean = {0},
                .deviation = {1}};
    }
    struct Reader final : SampleReader {
        explicit Reader(const Sample& s) : sample(s) {}
        void read(std::span<const std::uint32_t>, std::span<Sample> out) override {
            std::ranges::fill(out, sample);
        }
        Sample sample;
    };
    [[nodiscard]] std::unique_ptr<SampleReader> open() const {
        return std::make_unique<Reader>(sample);
    }
};
TEST(Features, OfSamplesThatLieAreRefused) {
    const Graph whole = graph<Deep>();
    const Weights w = trained(whole);
    const std::vector<std::uint8_t> pixels(16);
    const auto trouble = [&](const Sample& s) {
        const Lying lying{s};
        return error_of([&] { CachedFeatures(Features<Device>(lying, whole, w, "fc")); });
    };
    EXPECT_EQ(trouble({pixels.data(), 2, {1, 4, 4}}), "no error");
    EXPECT_TRUE(
        holds(trouble({pixels.data(), 2, {1, 2, 2}}), "'lying': sample 0 is an image of 1"));
    EXPECT_TRUE(holds(trouble({nullptr, 2, {1, 4, 4}}), "sample 0 has neither pixels nor values"));
}
/// Images that are tested in rectangles from an epoch on.
struct Rectangular {
    const Dataset& images;
    int first_epoch;
    [[nodiscard]] SourceInfo info() const { return SourceRef(images).info(); }
    [[nodiscard]] std::unique_ptr<SampleReader> open() const { return SourceRef(images).open(); }
    [[nodiscard]] std::vector<SampleView> views(ImageShape shape, int epoch, int) const {
        if (epoch < first_epoch) return {};
        return {{{0}, {shape.channels, shape.height, shape.width + 1}}};
    }
};
TEST(Features, HaveNoRectangles) {
    const Split data = images(40, 12);
    const Graph whole = graph<Deep>();
    const Weights w = trained(whole);
    const Rectangular at_once{data.test, 0}, later{data.test, 2};
    EXPECT_TRUE(holds(error_of([&] { Features<Device>(at_once, whole, w, "fc"); }),
                      "data set '" + data.test.name + "' has rectangular images in epoch 0",
                      "features have one shape", "'rectangular' set to false"));
    const Features<Device> train(data.train, whole, w, "fc"), test(later, whole, w, "fc");
    const auto trouble = [&](int epochs) {
        auto world = threads(2);
        return error_of([&] {
            (void)Trainer<Head<Deep, "fc">, Ring<fp32>, Constant>({.batch = 5, .epochs = epochs})
                .train(world, Sources{train, test});
        });
    };
    EXPECT_EQ(trouble(2), "no error");
    EXPECT_TRUE(holds(trouble(3), "has rectangular images in epoch 2"));
}
TEST(Features, SayWhatTheyCanNot) {
    const Split data = images();
    const Graph whole = graph<Deep>(), wide = graph<Deep>({.input = {1, 8, 8}});
    const Weights w = trained(whole);
    EXPECT_TRUE(holds(error_of([&] { Features<Device>(data.train, whole, w, "head"); }),
                      "network 'Deep' has no layer 'head'"));
    EXPECT_TRUE(holds(error_of([&] { Features<Device>(data.train, wide, w, "fc"); }),
                      "images of 1 x 4 x 4, and network 'Deep' was built for 1 x 8 x 8"));
    EXPECT_TRUE(holds(error_of([&] { (void)CachedFeatures(SourceRef(data.train)); }),
                      "holds pixels, and CachedFeatures keeps numbers"));
    const Mixed mixed(data.train, MixUp{}, 1);
    EXPECT_TRUE(holds(error_of([&] { CachedFeatures(Features<Device>(mixed, whole, w, "fc")); }),
                      "mixes images, anew in each epoch"));
    const Features<Device> features(data.train, whole, w, "fc");
    EXPECT_TRUE(holds(error_of([&] {
                          const Mixed of_numbers(features, MixUp{}, 1);
                          InMemory<> loader(of_numbers, {.batch = 4});
                          loader.begin_epoch(0);
                          (void)loader.next();
                      }),
                      "holds numbers, not pixels, and can't be mixed"));
    EXPECT_TRUE(holds(error_of([&] {
                          InMemory<Flip> loader(features, {.batch = 4});
                          loader.begin_epoch(0);
                          (void)loader.next();
                      }),
                      "holds numbers, not pixels: they can't be resized, augmented"));
    EXPECT_TRUE(holds(error_of([&] {
                          (void)with_head(graph<Deep>({.classes = 4}), w, graph<Head<Deep, "fc">>(),
                                          {});
                      }),
                      "network 'Deep' has no tensor 'fc.weight' of 18 numbers"));
}

}  // namespace
