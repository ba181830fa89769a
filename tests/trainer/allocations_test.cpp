// What a Trainer's step allocates on a host world: nothing, once the first steps are made.
#include <support/counted_new.hpp>  // first: counts what all others allocate

#include <array>   // counts
#include <atomic>  // counts of all ranks

#include <gtest/gtest.h>

#include <gx/model/layers.hpp>                    // Network
#include <gx/optimizer/adamw.hpp>                 // AdamW
#include <gx/optimizer/lars.hpp>                  // Lars
#include <gx/reducer/bucketed.hpp>                // Bucketed
#include <gx/reducer/double_buffered.hpp>         // DoubleBuffered
#include <gx/reducer/multi_ring.hpp>              // MultiRing
#include <gx/sharded/reducer.hpp>                 // Sharded
#include <gx/survival/continue_on_survivors.hpp>  // ContinueOnSurvivors
#include <gx/top_k/reducer.hpp>                   // TopK
#include <gx/trainer/trainer.hpp>                 // Trainer
#include <trainer/small.hpp>                      // images, threads

namespace {
std::atomic<std::int64_t> allocations{0};
}  // namespace
void testing_support::note_allocation(std::size_t, const void*) noexcept { ++allocations; }

namespace {

using namespace testing_support;
using gx::fp16;
using gx::fp32;

/// How many allocations all ranks had made when a rank asked for the rate of a step.
constexpr std::int64_t steps = 70;
std::array<std::atomic<std::int64_t>, steps> before{};

struct Counting {
    struct Options {
        float peak_rate = 0.1f;
    };
    static constexpr std::string_view name = "Counting";
    explicit Counting(Options options) : o(options) {}
    [[nodiscard]] float rate(gx::Step s) const {
        before[static_cast<std::size_t>(s)] = allocations.load();
        return o.peak_rate;
    }
    Options o;
};

/// With running statistics.
struct Normed : gx::Network<gx::ImageShape{1, 4, 4}, 3, gx::Conv<4, 3, 1, 1>, gx::BatchNorm,
                            gx::ReLU, gx::GlobalAvgPool, gx::Classifier> {
    static constexpr std::string_view name = "Normed";
};

template <class R, class... Policies>
void expect_none() {
    using T = gx::Trainer<Normed, R, Counting, Policies...>;
    SCOPED_TRACE(T::name());
    const int ranks = 3, batch = 2;
    auto world = threads(ranks);
    const gx::RunRecord r = T({.batch = batch, .epochs = 1, .evaluate = false, .trace_steps = 0})
                                .train(world, images(steps * ranks * batch, 0));
    ASSERT_EQ(std::ssize(r.steps), steps);
    // Behind the first steps; another rank may be a step behind, or before.
    EXPECT_EQ(before[steps - 4] - before[5], 0);
}

TEST(Allocations, NoneIsMadeInAStep) {
    expect_none<gx::Ring<fp32>>();
    expect_none<gx::DoubleBuffered<gx::Bucketed<gx::MultiRing<2, fp16>, 64>>, gx::AdamW>();
    expect_none<gx::DoubleBuffered<gx::Bucketed<gx::TopK, 128>>>();
    expect_none<gx::Sharded<gx::Bucketed<gx::Ring<fp32>, 128>>, gx::Lars>();
    expect_none<gx::Bucketed<gx::Ring<fp32>, 64>, gx::ContinueOnSurvivors>();
}

}  // namespace
