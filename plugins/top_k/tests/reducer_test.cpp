#include <gx/top_k/reducer.hpp>

#include <cmath>   // isfinite
#include <limits>  // infinity
#include <map>     // oracle

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/double_buffered.hpp>
#include <gx/reference/device.hpp>
#include <gx/sim/catalog/simple_clusters.hpp>
#include <gx/sim/world/cluster.hpp>
#include <gx/sim/world/device.hpp>
#include <gx/trainer/trainer.hpp>
#include <support/reduce_on.hpp>
#include <trainer/small.hpp>

// ---- What the type promises ---------------------------------------------------------
static_assert(gx::Reducer<gx::TopK> && gx::Settles<gx::TopK>);
static_assert(gx::Settles<gx::DoubleBuffered<gx::Bucketed<gx::TopK, 4>>>);
static_assert(gx::TopK::check({}).empty() && gx::TopK::check({.share = 1}).empty());
static_assert(!gx::TopK::check({.share = 0}).empty() && !gx::TopK::check({.share = 1.5}).empty() &&
              !gx::TopK::check({.share = std::numeric_limits<double>::quiet_NaN()}).empty());

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

std::vector<std::uint32_t> selected(const std::vector<float>& values, std::size_t k) {
    std::vector<std::uint32_t> order(values.size());
    gx::detail::top_k::select(values, k, order);
    order.resize(k);
    return order;
}

// ---- Cases worked by hand -----------------------------------------------------------
TEST(TopK, SelectsTheLargestMagnitudes) {
    using Indices = std::vector<std::uint32_t>;
    EXPECT_EQ(selected({1, -5, 3, 4}, 2), (Indices{1, 3}));
    EXPECT_EQ(selected({2, -2, 2, 1}, 2), (Indices{0, 1})) << "of equal ones the first";
    EXPECT_EQ(selected({1e30f, infinity, nan, 3}, 2), (Indices{1, 2}));
    EXPECT_EQ(selected({1e30f, infinity, nan, 3}, 1), (Indices{2}));
    EXPECT_EQ(selected({}, 0), Indices{});
    EXPECT_EQ(selected({7, 8}, 2), (Indices{0, 1}));
}
TEST(TopK, SendsTheShareRoundedUp) {
    const gx::TopK one_percent, half({.share = 0.5}), all({.share = 1});
    EXPECT_EQ(one_percent.sent_of(0), 0u);
    EXPECT_EQ(one_percent.sent_of(1), 1u);
    EXPECT_EQ(one_percent.sent_of(100), 1u);
    EXPECT_EQ(one_percent.sent_of(101), 2u);
    EXPECT_EQ(half.sent_of(3), 2u);
    EXPECT_EQ(all.sent_of(3), 3u);
}
TEST(TopK, KeepsWhatItDoesNotSend) {
    // One value of four a rank: 0 sends -8 at 1, 1 sends 6 at 2.
    Rows rows{{1, -8, 3, 4}, {5, 1, 6, 2}};
    const auto out = gx::testing::reduce_jobs<gx::TopK>(gx::testing::OnThreads{}, {1, 2},
                                                        {rows, {{0, 0, 0, 0}, {0, 0, 0, 0}}});
    for (const auto& row : out.rows[0]) EXPECT_EQ(row, (std::vector<float>{0, -4, 3, 0}));
    // then of the residuals {1, 0, 3, 4} and {5, 1, 0, 2} the largest
    for (const auto& row : out.rows[1]) EXPECT_EQ(row, (std::vector<float>{2.5f, 0, 0, 2}));
    EXPECT_EQ(out.reports[0][0].steps, 1);
    EXPECT_EQ(out.reports[0][0].bytes_sent, 8);
}
TEST(TopK, AValueThatIsNotFiniteReachesEveryRank) {
    for (const float bad : {nan, infinity, -infinity}) {
        Rows rows{{1e30f, 2, 3}, {1e30f, 2, bad}, {1e30f, 2, 3}};
        reduce_on<gx::TopK>({.ranks = 3}, rows);
        for (const auto& row : rows) EXPECT_FALSE(std::isfinite(row[2]));
    }
}
TEST(TopK, AnIndexThatIsNotInTheBucketSkipsTheStep) {
    using gx::detail::top_k::Entry;
    std::vector<float> memory{1, 2, 3, 4};
    for (const std::uint32_t index : {2u, 3u, 1u << 20, ~0u}) {
        const std::vector<Entry> entries{{1, 6}, {index, 8}};
        gx::detail::top_k::AddUp{2}(1, entries, std::span(memory).first(2));
        EXPECT_FALSE(std::isfinite(memory[0])) << index;
        EXPECT_EQ(memory[1], 3) << index;
        EXPECT_EQ(memory[2], 3) << index;
        EXPECT_EQ(memory[3], 4) << index;
    }
}
TEST(TopK, RefusesBadOptions) {
    EXPECT_DEATH(gx::TopK({.share = 0}), "options that its check\\(\\) refuses");
}

// ---- Properties ---------------------------------------------------------------------
RC_GTEST_PROP(TopK, SelectsAsASortDoes, ()) {
    const auto values = *rc::gen::container<std::vector<float>>(
        rc::gen::element(0.0f, -0.0f, 1.0f, -1.0f, 2.5f, -3.0f, infinity, nan));
    const auto k = *rc::gen::inRange<std::size_t>(0, values.size() + 1);
    std::vector<std::uint32_t> order(values.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
        const float x = std::abs(values[a]), y = std::abs(values[b]);
        if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && !std::isnan(y);
        return x > y;
    });
    order.resize(k);
    std::sort(order.begin(), order.end());
    RC_ASSERT(selected(values, k) == order);
}

/// The algorithm in plain words: maps, one rank after the other, no messages.
struct Oracle {
    explicit Oracle(int ranks) : residual(std::size_t(ranks)) {}
    std::vector<float> reduce(const Rows& rows, double share) {
        std::vector<float> sum(rows[0].size(), 0.0f);
        const auto k = std::size_t(std::ceil(share * double(rows[0].size())));
        for (std::size_t r = 0; r < rows.size(); ++r) {
            residual[r].resize(rows[r].size());
            std::multimap<float, std::size_t, std::greater<>> largest;
            for (std::size_t i = 0; i < rows[r].size(); ++i) {
                residual[r][i] = rows[r][i] + residual[r][i];
                largest.emplace(std::abs(residual[r][i]), i);
            }
            std::size_t sent = 0;
            for (const auto& [magnitude, i] : largest) {
                if (sent++ == k) break;
                sum[i] += residual[r][i];
                residual[r][i] = 0;
            }
        }
        for (float& x : sum) x *= 1.0f / float(rows.size());
        return sum;
    }
    std::vector<std::vector<float>> residual;
};
RC_GTEST_PROP(TopK, HasTheBitsOfTheOracle, ()) {
    const int ranks = *rc::gen::inRange(1, 8);
    const auto length = *rc::gen::inRange<std::int64_t>(0, 300);
    std::vector<Rows> jobs;
    for (std::uint64_t t = 0; t < 6; ++t)
        jobs.push_back(gx::testing::wide_magnitudes(t, ranks, length));
    Oracle oracle(ranks);
    const auto out = gx::testing::reduce_jobs<gx::TopK>(gx::testing::OnThreads{}, {1, ranks}, jobs);
    for (std::size_t t = 0; t < jobs.size(); ++t) {
        const auto expected = oracle.reduce(jobs[t], gx::TopK::Options{}.share);
        for (const auto& row : out.rows[t]) RC_ASSERT(row == expected);
    }
}

// ---- A fault ------------------------------------------------------------------------
TEST(TopK, SaysSoWhenARankIsLost) {
    Rows rows(3, std::vector<float>(12, 1.0f));
    const auto report = reduce_on<gx::TopK>({.ranks = 3, .dead_rank = 2}, rows);
    EXPECT_FALSE(report.complete());
    EXPECT_EQ(report.delivery.peer, 2);
}

// ---- Training: buckets, one step late, an overflow, resumed at every step --------------
using namespace testing_support;
using Sparse = gx::DoubleBuffered<gx::Bucketed<gx::TopK, 128>>;
using T = gx::Trainer<Net, Sparse, gx::Constant, gx::DynamicLossScale>;

T::Options options(const Folder& folder, double share = 0.05) {
    // one step an epoch; the first steps overflow
    return {.batch = 4,
            .epochs = 9,
            .reducer = {.share = share},
            .scheduler = {.peak_rate = 0.1f},
            .loss_scale = {.initial = 0x1p127f, .largest = 0x1p127f},
            .output = folder.path};
}
TEST(TopK, ResumesAtEveryStepBitForBit) {
    for (const double share : {0.01, 0.05}) {
        const Folder folder;
        auto world = threads(3);
        auto o = options(folder, share);
        const gx::RunRecord whole = T(o).train(world, images(12));
        ASSERT_EQ(whole.steps.size(), 9u);
        EXPECT_GT(whole.skipped_steps, 0) << "an overflow is among the steps";
        EXPECT_LT(whole.skipped_steps, 6);
        for (int epoch = 1; epoch < o.epochs; ++epoch) {
            o.resume = folder / gx::checkpoint_name(epoch).c_str();
            expect_same_learning(T(o).train(world, images(12)), whole);
        }
    }
}
TEST(TopK, ThreadsAndTheClusterGiveOneSetOfWeights) {
    const Folder a, b;
    auto world = threads(3);
    gx::sim::Cluster<gx::reference::Device> cluster(gx::sim::ethernet_10g(3));
    EXPECT_EQ(T(options(a)).train(world, images(12)).weights_hash,
              T(options(b)).train(cluster, images(12)).weights_hash);
}

}  // namespace
