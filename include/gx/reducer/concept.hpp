// Reducer: averages buckets of gradients over the ranks, in place; concept and archetype.
#pragma once

#include <concepts>  // same_as, convertible_to
#include <cstdint>   // int64_t
#include <span>      // bucket

#include <gx/core/element.hpp>    // Element
#include <gx/core/error.hpp>      // Delivery
#include <gx/core/role.hpp>       // role::may_be
#include <gx/core/transport.hpp>  // archetype::Transport
#include <gx/reducer/fwd.hpp>     // declarations

namespace gx {

/// What one reduction did. Incomplete: who is missing; the bucket's contents are then unspecified.
struct [[nodiscard]] ReduceReport {
    Delivery delivery{};
    std::int64_t bytes_sent = 0;  ///< on the wire, by this rank
    int steps = 0;                ///< message rounds of the longest ring
    [[nodiscard]] constexpr bool complete() const { return delivery.complete(); }
};

namespace detail::reducer {
template <class R>
concept NamesItsWire = Element<typename R::wire_type>;
template <class R>
concept SaysHowLateItIs = requires {
    { R::staleness } -> std::convertible_to<int>;
    { R::asynchronous } -> std::convertible_to<bool>;
    { R::channels } -> std::convertible_to<int>;
} && R::staleness >= 0 && R::channels >= 1;
template <class R>
concept Reserves = requires(R& r) {
    { r.reserve(Placement{}, std::int64_t{}) } -> std::same_as<void>;
};
template <class R>
concept AveragesABucket = requires(R& r, archetype::Transport& link, std::span<float> bucket) {
    { r.all_reduce(link, bucket) } -> std::same_as<ReduceReport>;
};
template <class R>
concept SavesItsState = requires(R& r) {
    { r.state() } -> std::same_as<std::span<float>>;
};
}  // namespace detail::reducer

/// How far the state of a reducer reaches: what a checkpoint keeps, and who gets it back.
enum class StateScope : unsigned char {
    per_rank,   ///< each rank its own; kept for every rank, restored on equal rank counts only
    replicated  ///< equal bits on all ranks; kept once, restored on any rank count
};

/// Averages gradients over every rank of a transport, in place.
///
///     wire_type                 the element that messages are made of
///     channels                  transport channels it uses, from 0
///     staleness                 steps between computing a gradient and applying it
///     asynchronous              may run on a stream beside the computation
///     reserve(placement, n)     called once, before the first reduction: the largest bucket, n
///                               elements
///     all_reduce(link, bucket)  every rank calls it with buckets of equal length, in equal order
///     state()                   what a checkpoint must keep of it (residuals); empty when nothing
///
/// Optional, for state:
///
///     state_scope               a StateScope; per_rank where it is absent
///     state_is_a_gradient       true: state() holds, for whole gradients, one or more flat vectors
///                               in the gradient's layout; a checkpoint keeps them in the graph's
///
/// Order: all ranks end bitwise equal. Each policy documents what else repeats.
template <class R>
concept Reducer = detail::reducer::NamesItsWire<R> && detail::reducer::SaysHowLateItIs<R> &&
                  detail::reducer::Reserves<R> && detail::reducer::AveragesABucket<R> &&
                  detail::reducer::SavesItsState<R>;

template <class R>
consteval bool explain_reducer_members() {
    static_assert(detail::reducer::NamesItsWire<R>,
                  "gx: not a Reducer: no element type 'wire_type'. "
                  "Buckets are packed to it before they are sent. "
                  "Fix: add 'using wire_type = gx::fp32;' to the policy.");
    static_assert(
        detail::reducer::SaysHowLateItIs<R>,
        "gx: not a Reducer: no 'static constexpr int staleness' (at least 0), "
        "'bool asynchronous' or 'int channels' (at least 1). The Trainer plans with them. "
        "Fix: add all three; 0, true and 1 suit a plain reducer.");
    static_assert(detail::reducer::Reserves<R>,
                  "gx: not a Reducer: no 'void reserve(Placement, int64_t elements)'. "
                  "Steps allocate nothing, so buffers are made here. Fix: add it.");
    static_assert(detail::reducer::AveragesABucket<R>,
                  "gx: not a Reducer: no 'ReduceReport all_reduce(Transport auto& link, "
                  "span<float> bucket)'. It averages the bucket in place. Fix: add it.");
    static_assert(
        detail::reducer::SavesItsState<R>,
        "gx: not a Reducer: no 'span<float> state()'. A checkpoint keeps it, so that "
        "resuming equals not having stopped. Fix: return an empty span if there is none.");
    return true;
}

/// Stops at the first of: a header that is missing, a policy of another role, a missing member.
template <class R>
consteval bool explain_reducer() {
    using detail::role::Role;
    if constexpr (detail::role::may_be<R, Role::reducer>()) return explain_reducer_members<R>();
    else return detail::role::reject<R, Role::reducer>();
}

namespace archetype {
/// The least type that models Reducer.
struct Reducer {
    using wire_type = fp32;
    static constexpr int channels = 1;
    static constexpr int staleness = 0;
    static constexpr bool asynchronous = true;
    void reserve(Placement, std::int64_t elements);
    ReduceReport all_reduce(gx::Transport auto& link, std::span<float> bucket);
    std::span<float> state();
};
}  // namespace archetype

/// R's state_scope, or that of the reducer it wraps.
template <class R>
[[nodiscard]] consteval StateScope state_scope() {
    if constexpr (requires { R::state_scope; }) return R::state_scope;
    else if constexpr (requires { typename R::wrapped; }) return state_scope<typename R::wrapped>();
    else return StateScope::per_rank;
}

/// R's state_is_a_gradient, or that of the reducer it wraps.
template <class R>
[[nodiscard]] consteval bool state_is_a_gradient() {
    if constexpr (requires { R::state_is_a_gradient; }) return R::state_is_a_gradient;
    else if constexpr (requires { typename R::wrapped; })
        return state_is_a_gradient<typename R::wrapped>();
    else return false;
}

}  // namespace gx
