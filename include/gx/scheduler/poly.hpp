// Poly<P>: fall from the peak to 0 along a power of the time left.
#pragma once

#include <gx/scheduler/concept.hpp>  // Step, Plan

namespace gx {

///     rate(t) = peak_rate * (1 - t / total_steps)^P   while t < total_steps
///     rate(t) = 0                                     afterwards
///
/// Units:  t in optimiser steps.
/// Errors: P below 1 does not compile; total_steps or peak_rate not above 0 breaks the contract.
/// Order:  in double, rounded once; equal bits on every compiler.
/// Source: P = 2 from Mikami et al. 2018, arXiv:1811.05233, section 3; P = 1 is the straight line.
template <int P>
class Poly {
    static_assert(P >= 1,
                  "gx: Poly<P> needs a power of at least 1: a power of 0 never falls, a negative "
                  "one climbs. Fix: write Poly<1> or Poly<2>, or Constant for a rate that stays.");

public:
    struct Options {
        float peak_rate = 0.1f;
        Step total_steps = 0;  ///< 0: the plan's
    };

    constexpr explicit Poly(Options o) : options_(o) {
        GX_EXPECT(check(o).empty(), check(o).first());
    }

    static constexpr Options complete(Options o, const Plan& plan) {
        if (o.total_steps == 0) o.total_steps = plan.total_steps;
        return o;
    }

    static constexpr Findings check(const Options& o) {
        return Findings{}
            .expect(o.peak_rate > 0 && detail::scheduler::is_finite(o.peak_rate),
                    "Poly: peak_rate must be above 0 and finite")
            .expect(o.total_steps > 0, "Poly: total_steps must be above 0, where the rate ends");
    }

    [[nodiscard]] constexpr float rate(Step t) const {
        if (t >= options_.total_steps) return 0;
        const double left = static_cast<double>(options_.total_steps - t) /
                            static_cast<double>(options_.total_steps);
        double rate = double{options_.peak_rate};
        for (int factor = 0; factor < P; ++factor) rate *= left;
        return static_cast<float>(rate);
    }

private:
    Options options_;
};

}  // namespace gx
