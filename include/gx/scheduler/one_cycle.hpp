// OneCycle: climb from a low rate to a peak, then fall far below the start.
#pragma once

#include <algorithm>  // max

#include <gx/scheduler/concept.hpp>  // Step, Plan
#include <gx/scheduler/cosine.hpp>   // cosine_between

namespace gx {

///     start = peak_rate / start_divisor,  end = start / end_divisor
///     rate(t) = from start to peak_rate along half a cosine wave, while t < climb_steps
///     rate(t) = from peak_rate to end along half a cosine wave,   while t < total_steps
///     rate(t) = end                                               afterwards
///
/// Errors: climb_steps outside of 1 ... total_steps - 1, or a divisor below 1, break the contract.
/// Order:  in double, rounded once; equal bits on every compiler.
/// Source: Smith and Topin 2017, arXiv:1708.07120; the cosine legs and the divisors of 25 and
///         10,000 as in fast.ai and PyTorch. Momentum stays as the optimizer has it.
class OneCycle {
public:
    struct Options {
        float peak_rate = 0.1f;
        Step total_steps = 0;  ///< 0: the plan's
        Step climb_steps = 0;  ///< 0: three tenths of total_steps
        float start_divisor = 25.0f;
        float end_divisor = 10'000.0f;
    };

    constexpr explicit OneCycle(Options o) : options_(o) {
        GX_EXPECT(check(o).empty(), check(o).first());
    }

    static constexpr Options complete(Options o, const Plan& plan) {
        if (o.total_steps == 0) o.total_steps = plan.total_steps;
        if (o.climb_steps == 0) o.climb_steps = std::max<Step>(1, o.total_steps * 3 / 10);
        return o;
    }

    static constexpr Findings check(const Options& o) {
        return Findings{}
            .expect(o.peak_rate > 0 && detail::scheduler::is_finite(o.peak_rate),
                    "OneCycle: peak_rate must be above 0 and finite")
            .expect(o.start_divisor >= 1 && detail::scheduler::is_finite(o.start_divisor) &&
                        o.end_divisor >= 1 && detail::scheduler::is_finite(o.end_divisor),
                    "OneCycle: start_divisor and end_divisor must be at least 1 and finite")
            .expect(o.climb_steps > 0 && o.climb_steps < o.total_steps,
                    "OneCycle: climb_steps must be above 0 and below total_steps");
    }

    [[nodiscard]] constexpr float rate(Step t) const {
        const double peak = double{options_.peak_rate};
        const double start = peak / double{options_.start_divisor};
        const double end = start / double{options_.end_divisor};
        const Step climb = options_.climb_steps, fall = options_.total_steps - climb;
        double rate = end;
        if (t < climb) rate = detail::scheduler::cosine_between(start, peak, share(t, climb));
        else if (t < options_.total_steps)
            rate = detail::scheduler::cosine_between(peak, end, share(t - climb, fall));
        return static_cast<float>(rate);
    }

private:
    static constexpr double share(Step done, Step all) {
        return static_cast<double>(done) / static_cast<double>(all);
    }

    Options options_;
};
static_assert(explain_scheduler<OneCycle>());

}  // namespace gx
