#include <gx/sim/des/event_queue.hpp>  // first, so the header is seen to stand alone

#include <map>     // the plain answer
#include <tuple>   // its key
#include <vector>  // pops

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

using gx::Nanoseconds;
using gx::sim::EventQueue;

gx::Task numbered(std::uint64_t n) { return {nullptr, nullptr, n}; }

// ---- Cases worked by hand -----------------------------------------------------------
TEST(EventQueue, PopsByTimeThenRankThenOrderOfPosting) {
    EventQueue q;
    q.push(Nanoseconds(20), 0, numbered(4));
    q.push(Nanoseconds(10), 2, numbered(3));
    q.push(Nanoseconds(10), 1, numbered(1));
    q.push(Nanoseconds(10), 1, numbered(2));
    for (std::uint64_t n = 1; n <= 4; ++n) EXPECT_EQ(q.pop().task.argument, n);
    EXPECT_TRUE(q.empty());
}
TEST(EventQueue, AnEventOfTheOpenInstantComesInItsRanksTurn) {
    EventQueue q;
    for (const int rank : {0, 1, 3}) q.push(Nanoseconds(5), rank, numbered(0));
    EXPECT_EQ(q.pop().rank, 0);
    q.push(Nanoseconds(5), 2, numbered(0));
    q.push(Nanoseconds(5), 0, numbered(0));
    for (const int rank : {0, 1, 2, 3}) EXPECT_EQ(q.pop().rank, rank);
}
TEST(EventQueue, TheLastInstantOfTimeCanBeReached) {
    EventQueue q;
    q.push(Nanoseconds::max(), 1, numbered(2));
    q.push(Nanoseconds::max(), 2, numbered(3));
    q.push(Nanoseconds(5), 0, numbered(1));
    for (std::uint64_t n = 1; n <= 3; ++n) EXPECT_EQ(q.pop().task.argument, n);
    EXPECT_TRUE(q.empty());
}
TEST(EventQueue, KnowsWhatWouldBeNext) {
    EventQueue q;
    EXPECT_TRUE(q.would_be_next(Nanoseconds(7), 9));
    q.push(Nanoseconds(5), 3, numbered(0));
    q.push(Nanoseconds(5), 4, numbered(0));
    EXPECT_TRUE(q.would_be_next(Nanoseconds(4), 9));
    EXPECT_FALSE(q.would_be_next(Nanoseconds(6), 0));
    EXPECT_EQ(q.pop().rank, 3);  // the instant is open now
    EXPECT_TRUE(q.would_be_next(Nanoseconds(5), 3));
    EXPECT_FALSE(q.would_be_next(Nanoseconds(5), 4)) << "posted later, so after that of rank 4";
}

// ---- A property: as a sorted map does it --------------------------------------------
/// Steps near and far: the same instant, within the wheel, at its rim, beyond it.
std::int64_t any_step() {
    switch (*rc::gen::inRange(0, 5)) {
        case 0: return 0;
        case 1: return *rc::gen::inRange(1, 5);
        case 2: return *rc::gen::inRange(1, 40'000);
        case 3: return *rc::gen::inRange(32'760, 32'776);
        default: return *rc::gen::inRange(1, 20) * std::int64_t{100'000};
    }
}
RC_GTEST_PROP(EventQueue, PopsAsASortedMapDoes, ()) {
    EventQueue q;
    std::map<std::tuple<std::int64_t, int, std::uint64_t>, std::uint64_t> plain;
    std::int64_t now = 0;
    const int actions = *rc::gen::inRange(1, 300);
    for (std::uint64_t n = 0; n < static_cast<std::uint64_t>(actions); ++n) {
        if (*rc::gen::inRange(0, 3) > 0) {
            const std::int64_t time = now + any_step();
            const int rank = *rc::gen::inRange(0, 4);
            q.push(Nanoseconds(time), rank, numbered(n));
            plain[{time, rank, n}] = n;
        } else if (!plain.empty()) {
            const auto popped = q.pop();
            const auto [key, value] = *plain.begin();
            plain.erase(plain.begin());
            RC_ASSERT(popped.task.argument == value);
            RC_ASSERT(popped.time.count() == std::get<0>(key));
            RC_ASSERT(popped.rank == std::get<1>(key));
            now = std::get<0>(key);
        }
        RC_ASSERT(q.size() == plain.size());
        if (plain.empty()) continue;
        const auto [time, rank, sequence] = plain.begin()->first;
        if (q.would_be_next(Nanoseconds(time), rank))  // never a wrong yes
            RC_FAIL("posted after an event of that time and rank, so not the next");
        RC_ASSERT(time <= now || q.would_be_next(Nanoseconds(time - 1), 3));
    }
    for (; !plain.empty(); plain.erase(plain.begin()))
        RC_ASSERT(q.pop().task.argument == plain.begin()->second);
    RC_ASSERT(q.empty());
}

// ---- Bad input ----------------------------------------------------------------------
TEST(EventQueueDeathTest, RefusesThePast) {
    EventQueue q;
    q.push(Nanoseconds(5), 0, numbered(0));
    (void)q.pop();
    EXPECT_DEATH(q.push(Nanoseconds(4), 0, numbered(0)), "before the last one that was popped");
}

}  // namespace
