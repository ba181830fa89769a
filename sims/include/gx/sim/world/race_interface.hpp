// RaceDetection, RaceInterface: interface of race detection; see race/monitor.hpp.
#pragma once

#include <concepts>     // same_as
#include <cstddef>      // byte
#include <memory>       // unique_ptr
#include <span>         // memory
#include <type_traits>  // is_same

#include <gx/core/stream.hpp>  // Access, Event, Operation

namespace gx::sim {

class Engine;
class ScheduledFiber;

/// Events that streams and the message matcher report to the race detector; nullptr without one.
class RaceInterface {
public:
    using Memory = std::span<const std::byte>;

    RaceInterface() = default;
    RaceInterface(const RaceInterface&) = delete;
    RaceInterface& operator=(const RaceInterface&) = delete;
    virtual ~RaceInterface() = default;

    /// `fiber` is a stream from here on; made by the fiber that runs now.
    virtual int add_stream(int rank, const ScheduledFiber& fiber) = 0;
    virtual void queued(int rank, int stream) = 0;
    virtual void begun(int stream) = 0;
    virtual void ended(int stream) = 0;
    virtual void waited(int rank, int stream, Event event) = 0;
    /// A stream of work that no fiber does, as copy engines do; made by the fiber that runs now.
    virtual int add_engine(int rank, const Label& name) = 0;
    /// Such work, from its queueing by the fiber that runs now to its end.
    virtual void works(int rank, int engine, Access access, Memory memory,
                       const Operation& operation) = 0;
    /// Accesses outside of fibers, before or after the run, have no owner.
    virtual void note(int rank, Access access, Memory memory, const Operation& operation) = 0;

    virtual void sends(int rank, int slot, int to, Memory memory) = 0;
    virtual void receives(int rank, int slot, int from, Memory memory) = 0;
    /// The message is taken from its send's memory now.
    virtual void taken(int send, int receive, Memory memory) = 0;
    virtual void waited_for(int rank, int slot) = 0;
    virtual void withdrawn(int slot) = 0;
};

/// Makes the RaceInterface; race/monitor.hpp specialises it for Bool = bool.
template <class Bool>
struct RaceMonitorMaker {
    static_assert(!std::is_same_v<Bool, Bool>,
                  "gx: no race detector here. Programs that detect races compile it, others do "
                  "not. Fix: include <gx/sim/race/monitor.hpp>.");
};

/// Whether a world detects races. To give one that does, include <gx/sim/race/monitor.hpp>.
class RaceDetection {
public:
    RaceDetection() = default;
    template <std::same_as<bool> Bool>
    RaceDetection(Bool on) : make_(on ? &RaceMonitorMaker<Bool>::make : nullptr) {}

    explicit operator bool() const { return make_ != nullptr; }
    /// nullptr: it does not.
    [[nodiscard]] std::unique_ptr<RaceInterface> start(Engine& engine, int ranks) const {
        return make_ ? make_(engine, ranks) : nullptr;
    }

private:
    std::unique_ptr<RaceInterface> (*make_)(Engine& engine, int ranks) = nullptr;
};

}  // namespace gx::sim
