// Where a rank's virtual time went: totals always, and a record of every interval when asked.
#pragma once

#include <vector>  // spans

#include <gx/core/label.hpp>  // Label
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

enum class Track : unsigned char { compute, communication, network };

/// An interval on one track of one rank; a message lies on its sender's network track.
struct Span {
    int rank = 0;
    Track track = Track::compute;
    Label name{};
    Nanoseconds begin{}, end{};
};

/// Collects spans. A cluster without a sink spends one test of a pointer on each.
struct TraceSink {
    std::vector<Span> spans{};
    void add(const Span& span) { spans.push_back(span); }
};

}  // namespace gx::sim
