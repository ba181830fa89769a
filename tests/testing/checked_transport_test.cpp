#include <gx/testing/checked_transport.hpp>

#include <array>
#include <cmath>
#include <cstring>
#include <deque>

#include <gtest/gtest.h>

namespace {

using gx::testing::CheckedTransport;
using gx::testing::MessageCounts;

/// A transport of one rank that talks to itself: a receive is filled when it is posted.
class Loopback final : public gx::testing::AnyTransport {
public:
    int rank() const override { return 0; }
    gx::Placement placement() const override { return {1, 1}; }
    gx::Request send(int, int, std::span<const std::byte> message) override {
        under_way.emplace_back(message.begin(), message.end());
        return {next++};
    }
    gx::Request receive(int, int, std::span<std::byte> message) override {
        std::copy(under_way.front().begin(), under_way.front().end(), message.begin());
        under_way.pop_front();
        return {next++};
    }
    gx::Arrival wait_any(std::span<const gx::Request>) override {
        ++waits;
        return {0, {}};
    }
    std::deque<std::vector<std::byte>> under_way{};
    std::uint32_t next = 0;
    int waits = 0;
};

struct Checked : ::testing::Test {
    Loopback link;
    std::array<float, 2> out{1, 2}, in{3, 4};
    auto sent() { return std::as_bytes(std::span(out)); }
    auto received() { return std::as_writable_bytes(std::span(in)); }
};

TEST_F(Checked, CountsMessagesBytesAndChannels) {
    CheckedTransport checked(link);
    const auto s = checked.send(0, 5, sent());
    const auto r = checked.receive(0, 3, received());
    EXPECT_EQ(in, out) << "not strict: filled as the transport below fills it";
    EXPECT_TRUE(checked.wait(s).complete());
    EXPECT_TRUE(checked.wait(r).complete());
    const MessageCounts t = checked.take_traffic();
    EXPECT_EQ(t.messages, 2);
    EXPECT_EQ(t.bytes_sent, 8);
    EXPECT_EQ(t.lowest_channel, 3);
    EXPECT_EQ(t.highest_channel, 5);
    EXPECT_EQ(t.unfinished, 0);
    EXPECT_EQ(checked.take_traffic().messages, 0) << "each is counted once";
}
TEST_F(Checked, AStrictReceiveIsFilledAtItsWait) {
    CheckedTransport checked(link, std::byte{0xFF});
    const auto s = checked.send(0, 0, sent());
    const auto r = checked.receive(0, 0, received());
    EXPECT_TRUE(std::isnan(in[0]) && std::isnan(in[1]));
    (void)checked.wait(r);
    EXPECT_EQ(in, out);
    (void)checked.wait(s);
    EXPECT_EQ(checked.take_traffic().changed_in_flight, 0);
}
TEST_F(Checked, AStrictSendComparesItsMemoryAtItsWait) {
    CheckedTransport checked(link, std::byte{0xFF});
    const auto s = checked.send(0, 0, sent());
    out[1] = 7;
    const auto r = checked.receive(0, 0, received());
    (void)checked.wait(r);
    EXPECT_EQ(in[1], 2.0f) << "what was posted arrives";
    (void)checked.wait(s);
    EXPECT_EQ(checked.take_traffic().changed_in_flight, 1);
}
TEST_F(Checked, WaitsForWhatWasLeftOpenAndCountsIt) {
    CheckedTransport checked(link, std::byte{0xFF});
    (void)checked.send(0, 0, sent());
    (void)checked.receive(0, 0, received());
    checked.settle();
    EXPECT_EQ(link.waits, 2);
    EXPECT_EQ(checked.take_traffic().unfinished, 2);
    checked.settle();
    EXPECT_EQ(link.waits, 2);
}

// ---- Rounds, counted by hand -------------------------------------------------------------
using gx::testing::message_rounds;
using gx::testing::MessageEvent;

/// A program of one rank: "+1" sends to rank 1, "-1" receives from it, "." waits for all of them.
MessageCounts program(const std::vector<const char*>& events, int channel = 0) {
    MessageCounts t;
    std::vector<std::uint32_t> open;
    for (const std::string_view e : events) {
        if (e == ".") {
            for (const auto id : open)
                t.events.push_back({.kind = MessageEvent::Kind::waited, .request = id});
            open.clear();
            continue;
        }
        open.push_back(static_cast<std::uint32_t>(t.events.size()));
        t.events.push_back({e[0] == '+' ? MessageEvent::Kind::sent : MessageEvent::Kind::received,
                            e[1] - '0', channel, open.back()});
    }
    return t;
}
int rounds(std::vector<MessageCounts> ranks, int channels = 1) {
    return message_rounds(ranks, channels);
}
TEST(MessageRounds, WhatIsPostedTogetherIsOne) {
    EXPECT_EQ(rounds({program({}), program({})}), 0);
    EXPECT_EQ(rounds({program({"+1", "-1", "."}), program({"+0", "-0", "."})}), 1);
    EXPECT_EQ(rounds({program({"+1", ".", "-1", "."}), program({"-0", ".", "+0", "."})}), 2);
    EXPECT_EQ(rounds({program({"-1", "-2", ".", "+1", "+2", "."}), program({"+0", ".", "-0", "."}),
                      program({"+0", ".", "-0", "."})}),
              2)
        << "a star";
    EXPECT_EQ(rounds({program({"-1", ".", "-2", ".", "+1", ".", "+2", "."}),
                      program({"+0", ".", "-0", "."}), program({"+0", ".", "-0", "."})}),
              4)
        << "one neighbour after the other";
}
TEST(MessageRounds, AReceiverHasThoseOfItsSender) {
    const auto chain = [](bool last_first) {
        std::vector<MessageCounts> ranks{program({"+1", "."}), program({"-0", ".", "+2", "."}),
                                         program({"-1", ".", "+3", "."}), program({"-2", "."})};
        if (last_first) std::swap(ranks[0].events, ranks[3].events);
        return ranks;
    };
    EXPECT_EQ(rounds(chain(false)), 3);
    EXPECT_LT(rounds(chain(true)), 3) << "what nobody sends is waited for without end";
}
TEST(MessageRounds, ChannelsCountApart) {
    MessageCounts two = program({"+0", "-0", "."}, 0);
    const MessageCounts other = program({"+0", "-0", ".", "+0", "-0", "."}, 1);
    for (MessageEvent e : other.events) {
        e.request += 100;
        two.events.push_back(e);
    }
    EXPECT_EQ(rounds({two}, 2), 2);
}

}  // namespace
