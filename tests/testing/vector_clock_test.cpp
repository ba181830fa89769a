#include <gx/testing/vector_clock.hpp>

#include <array>  // bytes one by one

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

using gx::testing::AccessHistory;
using gx::testing::Touch;
using gx::testing::VectorClock;

// ---- Clocks, by hand ------------------------------------------------------------------
TEST(VectorClock, KnowsTheLargerOfBoth) {
    VectorClock a, b;
    a.raise(0, 5);
    a.raise(2, 1);
    b.raise(0, 3);
    b.raise(1, 7);
    b.raise(2, 4);
    a.join(b, 2);
    EXPECT_EQ(a.at(0), 5u);
    EXPECT_EQ(a.at(1), 7u);
    EXPECT_EQ(a.at(2), 1u) << "except this one";
    EXPECT_EQ(a.at(9), 0u) << "of whom nothing is known";
    a.advance(9);
    EXPECT_EQ(a.at(9), 1u);
}

// ---- A history, by hand ---------------------------------------------------------------
TEST(AccessHistory, ReadsDoNotConflictAndWritesDo) {
    AccessHistory h;
    VectorClock nothing, all;
    all.raise(0, 9);
    h.add(10, 20, false, {0, 1, {"read"}});
    EXPECT_FALSE(h.conflict(0, 100, false, 1, nothing)) << "two reads";
    EXPECT_FALSE(h.conflict(0, 10, true, 1, nothing)) << "other bytes";
    EXPECT_FALSE(h.conflict(20, 30, true, 1, nothing)) << "other bytes";
    EXPECT_FALSE(h.conflict(0, 100, true, 0, nothing)) << "the same actor";
    EXPECT_FALSE(h.conflict(0, 100, true, 1, all)) << "it is known";
    const auto c = h.conflict(15, 100, true, 1, nothing);
    ASSERT_TRUE(c);
    EXPECT_EQ(c->before.operation.what.view(), "read");
    EXPECT_FALSE(c->wrote);
    EXPECT_EQ(c->begin, 15u);
    EXPECT_EQ(c->end, 20u);
}
TEST(AccessHistory, AWriteMakesItsStretchOneAgain) {
    AccessHistory h;
    for (std::size_t i = 0; i < 50; ++i) h.add(2 * i, 2 * i + 1, false, {0, 1, {}});
    EXPECT_EQ(h.segments(), 50u);
    h.add(0, 100, false, {1, 1, {}});
    EXPECT_EQ(h.segments(), 100u);
    h.add(0, 100, true, {0, 2, {}});
    EXPECT_EQ(h.segments(), 1u);
    h.add(40, 60, true, {1, 2, {}});
    EXPECT_EQ(h.segments(), 3u);
    for (int i = 0; i < 100; ++i) h.add(40, 60, false, {i % 2, 3, {}});
    EXPECT_EQ(h.segments(), 3u) << "it does not grow with the accesses";
}

// ---- Against every byte kept by itself --------------------------------------------------
RC_GTEST_PROP(AccessHistory, EqualsOneByteAtATime, ()) {
    constexpr std::size_t bytes = 24;
    constexpr std::size_t actors = 3;
    struct Byte {
        int writer = -1;
        std::uint32_t written = 0;
        std::array<std::uint32_t, actors> read{};
    };
    std::array<Byte, bytes> plain{};
    AccessHistory h;
    const int accesses = *rc::gen::inRange(0, 30);
    for (int i = 0; i < accesses; ++i) {
        const auto begin = *rc::gen::inRange<std::size_t>(0, bytes);
        const auto end = *rc::gen::inRange<std::size_t>(begin + 1, bytes + 1);
        const int actor = *rc::gen::inRange(0, int(actors));
        const bool write = *rc::gen::arbitrary<bool>();
        const auto count = static_cast<std::uint32_t>(i + 1);
        VectorClock seen;
        for (int a = 0; a < int(actors); ++a) seen.raise(a, *rc::gen::inRange(0u, count));
        bool expected = false;
        for (std::size_t b = begin; b < end; ++b) {
            const Byte& p = plain[b];
            const auto unknown = [&](int who, std::uint32_t when) {
                return who != actor && when > seen.at(who);
            };
            expected |= p.writer >= 0 && unknown(p.writer, p.written);
            if (!write) continue;
            for (std::size_t a = 0; a < actors; ++a) expected |= unknown(int(a), p.read[a]);
        }
        RC_ASSERT(h.conflict(begin, end, write, actor, seen).has_value() == expected);
        h.add(begin, end, write, {actor, count, {}});
        for (std::size_t b = begin; b < end; ++b) {
            if (write) plain[b] = {actor, count, {}};
            else plain[b].read[std::size_t(actor)] = count;
        }
    }
}

}  // namespace
