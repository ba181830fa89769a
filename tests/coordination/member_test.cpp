#include <gx/coordination/member.hpp>

#include <algorithm>  // find_if

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/coordination/waits_for_graph.hpp>  // patience

#include <coordination/wire.hpp>  // Wire

namespace {

using namespace testing_support;
using co::Cause;
using co::Member;
using co::Message;
using co::Reason;

Member member(int rank = 1) {
    Member m(
        {.hello = {.run_id = "run", .rank = rank, .ranks = 3}, .join_deadline = 10s, .silence = 8s},
        0s);
    (void)m.take();
    return m;
}
Member joined() {
    Member m = member();
    m.received(co::Welcome{{{"a"}, {"a"}, {"b"}}}, 0s);
    return m;
}

TEST(Member, SaysHelloFirst) {
    const co::Hello hello{.run_id = "run", .rank = 1, .ranks = 3, .process = 5, .host = "x"};
    Member m({.hello = hello}, 0s);
    EXPECT_EQ(m.take(), std::vector<Message>{hello});
    EXPECT_TRUE(m.take().empty());
}
TEST(Member, SendsWhatItWasDoing) {
    Member m = joined();
    m.working_on({"all-reduce", 3, 1});
    m.blame(2);
    m.fail("bad", 4);
    m.leave();
    m.leave();
    const gx::Operation doing{"all-reduce", 3, 1};
    EXPECT_EQ(m.take(), (std::vector<Message>{co::Blamed{2, doing}, co::Failed{4, doing, "bad"},
                                              co::Leaving{}}));
}
TEST(Member, FailsWithAStatusThatAProcessCanReturn) {
    Member m = joined();
    for (const int status : {1, 255}) m.fail("bad", status);
    for (const int status : {-1, 0, 256, 512})
        EXPECT_DEATH(m.fail("bad", status), "a status of 1 to 255");
}
TEST(Member, ItsSentenceSaysWhereItWasStopped) {
    Member m = joined();
    m.working_on({"all-reduce", 3, 1});
    m.received(Cause{Reason::lost, 2, 0, 1, {}, "rank 2 is lost"}, 1s);
    m.working_on({"unwinding", 3});
    EXPECT_EQ(m.sentence(),
              "rank 2 is lost. Rank 1 was stopped in step 3, bucket 1, operation all-reduce.");
}
TEST(Member, ItsSentenceNamesTheRankThatThrew) {
    Member m = joined();
    m.received(Cause{Reason::error, 2, 2, 1, {}, "the disk is full."}, 1s);
    EXPECT_TRUE(m.sentence().starts_with(
        "the disk is full. This is the error of rank 2. Rank 1 was stopped in "))
        << m.sentence();
}
TEST(Member, KeepsTheFirstCause) {
    Member m = joined();
    m.received(Cause{.reason = Reason::error, .rank = 2, .observer = 2, .exit_status = 7}, 1s);
    m.received(Cause{.reason = Reason::lost, .rank = 0, .text = "another"}, 1s);
    EXPECT_EQ(m.cause().rank, 2);
    m.received(Cause{Reason::error, 2, 2, 7, {}, "its text"}, 1s);
    EXPECT_EQ(m.cause().text, "its text");
    m.closed();
    EXPECT_EQ(m.cause().rank, 2) << "the root ends because of it";
    EXPECT_EQ(m.exit_status(), 7);
}
TEST(Member, TheEndOfTheRootsConnectionIsItsLoss) {
    for (const bool inside : {false, true}) {
        Member m = joined();
        m.working_on({"all-reduce", 3, 1});
        m.closed(inside);
        EXPECT_EQ(m.cause().reason, Reason::lost);
        EXPECT_EQ(m.cause().rank, 0);
        EXPECT_EQ(m.cause().observer, 1);
        EXPECT_TRUE(has(m.cause().text, "noticed by rank 1 in step 3, bucket 1")) << m.cause().text;
        EXPECT_EQ(has(m.cause().text, "inside a message"), inside);
        EXPECT_EQ(m.exit_status(), 1);
    }
    Member m = joined();
    m.received(co::Ended{0}, 1s);
    m.closed();
    EXPECT_FALSE(m.cause().stopped()) << "the run had ended";
    EXPECT_EQ(m.exit_status(), 0);
}
TEST(Member, AnEndWithoutErrorHidesNoError) {
    Member m = joined();
    m.received(Cause{.reason = Reason::error, .rank = 2, .observer = 2, .exit_status = 7}, 1s);
    m.received(co::Ended{0}, 1s);
    EXPECT_EQ(m.exit_status(), 7);
}
TEST(Member, ASilentRootIsLost) {
    Member m = joined();
    m.received(co::Alive{}, 5s);
    m.tick(13s - 1ns);
    EXPECT_FALSE(m.cause().stopped());
    m.tick(13s);
    EXPECT_EQ(m.cause().reason, Reason::silent);
    EXPECT_EQ(m.cause().rank, 0);
}
TEST(Member, ARootIsNotSilentWhileThisProcessStoodStill) {
    Member m = joined();
    m.received(co::Alive{}, 5s);
    m.stood_still(10s, 20s);
    m.tick(23s - 1ns);
    EXPECT_FALSE(m.cause().stopped()) << "it was heard 5 s before";
    m.tick(23s);
    EXPECT_EQ(m.cause().reason, Reason::silent);
}
co::Waiting answer_of(Member& m) {
    for (const Message& message : m.take())
        if (const auto* const waiting = std::get_if<co::Waiting>(&message)) return *waiting;
    throw std::logic_error("no answer");
}
/// Unless it waits since a time between two of them.
TEST(Member, StandstillsWithLittleBetweenThemAreOne) {
    struct Case {
        bool far;
        co::Duration waits;
        co::Duration lasted;
    };
    for (const auto& [far, waits, lasted] :
         {Case{false, 0s, 5s}, Case{true, 0s, 2s}, Case{false, 2s + Member::settling, 5s},
          Case{false, 2s + Member::settling + 1ns, 2s},
          Case{false, 3s + Member::settling - 1ns, 2s}, Case{false, 10s, 5s}}) {
        Member m = joined();
        m.stood_still(3s, 4s);
        const auto now = 4s + co::WaitsForGraph::patience + (far ? 1ns : 0ns) + 2s;
        m.stood_still(2s, now);
        if (waits > 0s) m.waits_for({{{2}, waits}});
        m.received(co::Waiting{}, now);
        (void)m.take();
        m.tick(now + Member::settling);
        const co::Standstill still = answer_of(m).standstill;
        EXPECT_EQ(still.lasted, lasted);
        EXPECT_EQ(still.ago, Member::settling);
    }
}
TEST(Member, AWaitBetweenStandstillsPartsThemWhereItBegan) {
    for (const auto& [begin, lasted] :
         {std::pair{500ms, 6s}, {4500ms, 3s}, {7500ms, 1s}, {8500ms, 6s}}) {
        Member m = joined();
        m.stood_still(3s, 4s);
        m.stood_still(2s, 7s);
        m.stood_still(1s, 9s);
        m.waits_for({{{2}, 9s + Member::settling - begin}});
        m.received(co::Waiting{}, 9s);
        (void)m.take();
        m.tick(9s + Member::settling);
        EXPECT_EQ(answer_of(m).standstill.lasted, lasted)
            << "a wait since " << begin.count() << " ms";
    }
}
TEST(Member, ASilentRootIsNoticedBehindAnotherCauseToo) {
    Member m = joined();
    m.received(co::Cause{.reason = Reason::lost, .rank = 2, .text = "rank 2 is lost"}, 5s);
    EXPECT_FALSE(m.root_is_silent(13s - 1ns));
    EXPECT_TRUE(m.root_is_silent(13s));
    m.tick(13s);
    EXPECT_EQ(m.cause().rank, 2) << "the first cause stays";
    EXPECT_LE(m.next_tick(), 15s);
    m.received(co::Ended{1}, 14s);
    EXPECT_FALSE(m.root_is_silent(100s)) << "it says nothing behind a run";
}
TEST(Member, ReportsItsOperationFourTimesWithinTheSilence) {
    Member m = joined();
    EXPECT_EQ(m.next_tick(), 2s);
    m.tick(2s - 1ns);
    EXPECT_TRUE(m.take().empty());
    m.working_on({"forward", 1});
    m.tick(2s);
    EXPECT_EQ(m.take(), (std::vector<Message>{co::Alive{{"forward", 1}}}));
    EXPECT_EQ(m.next_tick(), 4s);
}
TEST(Member, ARefusalIsACauseOfItsOwn) {
    Member m = member();
    m.received(co::Refused{"refused by rank 0: two processes have one rank"}, 1s);
    EXPECT_EQ(m.cause().reason, Reason::mismatch);
    EXPECT_EQ(m.cause().rank, 1);
    EXPECT_EQ(m.sentence(), "refused by rank 0: two processes have one rank");
}
TEST(Member, ARootThatNeverWelcomesIsNamed) {
    Member m = member();
    m.received(co::Alive{}, 17s);
    m.tick(18s - 1ns);
    EXPECT_FALSE(m.cause().stopped());
    m.tick(18s);
    EXPECT_EQ(m.cause().reason, Reason::absent);
    EXPECT_EQ(m.cause().rank, 0);
}
TEST(Member, WhatARootDoesNotSendIsItsLoss) {
    const std::vector<Message> wrong{co::Hello{},  co::RunTerms{},      co::Failed{},
                                     co::Blamed{}, co::Leaving{},       co::Left{-1},
                                     co::Left{3},  co::Welcome{{{"a"}}}};
    for (const Message& message : wrong) {
        Member m = member();
        m.received(message, 1s);
        EXPECT_EQ(m.cause().rank, 0) << message.index();
        EXPECT_FALSE(m.joined());
    }
}
TEST(Member, SaysWhatItWaitsForWhenItIsAsked) {
    Member m = joined();
    m.working_on({"all-reduce", 3, 1});
    m.received(co::Waiting{}, 1s);
    const std::vector<co::Wait> waits{{{2, co::any_rank}, 3s}, {{1}, 1s}};
    m.waits_for(waits);
    m.blame(2, 3s);
    m.received(co::Waiting{}, 1s);
    const gx::Operation doing{"all-reduce", 3, 1};
    EXPECT_EQ(m.take(), (std::vector<Message>{co::Waiting{{}, doing}, co::Blamed{2, doing, 3s},
                                              co::Waiting{waits, doing}}));
}
TEST(Member, ComparesWhatTheChannelCutsByAHashToo) {
    const auto sent = [](const co::RunTerms& terms) {
        Member m = joined();
        m.compare(terms);
        const auto messages = m.take();
        EXPECT_LT(co::encode(messages.at(0)).size(), co::body_bytes_max);
        return std::get<co::RunTerms>(messages.at(0));
    };
    for (std::string co::RunTerms::* field :
         {&co::RunTerms::options, &co::RunTerms::composition, &co::RunTerms::source}) {
        const auto read = [&](const std::string& text) {
            co::RunTerms terms{.composition = "T", .options = "a=1", .source = "images"};
            terms.*field = text;
            return sent(terms).*field;
        };
        const std::string some(field == &co::RunTerms::options ? 500'000 : 30'000, 'x');
        const std::string many(2'000'000, 'x');
        EXPECT_EQ(read(some), some);
        EXPECT_EQ(read(many), read(many));
        EXPECT_NE(read(many), read(many + 'y'));
        EXPECT_NE(read("a=\x01"), read("a=\x02")) << "both are read as '?'";
        EXPECT_TRUE(read("a=\x01").starts_with("a=?")) << "as the root reads those of others";
    }
}
TEST(Member, SendsNothingWhileItStays) {
    Member m = joined();
    m.received(Cause{Reason::lost, 2, 0, 1, {}, "rank 2 is lost"}, 1s);
    m.leave();
    m.stay(4);
    m.note({std::byte{1}});
    m.fail("too late", 1);
    m.tick(1s + 4s);
    EXPECT_EQ(m.take(), (std::vector<Message>{co::Leaving{}, co::Staying{4}}));
    m.received(co::Note{0, {}}, 6s);
    m.received(co::Regrouped{9, {1}}, 6s);
    EXPECT_EQ(m.rank(), 0);
    m.note({std::byte{2}});
    EXPECT_EQ(m.take(), (std::vector<Message>{co::Note{0, {std::byte{2}}}}));
    EXPECT_TRUE(m.take_notes().empty()) << "of the run before";
    EXPECT_EQ(m.next_tick(), 8s) << "it reports again";
}
TEST(Member, ARootThatRegroupsTheRanksWithoutAMemberIsLost) {
    for (const bool stays : {false, true}) {
        Member m = joined();
        if (stays) m.stay(0);
        m.received(co::Regrouped{0, stays ? std::vector{0, 2} : std::vector{0, 1}}, 1s);
        EXPECT_EQ(m.cause().rank, 0);
        EXPECT_EQ(m.runs(), 1);
    }
}
/// The root is killed at any point of a run, after any messages that it had sent.
TEST(Member, EverySurvivorOfTheRootNamesAnEarlierCauseOrTheRoot) {
    EXPECT_TRUE(rc::check([](const std::vector<unsigned char>& schedule) {
        Wire w(4);
        w.join();
        for (const unsigned char c : schedule) {
            const int r = c % 4;
            if (c < 128 && w.has_up(r)) w.deliver_up(r);
            else if (c < 220 && w.has_down(r)) w.deliver_down(r);
            else if (c < 225) w.at(r).fail("error", 3);
            w.collect();
        }
        for (int r = 1; r < 4; ++r) {
            const auto sent = *rc::gen::inRange<std::size_t>(0, w.end(r).down.size() + 1);
            for (std::size_t i = 0; i < sent; ++i) w.deliver_down(r);
            w.at(r).closed();
            const Cause& c = w.at(r).cause();
            RC_ASSERT(c.stopped());
            RC_ASSERT(c.rank == 0 || c == w.root.cause());
            RC_ASSERT(w.at(r).exit_status() != 0);
        }
    }));
}

}  // namespace
