// LinearScaling<Next>: a rate tuned at one batch size, multiplied for the batch of all ranks.
#pragma once

#include <algorithm>  // max

#include <gx/scheduler/concept.hpp>  // explain_scheduler, Step, Plan

namespace gx {

namespace detail::scheduler {
template <class S>
inline constexpr bool scales_linearly = false;
template <class Next>
inline constexpr bool scales_linearly<LinearScaling<Next>> = true;
template <class Next>
inline constexpr bool scales_linearly<Warmup<Next>> = scales_linearly<Next>;

/// The largest rate that a schedule's options name.
template <class Options>
constexpr double largest_rate(const Options& o) {
    double largest = 0;
    if constexpr (requires { o.peak_rate; }) largest = double{o.peak_rate};
    if constexpr (requires { o.points; })
        for (const auto& p : o.points) largest = std::max(largest, double{p.rate});
    if constexpr (requires { o.next; }) largest = std::max(largest, largest_rate(o.next));
    return largest;
}
}  // namespace detail::scheduler

///     rate(t) = next.rate(t) * global_batch / reference_batch
///
/// `Warmup<LinearScaling<Next>>` climbs to the scaled peak.
///
/// Units:  batches in images of one step over all ranks.
/// Errors: a batch of 0 breaks the contract in the constructor.
/// Source: Goyal et al. 2017, arXiv:1706.02677, section 2.1: a rate of 0.1 for each 256 images.
template <class Next>
class LinearScaling {
    static_assert(explain_scheduler<Next>());
    static_assert(!detail::scheduler::scales_linearly<Next>,
                  "gx: LinearScaling of LinearScaling: the rate would be multiplied for the batch "
                  "twice. Fix: scale once.");

public:
    static constexpr bool names_steps_of_run = detail::scheduler::names_steps_of_run<Next>;
    struct Options {
        int reference_batch = 256;  ///< the batch that Next's rates were tuned at
        int global_batch = 0;       ///< 0: the plan's
        typename Next::Options next{};
    };

    constexpr explicit LinearScaling(Options o)
        : global_batch_(o.global_batch), reference_batch_(o.reference_batch), next_(o.next) {
        GX_EXPECT(o.reference_batch > 0 && o.global_batch > 0, "a batch has at least one image");
    }

    static constexpr Options complete(Options o, const Plan& plan) {
        if (o.global_batch == 0) o.global_batch = plan.global_batch;
        o.next = complete_options<Next>(o.next, plan);
        return o;
    }

    static constexpr Findings check(const Options& o) {
        double rate = 0;
        if (check_options<Next>(o.next).empty() && o.reference_batch > 0)
            rate = detail::scheduler::largest_rate(o.next) * o.global_batch / o.reference_batch;
        return Findings{}
            .expect(o.reference_batch > 0, "LinearScaling: reference_batch must be above 0")
            .expect(o.global_batch > 0, "LinearScaling: global_batch must be above 0")
            .expect(
                detail::scheduler::is_finite(rate),
                "LinearScaling: the largest rate * global_batch / reference_batch must be finite")
            .append(check_options<Next>(o.next));
    }

    [[nodiscard]] constexpr float rate(Step t) const {
        return static_cast<float>(double{next_.rate(t)} * global_batch_ / reference_batch_);
    }

private:
    double global_batch_, reference_batch_;
    Next next_;
};

}  // namespace gx
