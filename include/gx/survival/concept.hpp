// Survival: what a run does when a rank is lost.
#pragma once

#include <concepts>  // same_as, convertible_to

#include <gx/core/role.hpp>     // role::may_be
#include <gx/core/units.hpp>    // Nanoseconds
#include <gx/survival/fwd.hpp>  // declarations

namespace gx {

/// Source of the state after a loss.
enum class Recovery : unsigned char {
    survivors,  ///< the state of the survivor that has made the most updates
    checkpoint  ///< the newest checkpoint that is whole; steps since then are made again
};

namespace detail::survival {
template <class V>
concept SaysWhetherItContinues = requires {
    { V::continues } -> std::convertible_to<bool>;
};
template <class V>
concept SaysHowItContinues = !V::continues || requires(const V& v) {
    typename V::Options;
    { v.fewest_ranks() } -> std::same_as<int>;
    { v.restart_time() } -> std::same_as<Nanoseconds>;
    { v.recovery() } -> std::same_as<Recovery>;
};
}  // namespace detail::survival

/// What a run does when a rank is lost.
///
///     continues        static constexpr: whether it goes on in a smaller world. Where not, train()
///                      throws the error of the loss, and the rest is not needed
///     Options          an aggregate; V(Options)
///     fewest_ranks()   with fewer ranks it stops after all
///     restart_time()   that building the smaller world takes, on the run's clock
///     recovery()       where the state comes from
template <class V>
concept Survival =
    detail::survival::SaysWhetherItContinues<V> && detail::survival::SaysHowItContinues<V>;

template <class V>
consteval bool explain_survival_members() {
    static_assert(detail::survival::SaysWhetherItContinues<V>,
                  "gx: not a Survival: no 'static constexpr bool continues'. "
                  "Fix: use gx::StopOnLoss or gx::ContinueOnSurvivors.");
    if constexpr (detail::survival::SaysWhetherItContinues<V>)
        static_assert(detail::survival::SaysHowItContinues<V>,
                      "gx: not a Survival: it continues, and has no 'Options', 'int fewest_ranks() "
                      "const', 'Nanoseconds restart_time() const' or 'Recovery recovery() const'. "
                      "Fix: add them, or use gx::ContinueOnSurvivors.");
    return true;
}

/// Stops at the first of: a header that is missing, a policy of another role, a missing member.
template <class V>
consteval bool explain_survival() {
    using detail::role::Role;
    if constexpr (detail::role::may_be<V, Role::survival>()) return explain_survival_members<V>();
    else return detail::role::reject<V, Role::survival>();
}

namespace archetype {
/// The least type that models Survival.
struct Survival {
    static constexpr bool continues = false;
};
}  // namespace archetype
static_assert(explain_survival<archetype::Survival>());

}  // namespace gx
