// Scheduler: learning rate of a step, a pure function of its options; concept and archetype.
#pragma once

#include <concepts>     // same_as, constructible_from
#include <cstdint>      // int64_t
#include <limits>       // largest rate
#include <type_traits>  // is_aggregate

#include <gx/core/contract.hpp>  // GX_EXPECT
#include <gx/core/findings.hpp>  // Findings
#include <gx/core/role.hpp>      // role::may_be
#include <gx/scheduler/fwd.hpp>  // declarations

namespace gx {

/// Optimiser steps, counted from 0.
using Step = std::int64_t;

/// Size of a run, known before it starts. Scheduler options left at 0 are filled from it.
struct Plan {
    Step total_steps = 0;
    Step steps_per_epoch = 0;
    int ranks = 1;
    int global_batch = 0;  ///< images of one step over all ranks
    constexpr bool operator==(const Plan&) const = default;
};

namespace detail::scheduler {
template <class S>
concept HasOptions =
    std::is_aggregate_v<typename S::Options> && std::default_initializable<typename S::Options>;
template <class S>
concept IsBuiltFromOptions = HasOptions<S> && std::constructible_from<S, typename S::Options>;
template <class S>
concept ReturnsARate = requires(const S& s, Step t) {
    { s.rate(t) } -> std::same_as<float>;
};
template <class S>
concept CompletesOptions = requires(typename S::Options o, const Plan& plan) {
    { S::complete(o, plan) } -> std::same_as<typename S::Options>;
};
}  // namespace detail::scheduler

/// A learning-rate policy.
///
///     Options           an aggregate; what a run may change
///     S(Options)        from complete options
///     rate(t) -> float  the factor on the averaged gradient at optimiser step t: finite, at least
///                       0; another one ends the run with a sentence
///
/// Optional:
///
///     static Options complete(Options, const Plan&)  fills the fields that are 0 from the plan
///     static Findings check(const Options&)          what is wrong with complete options
///     static constexpr bool names_steps_of_run = true
///                       its options name steps or epochs of the whole run; within Warmup it is not
///                       restarted at the end of the climb
///
/// Order: rate() depends on its options and t only, so a resumed run sees an unbroken one's rates.
template <class S>
concept Scheduler = detail::scheduler::HasOptions<S> && detail::scheduler::IsBuiltFromOptions<S> &&
                    detail::scheduler::ReturnsARate<S>;

namespace detail::scheduler {
template <class S>
inline constexpr bool names_steps_of_run = requires { requires S::names_steps_of_run; };
}  // namespace detail::scheduler

template <class S>
consteval bool explain_scheduler_members() {
    static_assert(detail::scheduler::HasOptions<S>,
                  "gx: not a Scheduler: no aggregate 'Options' with defaults. "
                  "What a run may change is read from it. "
                  "Fix: name a policy, such as gx::Poly<2>, or add 'struct Options' to yours.");
    static_assert(detail::scheduler::IsBuiltFromOptions<S>,
                  "gx: not a Scheduler: no constructor from its 'Options'. "
                  "Fix: add 'constexpr explicit S(Options)'.");
    static_assert(detail::scheduler::ReturnsARate<S>,
                  "gx: not a Scheduler: no 'float rate(gx::Step) const'. "
                  "The trainer calls it before every update. Fix: add it.");
    return true;
}

/// Stops at the first of: a header that is missing, a policy of another role, a missing member.
template <class S>
consteval bool explain_scheduler() {
    using detail::role::Role;
    if constexpr (detail::role::may_be<S, Role::scheduler>()) return explain_scheduler_members<S>();
    else return detail::role::reject<S, Role::scheduler>();
}

/// `options` with every field that is 0 filled from the plan, in the policy's own way.
template <class S>
[[nodiscard]] constexpr typename S::Options complete_options(typename S::Options options,
                                                             const Plan& plan) {
    if constexpr (detail::scheduler::CompletesOptions<S>) return S::complete(options, plan);
    else return options;
}

/// What is wrong with complete `options`; for a policy without `check`, nothing.
template <class S>
[[nodiscard]] constexpr Findings check_options(const typename S::Options& options) {
    if constexpr (requires { S::check(options); }) return S::check(options);
    else return {};
}

namespace detail::scheduler {
[[nodiscard]] constexpr bool is_finite(double x) {  // as a float
    constexpr double largest{std::numeric_limits<float>::max()};
    return x >= -largest && x <= largest;
}
}  // namespace detail::scheduler

namespace archetype {
/// The least type that models Scheduler.
struct Scheduler {
    struct Options {};
    explicit Scheduler(Options);
    float rate(Step) const;
};
}  // namespace archetype
static_assert(explain_scheduler<archetype::Scheduler>());

}  // namespace gx
