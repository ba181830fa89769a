// Constant: the same learning rate at every step.
#pragma once

#include <string_view>  // sentences

#include <gx/scheduler/concept.hpp>  // Step, Plan

namespace gx {

///     rate(t) = peak_rate
class Constant {
public:
    struct Options {
        float peak_rate = 0.1f;
    };

    constexpr explicit Constant(Options o) : options_(o) { check(o, detail::scheduler::Stop{}); }

    template <class Say>
    static constexpr void check(const Options& o, const Say& say) {
        if (!(o.peak_rate > 0)) say("Constant: peak_rate must be above 0");
    }

    [[nodiscard]] constexpr float rate(Step) const { return options_.peak_rate; }

private:
    Options options_;
};
static_assert(explain_scheduler<Constant>());

}  // namespace gx
