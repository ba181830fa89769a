#include <gx/local_sgd/reducer.hpp>

#include <gtest/gtest.h>

#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/multi_ring.hpp>
#include <gx/reducer/name.hpp>
#include <gx/reducer/ring.hpp>
#include <support/reduce_on.hpp>

// ---- What the type promises ---------------------------------------------------------
using gx::LocalSgd;
using gx::LocalState;
using gx::Ring;
static_assert(gx::OwnsUpdate<LocalSgd<Ring<>, 4>>);
static_assert(LocalSgd<Ring<>, 4>::owns_update.apart && !LocalSgd<Ring<>, 4>::owns_update.in_parts);
static_assert(gx::RepeatsWork<LocalSgd<Ring<>, 4>>);
static_assert(LocalSgd<gx::MultiRing<4>, 2>::channels == 4 && LocalSgd<Ring<>, 2>::period == 2);

namespace {

using Four = LocalSgd<gx::Bucketed<Ring<>, 8>, 2>;  // buckets of two elements

Four owned(auto& rank, LocalState state, std::span<float> vectors) {
    Four reducer({.state = state});
    reducer.reserve({.placement = {1, 2}, .elements = 3, .bucket_elements = 2});
    reducer.own_update(rank.rank(), vectors);
    return reducer;
}

// ---- Cases worked by hand -----------------------------------------------------------
TEST(LocalSgd, IsWhatItWrapsWithoutATrainer) {
    Rows rows{{3, 6}, {30, 60}, {300, 600}};
    reduce_on<LocalSgd<Ring<>, 4>>({.ranks = 3}, rows);
    EXPECT_EQ(rows, (Rows{{111, 222}, {111, 222}, {111, 222}}));
}
TEST(LocalSgd, KnowsWhereAMeanFollows) {
    EXPECT_EQ(gx::next_work(LocalSgd<Ring<>, 3>(), false), 0);
    EXPECT_EQ(gx::next_work(LocalSgd<Ring<>, 3>(), true), 1) << "behind an epoch";
    EXPECT_EQ(gx::next_work(LocalSgd<Ring<>, 1>(), false), 1);
    EXPECT_EQ(gx::next_work(Ring<>(), true), 0);
}
TEST(LocalSgd, LeavesGradientsAndAveragesParametersEveryPeriod) {
    gx::testing::OnThreads{}({1, 2}, [](auto& rank) {
        auto& link = rank.transport();
        const float own = rank.rank() == 0 ? 2.0f : 4.0f;
        std::vector<float> momentum(3, own);
        Four reducer = owned(rank, LocalState::kept, momentum);
        std::vector<float> gradient(3, own), parameters(3, own);
        const auto none = reducer.all_reduce(link, std::span(gradient).first(2));
        EXPECT_TRUE(none.complete());
        EXPECT_EQ(none.bytes_sent, 0);
        EXPECT_EQ(gradient[0], own);

        int changes = 0;
        const auto change = [&](gx::FunctionRef<void(std::span<float>)> f) {
            ++changes;
            f(parameters);
        };
        EXPECT_EQ(reducer.updated(link, {change}).bytes_sent, 0);
        EXPECT_EQ(changes, 0) << "an update between means touches nothing";
        const auto mean = reducer.updated(link, {change, rank.rank() == 0});  // 1 skips it
        EXPECT_EQ(mean.steps, 2 * 2) << "two buckets";
        EXPECT_EQ(mean.bytes_sent, 4 * 3);
        EXPECT_EQ(parameters, (std::vector<float>{3, 3, 3}));
        EXPECT_EQ(momentum, std::vector<float>(3, own)) << "kept";

        parameters.assign(3, own);
        EXPECT_GT(reducer.updated(link, {change, true, true}).bytes_sent, 0) << "the epoch's last";
        EXPECT_EQ(reducer.updated(link, {change}).bytes_sent, 0) << "the period begins anew";
        EXPECT_GT(reducer.updated(link, {change}).bytes_sent, 0);
    });
}
TEST(LocalSgd, AveragesOrResetsEveryVectorOfState) {
    gx::testing::OnThreads{}({1, 2}, [](auto& rank) {
        for (const LocalState state : {LocalState::averaged, LocalState::reset}) {
            std::vector<float> moments(6, rank.rank() == 0 ? 2.0f : 4.0f), parameters(3);
            Four reducer = owned(rank, state, moments);
            EXPECT_TRUE(reducer.state().empty()) << "equal on all ranks when it is saved";
            const auto change = [&](gx::FunctionRef<void(std::span<float>)> f) { f(parameters); };
            const auto mean = reducer.updated(rank.transport(), {change, true, true});
            EXPECT_TRUE(mean.complete());
            EXPECT_EQ(moments, std::vector<float>(6, state == LocalState::averaged ? 3.0f : 0.0f));
        }
    });
}
TEST(LocalSgd, KeepsTheStateOfEachRankForCheckpoints) {
    gx::testing::OnThreads{}({1, 2}, [](auto& rank) {
        std::vector<float> moments(6);
        Four reducer = owned(rank, LocalState::kept, moments);
        const gx::StateList list = reducer.state();
        ASSERT_EQ(list.size(), 2u);
        EXPECT_EQ(list[1].name, "optimizer state 1");
        EXPECT_EQ(list[1].values.data(), moments.data() + 3);
        EXPECT_EQ(list[1].scope, gx::StateScope::per_rank);
        EXPECT_TRUE(list[1].is_gradient);
    });
}
TEST(LocalSgd, IsCalledByWhatItWraps) {
    EXPECT_EQ((gx::reducer_name<LocalSgd<Ring<gx::fp16>, 8>>()), "LocalSgd<Ring<fp16>, 8>");
}

// ---- A fault --------------------------------------------------------------------------
TEST(LocalSgd, SaysAtTheMeanThatARankIsLost) {
    gx::testing::OnThreads{}({1, 2}, [](auto& rank) {
        std::vector<float> momentum(3), parameters(3);
        Four reducer = owned(rank, LocalState::averaged, momentum);
        if (rank.rank() == 1) return;
        const auto change = [&](gx::FunctionRef<void(std::span<float>)> f) { f(parameters); };
        EXPECT_TRUE(reducer.updated(rank.transport(), {change}).complete());
        const auto mean = reducer.updated(rank.transport(), {change});
        EXPECT_FALSE(mean.complete());
        EXPECT_EQ(mean.delivery.peer, 1);
    });
}

}  // namespace
