#include <gx/sim/network/network.hpp>  // first, so the header is seen to stand alone

#include <array>   // links
#include <deque>   // flows
#include <vector>  // ends

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

using gx::BytesPerSecond;
using gx::Nanoseconds;
using namespace gx::literals;

struct Message {
    std::int64_t start_ns = 0, bytes = 1;
    int rank = 0;
};
/// Messages over link 0, which all that `moves` names leave for link 1 at `at_ns`, 10 ns later.
/// `apart`: each crosses a link of its own too, which it cannot fill, so that none are equal.
struct Rerouted {
    gx::sim::Engine engine{};
    gx::sim::FlowNetwork network{engine};
    std::vector<std::int64_t> ended;
    struct Part {
        Rerouted* run;
        std::size_t index;
        gx::sim::Transfer flow;
    };
    std::deque<Part> parts{};
    std::vector<bool> moves;
    int asked = 0;

    Rerouted(const std::vector<Message>& messages, std::vector<bool> who, std::int64_t at_ns,
             bool apart)
        : ended(messages.size(), -1), moves(std::move(who)) {
        network.add_link(1_GBps);
        network.add_link(2_GBps);
        for (std::size_t i = 0; i < messages.size(); ++i) {
            parts.push_back({this, i, {.bytes = {messages[i].bytes}, .rank = messages[i].rank}});
            Part& part = parts.back();
            part.flow.done = {end_event, &part, i};
            part.flow.path.add(0);
            if (apart) part.flow.path.add(network.add_link({1e12}));
            engine.at(Nanoseconds(messages[i].start_ns), messages[i].rank, {start_event, &part, 0});
        }
        engine.at(Nanoseconds(at_ns), 3, {move_event, this, 0});
        engine.drain();
    }
    static void start_event(void* part, std::uint64_t) {
        auto& p = *static_cast<Part*>(part);
        p.run->network.start(p.flow);
    }
    static void end_event(void* part, std::uint64_t i) {
        auto& run = *static_cast<Part*>(part)->run;
        run.ended[i] = run.engine.now().count();
    }
    static void move_event(void* r, std::uint64_t) {
        auto& run = *static_cast<Rerouted*>(r);
        run.network.reroute(std::array{0}, [&](gx::sim::Transfer& flow) {
            ++run.asked;
            if (!run.moves[flow.done.argument]) return false;
            flow.path.links[0] = 1;
            flow.latency = Nanoseconds(10);
            return true;
        });
    }
};

// ---- Cases worked by hand -----------------------------------------------------------
TEST(NetworkReroute, OneOfTwoEqualFlowsGoesTheOtherWay) {
    // 500 bytes of each are through at 1 us. One starts again 10 ns later, at 2 GB/s, and the other
    // has all of its link for its 500 bytes.
    for (const std::size_t moved : {0u, 1u}) {
        std::vector<bool> who(2, false);
        who[moved] = true;
        const Rerouted run({{0, 1000}, {0, 1000}}, who, 1000, false);
        EXPECT_EQ(run.ended[moved], 1000 + 10 + 500);
        EXPECT_EQ(run.ended[1 - moved], 1000 + 500);
        EXPECT_EQ(run.network.carried(0).count, 1000);
        EXPECT_EQ(run.network.carried(1).count, 1000);
        EXPECT_EQ(run.asked, 2);
    }
}
TEST(NetworkReroute, WhoHasEndedIsNotAskedThoughItStillStandsForOthers) {
    const Rerouted run({{0, 100}, {0, 1000}, {0, 1000}}, {true, true, true}, 1000, false);
    EXPECT_EQ(run.asked, 2);
    EXPECT_EQ(run.ended, (std::vector<std::int64_t>{300, 2010, 2010}));
    EXPECT_EQ(run.network.carried(0).count, 100);
}

// ---- A property ------------------------------------------------------------------------
RC_GTEST_PROP(NetworkReroute, EqualFlowsMoveAsOthersDo, ()) {
    std::vector<Message> messages;
    std::vector<bool> moves;
    for (int n = *rc::gen::inRange(1, 12); n > 0; --n) {
        messages.push_back({*rc::gen::inRange(0, 10) * 100, 1 + *rc::gen::inRange(0, 5) * 250,
                            *rc::gen::inRange(0, 6)});
        moves.push_back(*rc::gen::arbitrary<bool>());
    }
    const std::int64_t at_ns = 1 + *rc::gen::inRange(0, 5000);  // no message ends in this instant
    const Rerouted folded(messages, moves, at_ns, false), apart(messages, moves, at_ns, true);
    for (const std::int64_t end : apart.ended) RC_PRE(end != at_ns);
    RC_ASSERT(folded.ended == apart.ended);
    RC_ASSERT(folded.asked == apart.asked);
    for (const int link : {0, 1}) {
        RC_ASSERT(folded.network.carried(link) == apart.network.carried(link));
        RC_ASSERT(folded.network.peak_load(link) == apart.network.peak_load(link));
    }
}

}  // namespace
