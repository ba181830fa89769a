// Span and TraceSink: stretches of time on the tracks of ranks, for timelines.
#pragma once

#include <cstdint>  // int64_t
#include <vector>   // spans

#include <gx/core/label.hpp>  // Label
#include <gx/core/units.hpp>  // Nanoseconds

namespace gx {

/// What a rank does side by side: its function, its communication stream, its messages.
enum class Track : unsigned char { compute, communication, network };

/// A stretch of time on one track of one rank; a message lies on its sender's network track.
struct Span {
    int rank = 0;
    Track track = Track::compute;
    Label name{};  ///< FORWARD, BACKWARD, ALLREDUCE, WAIT_FOR_ALLREDUCE, ... or an operation
    Nanoseconds begin{}, end{};
    std::int64_t index = 0;  ///< of the step or the bucket
};

/// Collects spans while it is recording. Whoever has no sink spends one test of a pointer on each.
struct TraceSink {
    std::vector<Span> spans{};
    bool recording = true;
    void add(const Span& span) {
        if (recording) spans.push_back(span);
    }
};

}  // namespace gx
