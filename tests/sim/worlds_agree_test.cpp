// The same program gives the same outcome on threads and on a simulated cluster.
#include <algorithm>  // find
#include <array>      // messages
#include <map>        // queues of messages
#include <optional>   // the cause
#include <string>     // errors
#include <thread>     // yield
#include <vector>     // programs

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/threads/threads.hpp>              // ThreadWorld
#include <gx/sim/world/cluster.hpp>            // Cluster
#include <gx/sim/catalog/simple_clusters.hpp>  // ethernet_10g

namespace {

using gx::Delivery;

/// What one rank does, in order.
struct Op {
    enum class Kind { send, receive, wait, wait_any, stop, fail } kind;
    int peer = 0, channel = 0;
    int value = 0;  ///< of a send
    int which = 0;  ///< of a wait: the number of a post of this rank
};
using Program = std::vector<std::vector<Op>>;  // by rank

/// What a program does. Which waits are done before a world stops is a matter of timing, and so is
/// which rank learns of the cause first: neither is part of it.
struct Outcome {
    std::string error{};  ///< that run() threw
    int missing = -1;     ///< whom failed waits name; -1: none failed; -2: not all name the same
    int timed_out = 0;    ///< ranks whose wait found the cause
    std::vector<std::vector<int>> received{};  ///< by rank and post; where nothing failed
    bool operator==(const Outcome&) const = default;
};

template <class Rank>
void perform(Rank& rank, const std::vector<Op>& ops, std::vector<int>& received,
             std::vector<Delivery>& failed) {
    std::vector<gx::Request> requests;
    std::vector<bool> waited;
    std::vector<std::array<int, 1>> buffers(ops.size());
    received.assign(ops.size(), -1);
    auto& link = rank.transport();
    const auto spent = [&](std::size_t i, Delivery d) {
        waited[i] = true;
        if (!d.complete()) failed.push_back(d);
        return d.complete();
    };
    const auto any = [&] {  // one of those that are not spent; false: none, or it failed
        std::vector<gx::Request> open;
        std::vector<std::size_t> of;
        for (std::size_t i = 0; i < requests.size(); ++i)
            if (!waited[i]) open.push_back(requests[i]), of.push_back(i);
        if (open.empty()) return false;
        const gx::Arrival a = link.wait_any(open);
        return spent(of[a.index], a.delivery);
    };
    const auto all = [&] {
        while (any()) {
        }
        return failed.empty();
    };
    for (const Op& op : ops) {
        const std::size_t n = requests.size();
        switch (op.kind) {
            case Op::Kind::send:
                buffers[n][0] = op.value;
                requests.push_back(
                    link.send(op.peer, op.channel, std::as_bytes(std::span(buffers[n]))));
                waited.push_back(false);
                break;
            case Op::Kind::receive:
                buffers[n][0] = -2;
                requests.push_back(link.receive(op.peer, op.channel,
                                                std::as_writable_bytes(std::span(buffers[n]))));
                waited.push_back(false);
                break;
            case Op::Kind::wait: {
                const auto i = static_cast<std::size_t>(op.which);
                if (!waited[i] && !spent(i, link.wait(requests[i]))) return;
                break;
            }
            case Op::Kind::wait_any:
                (void)any();
                if (!failed.empty()) return;
                break;
            case Op::Kind::stop: (void)all(); return;
            case Op::Kind::fail:
                if (!all()) return;  // so that no message outlives its memory
                throw gx::Error("rank " + std::to_string(rank.rank()) + " gives up");
        }
    }
    if (!all()) return;
    for (std::size_t i = 0; i < requests.size(); ++i) received[i] = buffers[i][0];
}

template <class World>
Outcome outcome_of(World& world, const Program& program) {
    Outcome o;
    o.received.resize(program.size());
    std::vector<std::vector<Delivery>> failed(program.size());
    try {
        world.run([&](auto& rank) {
            const auto r = static_cast<std::size_t>(rank.rank());
            perform(rank, program[r], o.received[r], failed[r]);
        });
    } catch (const gx::Error& e) {
        o.error = e.what();
    }
    for (const auto& rank : failed)
        for (const Delivery d : rank) {
            o.timed_out += d.outcome == Delivery::Outcome::timed_out ? 1 : 0;
            if (o.missing == -1) o.missing = d.peer;
            else if (o.missing != d.peer) o.missing = -2;
        }
    if (o.missing != -1 || !o.error.empty()) o.received.clear();
    return o;
}

/// The oracle: posts match at once, waits are done when both ends are posted. None where ranks
/// wait for each other in a circle, which only a deadline ends.
std::optional<Outcome> expected(const Program& program) {
    const std::size_t n = program.size();
    struct Post {
        int from, to, channel, value;
        bool sends;
        int partner_rank = -1;
        std::size_t partner = 0;
        bool waited = false;
    };
    std::vector<std::vector<Post>> posts(n);
    std::vector<std::size_t> at(n, 0);
    enum class End { none, whole, early, failed };
    std::vector<End> end(n, End::none);
    const auto done = [&](const Post& p) { return p.partner_rank >= 0; };
    const auto all_done = [&](std::size_t r) {
        return std::all_of(posts[r].begin(), posts[r].end(), done);
    };
    const auto post = [&](std::size_t r, const Op& op) {
        const bool sends = op.kind == Op::Kind::send;
        const int me = static_cast<int>(r);
        Post p{sends ? me : op.peer, sends ? op.peer : me, op.channel, op.value, sends};
        auto& others = posts[static_cast<std::size_t>(op.peer)];
        for (std::size_t i = 0; i < others.size(); ++i) {
            Post& q = others[i];
            if (done(q) || q.sends == sends || q.from != p.from || q.to != p.to ||
                q.channel != p.channel)
                continue;
            p.partner_rank = op.peer, p.partner = i;
            q.partner_rank = me, q.partner = posts[r].size();
            break;
        }
        posts[r].push_back(p);
    };
    for (bool moved = true; moved;) {
        moved = false;
        for (std::size_t r = 0; r < n; ++r) {
            while (end[r] == End::none) {
                if (at[r] == program[r].size()) {
                    if (!all_done(r)) break;
                    end[r] = End::whole;
                    moved = true;
                    break;
                }
                const Op& op = program[r][at[r]];
                auto& mine = posts[r];
                if (op.kind == Op::Kind::send || op.kind == Op::Kind::receive) {
                    post(r, op);
                } else if (op.kind == Op::Kind::wait) {
                    if (!done(mine[static_cast<std::size_t>(op.which)])) break;
                    mine[static_cast<std::size_t>(op.which)].waited = true;
                } else if (op.kind == Op::Kind::wait_any) {
                    const auto open = [](const Post& p) { return !p.waited; };
                    const auto one = std::find_if(mine.begin(), mine.end(), [&](const Post& p) {
                        return open(p) && done(p);
                    });
                    if (one != mine.end()) one->waited = true;
                    else if (std::any_of(mine.begin(), mine.end(), open)) break;
                } else {
                    if (!all_done(r)) break;
                    end[r] = op.kind == Op::Kind::stop ? End::early : End::failed;
                }
                ++at[r];
                moved = true;
            }
        }
    }
    Outcome o;
    bool stuck = false;
    int early = -1, threw = -1;
    for (std::size_t r = 0; r < n; ++r) {
        stuck = stuck || end[r] == End::none;
        if (end[r] == End::early) early = static_cast<int>(r);
        if (end[r] == End::failed) threw = static_cast<int>(r);
    }
    if (threw >= 0) {
        o.error = "rank " + std::to_string(threw) + " gives up";
        o.missing = threw;
        return o;
    }
    if (stuck) {
        // Somebody has to wait for the one that has returned, and for nobody else.
        bool hopeless = false;
        for (std::size_t r = 0; r < n && early >= 0; ++r) {
            if (end[r] != End::none) continue;
            const bool one = at[r] < program[r].size() && program[r][at[r]].kind == Op::Kind::wait;
            bool all = true;
            for (std::size_t i = 0; i < posts[r].size(); ++i) {
                const Post& p = posts[r][i];
                if (done(p) || (one && i != static_cast<std::size_t>(program[r][at[r]].which)))
                    continue;
                all = all && (p.sends ? p.to : p.from) == early;
            }
            hopeless = hopeless || all;
        }
        if (!hopeless) return std::nullopt;
        o.missing = early;
        o.timed_out = 1;
        return o;
    }
    for (std::size_t r = 0; r < n; ++r) {
        o.received.emplace_back(program[r].size(), -1);
        for (std::size_t i = 0; i < posts[r].size(); ++i) {
            const Post& p = posts[r][i];
            o.received[r][i] =
                p.sends ? p.value
                        : posts[static_cast<std::size_t>(p.partner_rank)][p.partner].value;
        }
        if (end[r] == End::early) o.received[r].assign(program[r].size(), -1);
    }
    return o;
}

Outcome on_threads(const Program& program) {
    gx::ThreadWorld<> world({.placement = {1, static_cast<int>(program.size())},
                             .deadline = std::chrono::nanoseconds::max()});
    return outcome_of(world, program);
}
Outcome on_cluster(const Program& program) {
    gx::sim::Cluster<> world(gx::sim::ethernet_10g(static_cast<int>(program.size())),
                             {.deadline = gx::Nanoseconds::max() - gx::Nanoseconds(1)});
    return outcome_of(world, program);
}
/// A failed wait may have been the only one, or none may have been left to fail.
void expect_same(const Program& program, const Outcome& want) {
    for (Outcome got : {on_threads(program), on_cluster(program)}) {
        if (!want.error.empty() && got.missing == -1) got.missing = want.missing;
        EXPECT_EQ(got.error, want.error);
        EXPECT_EQ(got.missing, want.missing);
        EXPECT_EQ(got.timed_out, want.timed_out);
        EXPECT_EQ(got.received, want.received);
    }
}

using enum Op::Kind;

// ---- Cases worked by hand -------------------------------------------------------------
TEST(WorldsAgree, OnePeerGoneAndOneComing) {
    // Rank 0 waits for any of two; rank 1 has returned, rank 2 sends after rank 0 has asked it to.
    const Program program{
        {{send, 2, 1, 5}, {receive, 1}, {receive, 2}, {wait, 0, 0, 0, 0}, {wait_any}, {stop}},
        {},
        {{receive, 0, 1}, {wait, 0, 0, 0, 0}, {send, 0, 0, 7}}};
    Outcome want;
    want.missing = 1;
    want.timed_out = 1;
    expect_same(program, want);  // of the receive that is left; the other one was done
}
TEST(WorldsAgree, AnyOfTwoIsDoneThoughTheOtherPeerIsGone) {
    std::array<int, 2> got{-1, -1};
    const auto program = [&](int world) {
        return [&got, world](auto& rank) {
            auto& link = rank.transport();
            std::array<int, 1> gone{}, coming{}, word{9};
            const auto bytes = [](auto& a) { return std::as_writable_bytes(std::span(a)); };
            if (rank.rank() == 1) return;
            if (rank.rank() == 2) {
                EXPECT_TRUE(link.wait(link.receive(0, 1, bytes(gone))).complete());
                for (int i = 0; i < 300; ++i) std::this_thread::yield();  // rank 0 waits by now
                EXPECT_TRUE(link.wait(link.send(0, 0, bytes(word))).complete());
                return;
            }
            const std::array requests{link.receive(1, 0, bytes(gone)),
                                      link.receive(2, 0, bytes(coming))};
            const gx::Request ask = link.send(2, 1, bytes(word));
            const gx::Arrival a = link.wait_any(requests);
            EXPECT_TRUE(a.delivery.complete());
            EXPECT_EQ(a.index, 1u);
            EXPECT_TRUE(link.wait(ask).complete());
            const Delivery d = link.wait(requests[0]);
            EXPECT_EQ(d.outcome, Delivery::Outcome::timed_out);
            EXPECT_EQ(d.peer, 1);
            got[static_cast<std::size_t>(world)] = coming[0];
        };
    };
    for (int i = 0; i < 20; ++i)
        gx::Threads<3>({.deadline = std::chrono::hours(10)}).run(program(0));
    gx::sim::Cluster<>(gx::sim::ethernet_10g(3)).run(program(1));
    EXPECT_EQ(got, (std::array{9, 9}));
}

// ---- A property -----------------------------------------------------------------------
// Messages in a random order; each rank waits now and then; at most one returns or throws early.
Program random_program() {
    const int ranks = *rc::gen::inRange(2, 5), messages = *rc::gen::inRange(1, 12);
    Program program(static_cast<std::size_t>(ranks));
    std::vector<int> posts(program.size(), 0);
    const auto wait = [&](std::size_t r) {
        if (posts[r] == 0) return;
        const int kind = *rc::gen::inRange(0, 4);
        if (kind == 0) program[r].push_back({.kind = wait_any});
        if (kind == 1)
            program[r].push_back({.kind = Op::Kind::wait, .which = *rc::gen::inRange(0, posts[r])});
    };
    for (int m = 0; m < messages; ++m) {
        const int from = *rc::gen::inRange(0, ranks), to = *rc::gen::inRange(0, ranks);
        const int channel = *rc::gen::inRange(0, 2);
        const auto a = static_cast<std::size_t>(from), b = static_cast<std::size_t>(to);
        program[a].push_back({send, to, channel, 100 + m});
        ++posts[a];
        wait(a);
        program[b].push_back({receive, from, channel});
        ++posts[b];
        wait(b);
    }
    const auto r = *rc::gen::inRange<std::size_t>(0, program.size() + 2);
    if (r < program.size()) {
        const auto at = *rc::gen::inRange<std::size_t>(0, program[r].size() + 1);
        program[r].resize(at);
        program[r].push_back({.kind = *rc::gen::arbitrary<bool>() ? stop : fail});
    }
    return program;
}
RC_GTEST_PROP(WorldsAgree, OnEveryProgramThatNoDeadlineEnds, ()) {
    const Program program = random_program();
    const std::optional<Outcome> want = expected(program);
    RC_PRE(want.has_value());
    RC_CLASSIFY(want->missing >= 0 && want->error.empty(), "a rank is missed");
    RC_CLASSIFY(!want->error.empty(), "a rank throws");
    for (Outcome got : {on_threads(program), on_cluster(program)}) {
        if (!want->error.empty() && got.missing == -1) got.missing = want->missing;
        RC_ASSERT(got.error == want->error);
        RC_ASSERT(got.missing == want->missing);
        RC_ASSERT(got.timed_out == want->timed_out);
        RC_ASSERT(got.received == want->received);
    }
}

}  // namespace
