// Trainers that start from trained weights.
#include <gx/trainer/weights.hpp>

#include <cmath>  // log

#include <gtest/gtest.h>

#include <gx/core/hash_bits.hpp>   // hash_bits
#include <gx/reducer/ring.hpp>     // Ring
#include <gx/trainer/trainer.hpp>  // Trainer
#include <trainer/small.hpp>       // images, threads, Net

namespace {

using namespace testing_support;
using namespace gx;
using Plain = Trainer<Net, Ring<fp32>, Constant>;

Weights numbered(const Graph& g, float from) {
    Weights w = initial_weights(g, 1);
    for (std::size_t i = 0; i < w.parameters.size(); ++i)
        w.parameters[i] = from + 0.001f * float(i % 97);
    return w;
}

TEST(TrainerWeights, AreWhereARunStarts) {
    const Folder folder;
    const Graph g = graph<Net>({.input = {1, 4, 4}, .classes = 3});
    const Weights w = numbered(g, 0.01f);
    write_weights(folder / "w", g, w);
    // A rate that moves no weight: 1e-30 of a gradient is below half a unit of any of them.
    Plain::Options o{.batch = 5, .weights = {.file = folder / "w"}, .output = folder / "out"};
    o.scheduler.peak_rate = 1e-30f;
    o.optimizer.weight_decay = 0;
    auto world = threads(2);
    const RunRecord run = Plain(o).train(world, images());
    EXPECT_EQ(read_weights(folder / "out" / checkpoint_name(1), g), w);
    o.weights.file.clear();
    auto other = threads(2);
    EXPECT_NE(Plain(o).train(other, images()).weights_hash, run.weights_hash);
}

TEST(TrainerWeights, MayBeginWithASmallLastLayer) {
    const Folder folder;
    const Graph g = graph<Net>({.input = {1, 4, 4}, .classes = 3});
    Plain::Options o{.batch = 5, .weights = {.last_deviation = 0.01}, .output = folder / "out"};
    o.scheduler.peak_rate = 1e-30f;
    o.optimizer.weight_decay = 0;
    auto world = threads(2);
    const RunRecord run = Plain(o).train(world, images());
    const Weights got = read_weights(folder / "out" / checkpoint_name(1), g),
                  begun = initial_weights(g, o.seed, 0.01);
    for (std::size_t i = 0; i < begun.parameters.size(); ++i)
        EXPECT_NEAR(got.parameters[i], begun.parameters[i], 1e-20) << "but for zero biases";
    EXPECT_NEAR(run.steps[0].loss, std::log(3.0), 0.1) << "unsure";
    o.weights.last_deviation = -1;
    EXPECT_TRUE(holds(error_of([&] { (void)Plain(o).train(world, images()); }),
                      "gx: this run can't start", "weights.last_deviation is -1"));
}

TEST(TrainerWeights, LeaveFreshLayersAtRandom) {
    const Folder folder;
    const Graph five = graph<Net>({.input = {1, 4, 4}, .classes = 5});
    const Graph three = graph<Net>({.input = {1, 4, 4}, .classes = 3});
    const Weights w = numbered(five, 0.02f);
    write_weights(folder / "w", five, w);
    std::string last;  // the layer whose shape follows the classes
    for (std::size_t p = 0; p < five.parameters.size(); ++p)
        if (five.parameters[p].shape != three.parameters[p].shape && last.empty())
            last = std::string(five.parameters[p].name.view());
    last.resize(last.rfind('.'));
    Plain::Options o{.batch = 5, .seed = 9, .output = folder / "out"};
    o.weights = {.file = folder / "w", .fresh = {last}};
    o.scheduler.peak_rate = 1e-30f;
    o.optimizer.weight_decay = 0;
    auto world = threads(1);
    (void)Plain(o).train(world, images());
    const Weights got = read_weights(folder / "out" / checkpoint_name(1), three);
    const Weights random = initial_weights(three, 9);
    int read = 0, drawn = 0;
    for (const Parameter& p : three.parameters)
        for (std::int64_t i = p.offset; i < p.offset + p.count; ++i) {
            const bool is_fresh = p.name.view().starts_with(last);
            const auto k = std::size_t(i);
            EXPECT_NEAR(got.parameters[k], is_fresh ? random.parameters[k] : w.parameters[k],
                        1e-25);  // biases start at 0, where 1e-30 is not lost
            (is_fresh ? drawn : read) += 1;
        }
    EXPECT_GT(read, 0);
    EXPECT_GT(drawn, 0);
}

TEST(TrainerWeights, OfAnotherNetworkStopTheRunBeforeItStarts) {
    const Folder folder;
    const Graph g = graph<Net>({.input = {1, 5, 5}, .classes = 3});
    write_weights(folder / "w", g, initial_weights(g, 1));
    Plain::Options o{.batch = 5, .weights = {.file = folder / "w"}};
    auto world = threads(2);
    EXPECT_TRUE(holds(error_of([&] { (void)Plain(o).train(world, images()); }),
                      "gx: this run can't start", "/w' are not those of network", "x 25 where"));
    o.weights.file = folder / "absent";
    EXPECT_TRUE(holds(error_of([&] { (void)Plain(o).train(world, images()); }),
                      "absent' cannot be opened"));
}

}  // namespace
