#include <gx/parameter_server/reducer.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/name.hpp>
#include <gx/sim/testing/on_cluster.hpp>
#include <gx/testing/far/world.hpp>
#include <support/generators.hpp>
#include <support/reduce_on.hpp>

// ---- What the type promises ---------------------------------------------------------
static_assert(gx::Reducer<gx::ParameterServer<>> && gx::Reducer<gx::ParameterServer<gx::fp16>>);
static_assert(gx::ParameterServer<>::check({.servers = 0}).empty() &&
              !gx::ParameterServer<>::check({.servers = -1}).empty());

namespace {

using gx::ParameterServer;

template <int S, class E = gx::fp32>
struct Servers : ParameterServer<E> {
    struct Options {};
    explicit Servers(Options = {}) : ParameterServer<E>({.servers = S}) {}
};

// ---- Cases worked by hand -----------------------------------------------------------
TEST(ParameterServer, AveragesThreeRanks) {
    Rows rows{{3, 6}, {30, 60}, {300, 600}};
    const auto report = reduce_on<Servers<1>>({.ranks = 3}, rows);
    EXPECT_EQ(rows, (Rows{{111, 222}, {111, 222}, {111, 222}}));
    EXPECT_EQ(report.steps, 2);
    EXPECT_EQ(report.bytes_sent, 2 * 2 * 4) << "the server sends both floats to two ranks";
}
TEST(ParameterServer, EveryRankSendsAShareToEveryOther) {
    Rows rows(4, std::vector<float>(12, 1.0f));
    const auto report = reduce_on<ParameterServer<gx::fp16>>({.ranks = 4}, rows);
    EXPECT_EQ(report.steps, 2);
    EXPECT_EQ(report.bytes_sent, 2 * (9 + 9));
}
TEST(ParameterServer, SumsInFloatAndRoundsOnce) {
    // In fp16, 2048 + 1 rounds to 2048 at every hop of a ring.
    Rows rows{{2048}, {1}, {1}, {2}};
    reduce_on<ParameterServer<gx::fp16>>({.ranks = 4}, rows);
    for (const auto& row : rows) EXPECT_EQ(row[0], 513.0f);
    Rows large{{60000}, {60000}};
    reduce_on<ParameterServer<gx::fp16>>({.ranks = 2}, large);
    EXPECT_EQ(large[0][0], 60000.0f) << "the sum is above the largest fp16";
}
TEST(ParameterServer, IsCalledByItsElement) {
    EXPECT_EQ(gx::reducer_name<ParameterServer<gx::bf16>>(), "ParameterServer<bf16>");
}
TEST(ParameterServer, RefusesBadOptions) {
    EXPECT_DEATH(ParameterServer<>({.servers = -1}), "options that its check\\(\\) refuses");
}

// ---- Properties ---------------------------------------------------------------------

/// The mean in plain words.
template <class E>
float mean(const Rows& rows, std::size_t i) {
    float sum = E::decode(E::encode(rows[0][i]));
    for (std::size_t r = 1; r < rows.size(); ++r) sum += E::decode(E::encode(rows[r][i]));
    return E::decode(E::encode(sum * (1.0f / static_cast<float>(rows.size()))));
}
template <class R, class E>
void has_the_bits_of_the_serial_mean(const auto& on) {
    const gx::Placement placement = *a_placement();
    const Rows before = some_rows(placement);
    const auto out = gx::testing::reduce_jobs<R>(on, placement, {before});
    for (const auto& row : out.rows[0])
        for (std::size_t i = 0; i < row.size(); ++i) RC_ASSERT(row[i] == mean<E>(before, i));
}
RC_GTEST_PROP(ParameterServer, OfFloatsSumsFromRankZeroUp, ()) {
    has_the_bits_of_the_serial_mean<ParameterServer<>, gx::fp32>(gx::testing::OnThreads{});
}
RC_GTEST_PROP(ParameterServer, OfHalvesSumsFromRankZeroUp, ()) {
    has_the_bits_of_the_serial_mean<ParameterServer<gx::fp16>, gx::fp16>(gx::testing::OnThreads{});
}
RC_GTEST_PROP(ParameterServer, TheNumberOfServersChangesNoBit, ()) {
    has_the_bits_of_the_serial_mean<Servers<1>, gx::fp32>(gx::testing::OnThreads{});
    has_the_bits_of_the_serial_mean<Servers<3, gx::bf16>, gx::bf16>(gx::sim::OnCluster{});
}
RC_GTEST_PROP(ParameterServer, BucketsChangeNoBit, ()) {
    has_the_bits_of_the_serial_mean<gx::Bucketed<ParameterServer<gx::fp16>, 64>, gx::fp16>(
        gx::testing::OnThreads{});
}
RC_GTEST_PROP(ParameterServer, TheOrderOfArrivalChangesNoBit, (std::uint64_t seed)) {
    has_the_bits_of_the_serial_mean<ParameterServer<gx::fp16>, gx::fp16>(
        gx::testing::OnThreads{}.reordered(seed));
    has_the_bits_of_the_serial_mean<Servers<1>, gx::fp32>(gx::testing::OnThreads{}.reordered(seed));
}
TEST(ParameterServer, MoreRanksThanMessagesAtOnce) {
    for (const int servers : {0, 1, 5}) {
        Rows rows(67);
        for (std::size_t r = 0; r < rows.size(); ++r) rows[r] = {float(r), float(r % 7), 1.0f};
        const Rows before = rows;
        gx::sim::OnCluster{}({1, 67}, [&](auto& rank) {
            ParameterServer<> reducer({.servers = servers});
            reducer.reserve(gx::ReducePlan::whole({1, 67}, 3));
            EXPECT_TRUE(
                reducer.all_reduce(rank.transport(), rows[std::size_t(rank.rank())]).complete());
        });
        for (const auto& row : rows)
            for (std::size_t i = 0; i < row.size(); ++i)
                EXPECT_EQ(row[i], mean<gx::fp32>(before, i));
    }
}

/// Over a stream-ordered transport they go in two groups each way, whoever serves.
TEST(ParameterServer, MoreRanksThanMessagesOfAGroup) {
    using Memory = gx::testing::FarMemory;
    for (const int servers : {0, 1, 5}) {
        Rows rows(67);
        for (std::size_t r = 0; r < rows.size(); ++r) rows[r] = {float(r), float(r % 7), 1.0f};
        const Rows before = rows;
        gx::testing::FarWorld<>({.placement = {1, 67}}).run([&](auto& rank) {
            std::span<float> row = rows[std::size_t(rank.rank())];
            gx::Buffer<float> bucket(&rank.memory(), std::ssize(row), "bucket");
            const auto view = bucket.template view<Memory>();
            ParameterServer<> reducer({.servers = servers});
            gx::ReducePlan plan = gx::ReducePlan::whole({1, 67}, std::ssize(row));
            plan.memory = &rank.memory();
            reducer.reserve(plan);
            auto& queue = rank.stream();
            queue.copy_in(std::span<const float>(row), view, {"bucket"});
            EXPECT_EQ(reducer.all_reduce(rank.transport(), gx::BucketIn<Memory>(view)).steps, 4);
            queue.copy_out(gx::ViewIn<const float, Memory>(view), row, {"bucket"});
            EXPECT_TRUE(queue.wait(queue.record()).complete());
        });
        for (const auto& row : rows)
            for (std::size_t i = 0; i < row.size(); ++i)
                EXPECT_EQ(row[i], mean<gx::fp32>(before, i));
    }
}

// ---- A fault --------------------------------------------------------------------------
TEST(ParameterServer, SaysSoWhenARankIsLost) {
    for (const int dead : {0, 2}) {
        Rows rows(3, std::vector<float>(12, 1.0f));
        const auto all = reduce_on<ParameterServer<>>({.ranks = 3, .dead_rank = dead}, rows);
        EXPECT_FALSE(all.complete());
        EXPECT_EQ(all.delivery.peer, dead);
        const auto one = reduce_on<Servers<1>>({.ranks = 3, .dead_rank = dead}, rows);
        EXPECT_FALSE(one.complete());
        EXPECT_EQ(one.delivery.peer, dead);
    }
}
TEST(ParameterServerDeathTest, ABucketLargerThanReserved) {
    EXPECT_DEATH(
        {
            gx::testing::OnThreads{}({1, 1}, [](auto& rank) {
                ParameterServer<> reducer;
                reducer.reserve(gx::ReducePlan::whole({1, 1}, 3));
                std::vector<float> four(4);
                (void)reducer.all_reduce(rank.transport(), std::span(four));
            });
        },
        "larger than was reserved");
}

}  // namespace
