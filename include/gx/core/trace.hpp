// Span, LinkRates, TraceSink: what ranks did and what links carried, when; for timelines.
#pragma once

#include <cstddef>  // size_t
#include <cstdint>  // int64_t
#include <vector>   // spans

#include <gx/core/decl.hpp>   // GX_COMPILED
#include <gx/core/cold.hpp>   // GX_COLD
#include <gx/core/label.hpp>  // Label
#include <gx/core/units.hpp>  // Nanoseconds, BytesPerSecond

namespace gx {

/// What a rank does side by side: its function, its communication stream, its messages, and what
/// waits for its stream. Stretches on the last two may overlap, on the others they nest.
enum class Track : unsigned char { compute, communication, network, queue };

/// A stretch of time on one track of one rank. A message lies on its sender's network track from
/// its posting to its arrival, and on its receiver's from the posting of the receive until it is
/// taken.
struct Span {
    int rank = 0;
    Track track = Track::compute;
    Label name{};  ///< FORWARD, BACKWARD, ALLREDUCE, WAIT_FOR_ALLREDUCE, ... or an operation
    Nanoseconds begin{}, end{};
    std::int64_t index = -1;    ///< of the step; -1: not known, as of kernels and messages
    std::int64_t bucket = -1;   ///< -1: of none
    std::uint64_t message = 0;  ///< a send and its receive have one number; 0: no message
    bool arrives = false;       ///< it is the receive
};

/// How fast links were loaded: each change of each link's total rate, in order of time.
struct LinkRates {
    struct Change {
        int link = 0;  ///< place in `names`
        Nanoseconds at{};
        BytesPerSecond rate{};
    };
    std::vector<Label> names{};
    std::vector<BytesPerSecond> capacities{};
    std::vector<Change> changes{};
};

/// Collects spans and rates while it is recording. Without a sink the cost is one null check a
/// span.
struct TraceSink {
    std::vector<Span> spans{};
    bool recording = true;      ///< all ranks; false: those that record() began
    std::vector<char> ranks{};  ///< whether record() began it
    LinkRates rates{};
    std::vector<BytesPerSecond> present{};  ///< of each link, recording or not
    std::vector<std::size_t> last{};        ///< of each link: one past its last change; 0: none

    void add(const Span& span) {
        if (records(span.rank)) spans.push_back(span);
    }
    [[nodiscard]] bool records(int rank) const {
        return recording || (std::size_t(rank) < ranks.size() && ranks[std::size_t(rank)]);
    }
    /// Links from here on, in the order of their numbers, all of them idle.
    GX_COLD void name_links(std::vector<Label> names, std::vector<BytesPerSecond> capacities = {});
    /// Two changes at one instant are one: nothing flowed in between.
    void set_rate(int link, Nanoseconds now, BytesPerSecond rate);
    /// Begins or ends the recording of one rank's spans, and, with those of rank 0, of rates: what
    /// the links carry at this moment is noted in both cases. No-op while all ranks are recorded.
    void record(int rank, bool on, Nanoseconds now);
};

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/core/impl/trace.ipp>
#else
extern template class std::vector<gx::Span>;
extern template class std::vector<gx::LinkRates::Change>;
#endif
