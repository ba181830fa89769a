// Where a rank's virtual time went: totals always, and spans for a gx::TraceSink when asked.
#pragma once

#include <gx/core/trace.hpp>  // Span, Track, TraceSink
#include <gx/core/units.hpp>  // Nanoseconds

namespace gx::sim {

/// What a rank spends virtual time on.
enum class Activity : unsigned char {
    compute,
    exposed_communication,  ///< the rank's function waits for messages or for its stream
    input,                  ///< the rank's function waits for data
    other
};

/// Totals of one rank since its run began.
struct Busy {
    Nanoseconds compute{};
    Nanoseconds exposed_communication{};
    Nanoseconds input{};
    Nanoseconds other{};
    Nanoseconds communication{};  ///< its stream works on tasks; what is not exposed is hidden

    void add(Activity activity, Nanoseconds duration) {
        switch (activity) {
            case Activity::compute: compute += duration; break;
            case Activity::exposed_communication: exposed_communication += duration; break;
            case Activity::input: input += duration; break;
            case Activity::other: other += duration; break;
        }
    }
    /// Of a step that began at `earlier` totals.
    [[nodiscard]] friend Busy operator-(const Busy& now, const Busy& earlier) {
        return {now.compute - earlier.compute,
                now.exposed_communication - earlier.exposed_communication,
                now.input - earlier.input, now.other - earlier.other,
                now.communication - earlier.communication};
    }
    /// What is left of `elapsed`: the rank did nothing and waited for nothing that it names.
    [[nodiscard]] Nanoseconds idle(Nanoseconds elapsed) const {
        return elapsed - compute - exposed_communication - input - other;
    }
};

using gx::Span;
using gx::TraceSink;
using gx::Track;

}  // namespace gx::sim
