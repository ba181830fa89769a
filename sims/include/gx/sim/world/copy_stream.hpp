// CopyStream: a rank's copies between GPU and host as streams, with race detection.
#pragma once

#include <array>    // engines
#include <cstddef>  // byte
#include <cstdint>  // uint64_t
#include <span>     // memory

#include <gx/core/stream.hpp>               // Access, Event, Operation
#include <gx/core/units.hpp>                // Bytes, Nanoseconds
#include <gx/sim/compute/copy_engines.hpp>  // CopyEngines, CopyTo
#include <gx/sim/world/race_interface.hpp>  // RaceInterface
#include <gx/sim/world/activity.hpp>        // Activity

namespace gx::sim {

/// A submitted copy.
struct Copy {
    Event event{};      ///< of the copies in the same direction
    Nanoseconds end{};  ///< when it is done
    CopyTo to = CopyTo::gpu;
};

/// CopyEngines in the virtual time of a rank. Copies of one direction are a stream: a copy
/// happens-after all earlier work of its rank; only a rank that waited for it is ordered after it.
/// Where the cluster detects races, a copy to the GPU writes the buffer that it is given, and one
/// to the host reads it: without a wait between the copy and a pass that uses the buffer, the world
/// ends with an error that names both.
///
/// Errors: `copy` throws gx::Error where it races with what was done before.
/// Cost:   no event and no fiber; virtual time passes in `wait` only.
template <class Rank>
class CopyStream {
public:
    CopyStream(Rank& rank, CopyEngines engines) : rank_(rank), engines_(engines) {}

    /// Begins as soon as an engine is free. `buffer` is the GPU's, or stands for it; `bytes` is
    /// what is copied, which may be as much as another network's batch.
    Copy copy(std::span<const std::byte> buffer, Bytes bytes, CopyTo to,
              const Operation& operation) {
        Queue& queue = queue_of(to);
        if (RaceInterface* races = rank_.stream().races()) {
            if (queue.actor < 0) queue.actor = races->add_engine(rank_.rank(), name_of(to));
            const Access access = to == CopyTo::gpu ? Access::write : Access::read;
            races->works(rank_.rank(), queue.actor, access, buffer, operation);
        }
        return {{++queue.copies}, engines_.submit(rank_.now(), bytes, to), to};
    }
    /// Waits until that copy is done; charges the time to the rank as `name`, Activity::input.
    void wait(const Copy& copy, const Label& name) {
        if (copy.event.sequence == 0) return;
        const Nanoseconds late = copy.end - rank_.now();
        if (late.count() > 0) rank_.charge(late, name, Activity::input);
        const Queue& queue = queue_of(copy.to);
        RaceInterface* races = rank_.stream().races();
        if (races && queue.actor >= 0) races->waited(rank_.rank(), queue.actor, copy.event);
    }

private:
    struct Queue {
        std::uint64_t copies = 0;
        int actor = -1;  ///< among those of the race detector
    };
    Queue& queue_of(CopyTo to) { return queues_[engines_.shared() ? 0 : std::size_t(to)]; }
    [[nodiscard]] Label name_of(CopyTo to) const {
        if (engines_.shared()) return "copy engine";
        return to == CopyTo::gpu ? "copy engine to the GPU" : "copy engine to the host";
    }

    Rank& rank_;
    CopyEngines engines_;
    std::array<Queue, 2> queues_{};
};

}  // namespace gx::sim
