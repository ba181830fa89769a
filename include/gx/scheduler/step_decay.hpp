// StepDecay: the "step" policy of the literature: divide the rate at fixed milestones.
#pragma once

#include <array>  // milestones

#include <gx/scheduler/concept.hpp>  // Step, Plan

namespace gx {

///     rate(t) = peak_rate * factor^(number of milestones at or before t)
///
/// Milestones are steps in rising order; those left at 0 are not there. With none given, the plan
/// puts three at 1/3, 2/3 and 8/9 of the run. Given or not, they count from the run's begin, within
/// Warmup<> too.
///
/// Errors: a rate or factor not above 0, or milestones that do not rise, break the contract.
/// Order:  in double, rounded once; equal bits on every compiler.
/// Source: Goyal et al. 2017, arXiv:1706.02677, section 5.1: a tenth at epochs 30, 60, 80 of 90.
class StepDecay {
public:
    static constexpr bool names_steps_of_run = true;
    using Milestones = std::array<Step, 8>;
    struct Options {
        float peak_rate = 0.1f;
        float factor = 0.1f;
        Milestones milestones{};
    };

    constexpr explicit StepDecay(Options o) : options_(o) {
        GX_EXPECT(check(o).empty(), check(o).first());
    }

    static constexpr Options complete(Options o, const Plan& plan) {
        if (o.milestones == Milestones{})
            o.milestones =
                rising({plan.total_steps / 3, plan.total_steps * 2 / 3, plan.total_steps * 8 / 9});
        return o;
    }

    static constexpr Findings check(const Options& o) {
        bool rise = true, ended = false;
        for (Step last = 0; const Step m : o.milestones) {
            ended = ended || m == 0;
            rise = rise && (ended ? m == 0 : m > last);
            last = m;
        }
        return Findings{}
            .expect(o.peak_rate > 0 && detail::scheduler::is_finite(o.peak_rate),
                    "StepDecay: peak_rate must be above 0 and finite")
            .expect(o.factor > 0 && detail::scheduler::is_finite(o.factor),
                    "StepDecay: factor must be above 0 and finite; it is below 1 to decay")
            .expect(rise, "StepDecay: milestones must rise; leave those not used at the end, at 0");
    }

    [[nodiscard]] constexpr float rate(Step t) const {
        double rate = double{options_.peak_rate};
        for (const Step m : options_.milestones)
            if (m > 0 && m <= t) rate *= double{options_.factor};
        return static_cast<float>(rate);
    }

private:
    /// Short runs put several milestones on one step: keeps each step once, and none at 0.
    static constexpr Milestones rising(std::array<Step, 3> planned) {
        Milestones kept{};
        std::size_t count = 0;
        for (Step last = 0; const Step m : planned)
            if (m > last) kept[count++] = last = m;
        return kept;
    }

    Options options_;
};
static_assert(explain_scheduler<StepDecay>());

}  // namespace gx
