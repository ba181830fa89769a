#include <gx/testing/race_detector.hpp>

#include <array>     // memory
#include <bitset>    // paths
#include <optional>  // edges

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

using gx::Access;
using gx::Operation;
using gx::testing::RaceDetector;

std::array<std::byte, 64> memory;

RaceDetector::Memory bytes(std::size_t begin, std::size_t end) {
    return std::span<const std::byte>(memory).subspan(begin, end - begin);
}
/// What it says, or nothing.
template <class F>
std::string told(F f) {
    try {
        f();
    } catch (const gx::Error& e) {
        return e.what();
    }
    return {};
}

/// One rank with a function and a stream, and a buffer over all of the memory.
struct OneRank : ::testing::Test {
    RaceDetector races{4};
    int function = races.add_function(3, "compute stream");
    int stream = races.add_stream(function, "communication stream");
    OneRank() { races.note(function, Access::begin, bytes(0, 64), {"slot 1"}); }

    void write(int actor, Operation o) { races.note(actor, Access::write, bytes(0, 32), o); }
    void read(int actor, Operation o) { races.note(actor, Access::read, bytes(16, 48), o); }
    void task(auto f) {
        races.queued(stream, function);
        races.begun(stream);
        f();
        races.ended(stream);
    }
};

// ---- By hand --------------------------------------------------------------------------
TEST(Operation, ReadsAsASentenceHasIt) {
    EXPECT_EQ(gx::testing::to_string(Operation{"all-reduce", 7, 3}),
              "all-reduce bucket 3 of step 7");
    EXPECT_EQ(gx::testing::to_string(Operation{"update", 7}), "update 7");
    EXPECT_EQ(gx::testing::to_string(Operation{"backward conv1"}), "backward conv1");
}
TEST_F(OneRank, AQueuedTaskKnowsWhatWasBefore) {
    write(function, {"backward"});
    task([&] { write(stream, {"all-reduce"}); });
    races.waited(stream, 1, function);
    read(function, {"update"});
}
TEST_F(OneRank, AnOrderIsAskedForWithoutAnAccess) {
    races.queued(stream, function);
    races.begun(stream);
    races.note(stream, Access::read, bytes(0, 32), {"send"});
    EXPECT_TRUE(races.is_ordered(function, Access::read, bytes(0, 32)));
    EXPECT_FALSE(races.is_ordered(function, Access::write, bytes(31, 40)));
    EXPECT_TRUE(races.is_ordered(function, Access::write, bytes(32, 40)));
    EXPECT_TRUE(races.is_ordered(stream, Access::write, bytes(0, 32)));
    races.ended(stream);
    races.waited(stream, 1, function);
    EXPECT_TRUE(races.is_ordered(function, Access::write, bytes(0, 32)));
}
TEST_F(OneRank, AMissingWaitNamesBoth) {
    task([&] { write(stream, {"all-reduce", 7, 3}); });
    EXPECT_EQ(told([&] { read(function, {"update", 7}); }),
              "race on rank 3: 'update 7' (compute stream) reads bytes 16 to 32 of 'slot 1', which "
              "'all-reduce bucket 3 of step 7' (communication stream) writes, and nothing orders "
              "the two. Wait for the event of 'all-reduce bucket 3 of step 7' before 'update 7'.");
}
TEST_F(OneRank, AWriteAfterQueueingIsNotKnownToTheTask) {
    races.queued(stream, function);
    write(function, {"backward conv1"});
    races.begun(stream);
    EXPECT_EQ(told([&] { write(stream, {"all-reduce", 2, 0}); }),
              "race on rank 3: 'all-reduce bucket 0 of step 2' (communication stream) writes bytes "
              "0 to 32 of 'slot 1', which 'backward conv1' (compute stream) writes, and nothing "
              "orders the two. Queue 'all-reduce bucket 0 of step 2' after 'backward conv1', or "
              "wait for its event before 'backward conv1'.");
}
TEST_F(OneRank, AnEarlierEventIsNotALaterOne) {
    task([] {});
    task([&] { write(stream, {"all-reduce"}); });
    races.waited(stream, 1, function);
    EXPECT_NE(told([&] { read(function, {"update"}); }), "");
    races.waited(stream, 2, function);
    EXPECT_EQ(told([&] { read(function, {"update"}); }), "");
}
TEST_F(OneRank, AnOldEventIsStillKnownToTheTask) {
    constexpr std::size_t many = RaceDetector::counts_kept / 2;
    for (std::size_t i = 0; i < many; ++i) task([] {});
    task([&] { write(stream, {"all-reduce"}); });
    for (std::size_t i = 0; i < many - 1; ++i) task([] {});
    races.waited(stream, many, function);
    EXPECT_NE(told([&] { read(function, {"update"}); }), "");
    races.waited(stream, many + 1, function);
    EXPECT_EQ(told([&] { read(function, {"update"}); }), "");
}
/// The function waits for task 1 of a stream, whose task 2 has waited for a write of a second one.
struct AtTheLimit : OneRank {
    int second = races.add_stream(function, "copy stream");
    std::size_t kept = RaceDetector::events_kept(3);
    void tasks(std::size_t count) {
        races.queued(second, function);
        races.begun(second);
        write(second, {"copy"});
        races.ended(second);
        task([] {});
        task([&] { races.waited(second, 1, stream); });
        for (std::size_t i = 2; i < count; ++i) task([] {});
        races.waited(stream, 1, function);
    }
};
TEST_F(AtTheLimit, TheOldestEventThatIsKeptIsExact) {
    tasks(kept);
    EXPECT_NE(told([&] { read(function, {"update"}); }), "");
}
TEST_F(AtTheLimit, BeyondItWhatTheStreamLearnedLaterCountsAsKnown) {
    tasks(kept + 1);
    EXPECT_EQ(told([&] { read(function, {"update"}); }), "") << "the limit that the header states";
}
TEST_F(AtTheLimit, BeyondItTheStreamsOwnWritesAreStillFound) {
    tasks(kept + 1);
    task([&] { write(stream, {"all-reduce"}); });
    EXPECT_NE(told([&] { read(function, {"update"}); }), "");
}
TEST(RaceDetectorLimits, ShrinkWithTheNumberOfActors) {
    EXPECT_EQ(RaceDetector::events_kept(1), 4096u);
    EXPECT_EQ(RaceDetector::events_kept(64), 4096u);
    EXPECT_EQ(RaceDetector::events_kept(128), 1024u);
    EXPECT_EQ(RaceDetector::events_kept(512), 64u);
    EXPECT_EQ(RaceDetector::events_kept(3000), 64u);
}
TEST_F(OneRank, ABufferThatEndedIsForgotten) {
    task([&] { write(stream, {"all-reduce"}); });
    races.note(function, Access::end, bytes(0, 64), {});
    write(function, {"something else"});
    races.note(function, Access::begin, bytes(0, 64), {"another"});
    write(function, {"something else"});
}
TEST_F(OneRank, ASendUsesItsMemoryUntilItIsWaitedFor) {
    races.posted(function, 0, Access::read, bytes(0, 8), {"send to rank 2"});
    read(function, {"reading beside it"});
    races.note(function, Access::write, bytes(8, 16), {"writing beside it"});
    EXPECT_EQ(told([&] { write(function, {"backward", 1}); }),
              "race on rank 3: 'backward 1' (compute stream) writes bytes 0 to 8 of 'slot 1', "
              "which 'send to rank 2' (compute stream) reads, and nothing orders the two. "
              "Wait for the send first, by its request.");
    races.waited_for(0, function);
    write(function, {"backward", 1});
}
TEST_F(OneRank, AMessageOfATaskIsNamedWithIt) {
    races.queued(stream, function);
    races.begun(stream);
    races.note(stream, Access::write, bytes(0, 32), {"all-reduce", 4, 1});
    races.posted(stream, 5, Access::write, bytes(0, 8), {"receive from rank 2"});
    EXPECT_NE(told([&] {
                  races.note(stream, Access::read, bytes(4, 5), {"combine"});
              }).find("'receive from rank 2' of 'all-reduce bucket 1 of step 4'"),
              std::string::npos);
    races.withdrawn(5);
    races.note(stream, Access::read, bytes(4, 5), {"combine"});
}
TEST_F(OneRank, MemoryOfNobodyIsWatchedWhileAMessageUsesIt) {
    std::array<std::byte, 8> loose{};
    races.posted(function, 1, Access::write, loose, {"receive from rank 0"});
    EXPECT_NE(told([&] {
                  races.note(stream, Access::read, loose, {"look"});
              }).find("reads 8 bytes of its memory, which 'receive from rank 0'"),
              std::string::npos);
    races.waited_for(1, function);
    races.note(stream, Access::read, loose, {"look"});
}
TEST_F(OneRank, AMessageTellsWhatItsSenderKnew) {
    const int other = races.add_function(0, "compute stream");
    task([&] {
        write(stream, {"all-reduce"});
        races.posted(stream, 0, Access::read, {}, {"send to rank 0"});
    });
    std::array<std::byte, 1> there{};
    races.posted(other, 1, Access::write, there, {"receive from rank 3"});
    races.delivered(0, 1);
    races.waited_for(1, other);
    races.posted(other, 2, Access::read, there, {"send to rank 3"});
    races.posted(function, 3, Access::write, bytes(60, 61), {"receive from rank 0"});
    races.delivered(2, 3);
    EXPECT_NE(told([&] { read(function, {"update"}); }), "") << "it has not waited";
    races.waited_for(3, function);
    EXPECT_EQ(told([&] { read(function, {"update"}); }), "") << "by way of rank 0";
}

// ---- Against paths in the graph of what happened ------------------------------------------
/// Every event has edges from its actor's last one and from what it waited for; it is ordered
/// after all events that a path leads from.
struct Happened {
    static constexpr std::size_t most = 256;
    std::vector<std::bitset<most>> before{};  // by event: those with a path to it, and itself
    std::array<std::size_t, 3> last{};
    std::size_t add(std::size_t actor, std::optional<std::size_t> also = {}) {
        const std::size_t event = before.size();
        before.emplace_back();
        if (event > 0) before[event] |= before[last[actor]];
        if (also) before[event] |= before[*also];
        before[event].set(event);
        return last[actor] = event;
    }
    bool reaches(std::size_t from, std::size_t to) const { return before[to][from]; }
};

RC_GTEST_PROP(RaceDetector, ThrowsWhereNoPathOrdersTwoAccesses, ()) {
    RaceDetector races(1);
    races.add_function(0, "function");
    races.add_stream(0, "one");
    races.add_stream(0, "two");
    races.note(0, Access::begin, bytes(0, 64), {"buffer"});
    struct Made {
        std::size_t event, actor, begin, end;
        bool write;
    };
    Happened happened;
    happened.add(0);
    std::vector<Made> made;
    std::array<std::vector<std::size_t>, 3> queued{}, ended{};  // by stream: events
    std::array<std::size_t, 3> begun{};
    std::array<bool, 3> busy{true, false, false};
    const int events = *rc::gen::inRange(1, 200);
    for (int i = 0; i < events; ++i) {
        const auto s = *rc::gen::inRange<std::size_t>(1, 3);
        const int stream = static_cast<int>(s);
        const auto by = *rc::gen::inRange<std::size_t>(0, 3);
        switch (*rc::gen::inRange(0, 6)) {
            case 0:
                if (!busy[by] || by == s) break;
                queued[s].push_back(happened.add(by));
                races.queued(stream, static_cast<int>(by));
                break;
            case 1:
                if (busy[s] || begun[s] == queued[s].size()) break;
                happened.add(s, queued[s][begun[s]++]);
                busy[s] = true;
                races.begun(stream);
                break;
            case 2:
                if (!busy[s]) break;
                ended[s].push_back(happened.add(s));
                busy[s] = false;
                races.ended(stream);
                break;
            case 3: {
                if (ended[s].empty() || !busy[by] || by == s) break;
                const auto k = *rc::gen::inRange<std::size_t>(0, ended[s].size());
                happened.add(by, ended[s][k]);
                races.waited(stream, k + 1, static_cast<int>(by));
                break;
            }
            default: {
                if (!busy[by]) break;
                const auto begin = *rc::gen::inRange<std::size_t>(0, 6);
                const Made now{happened.add(by), by, begin,
                               *rc::gen::inRange<std::size_t>(begin + 1, 8),
                               *rc::gen::arbitrary<bool>()};
                bool race = false;
                for (const Made& m : made)
                    race |= (m.write || now.write) && m.begin < now.end && now.begin < m.end &&
                            !happened.reaches(m.event, now.event);
                const auto said = told([&] {
                    races.note(static_cast<int>(by), now.write ? Access::write : Access::read,
                               bytes(now.begin, now.end), {"access"});
                });
                RC_ASSERT(said.empty() != race);
                if (!race) made.push_back(now);  // one that throws is not on record
            }
        }
    }
}

}  // namespace
