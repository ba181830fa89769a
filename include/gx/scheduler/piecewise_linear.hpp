// PiecewiseLinear: straight lines between learning rates that are given by epoch.
#pragma once

#include <algorithm>  // upper_bound
#include <cstddef>    // size_t
#include <iterator>   // prev
#include <utility>    // move
#include <vector>     // points

#include <gx/core/rng.hpp>           // rounded: a product that is never fused
#include <gx/scheduler/concept.hpp>  // Step, Plan

namespace gx {

///     rate(t) = the line through the points on both sides of epoch t / steps_per_epoch
///     rate(t) = the last point's rate                                     from that on
///
/// A jump is two points at one epoch: the line before it ends at the first one's rate, and from
/// that epoch on the second one's is in force. A warmup is a rising line; within Warmup<> epochs
/// count from the run's begin, and the climb is a share of the line. LinearScaling<PiecewiseLinear>
/// rescales the rates for the batch of each phase, so the points need no jump at its first epoch.
///
/// Units:  epochs in passes over the training set, fractions included, counted in steps: another
///         batch or rank count changes no rate at the end of an epoch. Within one it does where its
///         last step is a partial batch: a run of 40 images is behind 32 of them in epoch 4/5 by
///         batches of 8, in 2/3 by 16 and in 1/2 by 32. In a run of several phases the rate moves
///         once per step of the first phase's batch, as all schedules do (TrainerOptions).
/// Errors: no points, a first one not at epoch 0, an epoch below the one before or for the third
///         time, a rate below 0 or not finite, or steps_per_epoch not above 0 break the contract.
/// Cost:   O(log points).
/// Order:  in double, rounded once; equal bits on every compiler.
/// Source: phases of 'lr' over 'ep' in train.py of github.com/cybertronai/imagenet18, 2018.
class PiecewiseLinear {
public:
    static constexpr bool names_steps_of_run = true;
    struct Point {
        double epoch = 0;
        float rate = 0;
        constexpr bool operator==(const Point&) const = default;
    };
    struct Options {
        std::vector<Point> points{};  ///< in the order of their epochs; the first at epoch 0
        Step steps_per_epoch = 0;     ///< 0: the plan's
    };

    constexpr explicit PiecewiseLinear(Options o) : options_(std::move(o)) {
        GX_EXPECT(check(options_).empty(), check(options_).first());
    }

    static constexpr Options complete(Options o, const Plan& plan) {
        if (o.steps_per_epoch == 0) o.steps_per_epoch = plan.steps_per_epoch;
        return o;
    }

    static constexpr Findings check(const Options& o) {
        const std::vector<Point>& p = o.points;
        bool finite = true, rise = true, once = true;
        for (std::size_t i = 0; i < p.size(); ++i) {
            finite = finite && p[i].rate >= 0 && detail::scheduler::is_finite(p[i].rate);
            rise = rise && detail::scheduler::is_finite(p[i].epoch) &&
                   (i == 0 || p[i].epoch >= p[i - 1].epoch);
            once = once && (i < 2 || p[i].epoch != p[i - 2].epoch);
        }
        return Findings{}
            .expect(!p.empty(),
                    "PiecewiseLinear: points are missing: give at least one, such as {0, 0.1}, an "
                    "epoch and its rate")
            .expect(p.empty() || p[0].epoch == 0,
                    "PiecewiseLinear: the first of points must be at epoch 0")
            .expect(rise,
                    "PiecewiseLinear: epochs of points must be finite and must not fall; two "
                    "points at one epoch are a jump")
            .expect(once,
                    "PiecewiseLinear: at most two points may be at one epoch: the rates before "
                    "and after a jump")
            .expect(finite, "PiecewiseLinear: rates of points must be at least 0 and finite")
            .expect(o.steps_per_epoch > 0, "PiecewiseLinear: steps_per_epoch must be above 0");
    }

    [[nodiscard]] constexpr float rate(Step t) const {
        const double epoch = static_cast<double>(t) / static_cast<double>(options_.steps_per_epoch);
        const auto next = std::ranges::upper_bound(options_.points, epoch, {}, &Point::epoch);
        const Point& from = *std::prev(next);
        if (next == options_.points.end()) return from.rate;
        const double share = (epoch - from.epoch) / (next->epoch - from.epoch);
        const double rise = double{next->rate} - double{from.rate};
        return static_cast<float>(double{from.rate} + detail::rng::rounded(rise * share));
    }

private:
    Options options_;
};
static_assert(explain_scheduler<PiecewiseLinear>());

}  // namespace gx
