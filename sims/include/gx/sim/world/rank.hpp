// Endpoint, Stream: the transport and the stream of one simulated rank.
#pragma once

#include <cstdint>      // uint64_t
#include <deque>        // queued tasks
#include <exception>    // exception_ptr
#include <optional>     // no kernels
#include <span>         // messages
#include <string_view>  // names of kernels

#include <gx/core/decl.hpp>                   // GX_HEADER_ONLY
#include <gx/core/error.hpp>                  // Error
#include <gx/core/stream.hpp>                 // Task, Event
#include <gx/core/transport.hpp>              // Placement, Request, Arrival
#include <gx/memory/queue.hpp>                // HostMemory, explain_argument
#include <gx/memory/traffic.hpp>              // traffic_bytes
#include <gx/sim/compute/vector_kernels.hpp>  // VectorKernels
#include <gx/sim/world/fault_interface.hpp>   // FaultInterface, forever
#include <gx/sim/world/race_interface.hpp>    // RaceInterface
#include <gx/sim/world/activity.hpp>          // BusyTime, TraceSink

namespace gx::sim {

class Engine;
class MessageMatcher;
class ScheduledFiber;

/// Limits of a run beyond which it counts as stuck; used by searches for livelocks.
struct Limits {
    Nanoseconds time = forever;      ///< virtual
    std::uint64_t waits = 0;         ///< of one rank; 0: no limit
    std::uint64_t failed_waits = 0;  ///< of one rank, without their message; 0: no limit
};

/// Livelock: a rank has exceeded the run's limits.
class Stuck : public Error {
public:
    using Error::Error;
};

class Endpoint;

/// Where a simulated rank's reducer launches its kernels: they run at once, on host memory, after
/// the time that they would take on the rank's GPU. See Endpoint::queue().
struct KernelQueue {
    using Memory = HostMemory;
    Endpoint* link;
};
template <DeviceKernel K, class... Arguments>
void launch(KernelQueue queue, const K& kernel, Arguments... arguments);

/// One rank's end of the simulated network; a Transport.
/// Channels below `control_channel` carry gradients and are scaled to the timed model's size.
class Endpoint {
public:
    Endpoint(int rank, Placement placement, Engine& engine, MessageMatcher& matcher, BusyTime& busy,
             const ScheduledFiber*& main)
        : rank_(rank),
          placement_(placement),
          engine_(engine),
          matcher_(matcher),
          busy_(busy),
          main_(main) {}

    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] int ranks() const { return placement_.ranks(); }
    [[nodiscard]] Placement placement() const { return placement_; }
    Request send(int to, int channel, std::span<const std::byte> message);
    Request receive(int from, int channel, std::span<std::byte> message);
    Delivery wait(Request request) { return wait_any({&request, 1}).delivery; }
    Arrival wait_any(std::span<const Request> requests);

    /// A kernel launched here takes the time of VectorKernels, on the fiber that launches it. Its
    /// traffic is scaled as messages are. On the stream's fiber it runs beside the model's kernels,
    /// as kernels of a communication stream do. Without charge_kernels() it takes none.
    [[nodiscard]] KernelQueue queue() { return {this}; }
    void charge_kernels(VectorKernels kernels) { kernels_ = kernels; }
    /// Spends the time of a kernel of so much traffic, before scaling.
    void spend(std::string_view kernel, Bytes traffic);

    /// The operation that the next messages belong to: its parts are spans of the communication
    /// stream, and faults may strike in the reduction of a bucket.
    void working_on(const Operation& operation);
    [[nodiscard]] const Operation& operation() const { return operation_; }
    void trace_to(TraceSink* trace) { trace_ = trace; }
    void set_faults(FaultInterface* faults, Limits limits) {
        faults_ = faults;
        limits_ = limits;
    }

private:
    [[nodiscard]] bool alive() const;
    void count_wait(Nanoseconds now);
    /// That the fiber that runs now works on: the rank's own, or its stream's.
    [[nodiscard]] MessageBucket& bucket();

    FaultInterface* faults_ = nullptr;
    Limits limits_{};
    std::optional<VectorKernels> kernels_{};
    std::uint64_t waits_ = 0, failed_waits_ = 0;
    int rank_;
    Placement placement_;
    Engine& engine_;
    MessageMatcher& matcher_;
    BusyTime& busy_;
    const ScheduledFiber*& main_;
    TraceSink* trace_ = nullptr;
    Operation operation_{};
    MessageBucket main_bucket_{}, stream_bucket_{};
    Nanoseconds part_began_{};
};

template <DeviceKernel K, class... Arguments>
void launch(KernelQueue queue, const K& kernel, Arguments... arguments) {
    static_assert((... && explain_argument<Arguments, HostMemory>()));
    queue.link->spend(K::name, Bytes{traffic_bytes(kernel, arguments...)});
    kernel(arguments...);
}

/// A second fiber of a rank, made when its first task is queued; a gx::Stream.
/// Errors: a task that throws fails its world; the tasks behind it are dropped, and wait() throws
///         the task's exception. A task must not wait for its own stream.
class Stream {
public:
    Stream(int rank, Engine& engine, BusyTime& busy, TraceSink* trace)
        : rank_(rank), engine_(engine), busy_(busy), trace_(trace) {}
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    Event enqueue(Task task);
    void wait(Event event);
    /// Whether a task is queued or runs.
    [[nodiscard]] bool working() const { return done_ < queued_; }
    /// Reports an access of the code that runs now, for race detection and the trace.
    void note(Access access, std::span<const std::byte> memory, const Operation& operation);
    void set_race_detector(RaceInterface* races) { races_ = races; }
    /// nullptr without race detection.
    [[nodiscard]] RaceInterface* races() const { return races_; }
    /// Finishes what is queued and ends the fiber.
    void close();

private:
    void work();
    void perform(Task task);
    void trace(Nanoseconds begin);

    int rank_;
    Engine& engine_;
    BusyTime& busy_;
    TraceSink* trace_;
    RaceInterface* races_ = nullptr;
    int actor_ = -1;  ///< among those of races_
    std::deque<Task> tasks_{};
    std::deque<Nanoseconds> queued_at_{};  ///< with a trace
    Operation operation_{};                ///< of the present task
    std::uint64_t queued_ = 0, done_ = 0;
    ScheduledFiber* fiber_ = nullptr;
    ScheduledFiber* waiter_ = nullptr;
    std::exception_ptr error_{};
    bool closed_ = false, ended_ = false;
};

}  // namespace gx::sim

#if defined(GX_HEADER_ONLY)
#include <gx/sim/world/impl/rank.ipp>
#endif
