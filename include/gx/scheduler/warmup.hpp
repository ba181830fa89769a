// Warmup<Next>: climb to the peak learning rate in a straight line, then follow Next.
#pragma once

#include <algorithm>  // clamp, min, max

#include <gx/scheduler/concept.hpp>  // explain_scheduler, Step, Plan

namespace gx {

/// Straight-line climb over the first `climb_steps` steps, then `Next`.
///
///     rate(t) = next.rate(max(t - begin, 0)) * min((t + 1) / climb_steps, 1)
///
///     Next                     begin          planned over
///     Poly, Cosine, OneCycle   climb_steps    the steps that the climb leaves: ends with the run
///     StepDecay                0              the whole run: milestones count from its begin
///     PiecewiseLinear          0              the whole run: epochs count from its begin
///
/// A scheduler of one's own begins at climb_steps, or, if it has `names_steps_of_run`, at 0.
/// LinearScaling<Next> is as its Next. A milestone within the climb is in force from its step on.
///
/// Units:  t in optimiser steps; rate is the factor on the averaged gradient.
/// Errors: climb_steps == 0 breaks the contract in the constructor; rate() cannot fail.
/// Cost:   O(1) and stateless, so a resumed run sees the rates of an unbroken one.
/// Source: Goyal et al. 2017, arXiv:1706.02677, section 2.2; there the climb starts at the rate
///         of one rank, here it starts at one part in climb_steps. Its 5 epochs are within the 90,
///         whose decays at epochs 30, 60 and 80 it does not move. Poly and Cosine as MXNet's
///         PolyScheduler and CosineScheduler after their warmup_steps.
template <class Next>
class Warmup {
    static_assert(explain_scheduler<Next>());

public:
    struct Options {
        /// 0: five epochs, but at most a twentieth of the plan's steps: of 90 epochs 4.5.
        Step climb_steps = 0;
        typename Next::Options next{};
    };

    constexpr explicit Warmup(Options o) : climb_steps_(o.climb_steps), next_(o.next) {
        GX_EXPECT(climb_steps_ > 0, "a warmup of 0 steps: use Next on its own");
    }

    static constexpr Options complete(Options o, const Plan& plan) {
        if (o.climb_steps == 0)
            o.climb_steps =
                std::max<Step>(1, std::min(5 * plan.steps_per_epoch, plan.total_steps / 20));
        Plan rest = plan;
        rest.total_steps = std::max<Step>(1, plan.total_steps - begin(o.climb_steps));
        o.next = complete_options<Next>(o.next, rest);
        return o;
    }

    static constexpr Findings check(const Options& o) {
        Findings found;
        found
            .expect(o.climb_steps > 0,
                    "Warmup: climb_steps must be above 0; without a climb, use Next on its own")
            .append(check_options<Next>(o.next));
        return found.expect(!found.empty() || Next(o.next).rate(0) > 0 ||
                                Warmup(o).rate(o.climb_steps - 1) > 0 ||
                                Warmup(o).rate(o.climb_steps) > 0,
                            "Warmup: the schedule that follows begins at rate 0, so that the climb "
                            "does not rise; let it begin at its peak, or leave Warmup out");
    }

    [[nodiscard]] constexpr float rate(Step t) const {
        const float next = next_.rate(std::max<Step>(t - begin(climb_steps_), 0));
        if (t >= climb_steps_) return next;
        return next * static_cast<float>(t + 1) / static_cast<float>(climb_steps_);
    }

private:
    /// The run's step that is Next's step 0.
    static constexpr Step begin(Step climb_steps) {
        return detail::scheduler::names_steps_of_run<Next> ? 0 : climb_steps;
    }

    Step climb_steps_;
    Next next_;
};

}  // namespace gx
