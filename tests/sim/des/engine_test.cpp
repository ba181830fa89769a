#include <gx/sim/des/engine.hpp>  // first, so the header is seen to stand alone

#include <stdexcept>  // runtime_error
#include <string>     // logs

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

using gx::Nanoseconds;
using gx::sim::Engine;
using gx::sim::Wake;
using namespace gx::literals;

// ---- Order --------------------------------------------------------------------------
TEST(Engine, EventsComeByTimeThenRankThenPosting) {
    Engine engine;
    std::string log;
    struct Letter {
        std::string* log;
        char letter;
    };
    std::vector<Letter> letters;
    letters.reserve(8);
    const auto post = [&](int time, int rank, char letter) {
        letters.push_back({&log, letter});
        engine.at(Nanoseconds(time), rank,
                  {[](void* l, std::uint64_t) {
                       *static_cast<Letter*>(l)->log += static_cast<Letter*>(l)->letter;
                   },
                   &letters.back(), 0});
    };
    post(2, 0, 'e');
    post(1, 7, 'c');
    post(1, 3, 'a');
    post(1, 7, 'd');
    post(1, 3, 'b');
    engine.drain();
    EXPECT_EQ(log, "abcde");
    EXPECT_EQ(engine.now(), Nanoseconds(2));
}

RC_GTEST_PROP(Engine, AnyFibersSleepInOrder, ()) {
    const auto naps = *rc::gen::container<std::vector<std::vector<int>>>(
        rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 5)));
    Engine engine;
    std::vector<std::pair<Nanoseconds, int>> log;
    for (std::size_t f = 0; f < naps.size(); ++f)
        engine.spawn(static_cast<int>(f), "napper", [&, f] {
            Nanoseconds expected{};
            for (const int nap : naps[f]) {
                engine.advance(Nanoseconds(nap));
                expected += Nanoseconds(nap);
                RC_ASSERT(engine.now() == expected);
                log.emplace_back(engine.now(), static_cast<int>(f));
            }
        });
    engine.run();
    for (std::size_t i = 1; i < log.size(); ++i) RC_ASSERT(log[i - 1].first <= log[i].first);
}

// ---- Waiting ------------------------------------------------------------------------
TEST(Engine, AFiberIsWokenAtTheTimeOfTheWaker) {
    Engine engine;
    auto& sleeper = engine.spawn(0, "sleeper", [&] {
        EXPECT_EQ(engine.block(Engine::no_deadline), Wake::signalled);
        EXPECT_EQ(engine.now(), 5_us);
    });
    engine.spawn(1, "waker", [&] {
        engine.advance(5_us);
        engine.wake(sleeper);
    });
    engine.run();
}

TEST(Engine, ADeadlineEndsAWaitAndALaterOneIsPostedAnew) {
    Engine engine;
    gx::sim::ScheduledFiber* sleeper = nullptr;
    sleeper = &engine.spawn(0, "sleeper", [&] {
        EXPECT_EQ(engine.block(10_us), Wake::signalled);  // at 4 us
        EXPECT_EQ(engine.block(10_us), Wake::deadline);   // the first timer fires in between
        EXPECT_EQ(engine.now(), 14_us);
        EXPECT_EQ(engine.block(1_us), Wake::deadline);
        EXPECT_EQ(engine.now(), 15_us);
    });
    engine.spawn(1, "waker", [&] {
        engine.advance(4_us);
        engine.wake(*sleeper);
    });
    engine.run();
}

TEST(Engine, ADeadlockWakesAllWhoWait) {
    Engine engine;
    int told = 0;
    for (int r = 0; r < 3; ++r)
        engine.spawn(r, "waiter",
                     [&] { told += engine.block(Engine::no_deadline) == Wake::deadlock; });
    engine.run();
    EXPECT_EQ(told, 3);
}

// ---- Failures -----------------------------------------------------------------------
TEST(Engine, TheFirstErrorIsThrownWhenAllHaveEnded) {
    Engine engine;
    bool ended = false;
    engine.spawn(0, "waiter", [&] {
        EXPECT_EQ(engine.block(Engine::no_deadline), Wake::cancelled);
        engine.advance(3_us);
        ended = true;
        throw std::runtime_error("second");
    });
    engine.spawn(1, "thrower", [&] {
        engine.advance(1_us);
        throw std::runtime_error("first");
    });
    try {
        engine.run();
        FAIL() << "the error is lost";
    } catch (const std::runtime_error& e) {
        EXPECT_STREQ(e.what(), "first");
    }
    EXPECT_TRUE(ended);
}

/// Waits while it is destroyed by unwinding, as a guard of a stream would.
struct WaitsOnExit {
    Engine& engine;
    ~WaitsOnExit() { engine.advance(5_us); }
};
TEST(Engine, EachFiberHasItsOwnExceptionsInFlight) {
    Engine engine;
    int caught = 0;
    for (int r = 0; r < 3; ++r)
        engine.spawn(r, "unwinder", [&, r] {
            engine.advance(Nanoseconds(r));
            try {
                const WaitsOnExit guard{engine};
                throw std::runtime_error(std::to_string(r));
            } catch (const std::runtime_error& e) {
                EXPECT_EQ(std::uncaught_exceptions(), 0);
                engine.advance(5_us);
                EXPECT_EQ(e.what(), std::to_string(r));
                ++caught;
            }
        });
    engine.run();
    EXPECT_EQ(caught, 3);
}

TEST(EngineDeathTest, TimeDoesNotGoBackwards) {
    EXPECT_DEATH(
        {
            Engine engine;
            engine.spawn(0, "f", [&] { engine.advance(Nanoseconds(-1)); });
            engine.run();
        },
        "virtual time does not go backwards");
    EXPECT_DEATH(Engine().advance(1_us), "only a fiber can sleep");
}

}  // namespace
