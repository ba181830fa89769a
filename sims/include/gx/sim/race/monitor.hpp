// RaceMonitor: reports the accesses of a simulated world to the race detector; checks payloads.
#pragma once

#include <algorithm>  // min
#include <cstdint>    // uint64_t
#include <cstring>    // memcpy
#include <exception>  // make_exception_ptr
#include <memory>     // unique_ptr
#include <span>       // memory
#include <string>     // sentences
#include <utility>    // pair
#include <vector>     // fibers, digests

#include <gx/core/decl.hpp>                 // GX_DECL
#include <gx/core/stream.hpp>               // Access, Operation
#include <gx/sim/des/engine.hpp>            // Engine, ScheduledFiber
#include <gx/sim/world/race_interface.hpp>  // RaceInterface
#include <gx/testing/race_detector.hpp>     // RaceDetector, Race

namespace gx::sim {

using testing::Race;
using testing::RaceDetector;

/// Race detection for a simulated world: observes its streams and messages. A rank's first fiber is
/// its compute stream.
///
/// Besides RaceDetector's races, a message whose bytes change between its send and its delivery is
/// an error of the sending rank, even if the access that changed them is not noted.
///
/// Cost: as RaceDetector, and two passes over the bytes of each message.
class RaceMonitor final : public RaceInterface {
public:
    RaceMonitor(Engine& engine, int ranks)
        : engine_(engine), detector_(ranks), fibers_(static_cast<std::size_t>(ranks)) {}

    int add_stream(int rank, const ScheduledFiber& fiber) override {
        const int actor = detector_.add_stream(current(rank), "communication stream");
        fibers_[static_cast<std::size_t>(rank)].emplace_back(&fiber, actor);
        return actor;
    }
    void queued(int rank, int stream) override { detector_.queued(stream, current(rank)); }
    void begun(int stream) override { detector_.begun(stream); }
    void ended(int stream) override { detector_.ended(stream); }
    void waited(int rank, int stream, Event event) override {
        detector_.waited(stream, event.sequence, current(rank));
    }
    int add_engine(int rank, const Label& name) override {
        return detector_.add_stream(current(rank), name);
    }
    void works(int rank, int engine, Access access, Memory memory,
               const Operation& operation) override {
        detector_.queued(engine, current(rank));
        detector_.begun(engine);
        detector_.note(engine, access, memory, operation);
        detector_.ended(engine);
    }
    void note(int rank, Access access, Memory memory, const Operation& operation) override {
        // After a lost rank, messages stay open that are never waited for.
        if (!engine_.current() || engine_.cancelled()) return;
        detector_.note(current(rank), access, memory, operation);
    }

    void sends(int rank, int slot, int to, Memory memory) override {
        detector_.posted(current(rank), id(slot), Access::read, memory,
                         {Label("send to rank ") + to});
        if (id(slot) >= sent_.size()) sent_.resize(id(slot) + 1);
        sent_[id(slot)] = {rank, to, memory.data(), digest(memory)};
    }
    void receives(int rank, int slot, int from, Memory memory) override {
        detector_.posted(current(rank), id(slot), Access::write, memory,
                         {Label("receive from rank ") + from});
    }
    void taken(int send, int receive, Memory memory) override {
        detector_.delivered(id(send), id(receive));
        const Sent& s = sent_[id(send)];
        const bool of_another = s.data != memory.data();  // a fault put it there
        if (of_another || s.digest == digest(memory) || engine_.cancelled()) return;
        engine_.fail(
            s.rank,
            std::make_exception_ptr(Race(
                "race on rank " + std::to_string(s.rank) + ": " + std::to_string(memory.size()) +
                " bytes changed while 'send to rank " + std::to_string(s.to) + "'" +
                detector_.part_of(id(send)) +
                " was sending them. Wait for the send, by its request, before writing there.")));
    }
    void waited_for(int rank, int slot) override { detector_.waited_for(id(slot), current(rank)); }
    void withdrawn(int slot) override { detector_.withdrawn(id(slot)); }

    [[nodiscard]] const RaceDetector& detector() const { return detector_; }

private:
    struct Sent {
        int rank = 0, to = 0;
        const std::byte* data = nullptr;
        std::uint64_t digest = 0;
    };
    static std::size_t id(int slot) { return static_cast<std::size_t>(slot); }
    static std::uint64_t digest(Memory memory) {
        std::uint64_t hash = memory.size();
        for (std::size_t i = 0; i < memory.size(); i += sizeof hash) {
            std::uint64_t word = 0;
            std::memcpy(&word, memory.data() + i, std::min(sizeof word, memory.size() - i));
            hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
            hash ^= hash >> 29;
        }
        return hash;
    }
    int current(int rank) {
        auto& all = fibers_[static_cast<std::size_t>(rank)];
        const ScheduledFiber* now = engine_.current();
        for (const auto& [fiber, actor] : all)
            if (fiber == now) return actor;
        all.emplace_back(
            now, detector_.add_function(rank, all.empty() ? Label("compute stream")
                                                          : Label("fiber ") + int(all.size())));
        return all.back().second;
    }

    Engine& engine_;
    RaceDetector detector_;
    std::vector<std::vector<std::pair<const ScheduledFiber*, int>>> fibers_;  // by rank
    std::vector<Sent> sent_{};                                                // by slot
};

template <>
struct RaceMonitorMaker<bool> {
    static GX_DECL std::unique_ptr<RaceInterface> make(Engine& engine, int ranks);
};

}  // namespace gx::sim

#if defined(GX_HEADER_ONLY)
#include <gx/sim/race/impl/monitor.ipp>
#endif
