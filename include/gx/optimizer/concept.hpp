// Optimizer: moves the parameters of a device by an averaged gradient.
#pragma once

#include <concepts>     // same_as, constructible_from
#include <cstddef>      // size_t
#include <span>         // flat memory
#include <string>       // names of vectors
#include <string_view>  // names of scalars
#include <type_traits>  // is_aggregate

#include <gx/core/role.hpp>              // role::may_be
#include <gx/model/graph.hpp>            // Graph
#include <gx/optimizer/fwd.hpp>          // declarations
#include <gx/optimizer/update_args.hpp>  // UpdateArgs

namespace gx {

namespace detail::optimizer {
template <class O>
concept HasOptions =
    std::is_aggregate_v<typename O::Options> && std::default_initializable<typename O::Options> &&
    std::constructible_from<O, typename O::Options>;
template <class O>
concept Reserves = requires(O& o, std::span<const ParameterSlice> slices, const Graph& graph) {
    { o.reserve(std::size_t{}, slices, graph) } -> std::same_as<void>;
};
template <class O>
concept Updates = requires(O& o, const UpdateArgs& args) {
    { o.update(args) } -> std::same_as<void>;
};
template <class O>
concept KeepsNoVectors = !requires(O& o) { o.state(); };
template <class O>
concept NamesItsScalars = requires {
    { O::scalar_names[0] } -> std::convertible_to<std::string_view>;
};
/// Whether the names of an array differ.
template <class Names>
consteval bool differ(const Names& names) {
    for (std::size_t i = 0; i < std::size(names); ++i)
        for (std::size_t k = 0; k < i; ++k)
            if (std::string_view(names[i]) == std::string_view(names[k])) return false;
    return true;
}
template <class O>
consteval bool names_differ() {
    bool all = true;
    if constexpr (requires { O::state_names[0]; }) all = all && differ(O::state_names);
    if constexpr (requires { O::scalar_names[0]; }) all = all && differ(O::scalar_names);
    return all;
}
}  // namespace detail::optimizer

/// An update rule over a device's flat parameters, in the device's own layout.
///
///     Options                            an aggregate; O(Options)
///     reserve(elements, slices, graph)   called once: the length of the flat vector, where each
///                                        parameter lies in it, and what each parameter is:
///                                        graph.parameters[slice.parameter] has name, role, shape
///     update(args)                       one step (UpdateArgs); allocates nothing
///
/// Optional:
///
///     state_names                        an array with a name for each vector of state, which
///                                        has a float for every element: args.state holds them. The
///                                        Trainer keeps it, in the device's memory and in
///                                        checkpoints; zero where the device pads. Absent: none
///     scalars(), scalar_names            a span<double> of further state, and an array of names
///
/// Optional, for updates of which each rank makes a part:
///
///     elementwise                `static constexpr bool elementwise = true`: an element's update
///                                looks at no other element, and scalars() at none
///     Norms, add_norms(args, norms), update_with(args, norms)
///                                the same in two steps, where it looks at norms: as in Lars
///
/// Optional: an elementwise optimizer whose update() is const may be called by several threads at
/// once, each for other slices (shared_update.hpp).
///
/// Optional, for time and memory: `update_cost` (update_cost.hpp).
///
/// Order: each policy states its own; equal inputs give equal bits. A rule that looks at more than
///        one element (a norm) gives the same bits wherever the device puts padding and slices.
template <class O>
concept Optimizer = detail::optimizer::HasOptions<O> && detail::optimizer::Reserves<O> &&
                    detail::optimizer::Updates<O> && detail::optimizer::KeepsNoVectors<O>;

/// An optimizer with state beside its vectors, such as powers of Adam's betas.
template <class O>
concept KeepsScalars = Optimizer<O> && requires(O& o) {
    { o.scalars() } -> std::same_as<std::span<double>>;
};

/// An optimizer that can update a part of the parameters without looking at the others.
template <class O>
concept Elementwise = Optimizer<O> && requires { requires O::elementwise; };

/// An optimizer whose update looks at norms that parts of a parameter add up to.
template <class O>
concept AddsNorms = Optimizer<O> && requires(O& o, const O& c, const UpdateArgs& a,
                                             std::span<typename O::Norms> norms,
                                             std::span<const typename O::Norms> sums) {
    { c.add_norms(a, norms) } -> std::same_as<void>;
    { o.update_with(a, sums) } -> std::same_as<void>;
    { norms[0].add(sums[0]) } -> std::same_as<void>;
};

/// An optimizer that keeps an average of the weights in vector `average_vector` of its state; the
/// Trainer tests it in their place.
template <class O>
concept AveragesWeights = Optimizer<O> && requires { requires O::average_vector < 64; };

template <class O>
consteval bool explain_optimizer_members() {
    static_assert(detail::optimizer::HasOptions<O>,
                  "gx: not an Optimizer: no aggregate 'Options' with defaults, or no constructor "
                  "from it. What a run may change is read from it. "
                  "Fix: name a policy, such as gx::Sgd, or add both to yours.");
    static_assert(detail::optimizer::Reserves<O>,
                  "gx: not an Optimizer: no 'void reserve(size_t elements, "
                  "span<const ParameterSlice>, const Graph&)'. "
                  "Steps allocate nothing, so state is made here. Fix: add it.");
    static_assert(detail::optimizer::Updates<O>,
                  "gx: not an Optimizer: no 'void update(const gx::UpdateArgs&)'. It holds "
                  "parameters, gradients, slices, rate, unscale and the number of updates before. "
                  "Fix: add it; lists of single arguments are not called.");
    static_assert(detail::optimizer::KeepsNoVectors<O>,
                  "gx: not an Optimizer: it has a 'state()'. State of each element lies in the "
                  "device's memory and in checkpoints, which the Trainer keeps. Fix: name each "
                  "vector in 'static constexpr std::array<std::string_view, n> state_names', and "
                  "use args.state.");
    static_assert(!KeepsScalars<O> || detail::optimizer::NamesItsScalars<O>,
                  "gx: not an Optimizer: 'scalars()' without names. A checkpoint keeps each by its "
                  "name. Fix: add 'static constexpr std::array<std::string_view, n> "
                  "scalar_names{...}'.");
    static_assert(detail::optimizer::names_differ<O>(),
                  "gx: not an Optimizer: two of its 'state_names' or 'scalar_names' are equal, as "
                  "those of one wrapper around another of its kind. A checkpoint keeps each by its "
                  "name. Fix: name each vector and scalar differently, or wrap once.");
    return true;
}

/// Stops at the first of: a header that is missing, a policy of another role, a missing member.
template <class O>
consteval bool explain_optimizer() {
    using detail::role::Role;
    if constexpr (detail::role::may_be<O, Role::optimizer>()) return explain_optimizer_members<O>();
    else return detail::role::reject<O, Role::optimizer>();
}

namespace archetype {
/// The least type that models Optimizer.
struct Optimizer {
    struct Options {};
    explicit Optimizer(Options);
    void reserve(std::size_t elements, std::span<const ParameterSlice>, const Graph&);
    void update(const UpdateArgs&);
};
}  // namespace archetype

/// Vectors of state that O keeps for each element.
template <Optimizer O>
[[nodiscard]] consteval std::size_t state_vectors() {
    if constexpr (requires { O::state_names[0]; }) return std::size(O::state_names);
    else return 0;
}
/// Name of vector `i` of them.
template <Optimizer O>
[[nodiscard]] std::string state_name(std::size_t i) {
    if constexpr (state_vectors<O>() > 0) return std::string(O::state_names[i]);
    else return std::to_string(i);
}

static_assert(explain_optimizer<archetype::Optimizer>());

}  // namespace gx
