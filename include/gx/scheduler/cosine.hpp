// Cosine: fall from the peak to the end along half a cosine wave.
#pragma once

#include <array>  // coefficients

#include <gx/core/rng.hpp>           // rounded, polynomial: arithmetic that is never fused
#include <gx/scheduler/concept.hpp>  // Step, Plan

namespace gx {

namespace detail::scheduler {

/// cos(pi x) for x in [0, 1], to 1e-15; std::cos is not constexpr and differs between libraries.
[[nodiscard]] constexpr double cos_pi(double x) {
    if (x > 0.5) return -cos_pi(1.0 - x);
    constexpr double pi = 3.14159265358979323846;
    std::array<double, 12> series{1.0};  // of cos(y) in y^2: (-1)^k / (2k)!
    for (std::size_t k = 1; k < series.size(); ++k)
        series[k] = -series[k - 1] / static_cast<double>((2 * k - 1) * (2 * k));
    const double y = rng::rounded(pi * x);
    return rng::polynomial(series, rng::rounded(y * y));
}

/// From `from` at share 0 to `to` at share 1 along half a cosine wave, flat at both ends.
[[nodiscard]] constexpr double cosine_between(double from, double to, double share) {
    return to + rng::rounded((from - to) * ((1.0 + cos_pi(share)) * 0.5));
}

}  // namespace detail::scheduler

///     rate(t) = end_rate + (peak_rate - end_rate) * (1 + cos(pi * t / total_steps)) / 2
///                                                     while t < total_steps
///     rate(t) = end_rate                              afterwards
///
/// Errors: total_steps or peak_rate not above 0, or an end_rate below 0 or above the peak, break
///         the contract.
/// Order:  in double, rounded once; equal bits on every compiler.
/// Source: Loshchilov and Hutter 2016, arXiv:1608.03983, equation 5, without restarts.
class Cosine {
public:
    struct Options {
        float peak_rate = 0.1f;
        float end_rate = 0.0f;
        Step total_steps = 0;  ///< 0: the plan's
    };

    constexpr explicit Cosine(Options o) : options_(o) {
        GX_EXPECT(check(o).empty(), check(o).first());
    }

    static constexpr Options complete(Options o, const Plan& plan) {
        if (o.total_steps == 0) o.total_steps = plan.total_steps;
        return o;
    }

    static constexpr Findings check(const Options& o) {
        return Findings{}
            .expect(o.peak_rate > 0 && detail::scheduler::is_finite(o.peak_rate),
                    "Cosine: peak_rate must be above 0 and finite")
            .expect(o.end_rate >= 0 && !(o.end_rate > o.peak_rate),
                    "Cosine: end_rate must be at least 0 and at most peak_rate")
            .expect(o.total_steps > 0, "Cosine: total_steps must be above 0, where the rate ends");
    }

    [[nodiscard]] constexpr float rate(Step t) const {
        if (t >= options_.total_steps) return options_.end_rate;
        const double share = static_cast<double>(t) / static_cast<double>(options_.total_steps);
        return static_cast<float>(detail::scheduler::cosine_between(
            double{options_.peak_rate}, double{options_.end_rate}, share));
    }

private:
    Options options_;
};
static_assert(explain_scheduler<Cosine>());

}  // namespace gx
