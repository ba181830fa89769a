// CopyEngines: copies between a GPU and its host, which run beside kernels, one after another.
#pragma once

#include <algorithm>  // max
#include <array>      // queues
#include <cstddef>    // size_t

#include <gx/core/contract.hpp>  // GX_EXPECT
#include <gx/core/units.hpp>     // Bytes, Nanoseconds

namespace gx::sim {

enum class CopyTo : unsigned char { gpu, host };

/// When copies end. A GPU with one engine copies one way at a time; with two or more, copies to the
/// GPU and copies to the host run beside each other, and those of one way in their order: a second
/// engine for the same way would share the link.
///
/// Units: `rate` is the link's, one way; messages of NICs on the same link are not seen here.
/// Order: submit() is called with times that never fall.
class CopyEngines {
public:
    CopyEngines(int engines, BytesPerSecond rate, Nanoseconds latency = {})
        : shared_(engines < 2), rate_(rate), latency_(latency) {
        GX_EXPECT(engines >= 1, "a GPU has at least one copy engine");
        GX_EXPECT(rate.count > 0, "a copy needs a link with a rate above 0");
    }

    /// Whether both directions share one engine.
    [[nodiscard]] bool shared() const { return shared_; }
    /// End time of a copy submitted at `now`.
    Nanoseconds submit(Nanoseconds now, Bytes bytes, CopyTo to) {
        Nanoseconds& free = free_[shared_ ? 0 : static_cast<std::size_t>(to)];
        return free = std::max(now, free) + latency_ + bytes / rate_;
    }

private:
    bool shared_;
    BytesPerSecond rate_;
    Nanoseconds latency_;
    std::array<Nanoseconds, 2> free_{};
};

}  // namespace gx::sim
