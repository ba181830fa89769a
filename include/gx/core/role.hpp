// role: recognises policies in a wrong slot and policies whose header is missing, for explain_...
#pragma once

#include <concepts>  // convertible_to
#include <cstdint>   // int64_t

namespace gx::detail::role {

enum class Role : unsigned char {
    none,
    model,
    reducer,
    scheduler,
    optimizer,
    loader,
    loss_scale,
    survival,
    compute,
    element
};

// ---- The member by which each role is recognised, whether or not all else is there ------------
template <class T>
concept LikeModel = requires {
    { T::classes } -> std::convertible_to<int>;
    T::input;
};
template <class T>
concept LikeReducer = requires { typename T::wire_type; };
template <class T>
concept LikeScheduler = requires(const T& s) {
    { s.rate(std::int64_t{}) } -> std::convertible_to<double>;
};
template <class T>
concept LikeOptimizer = requires {
    typename T::Options;
    &T::update;
};
template <class T>
concept LikeLoader = requires {
    &T::begin_epoch;
    &T::next;
};
template <class T>
concept LikeLossScale = requires(T& s) {
    s.learn(true);
    s.scale();
};
template <class T>
concept LikeSurvival = requires {
    { T::continues } -> std::convertible_to<bool>;
};
template <class T>
concept LikeCompute = requires { typename T::compute_type; };
template <class T>
concept LikeElement = requires {
    typename T::storage;
    T::encode(float{});
};

// ---- What has its place in a part of a Trainer's, or of its world's ----------------------------
template <class T>
concept LikeDevice = requires(const T& d) {
    d.parameters();
    d.slices();
};
template <class T>
concept LikeAugmentation = requires {
    T::stream;
    &T::move;
};
template <class T>
concept LikeWorld = requires(const T& w) {
    w.ranks();
    w.placement();
};
template <class T>
concept HasPlaceElsewhere = LikeDevice<T> || LikeAugmentation<T> || LikeWorld<T>;
/// Of T without a role.
template <class T>
consteval bool explain_place() {
    static_assert(!LikeWorld<T>,
                  "gx: this is a World where a policy of a Trainer is expected. A Trainer runs on "
                  "any. Fix: leave it out, and hand it to 'train(world, data)'.");
    static_assert(!LikeDevice<T>,
                  "gx: this is a Device where a policy of a Trainer is expected. It belongs to the "
                  "world, which gives one to each rank. "
                  "Fix: name it there, as in 'Threads<4, gx::onednn::Device>'.");
    static_assert(!LikeAugmentation<T>,
                  "gx: this is an augmentation where a policy of a Trainer is expected. A loader "
                  "does it to its images. "
                  "Fix: name it there, as in 'InMemory<gx::PadCrop<4>>'.");
    return true;
}

/// The role of T, the expected one first where it fits several.
template <class T, Role Expected>
consteval Role found() {
    const bool fits[] = {
        false,         LikeModel<T>,     LikeReducer<T>,  LikeScheduler<T>, LikeOptimizer<T>,
        LikeLoader<T>, LikeLossScale<T>, LikeSurvival<T>, LikeCompute<T>,   LikeElement<T>};
    if (fits[static_cast<int>(Expected)]) return Expected;
    for (int i = 1; i < 10; ++i)
        if (fits[i]) return static_cast<Role>(i);
    return Role::none;
}

// ---- Policies that a fwd.hpp declares --------------------------------------------------------
/// Specialised beside each declaration: `missing<T>()` names the header that defines it.
template <class T>
struct Header {
    template <class U>
    static consteval void missing() {
        static_assert(
            requires { sizeof(U); },
            "gx: this policy is declared here and not defined. "
            "Fix: include its header before the Trainer is composed.");
    }
};
/// The body of a specialisation of Header.
#define GX_DEFINED_IN(header)                                                        \
    template <class U>                                                               \
    static consteval void missing() {                                                \
        static_assert(                                                               \
            requires { sizeof(U); },                                                 \
            "gx: this policy is declared here and not defined: include its header. " \
            "Fix: #include <" header ">");                                           \
    }

template <class T>
concept Complete = requires { sizeof(T); };

// ---- The sentences -----------------------------------------------------------------------------
#define GX_MISPLACED(found, expected)           \
    "gx: this is " found " where the " expected \
    " is expected: Trainer<Model, Reducer, "    \
    "Scheduler, further policies in any order>. Fix: put the first three in that order."

template <Role Expected, Role Found>
struct Misplaced;
template <Role Found>
struct Misplaced<Role::model, Found> {
    static_assert(Found != Role::reducer, GX_MISPLACED("a Reducer", "Model"));
    static_assert(Found != Role::scheduler, GX_MISPLACED("a Scheduler", "Model"));
    static_assert(Found != Role::optimizer, GX_MISPLACED("an Optimizer", "Model"));
    static_assert(Found != Role::loader, GX_MISPLACED("a Loader", "Model"));
    static_assert(Found != Role::loss_scale, GX_MISPLACED("a LossScale", "Model"));
    static_assert(Found != Role::survival, GX_MISPLACED("a Survival", "Model"));
    static_assert(Found != Role::compute, GX_MISPLACED("a Compute", "Model"));
    static_assert(Found != Role::element, GX_MISPLACED("an Element", "Model"));
};
template <Role Found>
struct Misplaced<Role::reducer, Found> {
    static_assert(Found != Role::model, GX_MISPLACED("a Model", "Reducer"));
    static_assert(Found != Role::scheduler, GX_MISPLACED("a Scheduler", "Reducer"));
    static_assert(Found != Role::optimizer, GX_MISPLACED("an Optimizer", "Reducer"));
    static_assert(Found != Role::loader, GX_MISPLACED("a Loader", "Reducer"));
    static_assert(Found != Role::loss_scale, GX_MISPLACED("a LossScale", "Reducer"));
    static_assert(Found != Role::survival, GX_MISPLACED("a Survival", "Reducer"));
    static_assert(Found != Role::compute, GX_MISPLACED("a Compute", "Reducer"));
    static_assert(Found != Role::element,
                  "gx: this is an Element where the Reducer is expected. The Reducer averages "
                  "gradients, the Element is what it sends. "
                  "Fix: name both, as in 'Ring<gx::fp16>'.");
};
template <Role Found>
struct Misplaced<Role::scheduler, Found> {
    static_assert(Found != Role::model, GX_MISPLACED("a Model", "Scheduler"));
    static_assert(Found != Role::reducer, GX_MISPLACED("a Reducer", "Scheduler"));
    static_assert(Found != Role::optimizer, GX_MISPLACED("an Optimizer", "Scheduler"));
    static_assert(Found != Role::loader, GX_MISPLACED("a Loader", "Scheduler"));
    static_assert(Found != Role::loss_scale, GX_MISPLACED("a LossScale", "Scheduler"));
    static_assert(Found != Role::survival, GX_MISPLACED("a Survival", "Scheduler"));
    static_assert(Found != Role::compute, GX_MISPLACED("a Compute", "Scheduler"));
    static_assert(Found != Role::element, GX_MISPLACED("an Element", "Scheduler"));
};
template <Role Found>
struct Misplaced<Role::optimizer, Found> {
    static_assert(Found != Role::model, GX_MISPLACED("a Model", "Optimizer"));
    static_assert(Found != Role::reducer, GX_MISPLACED("a Reducer", "Optimizer"));
    static_assert(Found != Role::scheduler, GX_MISPLACED("a Scheduler", "Optimizer"));
    static_assert(Found != Role::loader, GX_MISPLACED("a Loader", "Optimizer"));
    static_assert(Found != Role::loss_scale, GX_MISPLACED("a LossScale", "Optimizer"));
    static_assert(Found != Role::survival, GX_MISPLACED("a Survival", "Optimizer"));
    static_assert(Found != Role::compute, GX_MISPLACED("a Compute", "Optimizer"));
    static_assert(Found != Role::element, GX_MISPLACED("an Element", "Optimizer"));
};
template <Role Found>
struct Misplaced<Role::loader, Found> {
    static_assert(Found != Role::model, GX_MISPLACED("a Model", "Loader"));
    static_assert(Found != Role::reducer, GX_MISPLACED("a Reducer", "Loader"));
    static_assert(Found != Role::scheduler, GX_MISPLACED("a Scheduler", "Loader"));
    static_assert(Found != Role::optimizer, GX_MISPLACED("an Optimizer", "Loader"));
    static_assert(Found != Role::loss_scale, GX_MISPLACED("a LossScale", "Loader"));
    static_assert(Found != Role::survival, GX_MISPLACED("a Survival", "Loader"));
    static_assert(Found != Role::compute, GX_MISPLACED("a Compute", "Loader"));
    static_assert(Found != Role::element, GX_MISPLACED("an Element", "Loader"));
};
template <Role Found>
struct Misplaced<Role::loss_scale, Found> {
    static_assert(Found != Role::model, GX_MISPLACED("a Model", "LossScale"));
    static_assert(Found != Role::reducer, GX_MISPLACED("a Reducer", "LossScale"));
    static_assert(Found != Role::scheduler, GX_MISPLACED("a Scheduler", "LossScale"));
    static_assert(Found != Role::optimizer, GX_MISPLACED("an Optimizer", "LossScale"));
    static_assert(Found != Role::loader, GX_MISPLACED("a Loader", "LossScale"));
    static_assert(Found != Role::survival, GX_MISPLACED("a Survival", "LossScale"));
    static_assert(Found != Role::compute, GX_MISPLACED("a Compute", "LossScale"));
    static_assert(Found != Role::element, GX_MISPLACED("an Element", "LossScale"));
};
template <Role Found>
struct Misplaced<Role::survival, Found> {
    static_assert(Found != Role::model, GX_MISPLACED("a Model", "Survival"));
    static_assert(Found != Role::reducer, GX_MISPLACED("a Reducer", "Survival"));
    static_assert(Found != Role::scheduler, GX_MISPLACED("a Scheduler", "Survival"));
    static_assert(Found != Role::optimizer, GX_MISPLACED("an Optimizer", "Survival"));
    static_assert(Found != Role::loader, GX_MISPLACED("a Loader", "Survival"));
    static_assert(Found != Role::loss_scale, GX_MISPLACED("a LossScale", "Survival"));
    static_assert(Found != Role::compute, GX_MISPLACED("a Compute", "Survival"));
    static_assert(Found != Role::element, GX_MISPLACED("an Element", "Survival"));
};
#undef GX_MISPLACED

/// Whether T may be checked requirement by requirement: defined, and of no other role.
template <class T, Role Expected>
consteval bool may_be() {
    if constexpr (!Complete<T>) return false;
    else if constexpr (found<T, Expected>() == Expected) return true;
    else return found<T, Expected>() == Role::none && !HasPlaceElsewhere<T>;
}

/// The error of a T that may not be: a missing header, or a policy of another role.
template <class T, Role Expected>
consteval bool reject() {
    if constexpr (!Complete<T>) Header<T>::template missing<T>();
    else if constexpr (found<T, Expected>() == Role::none) explain_place<T>();
    else static_cast<void>(Misplaced<Expected, found<T, Expected>()>{});
    return true;
}

// ---- Policies in any order ---------------------------------------------------------------------
/// Whether T is one of the policies that may stand behind the Scheduler.
template <class T>
consteval bool explain_further() {
    if constexpr (!Complete<T>) {
        Header<T>::template missing<T>();
    } else {
        constexpr Role role = found<T, Role::none>();
        if constexpr (role == Role::none) explain_place<T>();
        static_assert(
            role != Role::model,
            "gx: this Model stands behind the Scheduler, and a Trainer has one, in front: "
            "Trainer<Model, Reducer, Scheduler, further policies>. Fix: move or drop it.");
        static_assert(
            role != Role::reducer,
            "gx: this Reducer stands behind the Scheduler, and a Trainer has one, second: "
            "Trainer<Model, Reducer, Scheduler, further policies>. Fix: move or drop it.");
        static_assert(
            role != Role::scheduler,
            "gx: this Scheduler stands behind another, and a Trainer has one, third: "
            "Trainer<Model, Reducer, Scheduler, further policies>. Fix: move or drop it.");
        static_assert(
            role != Role::element,
            "gx: this Element stands where policies of a Trainer are expected. It is what "
            "a Reducer sends, or a Device computes in. "
            "Fix: name it there, as in 'Ring<gx::fp16>' or 'Compute<gx::bf16>'.");
        static_assert(role != Role::none || HasPlaceElsewhere<T>,
                      "gx: this policy has no role in a Trainer: it is no Optimizer ('Options' and "
                      "one 'update'), no Loader ('begin_epoch' and 'next'), no LossScale "
                      "('scale' and 'learn'), no Survival ('continues') and no Compute "
                      "('compute_type'). "
                      "Fix: add what its role's concept.hpp lists.");
    }
    return true;
}

/// Whether T stands behind the Scheduler as `role`.
template <class T, Role role>
consteval bool is() {
    if constexpr (Complete<T>) return found<T, Role::none>() == role;
    else return false;
}
template <Role role, class... Policies>
inline constexpr int count_of = (0 + ... + int{is<Policies, role>()});

/// The policy of that role, or Default.
template <Role role, class Default, class... Policies>
struct Pick {
    using type = Default;
};
template <Role role, class Default, class First, class... Rest>
struct Pick<role, Default, First, Rest...> : Pick<role, Default, Rest...> {};
template <Role role, class Default, class First, class... Rest>
    requires(is<First, role>())
struct Pick<role, Default, First, Rest...> {
    using type = First;
};

}  // namespace gx::detail::role
