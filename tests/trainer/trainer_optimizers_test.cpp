// Optimizers of the core in a Trainer: resumed after each step, refused by name, and they learn.
#include <gx/trainer/trainer.hpp>

#include <atomic>  // calls
#include <thread>  // shares

#include <gtest/gtest.h>

#include <gx/core/hash_bits.hpp>   // hash_bits
#include <gx/optimizer/adam.hpp>   // Adam
#include <gx/optimizer/adamw.hpp>  // AdamW
#include <gx/optimizer/clip_by_global_norm.hpp>
#include <gx/optimizer/lamb.hpp>           // Lamb
#include <gx/optimizer/lars.hpp>           // Lars
#include <gx/reducer/double_buffered.hpp>  // DoubleBuffered
#include <gx/reducer/ring.hpp>             // Ring
#include <trainer/small.hpp>               // images, threads, Folder

namespace {

using namespace testing_support;
using gx::fp16;
using gx::fp32;

template <class O, class R = gx::Ring<fp32>>
using By = gx::Trainer<EveryRole, R, gx::Constant, O>;

/// Two ranks with four of eight images: an epoch is a step, and every step leaves a checkpoint.
constexpr int steps = 9;
template <class T>
typename T::Options options(const Folder& folder) {
    typename T::Options o{.batch = 4,
                          .epochs = steps,
                          .seed = 7,
                          .scheduler = {.peak_rate = 0.125f},
                          .output = folder.path,
                          .evaluate = false};
    if constexpr (requires { o.loss_scale.growth_interval; })
        o.loss_scale = {.initial = 1 << 21, .growth_interval = 3};  // the first steps overflow
    return o;
}
gx::Split eight() { return images(8, 4); }
gx::Checkpoint checkpoint(const Folder& folder, int step) {
    return gx::read_checkpoint(folder.path / gx::checkpoint_name(step), gx::graph<EveryRole>());
}

// ---- Bit for bit --------------------------------------------------------------------

template <class T>
class ResumedOptimizers : public ::testing::Test {};
using Late = gx::DoubleBuffered<gx::Ring<fp16>>;
using Compositions = ::testing::Types<By<gx::Sgd>, By<gx::AdamW>, By<gx::Lars>,
                                      By<gx::ClipByGlobalNorm<gx::Sgd>, Late>, By<gx::Adam, Late>,
                                      By<gx::Lamb, Late>>;
TYPED_TEST_SUITE(ResumedOptimizers, Compositions);

TYPED_TEST(ResumedOptimizers, AfterEveryStepEqualsNotHavingStopped) {
    const Folder folder;
    auto world = threads(2);
    auto o = options<TypeParam>(folder);
    const gx::RunRecord whole = TypeParam(o).train(world, eight());
    ASSERT_EQ(whole.steps.size(), std::size_t(steps));
    const bool overflows = requires { o.loss_scale.growth_interval; };
    EXPECT_EQ(whole.skipped_steps > 0, overflows) << "skipped steps are no updates";
    const gx::Checkpoint last = checkpoint(folder, steps);
    for (int step = 1; step < steps; ++step) {
        std::filesystem::remove(folder.path / gx::checkpoint_name(steps));
        o.resume = folder.path / gx::checkpoint_name(step);
        expect_same_learning(TypeParam(o).train(world, eight()), whole);
        const gx::Checkpoint again = checkpoint(folder, steps);
        EXPECT_EQ(again.parameters, last.parameters) << step;
        EXPECT_EQ(again.optimizer, last.optimizer) << step;
        EXPECT_EQ(again.updates, last.updates) << step;
    }
}
/// Counts its updates itself, and keeps the count nowhere.
struct Forgetful : gx::AdamW {
    using AdamW::AdamW;
    void update(const gx::UpdateArgs& given) {
        gx::UpdateArgs a = given;
        a.step = count++;
        AdamW::update(a);
    }
    std::int64_t count = 0;
};
TEST(ResumedOptimizers, WithStateThatIsNotKeptDoNotPass) {
    const Folder folder;
    auto world = threads(2);
    auto o = options<By<Forgetful>>(folder);
    const gx::RunRecord whole = By<Forgetful>(o).train(world, eight());
    o.resume = folder.path / gx::checkpoint_name(2);
    EXPECT_NE(By<Forgetful>(o).train(world, eight()).weights_hash, whole.weights_hash);
}

template <class O>
std::vector<std::string> state_names() {
    const Folder folder;
    auto world = threads(2);
    (void)By<O>(options<By<O>>(folder)).train(world, eight());
    std::vector<std::string> names;
    for (const auto& v : checkpoint(folder, 1).optimizer) {
        names.push_back(v.name);
        EXPECT_EQ(std::ssize(v.values), gx::graph<EveryRole>().parameter_elements());
    }
    return names;
}
TEST(StateOfOptimizers, HasNamesAndTheGraphsLayout) {
    using Names = std::vector<std::string>;
    EXPECT_EQ(state_names<gx::Sgd>(), Names{"momentum"});
    EXPECT_EQ(state_names<gx::Lars>(), Names{"momentum"});
    EXPECT_EQ(state_names<gx::AdamW>(), (Names{"m", "v"}));
}

// ---- Updates in shares of a device's threads ------------------------------------------

/// The reference device, with threads that take shares of updates.
struct WithShares : gx::reference::Device {
    using Device::Device;
    static inline std::atomic<std::int64_t> calls = 0;
    void in_shares(gx::FunctionRef<void(int, int)> f) {
        ++calls;
        std::thread first([&] { f(0, 2); });
        f(1, 2);
        first.join();
    }
};
static_assert(gx::HasShares<WithShares> && !gx::HasShares<gx::reference::Device>);

/// Of a network of several blocks, four epochs of three steps: calls of in_shares by all ranks.
template <class O, class R>
std::int64_t calls_in_a_run_as_of_one_thread() {
    using T = gx::Trainer<gx::Mlp<200>, R, gx::Constant, O>;
    const Folder here, there;
    const auto trained = [](auto world, const Folder& folder) {
        auto o = options<T>(folder);
        o.epochs = 4;
        return T(o).train(world, images(24, 4));
    };
    const gx::RunRecord one = trained(threads(2), here);
    WithShares::calls = 0;
    const gx::RunRecord shared = trained(threads<WithShares>(2), there);
    const std::int64_t calls = WithShares::calls;
    expect_same_learning(shared, one);
    const bool overflows = requires(typename T::Options o) { o.loss_scale.growth_interval; };
    EXPECT_EQ(one.skipped_steps > 0, overflows);
    EXPECT_GT(std::ssize(one.steps), one.skipped_steps + 3);
    const gx::Graph graph = gx::graph<gx::Mlp<200>>({.input = {1, 4, 4}, .classes = 3});
    const auto last = [&](const Folder& folder) {
        return gx::read_checkpoint(folder.path / gx::checkpoint_name(4), graph);
    };
    const gx::Checkpoint a = last(there), b = last(here);
    EXPECT_EQ(a.parameters, b.parameters);
    EXPECT_EQ(a.optimizer, b.optimizer);
    EXPECT_EQ(a.updates, b.updates);
    // Each rank looks for infinities in each mean.
    return calls - 2 * std::ssize(one.steps);
}
TEST(UpdatesInShares, HaveTheBitsOfOneThread) {
    EXPECT_EQ((calls_in_a_run_as_of_one_thread<gx::AdamW, gx::Ring<fp32>>()), 2 * 12);
    const std::int64_t half = calls_in_a_run_as_of_one_thread<gx::Sgd, Late>();
    EXPECT_TRUE(half > 0 && half < 2 * 12) << "steps that overflow update nothing: " << half;
    EXPECT_EQ((calls_in_a_run_as_of_one_thread<gx::Lars, gx::Ring<fp32>>()), 0) << "norms";
}

// ---- Names, and what is refused by them -----------------------------------------------

TEST(NameOfAComposition, SpellsOptionsThatAreNotDefault) {
    using R = gx::Ring<fp32>;
    EXPECT_EQ((gx::Trainer<Net, R, gx::Constant>::name()), "Trainer<Mlp<5>, Ring<fp32>, Constant>");
    EXPECT_EQ((gx::Trainer<Net, R, gx::Constant>::name({.nesterov = true})),
              "Trainer<Mlp<5>, Ring<fp32>, Constant, Sgd{.nesterov = true}>");
    EXPECT_EQ((gx::Trainer<Net, R, gx::Constant, gx::AdamW>::name()),
              "Trainer<Mlp<5>, Ring<fp32>, Constant, AdamW>");
    EXPECT_EQ((gx::Trainer<Net, R, gx::Constant, gx::AdamW>::name(
                  {.beta2 = 0.95f, .weight_decay = 0.1f})),
              "Trainer<Mlp<5>, Ring<fp32>, Constant, AdamW{.beta2 = 0.95, .weight_decay = 0.1}>");
    EXPECT_EQ((gx::Trainer<Net, R, gx::Constant, gx::Lars>::name({.adapt_bias = true})),
              "Trainer<Mlp<5>, Ring<fp32>, Constant, Lars{.adapt_bias = true}>");
}
template <class T>
std::string refusal(typename T::Options o, const std::filesystem::path& from) {
    auto world = threads(2);
    o.resume = from;
    o.output.clear();
    return error_of([&] { (void)T(o).train(world, eight()); });
}
TEST(AnotherOptimizer, IsRefusedByName) {
    const Folder folder;
    auto world = threads(2);
    (void)By<gx::AdamW>(options<By<gx::AdamW>>(folder)).train(world, eight());
    const auto from = folder.path / gx::checkpoint_name(2);
    EXPECT_EQ(refusal<By<gx::AdamW>>(options<By<gx::AdamW>>(folder), from), "no error");
    const char* written = "was written by Trainer<EveryRole, Ring<fp32>, Constant, AdamW>";
    EXPECT_TRUE(holds(refusal<By<gx::Lars>>(options<By<gx::Lars>>(folder), from), written,
                      "this run is Trainer<EveryRole, Ring<fp32>, Constant, Lars>"));
    EXPECT_TRUE(holds(refusal<By<gx::Sgd>>(options<By<gx::Sgd>>(folder), from), written,
                      "this run is Trainer<EveryRole, Ring<fp32>, Constant>"));
}
TEST(OtherOptionsOfAnOptimizer, AreInTheRecordAndNotedOnResume) {
    const Folder folder;
    auto world = threads(2);
    auto o = options<By<gx::AdamW>>(folder);
    EXPECT_EQ(By<gx::AdamW>(o).train(world, eight()).optimizer, "AdamW");
    o.optimizer.weight_decay = 0.25f;
    o.resume = folder.path / gx::checkpoint_name(2);
    const gx::RunRecord r = By<gx::AdamW>(o).train(world, eight());
    EXPECT_EQ(r.optimizer, "AdamW{.weight_decay = 0.25}");
    ASSERT_FALSE(r.notes.empty());
    EXPECT_TRUE(holds(r.notes.back(), "resumed after epoch 2 with other options",
                      "optimizer.weight_decay is 0.25 instead of 0.01"));
}

// ---- Learning -------------------------------------------------------------------------

template <class O>
gx::RunRecord trained(typename O::Options optimizer, float rate) {
    auto world = threads(2);
    return gx::Trainer<Net, gx::Ring<fp32>, gx::Constant, O>(
               {.batch = 8, .epochs = 12, .scheduler = {.peak_rate = rate}, .optimizer = optimizer})
        .train(world, images(160, 60));
}
TEST(EveryOptimizer, Learns) {
    const double chance = 100.0 / 3;
    EXPECT_GT(trained<gx::AdamW>({}, 0.01f).test_accuracy_pct(), 2 * chance);
    EXPECT_GT(trained<gx::Lars>({.trust = 0.02f}, 2).test_accuracy_pct(), 2 * chance);
}

}  // namespace
