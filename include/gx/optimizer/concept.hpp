// Optimizer: moves the parameters of a device by an averaged gradient.
#pragma once

#include <concepts>     // same_as, constructible_from
#include <cstddef>      // size_t
#include <span>         // flat memory
#include <type_traits>  // is_aggregate

#include <gx/core/device.hpp>  // ParameterSlice
#include <gx/model/graph.hpp>  // Graph

namespace gx {

namespace detail::optimizer {
template <class O>
concept HasOptions = std::is_aggregate_v<typename O::Options> &&
                     std::default_initializable<typename O::Options> &&
                     std::constructible_from<O, typename O::Options>;
template <class O>
concept Reserves = requires(O& o, std::span<const ParameterSlice> slices, const Graph& graph) {
    { o.reserve(std::size_t{}, slices, graph) } -> std::same_as<void>;
};
template <class O>
concept Updates = requires(O& o, std::span<float> parameters, std::span<const float> gradients) {
    { o.update(parameters, gradients, float{}, float{}) } -> std::same_as<void>;
};
template <class O>
concept SavesItsState = requires(O& o) {
    { o.state() } -> std::same_as<std::span<float>>;
};
}  // namespace detail::optimizer

/// An update rule over a device's flat parameters, in the device's own layout.
///
///     Options                            an aggregate; O(Options)
///     reserve(elements, slices, graph)   called once: the length of the flat vector, where each
///                                        parameter lies in it, and what each parameter is
///     update(parameters, gradients, rate, unscale)
///                                        one step along gradients * unscale; allocates nothing
///     state()                            what a checkpoint keeps: a whole number of flat vectors
///
/// Order: element by element; equal inputs give equal bits.
template <class O>
concept Optimizer = detail::optimizer::HasOptions<O> && detail::optimizer::Reserves<O> &&
                    detail::optimizer::Updates<O> && detail::optimizer::SavesItsState<O>;

template <class O>
consteval bool explain_optimizer() {
    static_assert(detail::optimizer::HasOptions<O>,
                  "gx: not an Optimizer: no aggregate 'Options' with defaults, or no constructor "
                  "from it. What a run may change is read from it. "
                  "Fix: name a policy, such as gx::Sgd, or add both to yours.");
    static_assert(detail::optimizer::Reserves<O>,
                  "gx: not an Optimizer: no 'void reserve(size_t elements, "
                  "span<const ParameterSlice>, const Graph&)'. "
                  "Steps allocate nothing, so state is made here. Fix: add it.");
    static_assert(detail::optimizer::Updates<O>,
                  "gx: not an Optimizer: no 'void update(span<float> parameters, "
                  "span<const float> gradients, float rate, float unscale)'. Fix: add it.");
    static_assert(detail::optimizer::SavesItsState<O>,
                  "gx: not an Optimizer: no 'span<float> state()'. A checkpoint keeps it, so that "
                  "resuming equals not having stopped. Fix: answer an empty span if it has none.");
    return true;
}

namespace archetype {
/// The least type that models Optimizer.
struct Optimizer {
    struct Options {};
    explicit Optimizer(Options);
    void reserve(std::size_t elements, std::span<const ParameterSlice>, const Graph&);
    void update(std::span<float> parameters, std::span<const float> gradients, float rate,
                float unscale);
    std::span<float> state();
};
}  // namespace archetype
static_assert(explain_optimizer<archetype::Optimizer>());

}  // namespace gx
