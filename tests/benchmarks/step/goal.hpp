// goal: the rate that a step is to reach beside its peer and its convolutions alone.
#pragma once

#include <algorithm>
#include <string>

#include <fmt/format.h>

namespace gx::bench {

/// What a row is compared with. Units: images per second; 0: not measured.
struct Measured {
    double gx = 0, peer = 0, convolutions = 0;
    double times_peer = 0;  ///< what is asked for beside the peer; 0: nothing
};

/// Whether the convolutions alone are quicker than the step that is made of them. If not, they
/// were measured wrongly, and bound nothing.
[[nodiscard]] constexpr bool limit_holds(const Measured& m) { return m.gx <= m.convolutions; }

/// The lower of `times_peer` times the peer and 0.85 of the convolutions alone; 0 where neither
/// bounds.
struct Goal {
    enum class Bound : unsigned char { none, peer, convolutions };
    double images_per_second = 0;
    Bound bound = Bound::none;
};
inline constexpr double of_convolutions = 0.85;
[[nodiscard]] constexpr Goal goal_of(const Measured& m) {
    Goal goal;
    if (m.times_peer * m.peer > 0) goal = {m.times_peer * m.peer, Goal::Bound::peer};
    const double most = of_convolutions * m.convolutions;
    if (limit_holds(m) && (goal.bound == Goal::Bound::none || most < goal.images_per_second))
        goal = {most, Goal::Bound::convolutions};
    return goal;
}
[[nodiscard]] inline std::string to_string(Goal::Bound bound, const Measured& m) {
    if (bound == Goal::Bound::peer) return fmt::format("{:.1f} x PyTorch", m.times_peer);
    if (bound == Goal::Bound::convolutions)
        return fmt::format("{:.2f} of the convolutions alone", of_convolutions);
    return "none";
}

static_assert(goal_of({.gx = 9, .peer = 6, .convolutions = 12, .times_peer = 1.4}).bound ==
              Goal::Bound::peer);  // 8.4 and 10.2
static_assert(goal_of({.gx = 9, .peer = 8, .convolutions = 12, .times_peer = 1.4}).bound ==
              Goal::Bound::convolutions);  // 11.2 and 10.2
static_assert(goal_of({.gx = 9, .convolutions = 12, .times_peer = 1.4}).images_per_second ==
              of_convolutions * 12);
static_assert(
    goal_of({.gx = 13, .peer = 9, .convolutions = 12, .times_peer = 1.5}).images_per_second == 13.5,
    "a limit that was passed bounds nothing");
static_assert(goal_of({.gx = 13, .convolutions = 12}).bound == Goal::Bound::none);

}  // namespace gx::bench
