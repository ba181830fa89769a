// RaceDetector: streams, memory and messages.
#pragma once

#include <algorithm>  // max, min
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

GX_DECL bool RaceDetector::is_registered(int rank, Memory memory) {
    const Range r = range(memory);
    const auto at = first_buffer(rank, r);
    return at != buffers_[static_cast<std::size_t>(rank)].end() && at->first <= r.begin &&
           r.end <= at->second.end;
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

}  // namespace gx::testing
