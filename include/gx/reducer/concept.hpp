// Reducer: averages buckets of gradients over the ranks, in place; concept and archetype.
#pragma once

#include <concepts>     // same_as, convertible_to
#include <cstdint>      // int64_t
#include <span>         // state
#include <string_view>  // names of state
#include <type_traits>  // is_aggregate
#include <vector>       // state

#include <gx/collective/exchange.hpp>  // ChunkRange
#include <gx/core/element.hpp>         // Element
#include <gx/core/error.hpp>           // Delivery
#include <gx/core/function_ref.hpp>    // FunctionRef
#include <gx/core/role.hpp>            // role::may_be
#include <gx/core/transport.hpp>       // archetype::Transport
#include <gx/memory/memory.hpp>        // ScalarIn, memory_of
#include <gx/reducer/bucket.hpp>       // Bucket, ReducePlan
#include <gx/reducer/fwd.hpp>          // declarations

namespace gx {

/// What one reduction did. Incomplete: `delivery` names the missing rank, and the bucket's contents
/// are unspecified.
struct [[nodiscard]] ReduceReport {
    Delivery delivery{};
    std::int64_t bytes_sent = 0;  ///< on the wire, by this rank
    int steps = 0;                ///< message rounds of the longest ring
    [[nodiscard]] constexpr bool complete() const { return delivery.complete(); }
};

/// Scope of a reducer's state: what a checkpoint keeps, and on which ranks it is restored.
enum class StateScope : unsigned char {
    per_rank,   ///< each rank its own; kept for every rank, restored on equal rank counts only
    replicated  ///< equal bits on all ranks; kept once, restored on any rank count
};

/// A vector that a reducer keeps from one gradient to the next.
struct StateVector {
    std::string_view name{};  ///< unique in its reducer; a checkpoint keeps and compares it
    std::span<float> values{};
    StateScope scope = StateScope::per_rank;
    bool is_gradient =
        false;  ///< laid out as a whole gradient; a checkpoint keeps the graph's order
    Buffer<float>* on_device = nullptr;  ///< in the memory of a device: instead of values
    ChunkRange part{};                   ///< of `on_device`; {}: all of it

    [[nodiscard]] std::size_t size() const {
        if (on_device == nullptr) return values.size();
        return part.end > 0 ? static_cast<std::size_t>(part.size()) : on_device->size();
    }
};
using StateList = std::vector<StateVector>;

/// How a reducer that owns the update shares it among the ranks.
struct UpdateOwnership {
    bool in_parts = false;  ///< each rank updates a part of the parameters; else each all of them
    bool apart = false;  ///< with a gradient of its own: the replicas differ until a mean of them
};

/// A rank's update, just made or skipped, for the reducer that owns it; on a device it is queued,
/// and what the reducer queues on its link comes after it and before the next step.
template <class M>
struct OwnedUpdateIn {
    /// Calls a function with all parameters of the rank, in the device's layout, to change them.
    FunctionRef<void(FunctionRef<void(ViewIn<float, M>)>)> change;
    bool applied = true;  ///< false: skipped after an overflow; on a device always true
    bool last = false;    ///< of its epoch: replicas must be equal afterwards
};
using OwnedUpdate = OwnedUpdateIn<HostMemory>;

namespace detail::reducer {
template <class R>
concept NamesItsWire = Element<typename R::wire_type>;
template <class R>
concept NamesItsStaleness = requires {
    { R::staleness } -> std::convertible_to<int>;
    { R::asynchronous } -> std::convertible_to<bool>;
    { R::channels } -> std::convertible_to<int>;
} && R::staleness >= 0 && R::channels >= 1;
template <class R>
concept Reserves = requires(R& r, const ReducePlan& plan) {
    { r.reserve(plan) } -> std::same_as<void>;
};
template <class R>
concept AveragesABucket = requires(R& r, archetype::Transport& link, const Bucket& bucket) {
    { r.all_reduce(link, bucket) } -> std::same_as<ReduceReport>;
};
/// A bucket that no span can be made of.
struct BucketOnly : Bucket {
    void begin() const = delete;
    void end() const = delete;
};
template <class R>
concept KeepsTheBucket = requires(R& r, archetype::Transport& link, const BucketOnly& bucket) {
    r.all_reduce(link, bucket);
};
template <class R>
concept SavesItsState = requires(R& r) {
    { r.state() } -> std::same_as<StateList>;
};
template <class R>
concept SettlesRightly = !requires { &R::settle; } || requires(R& r) {
    { r.settle(std::uint64_t{}, bool{}) } -> std::same_as<void>;
};
template <class R>
concept ClaimsTheUpdate = requires { R::owns_update; };
template <class R>
concept OwnsTheUpdateRightly =
    !ClaimsTheUpdate<R> || (requires(R& r, const R& c, std::span<float> state,
                                     archetype::Transport& link, const OwnedUpdate& made) {
        { R::owns_update } -> std::same_as<const UpdateOwnership&>;
        { c.updated_by(int{}) } -> std::same_as<std::vector<ChunkRange>>;
        { r.own_update(int{}, state) } -> std::same_as<void>;
        { r.updated(link, made) } -> std::same_as<ReduceReport>;
    } && R::staleness == 0);
template <class R>
concept TellsOfItsMeans = !requires { R::owns_update; } || requires(const R& c) {
    requires !R::owns_update.apart || requires {
        { c.replicas_are_equal() } -> std::same_as<bool>;
    };
};
template <class R>
concept CanBeMoved = requires { sizeof(R); } && std::move_constructible<R>;
template <class R>
concept TakesItsOptions =
    !requires { typename R::Options; } ||
    (std::is_aggregate_v<typename R::Options> && std::default_initializable<typename R::Options> &&
     std::constructible_from<R, typename R::Options>);
}  // namespace detail::reducer

/// Averages gradients over every rank of a transport, in place.
///
///     wire_type                 the element that messages are made of; for compressed messages
///                               one that holds the values. Bucketed counts bytes of it
///     channels                  transport channels it uses, from 0
///     staleness                 steps between computing a gradient and applying it
///     asynchronous              may run on a stream beside the computation
///     reserve(plan)             called once, before the first reduction
///     all_reduce(link, bucket)  every rank calls it with equal buckets but for their values, the
///                               gradients in order, and the buckets of each in order; it takes
///                               a Bucket, and no span of values: a bucket has an identity
///     state()                   what a checkpoint must keep of it (residuals); empty when nothing
///
/// Optional:
///
///     Options                   an aggregate; R(Options). The Trainer's options hold it
///     all_reduce over any Link  template <Link T> all_reduce(T&, const BucketOn<T>&): works in the
///                               memory of devices too, by launch(queue_of(link), ...) on Buffers
///                               of plan.memory. With `Transport auto&` it is the host's. A
///                               simulated world charges time for what is launched
///     settle_on(queue, gradient, applied)
///                               settle() there: `applied` is a value on the device
///     unsettled()               'StateList unsettled()': vectors that settle() may still read and
///                               state() lacks. With them the host can settle what a device has
///                               not, after the loss of a rank
///     settle(gradient, applied) called for each gradient in order, before gradient + staleness + 1
///                               is begun: whether its mean was applied, or its step skipped after
///                               an overflow. Skipped: undo, bit for bit, what it left in state().
///                               Threads: while later gradients are reduced.
///
///     residual()                'std::span<const float> residual()', of error feedback, on hosts:
///                               what the rank has not sent yet of each of plan.elements. Without
///                               it the conformance kit takes the first vector of state() that is
///                               laid out as a gradient, so that a reducer with several needs it
///     works_in_place            'static constexpr bool', true: it works on all ranks' gradients by
///                               share(). They then lie in shared_buffers(link). For messages the
///                               host's own memory is quicker, as it has larger pages
///     repeats_work              'static constexpr bool', true: on a device it queues the same work
///                               for gradient g and for gradient g + (staleness + 1), but for
///                               values in memory. A World may then replay it without queueing it
///     next_work(last)           'int next_work(bool last) const': which of several works that it
///                               repeats the next gradient and update queue, from 0, equal on all
///                               ranks; `last`: of the epoch. Without it there is one
///
/// A reducer may own the update: local steps with a mean now and then, or a part of the parameters
/// on each rank. It then declares what each rank updates with which gradient, and is given the
/// replicas after every update. Its staleness is 0.
///
///     owns_update               'static constexpr UpdateOwnership'
///     updated_by(rank)          parts of the flat vector that a rank updates, ascending; after
///                               reserve(), equal on all ranks
///     own_update(rank, state)   called once, after reserve(): from here on all_reduce() leaves in
///                               those parts what this rank applies, and anything elsewhere.
///                               `state`: the optimizer's, of those parts; its memory stays valid.
///                               In the memory of a device it takes a 'Buffer<float>& state'
///                               instead
///     updated(link, made)       called on every rank after each update and each skipped step;
///                               makes the parameters what the next step is computed on
///     replicas_are_equal()      'bool replicas_are_equal() const', apart: whether updated() has
///                               last made them equal, so that a checkpoint may be written; equal
///                               on all ranks
///
/// In parts, all ranks skip a step if one has a value that is not finite in its parts: they decide
/// by messages, on a device by queued ones. Apart, each rank skips its own. Without a call of
/// own_update() it averages like any reducer.
///
/// Order: all ranks end bitwise equal, also where a value is NaN: of a + b with two NaNs the
///        hardware keeps the bits of one, so all ranks must add in the same order. Each policy
///        documents what else repeats.
template <class R>
concept Reducer = detail::reducer::NamesItsWire<R> && detail::reducer::CanBeMoved<R> &&
                  detail::reducer::NamesItsStaleness<R> && detail::reducer::Reserves<R> &&
                  detail::reducer::AveragesABucket<R> && detail::reducer::KeepsTheBucket<R> &&
                  detail::reducer::SavesItsState<R> && detail::reducer::TakesItsOptions<R> &&
                  detail::reducer::SettlesRightly<R> && detail::reducer::OwnsTheUpdateRightly<R> &&
                  detail::reducer::TellsOfItsMeans<R>;

/// A reducer with settle(): it undoes what skipped steps left in its state.
template <class R>
concept Settles = Reducer<R> && requires(R& r) { r.settle(std::uint64_t{}, bool{}); };

/// It does so in the memory of a device, by kernels on queue Q.
template <class R, class Q>
concept SettlesOn = Settles<R> && requires(R& r, Q& queue, ScalarIn<Flag, memory_of<Q>> applied) {
    r.settle_on(queue, std::uint64_t{}, applied);
};

/// It shows what settle() may still read.
template <class R>
concept ShowsUnsettled = Settles<R> && requires(R& r) {
    { r.unsettled() } -> std::same_as<StateList>;
};

/// A reducer whose queued work for a gradient is known by its buffers.
template <class R>
concept RepeatsWork = Reducer<R> && requires { requires R::repeats_work; };

/// Which work it repeats next.
template <class R>
[[nodiscard]] constexpr int next_work(const R& reducer, bool last) {
    if constexpr (requires {
                      { reducer.next_work(last) } -> std::same_as<int>;
                  })
        return reducer.next_work(last);
    else return 0;
}

/// A reducer that owns the update.
template <class R>
concept OwnsUpdate = Reducer<R> && detail::reducer::ClaimsTheUpdate<R>;

/// Whether each rank applies a gradient of its own: UpdateOwnership::apart.
template <class R>
inline constexpr bool updates_apart = [] {
    if constexpr (OwnsUpdate<R>) return R::owns_update.apart;
    else return false;
}();

template <class R>
consteval bool explain_reducer_members() {
    static_assert(detail::reducer::CanBeMoved<R>,
                  "gx: not a Reducer: it cannot be moved. The Trainer moves it to its place before "
                  "reserve(). Fix: hold what cannot be moved, as a std::mutex, by unique_ptr.");
    static_assert(detail::reducer::NamesItsWire<R>,
                  "gx: not a Reducer: no element type 'wire_type'. "
                  "Buckets are packed to it before they are sent. "
                  "Fix: add 'using wire_type = gx::fp32;' to the policy.");
    static_assert(
        detail::reducer::NamesItsStaleness<R>,
        "gx: not a Reducer: no 'static constexpr int staleness' (at least 0), "
        "'bool asynchronous' or 'int channels' (at least 1). The Trainer plans with them. "
        "Fix: add all three; 0, true and 1 suit a plain reducer.");
    static_assert(detail::reducer::Reserves<R>,
                  "gx: not a Reducer: no 'void reserve(const ReducePlan&)'. "
                  "Steps allocate nothing, so buffers are made here. Fix: add it.");
    static_assert(detail::reducer::AveragesABucket<R>,
                  "gx: not a Reducer: no 'ReduceReport all_reduce(Transport auto& link, "
                  "const Bucket&)'. It averages the bucket's values in place. Fix: add it.");
    static_assert(
        detail::reducer::KeepsTheBucket<R>,
        "gx: not a Reducer: its 'all_reduce' takes values without their bucket. A reducer "
        "inside it would be given bucket 0 of gradient 0 each time. "
        "Fix: take 'const Bucket&'; its 'values' are the span.");
    static_assert(
        detail::reducer::SavesItsState<R>,
        "gx: not a Reducer: no 'StateList state()'. A checkpoint keeps it, so that resuming equals "
        "not having stopped. Fix: return {} if there is none.");
    static_assert(detail::reducer::SettlesRightly<R>,
                  "gx: not a Reducer: its 'settle' is no 'void settle(uint64_t gradient, bool "
                  "applied)'. It would never be called, and state would keep what skipped steps "
                  "left in it. Fix: give it that signature.");
    static_assert(
        detail::reducer::OwnsTheUpdateRightly<R>,
        "gx: not a Reducer: it has 'owns_update', and lacks 'static constexpr "
        "UpdateOwnership', staleness 0, 'vector<ChunkRange> updated_by(int rank) const', "
        "'void own_update(int rank, span<float> state)' or 'ReduceReport updated(Transport "
        "auto&, const OwnedUpdate&)'. A Trainer calls them. Fix: add them.");
    static_assert(detail::reducer::TellsOfItsMeans<R>,
                  "gx: not a Reducer: its replicas differ between means (owns_update.apart), and "
                  "it has no 'bool replicas_are_equal() const'. A checkpoint waits for it. Fix: "
                  "return whether the last updated() made a mean.");
    static_assert(detail::reducer::TakesItsOptions<R>,
                  "gx: not a Reducer: its 'Options' are no aggregate with defaults, or there is no "
                  "constructor from them. The Trainer's options hold them. Fix: add both.");
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
    void reserve(const ReducePlan&);
    ReduceReport all_reduce(gx::Transport auto& link, const Bucket&);
    StateList state();
};
}  // namespace archetype

}  // namespace gx
