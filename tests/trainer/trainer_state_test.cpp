// State of reducers and optimizers through a checkpoint: resuming equals not having stopped.
#include <gx/trainer/trainer.hpp>

#include <cmath>   // sqrt, pow
#include <ranges>  // reverse

#include <gtest/gtest.h>

#include <gx/core/convert.hpp>                  // bf16
#include <gx/optimizer/adamw.hpp>               // AdamW
#include <gx/optimizer/lars.hpp>                // Lars
#include <gx/reducer/bucketed.hpp>              // Bucketed
#include <gx/reducer/double_buffered.hpp>       // DoubleBuffered
#include <gx/reducer/error_feedback_state.hpp>  // ErrorFeedbackState
#include <gx/reducer/ring.hpp>                  // Ring
#include <trainer/small.hpp>                    // images, threads, Folder

namespace {

using namespace testing_support;
using gx::fp16;
using gx::fp32;

// ---- Reducers with state ------------------------------------------------------------

/// Error feedback: sends what bf16 holds of gradient + residual, and keeps the rest for later.
struct Residual {
    using wire_type = fp32;
    static constexpr int channels = 1, staleness = 0;
    static constexpr bool asynchronous = true;
    static std::string name() { return "Residual"; }
    void reserve(const gx::ReducePlan& plan) {
        ring.reserve(plan);
        residual.reserve(plan);
    }
    gx::ReduceReport all_reduce(gx::Transport auto& link, const gx::Bucket& bucket) {
        const auto [before, after] = residual.of(bucket);
        for (std::size_t i = 0; i < bucket.size(); ++i) {
            const float whole = bucket[i] + before[i];
            bucket[i] = gx::bf16::decode(gx::bf16::encode(whole));
            after[i] = whole - bucket[i];
        }
        return ring.all_reduce(link, bucket);
    }
    void settle(std::uint64_t gradient, bool applied) { residual.settle(gradient, applied); }
    gx::StateList state() { return residual.state(); }

    gx::Ring<fp32> ring;
    gx::ErrorFeedbackState residual;
};
/// Halves the mean of every gradient that comes after an odd number of others.
struct EveryOther {
    using wire_type = fp32;
    static constexpr int channels = 1, staleness = 0;
    static constexpr bool asynchronous = true;
    static std::string name() { return "EveryOther"; }
    void reserve(const gx::ReducePlan& plan) { ring.reserve(plan); }
    gx::ReduceReport all_reduce(gx::Transport auto& link, const gx::Bucket& bucket) {
        const gx::ReduceReport report = ring.all_reduce(link, bucket);
        if (int(count[0]) % 2 != 0)
            for (float& x : bucket) x *= 0.5f;
        ++count[0];
        return report;
    }
    gx::StateList state() {
        return {{.name = "count", .values = count, .scope = gx::StateScope::replicated}};
    }

    gx::Ring<fp32> ring;
    std::array<float, 1> count{};
};
/// Adds to the gradient what depends on the rank's own history: the mean of the first elements of
/// all buckets so far. State of each rank that is no gradient, and has no place in a bucket.
struct Dither {
    using wire_type = fp32;
    static constexpr int channels = 1, staleness = 0;
    static constexpr bool asynchronous = true;
    static std::string name() { return "Dither"; }
    void reserve(const gx::ReducePlan& plan) { ring.reserve(plan); }
    gx::ReduceReport all_reduce(gx::Transport auto& link, const gx::Bucket& bucket) {
        history[0] += bucket[0];
        ++history[1];
        for (float& x : bucket) x += 0x1p-6f * history[0] / history[1];
        return ring.all_reduce(link, bucket);
    }
    gx::StateList state() { return {{.name = "history", .values = history}}; }

    gx::Ring<fp32> ring;
    std::array<float, 2> history{};
};
/// Says that all ranks hold the same, and they don't.
struct Liar : EveryOther {
    static std::string name() { return "Liar"; }
    gx::ReduceReport all_reduce(gx::Transport auto& link, const gx::Bucket& bucket) {
        const gx::ReduceReport report = ring.all_reduce(link, bucket);
        count[0] = float(link.rank());
        return report;
    }
};

template <class R>
using With = gx::Trainer<Net, R, gx::Warmup<gx::Poly<2>>>;
template <class R>
typename With<R>::Options options(const Folder& folder) {
    return {.batch = 3, .epochs = 4, .seed = 7, .output = folder.path, .evaluate = false};
}
gx::Checkpoint checkpoint(const Folder& folder, const char* name) {
    return gx::read_checkpoint(folder / name, gx::graph<Net>({.input = {1, 4, 4}, .classes = 3}));
}

template <class R>
class StatefulReducer : public ::testing::Test {};
using Reducers =
    ::testing::Types<Residual, EveryOther, gx::DoubleBuffered<Residual>, gx::Bucketed<Residual, 64>,
                     gx::Bucketed<Dither, 64>, gx::DoubleBuffered<gx::Bucketed<Residual, 64>>,
                     gx::DoubleBuffered<gx::Bucketed<Dither, 64>>>;
TYPED_TEST_SUITE(StatefulReducer, Reducers);

TYPED_TEST(StatefulReducer, ResumesAtEachEpochBitForBit) {
    const Folder folder;
    auto world = threads(3);
    auto o = options<TypeParam>(folder);
    const gx::RunRecord whole = With<TypeParam>(o).train(world, images());
    const auto last = checkpoint(folder, "epoch-0004.safetensors").reducer;
    for (const char* from :
         {"epoch-0001.safetensors", "epoch-0002.safetensors", "epoch-0003.safetensors"}) {
        o.resume = folder / from;
        expect_same_learning(With<TypeParam>(o).train(world, images()), whole);
        EXPECT_EQ(checkpoint(folder, "epoch-0004.safetensors").reducer, last);
    }
}
TEST(ReducerState, IsThatOfEachRank) {
    const Folder folder;
    auto world = threads(3);
    (void)With<Residual>(options<Residual>(folder)).train(world, images());
    const auto kept = checkpoint(folder, "epoch-0002.safetensors").reducer;
    ASSERT_EQ(kept.size(), 1u);
    EXPECT_EQ(kept[0].name, "residual 0");
    const auto& blocks = kept[0].ranks;
    ASSERT_EQ(blocks.size(), 3u);
    EXPECT_NE(blocks[0], blocks[1]);
    EXPECT_NE(blocks[1], blocks[2]);
    double sum = 0;
    for (const float x : blocks[2]) sum += std::abs(x);
    EXPECT_GT(sum, 0);
}
TEST(ReducerState, OfEachRankIsRefusedOnAnotherRankCount) {
    const Folder folder;
    auto three = threads(3), two = threads(2);
    auto o = options<gx::DoubleBuffered<Residual>>(folder);
    using T = With<gx::DoubleBuffered<Residual>>;
    (void)T(o).train(three, images());
    o.resume = folder / "epoch-0002.safetensors";
    EXPECT_TRUE(holds(error_of([&] { (void)T(o).train(two, images()); }), "epoch-0002.safetensors'",
                      "reducer DoubleBuffered<Residual> keeps 'residual 0' for each rank",
                      "of 3 ranks", "this run has 2"));
}
/// In a checkpoint that was edited, whose sum fits.
TEST(ReducerState, OfEachRankIsNotTakenFromOneForAll) {
    const Folder folder;
    auto world = threads(3);
    auto o = options<Residual>(folder);
    (void)With<Residual>(o).train(world, images());
    const auto file = folder / "epoch-0002.safetensors";
    gx::Checkpoint c = checkpoint(folder, "epoch-0002.safetensors");
    c.reducer[0].replicated = true;
    c.reducer[0].ranks.resize(1);
    gx::write_checkpoint(file, gx::graph<Net>({.input = {1, 4, 4}, .classes = 3}), c);
    o.resume = file;
    EXPECT_TRUE(holds(error_of([&] { (void)With<Residual>(o).train(world, images()); }),
                      "epoch-0002.safetensors' keeps 'residual 0' of reducer Residual once for all "
                      "ranks, and this run keeps it for each rank"));
}
TEST(ReducerState, ThatIsReplicatedGoesToAnyRankCount) {
    const Folder folder;
    auto three = threads(3), five = threads(5);
    auto o = options<EveryOther>(folder);
    (void)With<EveryOther>(o).train(three, images());  // 5 steps an epoch
    using Kept = std::vector<gx::Checkpoint::ReducerVector>;
    EXPECT_EQ(checkpoint(folder, "epoch-0001.safetensors").reducer, (Kept{{"count", true, {{5}}}}));
    o.resume = folder / "epoch-0003.safetensors";
    (void)With<EveryOther>(o).train(five, images());  // 3 steps
    EXPECT_EQ(checkpoint(folder, "epoch-0004.safetensors").reducer,
              (Kept{{"count", true, {{18}}}}));
}
TEST(ReducerState, ThatIsNotReplicatedAsItSaysIsFound) {
    const Folder folder;
    auto world = threads(3);
    EXPECT_TRUE(
        holds(error_of([&] { (void)With<Liar>(options<Liar>(folder)).train(world, images()); }),
              "'count' of reducer Liar is declared as replicated", "rank 1"));
}

/// Its state() breaks what a checkpoint needs, in one way or another.
struct Careless : EveryOther {
    struct Options {
        std::string first = "a", second = "b";
        std::size_t reserved = 2;
        std::size_t later = 2;  ///< numbers from the first gradient on
        int odd_rank = -1;      ///< where only one rank has so many; -1: all
        bool is_gradient = false;
    };
    Careless() = default;
    explicit Careless(Options o) : options(std::move(o)), values(options.reserved) {}
    static std::string name() { return "Careless"; }
    gx::ReduceReport all_reduce(gx::Transport auto& link, const gx::Bucket& bucket) {
        if (options.odd_rank < 0 || options.odd_rank == link.rank()) values.resize(options.later);
        return EveryOther::all_reduce(link, bucket);
    }
    gx::StateList state() {
        return {{.name = options.first, .values = values, .is_gradient = options.is_gradient},
                {.name = options.second, .values = count}};
    }
    Options options;
    std::vector<float> values = std::vector<float>(2);
};
std::string error_of_careless(const Careless::Options& careless) {
    const Folder folder;
    auto world = threads(2);
    auto o = options<Careless>(folder);
    o.reducer = careless;
    return error_of([&] { (void)With<Careless>(o).train(world, images()); });
}
TEST(ReducerState, ThatNoCheckpointCanKeepIsRefused) {
    EXPECT_EQ(error_of_careless({}), "no error");
    EXPECT_TRUE(holds(error_of_careless({.second = "a"}), "reducer Careless: two vectors",
                      "named 'a'", "Give each its own."));
    EXPECT_TRUE(holds(error_of_careless({.first = ""}), "name of vector 0", "empty or not UTF-8"));
    EXPECT_TRUE(
        holds(error_of_careless({.second = "\xff"}), "name of vector 1", "empty or not UTF-8"));
    EXPECT_TRUE(holds(error_of_careless({.is_gradient = true}), "'a' of its state() has 2 numbers",
                      "a gradient has 103"));
}
TEST(ReducerState, KeepsTheLengthThatWasReserved) {
    EXPECT_TRUE(holds(error_of_careless({.later = 3}), "step 7: reducer Careless has 3 numbers",
                      "in 'a' of its state() where it had 2 after reserve()"));
    EXPECT_TRUE(holds(error_of_careless({.later = 0}), "has 0 numbers in 'a'"));
    EXPECT_TRUE(holds(error_of_careless({.later = 3, .odd_rank = 1}), "rank 1, step 7",
                      "has 3 numbers in 'a'"));
}
TEST(ReducerState, MayBeEmpty) {
    const Folder folder;
    auto world = threads(2);
    auto o = options<Careless>(folder);
    o.reducer = {.reserved = 0, .later = 0};
    const gx::RunRecord whole = With<Careless>(o).train(world, images());
    o.resume = folder / "epoch-0002.safetensors";
    EXPECT_EQ(With<Careless>(o).train(world, images()).weights_hash, whole.weights_hash);
}

/// The reference device, its flat vector back to front.
class Backwards : public gx::reference::Device {
    using Base = gx::reference::Device;

public:
    Backwards(const gx::Graph& graph, gx::DeviceOptions o) : Base(graph, o) {
        for (gx::ParameterSlice s : Base::slices()) {
            s.offset = Base::parameters().size() - s.offset - s.count;
            slices_.push_back(s);
        }
        turn();
    }
    void backward(float scale, std::span<float> gradients, gx::GradientsReady) {
        Base::backward(scale, gradients, [](std::size_t) {});
        std::ranges::reverse(gradients);
    }
    void update(gx::FunctionRef<void(std::span<float>)> change) {
        Base::update([&](std::span<float> w) {
            change(turned_);
            std::ranges::copy(turned_ | std::views::reverse, w.begin());
        });
    }
    [[nodiscard]] std::span<const float> parameters() const { return turned_; }
    [[nodiscard]] std::span<const gx::ParameterSlice> slices() const { return slices_; }
    void to_canonical(std::span<const float> mine, std::span<float> canonical) const {
        std::ranges::copy(mine | std::views::reverse, canonical.begin());
    }
    void from_canonical(std::span<const float> canonical, std::span<float> mine) const {
        std::ranges::copy(canonical | std::views::reverse, mine.begin());
    }

private:
    void turn() {
        const auto w = Base::parameters();
        turned_.assign(w.rbegin(), w.rend());
    }
    std::vector<float> turned_;
    std::vector<gx::ParameterSlice> slices_;
};
TEST(ReducerState, IsCanonicalWhereItIsAGradient) {
    const Folder folder;
    auto plain = threads(2);
    auto turned = threads<Backwards>(2);  // a sum of two has one order
    auto o = options<Residual>(folder);
    const gx::RunRecord whole = With<Residual>(o).train(plain, images());
    const auto a = checkpoint(folder, "epoch-0002.safetensors");
    (void)With<Residual>(o).train(turned, images());
    const auto b = checkpoint(folder, "epoch-0002.safetensors");
    EXPECT_EQ(a.parameters, b.parameters);
    EXPECT_EQ(a.reducer, b.reducer);
    o.resume = folder / "epoch-0002.safetensors";  // of the one device, on the other
    EXPECT_EQ(With<Residual>(o).train(plain, images()).weights_hash, whole.weights_hash);
}

// ---- Optimizers of the core, on two layouts -------------------------------------------

template <class O>
void expect_equal_on_both_layouts() {
    const Folder folder;
    auto plain = threads(2);
    auto turned = threads<Backwards>(2);  // a sum of two has one order
    using T = gx::Trainer<Net, gx::Ring<fp32>, gx::Warmup<gx::Poly<2>>, O>;
    typename T::Options o{
        .batch = 3, .epochs = 4, .seed = 7, .output = folder.path, .evaluate = false};
    const gx::RunRecord whole = T(o).train(plain, images());
    const auto a = checkpoint(folder, "epoch-0002.safetensors");
    EXPECT_EQ(T(o).train(turned, images()).weights_hash, whole.weights_hash);
    const auto b = checkpoint(folder, "epoch-0002.safetensors");
    EXPECT_EQ(a.parameters, b.parameters);
    EXPECT_EQ(a.optimizer, b.optimizer);
    o.resume = folder / "epoch-0002.safetensors";  // of the one device, on the other
    EXPECT_EQ(T(o).train(plain, images()).weights_hash, whole.weights_hash);
}
TEST(OptimizerState, IsCanonicalAndItsBitsDependOnNoLayout) {
    expect_equal_on_both_layouts<gx::Sgd>();
    expect_equal_on_both_layouts<gx::AdamW>();
    expect_equal_on_both_layouts<gx::Lars>();  // norms too
}

// ---- Optimizers with scalars --------------------------------------------------------

/// Kingma and Ba 2014, arXiv:1412.6980, algorithm 1. One correction goes by the step that it is
/// told, the other by a scalar that it keeps.
class Adam {
public:
    struct Options {
        float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;
    };
    static constexpr std::array<std::string_view, 2> state_names{"m", "v"};
    static constexpr std::array<std::string_view, 1> scalar_names{"beta2_power"};

    explicit Adam(Options o) : options_(o) {}
    void reserve(std::size_t, std::span<const gx::ParameterSlice>, const gx::Graph&) {}
    void update(const gx::UpdateArgs& a) {
        const std::size_t n = a.parameters.size();
        scalars_[0] *= double{options_.beta2};
        const double b1 = 1 - std::pow(double{options_.beta1}, double(a.step + 1));
        const double b2 = 1 - scalars_[0];
        for (std::size_t i = 0; i < n; ++i) {
            const float x = a.gradients[i] * a.unscale;
            float &m = a.state[i], &v = a.state[n + i];
            m = options_.beta1 * m + (1 - options_.beta1) * x;
            v = options_.beta2 * v + (1 - options_.beta2) * x * x;
            a.parameters[i] -=
                float(double{a.rate} * (m / b1) / (std::sqrt(v / b2) + double{options_.epsilon}));
        }
    }
    std::span<double> scalars() { return scalars_; }

private:
    Options options_;
    std::array<double, 1> scalars_{1.0};
};
static_assert(gx::Optimizer<Adam> && gx::KeepsScalars<Adam> && !gx::KeepsScalars<gx::Sgd>);

template <class R, class O = Adam>
using By = gx::Trainer<Net, R, gx::Constant, O>;

template <class R>
class Scalars : public ::testing::Test {};
using Prompt = gx::Ring<fp16>;
using Late = gx::DoubleBuffered<gx::Ring<fp16>>;
using Wires = ::testing::Types<Prompt, Late>;
TYPED_TEST_SUITE(Scalars, Wires);

TYPED_TEST(Scalars, AndTheStepResumeExactly) {
    const Folder folder;
    auto world = threads(3);
    typename By<TypeParam>::Options o{.batch = 3,
                                      .epochs = 4,
                                      .scheduler = {.peak_rate = 0.01f},
                                      .loss_scale = {.initial = 1 << 21, .growth_interval = 4},
                                      .output = folder.path,
                                      .evaluate = false};
    const gx::RunRecord whole = By<TypeParam>(o).train(world, images());
    ASSERT_GT(whole.skipped_steps, 0) << "skipped steps are no updates";
    const auto last = checkpoint(folder, "epoch-0004.safetensors");
    ASSERT_EQ(last.optimizer.size(), 2u);
    EXPECT_EQ(last.optimizer[1].name, "v");
    ASSERT_EQ(last.scalars.size(), 1u);
    EXPECT_EQ(last.scalars[0].name, "beta2_power");
    EXPECT_EQ(last.updates, 20 - whole.skipped_steps);
    EXPECT_NEAR(last.scalars[0].value, std::pow(double{0.999f}, double(last.updates)), 1e-12);
    for (const char* from :
         {"epoch-0001.safetensors", "epoch-0002.safetensors", "epoch-0003.safetensors"}) {
        o.resume = folder / from;
        expect_same_learning(By<TypeParam>(o).train(world, images()), whole);
        EXPECT_EQ(checkpoint(folder, "epoch-0004.safetensors").scalars[0].value,
                  last.scalars[0].value);
    }
}

// ---- Other compositions -------------------------------------------------------------

template <class T>
std::string refusal(const std::filesystem::path& from) {
    auto world = threads(2);
    typename T::Options o{.batch = 4, .epochs = 4, .resume = from, .evaluate = false};
    return error_of([&] { (void)T(o).train(world, images()); });
}
/// As long as Sgd's, and something else.
class SumOfGradients : public gx::Sgd {
public:
    using gx::Sgd::Sgd;
};
TEST(AnotherComposition, IsRefusedAndBothAreNamed) {
    const Folder folder;
    auto world = threads(2);
    using Plain = gx::Trainer<Net, gx::Ring<fp32>, gx::Constant>;
    (void)Plain({.batch = 4, .epochs = 2, .output = folder.path, .evaluate = false})
        .train(world, images());
    const auto from = folder / "epoch-0001.safetensors";
    const char* written = "was written by Trainer<Mlp<5>, Ring<fp32>, Constant>, and this run is ";
    EXPECT_EQ(refusal<Plain>(from), "no error");
    EXPECT_TRUE(holds(refusal<gx::Trainer<Net, gx::Ring<gx::bf16>, gx::Constant>>(from), written,
                      "Trainer<Mlp<5>, Ring<bf16>, Constant>"));
    EXPECT_TRUE(holds(refusal<gx::Trainer<Net, gx::Ring<fp32>, gx::Poly<2>>>(from), written,
                      "Trainer<Mlp<5>, Ring<fp32>, Poly<2>>"));
    EXPECT_TRUE(holds(refusal<gx::Trainer<Net, gx::Ring<fp32>, gx::Constant, SumOfGradients>>(from),
                      written, "SumOfGradients"));
    EXPECT_TRUE(holds(refusal<gx::Trainer<Net, gx::Ring<fp32>, gx::Constant, gx::Sgd,
                                          gx::InMemory<>, gx::DynamicLossScale>>(from),
                      written, "Trainer<Mlp<5>, Ring<fp32>, Constant, DynamicLossScale>"));
}

}  // namespace
