#include <gx/shared_memory/reducer.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <thread>

#include <gx/core/error.hpp>
#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/double_buffered.hpp>
#include <gx/reducer/name.hpp>
#include <gx/reducer/pipeline.hpp>
#include <gx/reference/device.hpp>
#include <gx/sim/catalog/simple_clusters.hpp>
#include <gx/sim/testing/on_cluster.hpp>
#include <gx/sim/world/device.hpp>
#include <gx/testing/processes.hpp>
#include <gx/trainer/trainer.hpp>
#include <support/generators.hpp>
#include <support/reduce_on.hpp>
#include <support/run_checked.hpp>
#include <testing/processes_run.hpp>
#include <trainer/small.hpp>

#include "serial_mean.hpp"  // serial_mean, same_bits

// ---- What the type promises ---------------------------------------------------------
static_assert(gx::Reducer<gx::SharedMemory<>> && gx::Reducer<gx::SharedMemory<gx::fp16>>);

namespace {

using gx::SharedMemory;
using testing_support::same_bits;
using testing_support::serial_mean;

/// Ranks whose transport does not have the peers' memory.
struct OnMessages {
    template <class F>
    void operator()(gx::Placement placement, F f) const {
        gx::ThreadWorld<>({.placement = placement}).run([&](auto& rank) {
            gx::TransportOver link(rank.transport());
            gx::testing::RankWithTransport other(rank, link);
            f(other);
        });
    }
};

// ---- Cases worked by hand -----------------------------------------------------------
TEST(SharedMemory, AveragesThreeRanksWithoutAMessage) {
    Rows rows{{3, 6}, {30, 60}, {300, 600}};
    const auto report = reduce_on<SharedMemory<>>({.ranks = 3}, rows);
    EXPECT_EQ(rows, (Rows{{111, 222}, {111, 222}, {111, 222}}));
    EXPECT_EQ(report.steps, 0);
    EXPECT_EQ(report.bytes_sent, 0);
}
TEST(SharedMemory, SendsMessagesWhereMemoryIsNotShared) {
    const Rows rows{{3, 6}, {30, 60}, {300, 600}};
    const auto out = gx::testing::reduce_jobs<SharedMemory<>>(OnMessages{}, {1, 3}, {rows});
    EXPECT_EQ(out.rows[0], (Rows{{111, 222}, {111, 222}, {111, 222}}));
    EXPECT_EQ(out.reports[0][0].steps, 2);
    EXPECT_GT(out.reports[0][0].bytes_sent, 0);
}
TEST(SharedMemory, RoundsWhatItReadsAndTheMean) {
    Rows rows{{1.0f + 0x1p-11f}, {0x1p-11f}};  // the first rounds to 1 in fp16, the mean up
    reduce_on<SharedMemory<gx::fp16>>({.ranks = 2}, rows);
    EXPECT_EQ(rows[0][0], gx::fp16::decode(gx::fp16::encode((1.0f + 0x1p-11f) / 2)));
    EXPECT_EQ(rows[1], rows[0]);
}
TEST(SharedMemory, IsCalledByItsElement) {
    EXPECT_EQ(gx::reducer_name<SharedMemory<gx::bf16>>(), "SharedMemory<bf16>");
}

// ---- One set of bits in every world ---------------------------------------------------

template <class R, class E>
void has_the_bits_of_the_serial_mean() {
    const gx::Placement placement = *a_placement();
    const Rows before = some_rows(placement);
    const auto expect = [&](const auto& on) {
        const auto out = gx::testing::reduce_jobs<R>(on, placement, {before});
        for (const auto& row : out.rows[0])
            for (std::size_t i = 0; i < row.size(); ++i)
                RC_ASSERT(same_bits(row[i], serial_mean<E>(before, i)));
    };
    expect(gx::testing::OnThreads{});
    expect(OnMessages{});
    expect(gx::sim::OnCluster{});
}
RC_GTEST_PROP(SharedMemory, OfFloats, ()) {
    has_the_bits_of_the_serial_mean<SharedMemory<>, gx::fp32>();
}
RC_GTEST_PROP(SharedMemory, OfHalves, ()) {
    has_the_bits_of_the_serial_mean<SharedMemory<gx::fp16>, gx::fp16>();
}
RC_GTEST_PROP(SharedMemory, OfBrainsInBuckets, ()) {
    has_the_bits_of_the_serial_mean<gx::Bucketed<SharedMemory<gx::bf16>, 64>, gx::bf16>();
}
RC_GTEST_PROP(SharedMemory, OfValuesThatAreKeptInHalves, ()) {
    const gx::Placement placement = *a_placement();
    const Rows before = some_rows(placement);
    Rows kept = before;
    for (auto& row : kept)
        for (float& x : row) x = gx::fp16::decode(gx::fp16::encode(x));
    const auto expect = [&](const auto& on) {
        std::atomic<int> differences = 0;
        on(placement, [&](auto& rank) {
            const auto& row = before[std::size_t(rank.rank())];
            std::vector<gx::fp16::storage> values(row.size());
            gx::encode<gx::fp16>(row, values);
            SharedMemory<gx::fp16> reducer;
            reducer.reserve(gx::ReducePlan::whole(placement, std::ssize(row)));
            differences += !reducer.average(rank.transport(), std::span(values)).complete();
            for (std::size_t i = 0; i < values.size(); ++i)
                differences +=
                    !same_bits(gx::fp16::decode(values[i]), serial_mean<gx::fp16>(kept, i));
        });
        RC_ASSERT(differences == 0);
    };
    expect(gx::testing::OnThreads{});
    expect(OnMessages{});
}
RC_GTEST_PROP(SharedMemory, OfLongBuckets, (std::uint64_t seed)) {  // several blocks a rank
    const int ranks = *rc::gen::inRange(1, 5);
    const Rows before = gx::testing::wide_magnitudes(seed, ranks, *rc::gen::inRange(2'000, 20'000));
    Rows rows = before;
    reduce_on<SharedMemory<>>({.ranks = ranks}, rows);
    for (const auto& row : rows)
        for (std::size_t i = 0; i < row.size(); ++i)
            RC_ASSERT(same_bits(row[i], serial_mean<gx::fp32>(before, i)));
}
/// Values of which an order of sums, or a rounding, may make one NaN or another, or none.
TEST(SharedMemory, InfinitiesAndNaNsHaveOneSetOfBits) {
    constexpr float inf = std::numeric_limits<float>::infinity();
    const float nan = std::bit_cast<float>(0x7fc01234u), other = std::bit_cast<float>(0xffc56789u);
    const Rows before{{inf, nan, 3e38f, 1, other, -0.0f},
                      {-inf, other, 3e38f, nan, inf, -0.0f},
                      {1, 1, -3e38f, inf, nan, -0.0f}};
    const auto bits = [&](const auto& on) {
        const auto out = gx::testing::reduce_jobs<SharedMemory<>>(on, {1, 3}, {before});
        std::vector<std::uint32_t> all;
        for (const auto& row : out.rows[0])
            for (const float x : row) all.push_back(std::bit_cast<std::uint32_t>(x));
        return all;
    };
    const auto direct = bits(gx::testing::OnThreads{});
    EXPECT_EQ(direct, bits(OnMessages{}));
    EXPECT_EQ(direct, bits(gx::sim::OnCluster{}));
}
using SharedMemoryOnProcesses = testing_support::WithProcesses;
TEST_F(SharedMemoryOnProcesses, EndsWithTheSameBits) {
    for (const int ranks : {1, 2, 4}) {
        const Rows before = gx::testing::wide_magnitudes(7, ranks, 1001);
        gx::testing::ProcessWorld<> world({.placement = {1, ranks}});
        testing_support::run_checked(world, [&](auto& rank) {
            std::vector<float> row = before[std::size_t(rank.rank())];
            SharedMemory<gx::fp16> reducer;
            reducer.reserve(gx::ReducePlan::whole({1, ranks}, std::ssize(row)));
            const auto report = reducer.all_reduce(rank.transport(), std::span(row));
            EXPECT_TRUE(report.complete());
            EXPECT_EQ(report.bytes_sent, 0) << "in memory that they share";
            for (std::size_t i = 0; i < row.size(); ++i)
                EXPECT_TRUE(same_bits(row[i], serial_mean<gx::fp16>(before, i))) << i;
        });
    }
}

// ---- Faults: none hangs the others ------------------------------------------------------
TEST(SharedMemory, SaysSoWhenARankIsLost) {
    Rows rows(3, std::vector<float>(12, 1.0f));
    const auto report = reduce_on<SharedMemory<>>({.ranks = 3, .dead_rank = 2}, rows);
    EXPECT_FALSE(report.complete());
    EXPECT_EQ(report.delivery.peer, 2);
}
/// Through a Pipeline, whose gradients go away when a rank throws beside its stream.
TEST(SharedMemory, ARankThatThrowsBesideItsReductionHangsNoOther) {
    for (int turn = 0; turn < 40; ++turn) {
        std::array<bool, 3> complete{};
        const auto run = [&] {
            gx::Threads<3>({.deadline = std::chrono::hours(10)}).run([&](auto& rank) {
                gx::Pipeline pipeline(rank.stream(), rank.transport(), {.elements = 50'000},
                                      gx::Bucketed<SharedMemory<>, 4096>());
                for (std::uint64_t t = 0; t < 3; ++t) {
                    const auto gradient = pipeline.begin(t);
                    std::ranges::fill(gradient, float(rank.rank()));
                    pipeline.ready(0);
                    if (t == 1 && rank.rank() == turn % 3) throw gx::Error("beside its stream");
                    const auto mean = pipeline.collect(t);
                    complete[std::size_t(rank.rank())] = mean->report.complete();
                    if (!mean->report.complete()) return;
                    for (const float x : mean->values) ASSERT_EQ(x, 1.0f);
                }
                FAIL() << "a rank was lost";
            });
        };
        EXPECT_THROW(run(), gx::Error);
        for (int r = 0; r < 3; ++r) EXPECT_TRUE(r == turn % 3 || !complete[std::size_t(r)]);
    }
}
TEST(SharedMemoryDeathTest, UnequalLengthsBreakTheContract) {
    EXPECT_DEATH(
        {
            gx::testing::OnThreads{}({1, 2}, [](auto& rank) {
                SharedMemory<> reducer;
                reducer.reserve(gx::ReducePlan::whole({1, 2}, 9));
                std::vector<float> row(std::size_t(3 + rank.rank()));
                (void)reducer.all_reduce(rank.transport(), std::span(row));
            });
        },
        "rank (0 reduces a bucket of 12 bytes where rank 1 has 16|1 reduces a bucket of 16 bytes "
        "where rank 0 has 12): all ranks reduce a bucket of one length");
}

// ---- Training -------------------------------------------------------------------------
TEST_F(SharedMemoryOnProcesses, TrainToTheWeightsOfThreads) {
    using namespace testing_support;
    using T = gx::Trainer<Net, gx::DoubleBuffered<gx::Bucketed<SharedMemory<gx::fp16>, 256>>,
                          gx::Constant>;
    const T::Options o{.batch = 4, .epochs = 2, .scheduler = {.peak_rate = 0.1f}};
    auto world = threads(3);
    gx::testing::Processes<3, gx::reference::Device> processes;
    EXPECT_EQ(T(o).train(world, images(24)).weights_hash,
              T(o).train(processes, images(24)).weights_hash);
}
TEST(SharedMemory, ThreadsAndTheClusterTrainToOneSetOfWeights) {
    using namespace testing_support;
    using T = gx::Trainer<Net, gx::Bucketed<SharedMemory<>, 256>, gx::Constant>;
    const T::Options o{.batch = 4, .epochs = 2, .scheduler = {.peak_rate = 0.1f}};
    auto world = threads(3);
    gx::sim::Cluster<gx::reference::Device> cluster(gx::sim::ethernet_10g(3));
    EXPECT_EQ(T(o).train(world, images(24)).weights_hash,
              T(o).train(cluster, images(24)).weights_hash);
}

}  // namespace
