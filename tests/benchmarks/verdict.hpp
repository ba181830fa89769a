// verdict: whether a measured ratio reaches its goal, or that there is nothing to judge.
#pragma once

#include <optional>
#include <string_view>

namespace gx::bench {

enum class Verdict : unsigned char { met, missed, not_judged };
enum class Bound : unsigned char { at_least, at_most };

/// Of a ratio beside a peer. Not judged: nothing was measured, or no ratio that is above 0.
[[nodiscard]] constexpr Verdict verdict_of(std::optional<double> ratio, double goal, Bound bound) {
    if (!ratio || !(*ratio > 0)) return Verdict::not_judged;
    const bool met = bound == Bound::at_least ? *ratio >= goal : *ratio <= goal;
    return met ? Verdict::met : Verdict::missed;
}
static_assert(verdict_of(2.1, 2.1, Bound::at_least) == Verdict::met);
static_assert(verdict_of(2.0, 2.1, Bound::at_least) == Verdict::missed);
static_assert(verdict_of(0.6, 0.6, Bound::at_most) == Verdict::met);
static_assert(verdict_of(0.7, 0.6, Bound::at_most) == Verdict::missed);
static_assert(verdict_of(std::nullopt, 1, Bound::at_least) == Verdict::not_judged);
static_assert(verdict_of(-1, 1, Bound::at_most) == Verdict::not_judged);

/// Of a ratio that is not judged. `missing`: why there is none.
[[nodiscard]] constexpr const char* why_not_judged(std::optional<double> ratio,
                                                   const char* missing) {
    return ratio ? "a time that is not above 0 was measured: take more turns" : missing;
}
static_assert(why_not_judged(std::nullopt, "no peer") == std::string_view("no peer"));
static_assert(why_not_judged(0, "no peer") != std::string_view("no peer"));
static_assert(why_not_judged(0.0 / 1 - 1, "no peer") != std::string_view("no peer"));

/// How many times as long `theirs` is as `mine`; nothing where one of them is not above 0, which
/// differences of measured times may be.
[[nodiscard]] constexpr std::optional<double> times_as_long(double theirs, double mine) {
    if (!(theirs > 0) || !(mine > 0)) return std::nullopt;
    return theirs / mine;
}
static_assert(times_as_long(6, 2) == 3);
static_assert(!times_as_long(6, 0) && !times_as_long(6, -1));
static_assert(!times_as_long(-6, -1), "of two negative times neither is longer");

}  // namespace gx::bench
