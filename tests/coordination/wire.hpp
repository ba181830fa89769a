// Wire: a coordinator and its members, joined by queues that a test empties in the order it likes.
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include <gx/coordination/coordinator.hpp>
#include <gx/coordination/member.hpp>

#include <coordination/text.hpp>  // has

namespace testing_support {

namespace co = gx::coordination;
using namespace std::chrono_literals;

/// Connection r is that of rank r. Time stands still unless a test moves it.
class Wire {
public:
    struct Options {
        co::Duration join_deadline = 60s, silence = co::Duration::max();
        std::vector<std::string> hosts{};
        std::vector<int> local_ranks{};
    };
    explicit Wire(int ranks) : Wire(ranks, Options{}) {}
    Wire(int ranks, Options options)
        : root({.run_id = "run",
                .ranks = ranks,
                .join_deadline = options.join_deadline,
                .silence = options.silence},
               now),
          options_(std::move(options)) {
        for (int r = 0; r < ranks; ++r) {
            ends.emplace_back();
            hello.push_back({.run_id = "run",
                             .rank = r,
                             .ranks = ranks,
                             .process = 100u + static_cast<unsigned>(r),
                             .host = "h"});
            const auto i = static_cast<std::size_t>(r);
            if (!options_.hosts.empty()) hello.back().host = options_.hosts[i];
            if (!options_.local_ranks.empty()) hello.back().local_rank = options_.local_ranks[i];
        }
    }

    struct End {
        std::unique_ptr<co::Member> member{};
        std::deque<co::Message> up{}, down{};
        bool open = false, killed = false;  ///< killed: its end of the connection is closed
        bool closed_below = false;          ///< the root's end is closed
        std::vector<co::Message> got{};     ///< by the member
    };
    End& end(int r) { return ends[static_cast<std::size_t>(r)]; }
    co::Member& at(int r) { return *end(r).member; }
    /// One wait of rank r, and no other one.
    void waits(int r, std::vector<int> peers, co::Duration lasted = 1s) {
        at(r).waits_for({{std::move(peers), lasted}});
    }

    void connect(int r) {
        end(r).member = std::make_unique<co::Member>(
            co::Member::Options{.hello = hello[static_cast<std::size_t>(r)],
                                .join_deadline = options_.join_deadline,
                                .silence = options_.silence},
            now);
        end(r).open = true;
        root.connected(r, now);
        collect();
    }
    /// All ranks, and their Welcome.
    void join() {
        for (int r = 0; r < int(ends.size()); ++r) connect(r);
        settle();
    }
    /// Moves what both sides want to send into the queues.
    void collect() {
        for (int r = 0; r < int(ends.size()); ++r) {
            End& e = end(r);
            if (!e.open || e.killed) continue;
            for (co::Message& m : e.member->take()) e.up.push_back(std::move(m));
        }
        for (co::Order& o : root.take()) {
            End& e = end(o.connection);
            if (!e.open || e.closed_below) continue;
            if (o.message) e.down.push_back(std::move(*o.message));
            if (o.close) e.closed_below = true;
        }
    }
    /// Whether there is anything to deliver in this direction; the end of a connection counts.
    [[nodiscard]] bool has_up(int r) {
        End& e = end(r);
        return e.open && !e.closed_below && (!e.up.empty() || e.killed);
    }
    [[nodiscard]] bool has_down(int r) {
        End& e = end(r);
        return e.open && !e.killed && !e.down.empty();
    }
    void deliver_up(int r) {
        End& e = end(r);
        if (e.up.empty()) {
            e.open = false;
            root.closed(r, now);
        } else {
            const co::Message m = std::move(e.up.front());
            e.up.pop_front();
            root.received(r, m, now);
        }
        collect();
    }
    void deliver_down(int r) {
        End& e = end(r);
        const co::Message m = std::move(e.down.front());
        e.down.pop_front();
        e.got.push_back(m);
        e.member->received(m, now);
        collect();
    }
    /// Delivers until nothing is left, and answers have been given that are to be late.
    void settle() {
        collect();
        for (bool moved = true; moved;) {
            moved = false;
            for (int r = 0; r < int(ends.size()); ++r) {
                while (has_up(r)) deliver_up(r), moved = true;
                while (has_down(r)) deliver_down(r), moved = true;
            }
            const auto asked = [](const End& e) {
                return e.open && !e.killed && e.member->is_asked();
            };
            if (!moved && std::ranges::any_of(ends, asked))
                pass(co::Member::settling), moved = true;
        }
    }
    void kill(int r) {
        end(r).killed = true;
        end(r).down.clear();
    }
    /// The root looks at the clock as often as it wants to.
    void pass(co::Duration time) {
        for (const co::Duration end = now + time; now < end; root.tick(now)) {
            const co::Duration next = root.next_tick();
            now = next > now ? std::min(end, next) : end;
        }
        for (End& e : ends)
            if (e.open && !e.killed) e.member->tick(now);
        collect();
    }
    /// As pass(), while the process of rank r does not run. The root sees its own standstills.
    void stands_still(int r, co::Duration time) {
        if (r != 0) {
            pass(time);
        } else {
            now += time;
            root.stood_still(time, now);
        }
        at(r).stood_still(time, now);
    }

    co::Duration now{0};
    co::Coordinator root;
    std::vector<End> ends{};
    std::vector<co::Hello> hello{};

private:
    Options options_;
};

}  // namespace testing_support
