// RaceDetector: streams, memory and messages.
#pragma once

#include <algorithm>  // max, min
#include <cstdint>    // uint64_t
#include <iterator>   // prev
#include <map>        // buffers
#include <string>     // sentences

#include <gx/core/contract.hpp>  // GX_EXPECT
#include <gx/testing/race_detector.hpp>

namespace gx::testing {

GX_DECL std::string to_string(const Operation& o) {
    std::string text(o.what.view());
    if (o.bucket >= 0) text += " bucket " + std::to_string(o.bucket);
    if (o.step >= 0) text += (o.bucket >= 0 ? " of step " : " ") + std::to_string(o.step);
    return text;
}

GX_DECL void RaceDetector::note(int actor, Access access, Memory memory,
                                const Operation& operation) {
    if (memory.empty()) return;
    const Range r = range(memory);
    const int rank = at(actor).rank;
    if (access == Access::begin || access == Access::end) {
        erase_buffers(rank, r);
        if (access == Access::begin)
            buffers_[static_cast<std::size_t>(rank)][r.begin] = {r.end, operation.what, {}};
        return;
    }
    const bool write = access == Access::write;
    check(actor, r, write, operation, {});
    record(actor, r, write, operation);
    if (at(actor).is_stream) at(actor).task = operation;
}

GX_DECL bool RaceDetector::is_ordered(int actor, Access access, Memory memory) {
    bool ordered = true;
    for_buffers(
        at(actor).rank, range(memory), [&](Buffer& b, Address, std::size_t begin, std::size_t end) {
            ordered = ordered &&
                      !b.history.conflict(begin, end, access == Access::write, actor, clock(actor));
        });
    return ordered;
}

GX_DECL void RaceDetector::cover(int rank, Memory memory, const Label& name) {
    const Range r = range(memory);
    auto& all = buffers_[static_cast<std::size_t>(rank)];
    Address from = r.begin;
    for (auto at = first_buffer(rank, r); at != all.end() && at->first < r.end; ++at) {
        if (from < at->first) all[from] = {at->first, name, {}};
        from = at->second.end;
    }
    if (from < r.end) all[from] = {r.end, name, {}};
}

GX_DECL void RaceDetector::posted(int actor, std::size_t id, Access access, Memory memory,
                                  const Operation& what) {
    GX_EXPECT(access == Access::read || access == Access::write, "a message reads or writes");
    if (id >= messages_.size()) messages_.resize(id + 1);
    Message& m = messages_[id];
    const Range r = range(memory);
    const Operation task = at(actor).task;
    if (!memory.empty()) check(actor, r, access == Access::write, what, task);
    m = {actor, access, r.begin, r.end, what, task, {}};
    open_[static_cast<std::size_t>(at(actor).rank)].push_back(id);
    if (access != Access::read) return;  // a send carries its sender's clock
    m.known = clock(actor);
    clock(actor).advance(actor);
}

GX_DECL void RaceDetector::waited_for(std::size_t id, int by) {
    if (id >= messages_.size() || messages_[id].actor < 0) return;
    const Message& m = messages_[id];
    const bool write = m.access == Access::write;
    if (write) clock(by).join(m.known);
    if (m.begin < m.end) record(by, {m.begin, m.end}, write, m.operation);
    close(id);
}

GX_DECL void RaceDetector::close(std::size_t id) {
    if (id >= messages_.size() || messages_[id].actor < 0) return;
    std::erase(open_[static_cast<std::size_t>(at(messages_[id].actor).rank)], id);
    messages_[id].actor = -1;
}

GX_DECL void RaceDetector::record(int actor, Range r, bool write, const Operation& operation) {
    const Touch touch{actor, clock(actor).at(actor), operation};
    for_buffers(at(actor).rank, r, [&](Buffer& b, Address, std::size_t begin, std::size_t end) {
        b.history.add(begin, end, write, touch);
    });
}

// Against the messages in flight, then against the buffers' history.
GX_DECL void RaceDetector::check(int actor, Range r, bool write, const Operation& operation,
                                 const Operation& task) {
    ++accesses_;
    const int rank = at(actor).rank;
    for (const std::size_t id : open_[static_cast<std::size_t>(rank)]) {
        const Message& m = messages_[id];
        const bool wrote = m.access == Access::write;
        const Range both{std::max(r.begin, m.begin), std::min(r.end, m.end)};
        if (both.begin >= both.end || (!write && !wrote)) continue;
        race(actor, who(actor, operation, task), write, who(m.actor, m.operation, m.task), wrote,
             bytes_of(rank, both),
             "Wait for the " + std::string(wrote ? "receive" : "send") + " first, by its request.");
    }
    for_buffers(rank, r, [&](Buffer& b, Address, std::size_t begin, std::size_t end) {
        const auto c = b.history.conflict(begin, end, write, actor, clock(actor));
        if (!c) return;
        const Actor& other = at(c->before.actor);
        const std::string then = "'" + to_string(c->before.operation) + "'",
                          now = "'" + to_string(operation) + "'";
        race(actor, who(actor, operation, task), write,
             who(c->before.actor, c->before.operation, {}), c->wrote,
             bytes(c->begin, c->end) + " of '" + std::string(b.name.view()) + "'",
             other.is_stream ? "Wait for the event of " + then + " before " + now + "."
                             : "Queue " + now + " after " + then +
                                   ", or wait for its event before " + then + ".");
    });
}

GX_DECL std::string RaceDetector::who(int actor, const Operation& operation,
                                      const Operation& task) const {
    std::string text = "'" + to_string(operation) + "'";
    if (!task.what.view().empty()) text += " of '" + to_string(task) + "'";
    return text + " (" + std::string(at(actor).name.view()) + ")";
}

GX_DECL std::string RaceDetector::bytes_of(int rank, Range r) {
    std::string text;
    for_buffers(rank, r, [&](Buffer& b, Address, std::size_t begin, std::size_t end) {
        if (text.empty()) text = bytes(begin, end) + " of '" + std::string(b.name.view()) + "'";
    });
    return text.empty() ? std::to_string(r.end - r.begin) + " bytes of its memory" : text;
}

GX_DECL RaceDetector::RaceDetector(int ranks)
    : buffers_(static_cast<std::size_t>(ranks)), open_(static_cast<std::size_t>(ranks)) {}

GX_DECL int RaceDetector::add_function(int rank, Label name) {
    actors_.push_back({.rank = rank, .name = name});
    return start();
}

GX_DECL int RaceDetector::add_stream(int maker, Label name) {
    actors_.push_back(
        {.rank = at(maker).rank, .name = name, .is_stream = true, .clock = clock(maker)});
    clock(maker).advance(maker);
    return start();
}

GX_DECL void RaceDetector::queued(int stream, int by) {
    at(stream).tasks.push_back(clock(by));
    clock(by).advance(by);
}

GX_DECL void RaceDetector::begun(int stream) {
    Actor& s = at(stream);
    GX_EXPECT(!s.tasks.empty(), "a task begins after it was queued");
    s.clock.join(s.tasks.front());
    s.tasks.pop_front();
    s.task = {};
}

GX_DECL void RaceDetector::ended(int stream) {
    Actor& s = at(stream);
    s.ends.push_back(s.clock);
    s.counts.push_back(s.clock.at(stream));
    ++s.done;
    while (s.ends.size() > events_kept(actors_.size())) s.ends.pop_front();
    if (s.counts.size() > counts_kept) s.counts.pop_front();
    s.clock.advance(stream);
    s.task = {};
}

GX_DECL void RaceDetector::waited(int stream, std::uint64_t sequence, int by) {
    const Actor& s = at(stream);
    if (sequence == 0) return;
    GX_EXPECT(sequence <= s.done, "an event is waited for until its task has ended");
    const auto back = static_cast<std::size_t>(s.done - sequence);  // 0: the last task
    const auto kept = [back](const auto& list) -> const auto& {
        return list[list.size() - 1 - std::min(back, list.size() - 1)];
    };
    clock(by).join(kept(s.ends), stream);
    clock(by).raise(stream, kept(s.counts));
}

GX_DECL void RaceDetector::delivered(std::size_t send, std::size_t receive) {
    if (send >= messages_.size() || receive >= messages_.size()) return;
    messages_[receive].known.join(messages_[send].known);
}

GX_DECL std::string RaceDetector::part_of(std::size_t id) const {
    const Operation& task = messages_[id].task;
    return task.what.view().empty() ? "" : " of '" + to_string(task) + "'";
}

GX_DECL int RaceDetector::start() {
    const int actor = static_cast<int>(actors_.size()) - 1;
    clock(actor).raise(actor, 1);
    return actor;
}

GX_DECL RaceDetector::Range RaceDetector::range(Memory m) {
    const auto begin = reinterpret_cast<Address>(m.data());
    return {begin, begin + m.size()};
}

GX_DECL std::map<RaceDetector::Address, RaceDetector::Buffer>::iterator RaceDetector::first_buffer(
    int rank, Range r) {
    auto& all = buffers_[static_cast<std::size_t>(rank)];
    auto at = all.upper_bound(r.begin);
    if (at != all.begin() && std::prev(at)->second.end > r.begin) --at;
    return at;
}

GX_DECL void RaceDetector::erase_buffers(int rank, Range r) {
    auto& all = buffers_[static_cast<std::size_t>(rank)];
    for (auto at = first_buffer(rank, r); at != all.end() && at->first < r.end;) at = all.erase(at);
}

GX_DECL void RaceDetector::race(int actor, const std::string& now, bool writes,
                                const std::string& then, bool wrote, const std::string& bytes,
                                const std::string& fix) const {
    throw Race("race on rank " + std::to_string(at(actor).rank) + ": " + now +
               (writes ? " writes " : " reads ") + bytes + ", which " + then +
               (wrote ? " writes" : " reads") + ", and nothing orders the two. " + fix);
}

}  // namespace gx::testing
