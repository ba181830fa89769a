#include <gx/trainer/predictor.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/model/layers.hpp>         // Network
#include <gx/reducer/ring.hpp>         // Ring
#include <gx/trainer/safetensors.hpp>  // write_safetensors
#include <gx/trainer/trainer.hpp>      // Trainer
#include <trainer/small.hpp>           // images, threads, Net

namespace {

using namespace testing_support;
using namespace gx;
using Predicts = Predictor<Net, reference::Device>;
using Plain = Trainer<Net, Ring<fp32>, Constant>;

struct Other : Network<ImageShape{1, 4, 4}, 3, Classifier> {
    static constexpr std::string_view name = "Other";
};

/// A run whose last checkpoint is in `folder`; its test accuracy.
RunRecord trained(const Folder& folder, const Split& data) {
    auto world = threads(2);
    return Plain({.batch = 5, .epochs = 2, .scheduler = {.peak_rate = 0.1f}, .output = folder.path})
        .train(world, data);
}
Split named_images() {
    Split data = images();
    data.train.class_names = data.test.class_names = {"dot", "line", "ring"};
    return data;
}
std::string last(const Folder& folder) { return (folder / checkpoint_name(2).c_str()).string(); }

/// A checkpoint without fields that later versions added.
void strip(const std::string& file, const char* field) {
    auto all = read_safetensors(file);
    all.metadata.erase(field);
    std::vector<NamedTensor> tensors;
    for (const auto& [name, t] : all.tensors) tensors.push_back({name, t.shape, t.values});
    write_safetensors(file, tensors, all.metadata);
}

/// As an older gx wrote it, whose names of models left out their sizes.
void rename_model(const std::string& file, const std::string& from, const std::string& to) {
    auto all = read_safetensors(file);
    std::string& state = all.metadata.at("gx");
    state.replace(state.find('"' + from + '"'), from.size() + 2, '"' + to + '"');
    std::vector<NamedTensor> tensors;
    for (const auto& [name, t] : all.tensors) tensors.push_back({name, t.shape, t.values});
    write_safetensors(file, tensors, all.metadata);
}

// ---- Cases worked by hand -----------------------------------------------------------
TEST(TopOf, SortsByLogitAndGivesTheSoftmax) {
    const std::vector<float> logits{0, std::log(3.0f), 0, std::log(4.0f)};
    const auto top = top_of(logits, 3, {"a", "b", "c", "d"});
    ASSERT_EQ(top.size(), 3u);
    EXPECT_EQ(top[0].name, "d");
    EXPECT_NEAR(top[0].probability, 4 / 9.0, 1e-7);
    EXPECT_EQ(top[1].label, 1);
    EXPECT_NEAR(top[1].probability, 3 / 9.0, 1e-7);
    EXPECT_EQ(top[2].name, "a") << "of equal ones the smaller label";
    EXPECT_EQ(top_of(logits, 9, {}).size(), 4u);
    EXPECT_EQ(top_of(logits, 1, {})[0].name, "3");
}

TEST(Predictor, FindsWhatTheRunHasTested) {
    const Folder folder;
    const Split data = named_images();
    const RunRecord run = trained(folder, data);
    Predicts predictor(last(folder), {.batch = 5});
    EXPECT_EQ(predictor.format(), (InputFormat{.shape = {1, 4, 4},
                                               .mean = data.train.mean,
                                               .deviation = data.train.deviation,
                                               .classes = 3,
                                               .class_names = data.train.class_names}));
    const auto logits = predictor.logits_of(data.test);
    ASSERT_EQ(logits.size(), 12 * 3u);
    EXPECT_EQ(logits, predictor.logits(data.test.pixels));
    int hits = 0;
    for (std::size_t i = 0; i < 12; ++i) {
        const auto image = std::span(data.test.pixels).subspan(16 * i, 16);
        const Prediction best = predictor.top(image, 2).at(0);
        EXPECT_EQ(best.name, data.train.class_names[std::size_t(best.label)]);
        hits += best.label == data.test.labels[i] ? 1 : 0;
    }
    EXPECT_NEAR(run.epochs.back().test_accuracy_pct, hits * 100.0 / 12, 1e-9);
}

struct Normed : Network<ImageShape{1, 4, 4}, 3, Conv<4, 3, 1, 1>, BatchNorm, ReLU, Classifier> {
    static constexpr std::string_view name = "Normed";
};

TEST(Predictor, TakesCheckpointsWithinAnEpoch) {
    using T = Trainer<Normed, Ring<fp32>, Constant>;
    const Folder folder;
    T::Options o{.batch = 4, .output = folder.path};
    o.checkpoints.every_steps = 2;
    auto world = threads(2);
    (void)T(o).train(world, images());
    const auto file = folder / step_checkpoint_name(4).c_str();
    const Checkpoint c = read_checkpoint(file, graph<Normed>());
    EXPECT_EQ(read_weights(file, graph<Normed>()), (Weights{c.parameters, c.statistics}));
    Predictor<Normed, reference::Device> predictor(file);
    EXPECT_EQ(predictor.logits_of(images().test).size(), 12 * 3u);
}

TEST(Predictor, NormalisesByTheRunningStatisticsOfItsFile) {
    const Folder folder;
    const Split data = images();
    const Graph g = graph<Normed>();
    Weights w = initial_weights(g, 3);
    for (std::size_t i = 0; i < w.statistics.size(); ++i) w.statistics[i] = 0.5f + 0.25f * float(i);
    write_weights(folder / "w", g, w);
    Predictor<Normed, reference::Device> predictor(folder / "w",
                                                   {.format = {.shape = {1, 4, 4},
                                                               .mean = data.train.mean,
                                                               .deviation = data.train.deviation,
                                                               .classes = 3}});
    InMemory<> loader(data.test, {.batch = 12, .shuffle = false});
    loader.begin_epoch(0);
    reference::Device device(g, {.batch = 12});
    device.update([&](std::span<float> mine) { std::ranges::copy(w.parameters, mine.begin()); });
    std::ranges::copy(w.statistics, device.statistics().begin());
    (void)device.forward(loader.next().batch, Mode::evaluate);
    EXPECT_EQ(predictor.logits_of(data.test), device.logits());
}

// ---- A property ---------------------------------------------------------------------
TEST(Predictor, GivesEachImageTheSameLogitsInAnyBatch) {
    const Folder folder;
    const Split data = images();
    (void)trained(folder, data);
    const auto expected = Predicts(last(folder)).logits(data.train.pixels);
    EXPECT_TRUE(rc::check([&] {
        const int batch = *rc::gen::inRange(1, 50);
        Predicts predictor(last(folder), {.batch = batch});
        const auto first = *rc::gen::inRange<std::size_t>(0, 40);
        const auto count = *rc::gen::inRange<std::size_t>(1, 41 - first);
        const auto some =
            predictor.logits(std::span(data.train.pixels).subspan(16 * first, 16 * count));
        RC_ASSERT(std::equal(some.begin(), some.end(), expected.begin() + std::ptrdiff_t(3 * first),
                             expected.begin() + std::ptrdiff_t(3 * (first + count))));
    }));
}

// ---- Files that lack something ------------------------------------------------------
TEST(Predictor, SaysWhatAnOldCheckpointLacks) {
    const Folder folder;
    const Split data = images();
    (void)trained(folder, data);
    const auto expected = Predicts(last(folder)).logits(data.test.pixels);
    strip(last(folder), "images");
    EXPECT_TRUE(holds(error_of([&] { Predicts predictor(last(folder)); }),
                      "epoch-0002.safetensors' lacks the shape of an image, mean and deviation of "
                      "the channels, the number of classes: it is older",
                      "PredictorOptions::format"));
    const InputFormat given{.shape = {1, 4, 4},
                            .mean = data.train.mean,
                            .deviation = data.train.deviation,
                            .class_names = {"x", "y", "z"}};
    Predicts predictor(last(folder), {.format = given});
    EXPECT_EQ(predictor.logits(data.test.pixels), expected);
    EXPECT_EQ(predictor.top(std::span(data.test.pixels).first(16), 3).size(), 3u);
    const Graph g = graph<Net>({.input = {1, 4, 4}, .classes = 3});
    EXPECT_EQ(read_checkpoint(last(folder), g).epoch, 2) << "it can be resumed from as before";
}

TEST(Predictor, SaysThatAnOlderFileMayBeOfItsOwnModel) {
    const Folder folder;
    (void)trained(folder, images());
    rename_model(last(folder), "Mlp<5>", "Mlp");
    EXPECT_TRUE(
        holds(error_of([&] { Predicts predictor(last(folder)); }),
              "is of model 'Mlp', and the Predictor's is 'Mlp<5>'. Use the model that wrote "
              "it; if that is this one, an older gx, which left its sizes out of the name",
              "predict with that gx"));
}

TEST(Predictor, RefusesOtherModelsAndOtherImages) {
    const Folder folder;
    (void)trained(folder, images());
    EXPECT_TRUE(holds(error_of([&] { Predictor<Other, reference::Device> other(last(folder)); }),
                      "is of model '" + std::string(Net::name) + "', and the Predictor's is '"));
    EXPECT_TRUE(error_of([&] {
                    Predictor<Other, reference::Device> other(last(folder));
                }).ends_with("'Other'. Use the model that wrote it"));
    Predicts predictor(last(folder));
    EXPECT_TRUE(holds(error_of([&] { (void)predictor.logits(std::vector<std::uint8_t>(17)); }),
                      "17 pixels are no number of images of 1 x 4 x 4"));
    EXPECT_TRUE(holds(error_of([&] { (void)predictor.logits({}); }), "0 pixels are no number"));
    for (const std::size_t pixels : {0u, 15u, 17u, 32u})
        EXPECT_TRUE(
            holds(error_of([&] { (void)predictor.top(std::vector<std::uint8_t>(pixels), 1); }),
                  std::to_string(pixels) + " pixels are no image of 1 x 4 x 4"));
    const Split wide = synthetic({.shape = {1, 5, 4}, .classes = 3, .train_count = 6});
    EXPECT_TRUE(holds(error_of([&] { (void)predictor.logits_of(wide.train); }),
                      "has images of 1 x 5 x 4, and network", "trained on 1 x 4 x 4"));
}

TEST(Predictor, RefusesLogitsThatAreNotFinite) {
    const Folder folder;
    const Split data = images();
    (void)trained(folder, data);
    const Graph g = graph<Net>({.input = {1, 4, 4}, .classes = 3});
    Weights w = read_weights(last(folder), g);
    for (float& x : w.parameters) x = x < 0 ? -1e38f : 1e38f;
    write_weights(folder / "w", g, w, {{"images", to_json(Predicts(last(folder)).format())}});
    Predicts predictor(folder / "w");
    EXPECT_TRUE(holds(error_of([&] { (void)predictor.logits(data.test.pixels); }),
                      "network 'Mlp<5>': the logit of class ", "a finite number was expected"));
}

struct Halved : Network<ImageShape{1, 4, 4}, 3, MaxPool<2>, MaxPool<2>, Flatten, Classifier> {
    static constexpr std::string_view name = "Halved";
};

TEST(Predictor, RefusesImagesThatItsNetworkCantTake) {
    const Folder folder;
    write_safetensors(folder / "w", {}, {});
    const auto trouble = [&](const InputFormat& f) {
        return error_of(
            [&] { Predictor<Halved, reference::Device> p(folder / "w", {.format = f}); });
    };
    const InputFormat fits{.shape = {1, 4, 4}, .mean = {0}, .deviation = {1}, .classes = 3};
    InputFormat f = fits;
    EXPECT_TRUE(holds(trouble(f), "'3.weight' is missing"));
    f.shape = {1, 2, 2};
    EXPECT_TRUE(holds(trouble(f), "/w': images of 1 x 2 x 2 do not fit Halved: "));
    f.shape = {1, 0, 4};
    EXPECT_TRUE(holds(trouble(f), "/w': images of 1 x 0 x 4: an image needs"));
    f = fits, f.classes = 1;
    EXPECT_TRUE(holds(trouble(f), "/w': 1 classes: a network names one of at least 2"));
    f = fits, f.deviation = {0};
    EXPECT_TRUE(holds(trouble(f), "/w': deviation of channel 0 is 0: it is above 0"));
    f = fits, f.mean = {std::nanf("")};
    EXPECT_TRUE(holds(trouble(f), "/w': mean of channel 0 is nan"));
}

TEST(InputFormat, IsReadAsItWasWrittenOrRefused) {
    const Folder folder;
    const InputFormat f{.shape = {2, 3, 4},
                        .mean = {0.1f, -3},
                        .deviation = {0.25f, 1},
                        .classes = 2,
                        .class_names = {"a \"b\"", "c"}};
    const auto read = [&](const std::string& text) {
        write_safetensors(folder / "f", {}, {{"images", text}});
        return read_input_format(folder / "f");
    };
    EXPECT_EQ(read(to_json(f)), f);
    const auto trouble = [&](const char* from, const char* to) {
        std::string text = to_json(f);
        const auto at = text.find(from);
        EXPECT_NE(at, text.npos) << from << " in " << text;
        return error_of([&] { (void)read(text.replace(at, std::string(from).size(), to)); });
    };
    EXPECT_TRUE(holds(trouble("[2,3,4]", "[2,3]"), "/f': metadata field 'images' has a shape"));
    EXPECT_TRUE(holds(trouble("[2,3,4]", "[2,0,4]"), "has a side below 1"));
    EXPECT_TRUE(holds(trouble("0.25,1", "0.25"), "has 2 means and 1 deviations for 2 channels"));
    EXPECT_TRUE(holds(trouble("0.25", "0"), "has a deviation of 0: above 0"));
    EXPECT_TRUE(holds(trouble("\"classes\":2", "\"classes\":3"), "names 2 of 3 classes"));
    EXPECT_TRUE(holds(trouble("\"mean\"", "\"man\""), "is not as gx writes it"));
}

}  // namespace
