// RaceDetector: finds accesses that no wait orders, even where this run's order made them harmless.
#pragma once

#include <algorithm> // max, min
#include <cstdint>   // uint64_t
#include <deque>     // tasks
#include <iterator>  // prev
#include <map>       // buffers
#include <optional>  // a conflict
#include <span>      // memory
#include <string>    // sentences
#include <utility>   // move
#include <vector>    // actors

#include <gx/core/contract.hpp>       // GX_EXPECT
#include <gx/core/error.hpp>          // Error
#include <gx/core/stream.hpp>         // Access, Operation
#include <gx/sim/race_history.hpp>    // VectorClock, AccessHistory
#include <gx/sim/race_hooks.hpp>      // Race

namespace gx::sim {

/// 'all-reduce bucket 3 of step 7'
[[nodiscard]] inline std::string to_string(const Operation& o) {
    std::string text(o.what.view());
    if (o.bucket >= 0) text += " bucket " + std::to_string(o.bucket);
    if (o.step >= 0) text += (o.bucket >= 0 ? " of step " : " ") + std::to_string(o.step);
    return text;
}

/// Happens-before, by vector clocks over actors: a rank's function, its streams, and its GPU's copy
/// engines, which are streams of copies.
///
///     what an actor did              is known to
///     before it queues a task        that task
///     up to the end of a task        who waits for that task's event, or a later one's
///     before it sends a message      who waits for the matching receive
///
/// Two accesses to one byte of a rank's memory, one of them a write, where neither is known to the
/// other's actor, are an error: the one that comes later throws. A simulated run has one order, and
/// may give right numbers without the wait; the error does not depend on that order.
///
/// A message uses its memory from its posting until somebody waits for it. In that time any
/// conflicting access is an error, by the actor that posted it too.
///
/// Between messages only registered buffers are watched (Access::begin to Access::end): other
/// memory may be freed and used again for something else.
///
/// Errors: `note` and `posted` throw Race: the rank, both operations with their streams, the
///         buffer and its bytes, and what to wait for.
/// Cost:   a task, a wait or a message copies a clock of as many counts as there are actors. Of
///         each stream the last `tasks_kept` events are known exactly, and an older event counts
///         as the oldest of these. Memory is that, and AccessHistory's for each buffer.
class RaceDetector {
public:
    using Memory = std::span<const std::byte>;
    static constexpr std::size_t tasks_kept = 64, counts_kept = 4096;

    explicit RaceDetector(int ranks)
        : buffers_(static_cast<std::size_t>(ranks)), open_(static_cast<std::size_t>(ranks)) {}

    /// A rank's function; it knows nothing yet.
    int add_function(int rank, Label name) {
        actors_.push_back({.rank = rank, .name = name});
        return start();
    }
    /// A stream of `maker`'s rank; it knows what its maker knows.
    int add_stream(int maker, Label name) {
        actors_.push_back(
            {.rank = at(maker).rank, .name = name, .is_stream = true, .clock = clock(maker)});
        clock(maker).advance(maker);
        return start();
    }

    // ---- Streams ---------------------------------------------------------------------------
    void queued(int stream, int by) {
        at(stream).tasks.push_back(clock(by));
        clock(by).advance(by);
    }
    void begun(int stream) {
        Actor& s = at(stream);
        GX_EXPECT(!s.tasks.empty(), "a task begins after it was queued");
        s.clock.join(s.tasks.front());
        s.tasks.pop_front();
        s.task = {};
    }
    void ended(int stream) {
        Actor& s = at(stream);
        s.ends.push_back(s.clock);
        s.counts.push_back(s.clock.at(stream));
        ++s.done;
        if (s.ends.size() > tasks_kept) s.ends.pop_front();
        if (s.counts.size() > counts_kept) s.counts.pop_front();
        s.clock.advance(stream);
        s.task = {};
    }
    /// `by` has waited for task number `sequence` of a stream, counted from 1.
    void waited(int stream, std::uint64_t sequence, int by) {
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

    // ---- Memory ----------------------------------------------------------------------------
    void note(int actor, Access access, Memory memory, const Operation& operation);

    // ---- Messages --------------------------------------------------------------------------
    /// `id` names the message end until `waited_for` or `withdrawn`: any small number.
    void posted(int actor, std::size_t id, Access access, Memory memory, const Operation& what);
    /// The receive `receive` has got what the send `send` sent.
    void delivered(std::size_t send, std::size_t receive) {
        if (send >= messages_.size() || receive >= messages_.size()) return;
        messages_[receive].known.join(messages_[send].known);
    }
    void waited_for(std::size_t id, int by);
    void withdrawn(std::size_t id) { close(id); }
    /// " of 'all-reduce bucket 3 of step 7'", or nothing where no task posted it.
    [[nodiscard]] std::string part_of(std::size_t id) const {
        const Operation& task = messages_[id].task;
        return task.what.view().empty() ? "" : " of '" + to_string(task) + "'";
    }

    [[nodiscard]] std::uint64_t accesses() const { return accesses_; }

private:
    using Address = std::uintptr_t;
    struct Actor {
        int rank = 0;
        Label name{};
        bool is_stream = false;
        VectorClock clock{};
        Operation task{};                  ///< what its messages are part of
        std::deque<VectorClock> tasks{};  ///< clocks of who queued them; not begun yet
        std::deque<VectorClock> ends{};   ///< of the last tasks
        std::deque<std::uint32_t> counts{};
        std::uint64_t done = 0;
    };
    struct Buffer {
        Address end = 0;
        Label name{};
        AccessHistory history{};
    };
    struct Message {
        int actor = -1;  ///< -1: not open
        Access access{};
        Address begin = 0, end = 0;
        Operation operation{}, task{};
        VectorClock known{};
    };
    struct Range {
        Address begin = 0, end = 0;
    };

    int start() {
        const int actor = static_cast<int>(actors_.size()) - 1;
        clock(actor).raise(actor, 1);
        return actor;
    }
    Actor& at(int actor) { return actors_[static_cast<std::size_t>(actor)]; }
    const Actor& at(int actor) const { return actors_[static_cast<std::size_t>(actor)]; }
    VectorClock& clock(int actor) { return at(actor).clock; }
    static Range range(Memory m) {
        const auto begin = reinterpret_cast<Address>(m.data());
        return {begin, begin + m.size()};
    }
    auto first_buffer(int rank, Range r) {
        auto& all = buffers_[static_cast<std::size_t>(rank)];
        auto at = all.upper_bound(r.begin);
        if (at != all.begin() && std::prev(at)->second.end > r.begin) --at;
        return at;
    }
    template <class F>
    void for_buffers(int rank, Range r, F f) {
        auto& all = buffers_[static_cast<std::size_t>(rank)];
        for (auto at = first_buffer(rank, r); at != all.end() && at->first < r.end; ++at)
            f(at->second, at->first, std::max(r.begin, at->first) - at->first,
              std::min(r.end, at->second.end) - at->first);
    }
    void erase_buffers(int rank, Range r) {
        auto& all = buffers_[static_cast<std::size_t>(rank)];
        for (auto at = first_buffer(rank, r); at != all.end() && at->first < r.end;)
            at = all.erase(at);
    }
    void close(std::size_t id);
    void check(int actor, Range r, bool write, const Operation& operation, const Operation& task);
    void record(int actor, Range r, bool write, const Operation& operation);

    [[nodiscard]] std::string who(int actor, const Operation& operation,
                                  const Operation& task) const;
    [[noreturn]] void race(int actor, const std::string& now, bool writes, const std::string& then,
                           bool wrote, const std::string& bytes, const std::string& fix) const {
        throw Race("race on rank " + std::to_string(at(actor).rank) + ": " + now +
                    (writes ? " writes " : " reads ") + bytes + ", which " + then +
                    (wrote ? " writes" : " reads") + ", and nothing orders the two. " + fix);
    }
    [[nodiscard]] std::string bytes_of(int rank, Range r);
    [[nodiscard]] static std::string bytes(std::size_t begin, std::size_t end) {
        return "bytes " + std::to_string(begin) + " to " + std::to_string(end);
    }

    std::vector<Actor> actors_{};
    std::vector<std::map<Address, Buffer>> buffers_;  // by rank, then by begin
    std::vector<Message> messages_{};                 // by id
    std::vector<std::vector<std::size_t>> open_;      // by rank: ids
    std::uint64_t accesses_ = 0;
};

inline void RaceDetector::note(int actor, Access access, Memory memory,
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

inline void RaceDetector::posted(int actor, std::size_t id, Access access, Memory memory,
                                 const Operation& what) {
    GX_EXPECT(access == Access::read || access == Access::write, "a message reads or writes");
    if (id >= messages_.size()) messages_.resize(id + 1);
    Message& m = messages_[id];
    const Range r = range(memory);
    const Operation task = at(actor).task;
    if (!memory.empty()) check(actor, r, access == Access::write, what, task);
    m = {actor, access, r.begin, r.end, what, task, {}};
    open_[static_cast<std::size_t>(at(actor).rank)].push_back(id);
    if (access != Access::read) return;  // a send tells what its sender knows
    m.known = clock(actor);
    clock(actor).advance(actor);
}

inline void RaceDetector::waited_for(std::size_t id, int by) {
    if (id >= messages_.size() || messages_[id].actor < 0) return;
    const Message& m = messages_[id];
    const bool write = m.access == Access::write;
    if (write) clock(by).join(m.known);
    if (m.begin < m.end) record(by, {m.begin, m.end}, write, m.operation);
    close(id);
}

inline void RaceDetector::close(std::size_t id) {
    if (id >= messages_.size() || messages_[id].actor < 0) return;
    std::erase(open_[static_cast<std::size_t>(at(messages_[id].actor).rank)], id);
    messages_[id].actor = -1;
}

inline void RaceDetector::record(int actor, Range r, bool write, const Operation& operation) {
    const Touch touch{actor, clock(actor).at(actor), operation};
    for_buffers(at(actor).rank, r, [&](Buffer& b, Address, std::size_t begin, std::size_t end) {
        b.history.add(begin, end, write, touch);
    });
}

// Against the messages under way, then against what is on record of the buffers.
inline void RaceDetector::check(int actor, Range r, bool write, const Operation& operation,
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
                             : "Queue " + now + " after " + then + ", or wait for its event before "
                                   + then + ".");
    });
}

inline std::string RaceDetector::who(int actor, const Operation& operation,
                                     const Operation& task) const {
    std::string text = "'" + to_string(operation) + "'";
    if (!task.what.view().empty()) text += " of '" + to_string(task) + "'";
    return text + " (" + std::string(at(actor).name.view()) + ")";
}

inline std::string RaceDetector::bytes_of(int rank, Range r) {
    std::string text;
    for_buffers(rank, r, [&](Buffer& b, Address, std::size_t begin, std::size_t end) {
        if (text.empty()) text = bytes(begin, end) + " of '" + std::string(b.name.view()) + "'";
    });
    return text.empty() ? std::to_string(r.end - r.begin) + " bytes of its memory" : text;
}

}  // namespace gx::sim
