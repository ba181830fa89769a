// Activity, BusyTime: a rank's virtual time by activity; spans go to a gx::TraceSink.
#pragma once

#include <gx/core/trace.hpp>  // Span, Track, TraceSink
#include <gx/core/units.hpp>  // Nanoseconds

namespace gx::sim {

/// Kind of activity that a rank spends virtual time on.
enum class Activity : unsigned char {
    compute,
    exposed_communication,  ///< the rank's function waits for messages or for its stream
    input,                  ///< the rank's function waits for data
    other
};

/// Totals of one rank since its run began.
struct BusyTime {
    Nanoseconds compute{};
    Nanoseconds exposed_communication{};
    Nanoseconds input{};
    Nanoseconds other{};
    Nanoseconds communication{};  ///< of its stream; the part that is not exposed is hidden

    void add(Activity activity, Nanoseconds duration) {
        switch (activity) {
            case Activity::compute: compute += duration; break;
            case Activity::exposed_communication: exposed_communication += duration; break;
            case Activity::input: input += duration; break;
            case Activity::other: other += duration; break;
        }
    }
    /// Of a step that began at `earlier` totals.
    [[nodiscard]] friend BusyTime operator-(const BusyTime& now, const BusyTime& earlier) {
        return {now.compute - earlier.compute,
                now.exposed_communication - earlier.exposed_communication,
                now.input - earlier.input, now.other - earlier.other,
                now.communication - earlier.communication};
    }
    /// The rest of `elapsed`: time in no named activity.
    [[nodiscard]] Nanoseconds idle(Nanoseconds elapsed) const {
        return elapsed - compute - exposed_communication - input - other;
    }
};

using gx::Span;
using gx::TraceSink;
using gx::Track;

}  // namespace gx::sim
