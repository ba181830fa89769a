// Accounts: where the time of one rank went, and what its run cost.
#pragma once

#include <cstdint>  // int64_t
#include <vector>   // spans

#include <gx/core/decl.hpp>           // GX_DECL
#include <gx/core/trace.hpp>          // Span, TraceSink
#include <gx/core/units.hpp>          // Nanoseconds, DollarsPerHour
#include <gx/trainer/checkpoint.hpp>  // Checkpoint
#include <gx/trainer/record.hpp>      // Breakdown, RunRecord

namespace gx::detail::trainer {

/// Sums on the world's clock, of this part of a run and of earlier ones by the same clock.
struct Accounts {
    int rank = 0;
    DollarsPerHour price{};     ///< of the world
    bool mixed_clocks = false;  ///< an earlier part was measured by another clock
    TraceSink* sink = nullptr;  ///< of the world, where it has one

    Breakdown breakdown{};
    double seconds = 0;                             ///< training time
    double undisturbed_seconds = 0;                 ///< kernels at their nominal speed
    double timed_images = 0;                        ///< of all ranks
    double seconds_before = 0, dollars_before = 0;  ///< of earlier parts
    std::vector<Span> spans{};
    bool tracing = false;

    /// Adds the time from `begin` to `now` to one part of the breakdown, and traces it under
    /// `name`. Returns `now`.
    Nanoseconds add(double Breakdown::* part, Nanoseconds begin, Nanoseconds now, const char* name,
                    std::int64_t step);
    /// Begins or ends the recording of spans.
    void trace(bool on, Nanoseconds now);

    /// A sum of times, or NaN where an earlier part was measured by another clock.
    [[nodiscard]] double over_all_parts(double sum) const;
    [[nodiscard]] double dollars() const {
        return dollars_before + (price * nanoseconds(seconds - seconds_before)).count;
    }

    /// Goes on where a checkpoint ends.
    void resume(const Checkpoint& c);
    /// Writes what is known so far, the spans once.
    void write(RunRecord& record);
};

}  // namespace gx::detail::trainer

#if defined(GX_HEADER_ONLY)
#include <gx/trainer/rank/impl/accounts.ipp>
#endif
