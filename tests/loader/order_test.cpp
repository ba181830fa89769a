#include <gx/loader/order.hpp>

#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

using namespace gx;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::uint32_t> share(std::int64_t samples, LoaderOptions o, int epoch,
                                 std::int64_t step) {
    EpochOrder order(samples, o);
    order.begin_epoch(epoch);
    const auto mine = order.share(step);
    return {mine.begin(), mine.end()};
}

// ---- A case worked by hand ------------------------------------------------------------------
TEST(EpochOrder, CutsElevenSamplesForThreeRanks) {
    const auto of = [](int rank, std::int64_t step) {
        return share(11, {.batch = 2, .ranks = 3, .rank = rank, .shuffle = false}, 0, step);
    };
    EXPECT_THAT(of(0, 0), ElementsAre(0, 1));
    EXPECT_THAT(of(1, 0), ElementsAre(2, 3));
    EXPECT_THAT(of(2, 0), ElementsAre(4, 5));
    EXPECT_THAT(of(0, 1), ElementsAre(6, 7));  // the tail: 5 images as 2, 2, 1
    EXPECT_THAT(of(1, 1), ElementsAre(8, 9));
    EXPECT_THAT(of(2, 1), ElementsAre(10));
}
TEST(EpochOrder, LeavesLaterRanksEmptyInAShortTail) {
    const auto of = [](int rank) {
        return share(10, {.batch = 3, .ranks = 3, .rank = rank, .shuffle = false}, 0, 1);
    };
    EXPECT_THAT(of(0), ElementsAre(9));
    EXPECT_THAT(of(1), ElementsAre());
    EXPECT_THAT(of(2), ElementsAre());
}

// ---- Properties, for any shape --------------------------------------------------------------
struct Shape {
    int ranks, batch;
    std::int64_t samples;
    std::uint64_t seed;
    int epoch;
};
Shape any_shape() {
    const int ranks = *rc::gen::inRange(1, 20);
    return {ranks, *rc::gen::inRange(1, 20), *rc::gen::inRange<std::int64_t>(ranks, 500),
            *rc::gen::arbitrary<std::uint64_t>(), *rc::gen::inRange(0, 100)};
}

RC_GTEST_PROP(EpochOrder, GivesEverySampleOnceAnEpoch, ()) {
    const Shape s = any_shape();
    std::vector<std::uint32_t> seen;
    for (int rank = 0; rank < s.ranks; ++rank) {
        EpochOrder order(s.samples, {s.batch, s.ranks, rank, s.seed});
        order.begin_epoch(s.epoch);
        for (std::int64_t step = 0; step < order.steps(); ++step) {
            const auto mine = order.share(step);
            RC_ASSERT(std::ssize(mine) <= s.batch);
            seen.insert(seen.end(), mine.begin(), mine.end());
        }
    }
    std::sort(seen.begin(), seen.end());
    RC_ASSERT(std::ssize(seen) == s.samples);
    for (std::size_t i = 0; i < seen.size(); ++i) RC_ASSERT(seen[i] == i);
}

RC_GTEST_PROP(EpochOrder, SharesAStepEvenly, ()) {
    const Shape s = any_shape();
    EpochOrder all(s.samples, {s.batch, s.ranks, 0, s.seed});
    for (std::int64_t step = 0; step < all.steps(); ++step) {
        std::ptrdiff_t least = s.batch, most = 0, sum = 0;
        for (int rank = 0; rank < s.ranks; ++rank) {
            const EpochOrder order(s.samples, {s.batch, s.ranks, rank, s.seed});
            const auto count = std::ssize(order.share(step));
            least = std::min(least, count);
            most = std::max(most, count);
            sum += count;
        }
        RC_ASSERT(most - least <= 1);
        RC_ASSERT(sum == std::ssize(all.step(step)));
    }
}

RC_GTEST_PROP(EpochOrder, KeepsAStepsSetWhenRanksAndBatchSwap, ()) {
    const Shape s = any_shape();
    RC_PRE(s.samples >= s.batch);
    EpochOrder some(s.samples, {s.batch, s.ranks, 0, s.seed});
    EpochOrder others(s.samples, {s.ranks, s.batch, 0, s.seed});
    some.begin_epoch(s.epoch);
    others.begin_epoch(s.epoch);
    RC_ASSERT(some.steps() == others.steps());
    for (std::int64_t step = 0; step < some.steps(); ++step)
        RC_ASSERT(std::ranges::equal(some.step(step), others.step(step)));
}

RC_GTEST_PROP(EpochOrder, DependsOnSeedAndEpochAlone, ()) {
    const Shape s = any_shape();
    const LoaderOptions o{s.batch, s.ranks, 0, s.seed};
    EpochOrder straight(s.samples, o), wandering(s.samples, o);
    straight.begin_epoch(s.epoch);
    wandering.begin_epoch(s.epoch + 7);
    wandering.begin_epoch(s.epoch);
    RC_ASSERT(std::ranges::equal(straight.step(0), wandering.step(0)));
}

// An epoch that other numbers of ranks go on with: what each takes from where the last has ended.
RC_GTEST_PROP(EpochOrder, GoesOnWithinAnEpochWithAnyRanks, ()) {
    const Shape s = any_shape();
    EpochOrder whole(s.samples, {.batch = int(s.samples), .seed = s.seed});
    whole.begin_epoch(s.epoch);
    std::vector<std::uint32_t> seen;
    std::int64_t done = 0;
    for (int ranks = s.ranks; done < s.samples; ranks = std::max(1, ranks - 1)) {
        EpochOrder order(s.samples, {s.batch, ranks, 0, s.seed});
        order.begin_epoch(s.epoch, done);
        const std::int64_t steps = order.steps_after(done);
        const auto made = ranks == 1 ? steps : *rc::gen::inRange<std::int64_t>(0, steps + 1);
        for (std::int64_t step = 0; step < made; ++step)
            for (const std::uint32_t sample : order.step(step)) seen.push_back(sample);
        done = std::ssize(seen);
    }
    RC_ASSERT(std::ranges::equal(seen, whole.step(0)));
}

TEST(EpochOrder, ShufflesAnewForEachEpochAndSeed) {
    std::set<std::vector<std::uint32_t>> orders;
    for (const std::uint64_t seed : {0, 1, 2})
        for (const int epoch : {0, 1, 2})
            orders.insert(share(50, {.batch = 50, .seed = seed}, epoch, 0));
    EXPECT_EQ(orders.size(), 9u);
}

// ---- Bad input ------------------------------------------------------------------------------
std::string trouble(std::int64_t samples, LoaderOptions o) {
    try {
        EpochOrder(samples, o);
    } catch (const Error& e) {
        return e.what();
    }
    return "none";
}
TEST(EpochOrder, RefusesWhatCannotBeShared) {
    EXPECT_EQ(trouble(8, {.batch = 1, .ranks = 8}), "none");
    EXPECT_THAT(trouble(8, {.batch = 0}), HasSubstr("batch is 0"));
    EXPECT_THAT(trouble(8, {.batch = -3}), HasSubstr("batch is -3"));
    EXPECT_THAT(trouble(7, {.batch = 1, .ranks = 8}), HasSubstr("8 ranks share 7 samples"));
    EXPECT_THAT(trouble(0, {.batch = 1}), HasSubstr("1 ranks share 0 samples"));
    EXPECT_THAT(trouble(8, {.batch = 1, .ranks = 2, .rank = 2}), HasSubstr("rank 2 of 2"));
    EXPECT_THAT(trouble(8, {.batch = 1, .ranks = 2, .rank = -1}), HasSubstr("rank -1 of 2"));
    EXPECT_THAT(trouble(8, {.batch = 1, .ranks = 0}), HasSubstr("of 0 ranks"));
}
TEST(EpochOrderDeathTest, StopsPastTheEnd) {
    EpochOrder order(8, {.batch = 4});
    EXPECT_DEATH((void)order.share(2), "begin the next one");
    EXPECT_DEATH((void)order.share(-1), "begin the next one");
    EXPECT_DEATH(order.begin_epoch(-1), "epochs count from 0");
    EXPECT_DEATH(order.begin_epoch(0, 9), "begins at one of its samples");
}

}  // namespace
