// Constant: the same learning rate at every step.
#pragma once

#include <gx/scheduler/concept.hpp>  // Step, Plan

namespace gx {

///     rate(t) = peak_rate
class Constant {
public:
    struct Options {
        float peak_rate = 0.1f;
    };

    constexpr explicit Constant(Options o) : options_(o) {
        GX_EXPECT(check(o).empty(), check(o).first());
    }

    static constexpr Findings check(const Options& o) {
        return Findings{}.expect(o.peak_rate > 0 && detail::scheduler::is_finite(o.peak_rate),
                                 "Constant: peak_rate must be above 0 and finite");
    }

    [[nodiscard]] constexpr float rate(Step) const { return options_.peak_rate; }

private:
    Options options_;
};
static_assert(explain_scheduler<Constant>());

}  // namespace gx
