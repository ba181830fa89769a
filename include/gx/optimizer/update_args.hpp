// UpdateArgs: arguments of one update of a device's parameters by an optimizer.
#pragma once

#include <cstddef>      // size_t
#include <cstdint>      // int64_t
#include <span>         // flat memory
#include <type_traits>  // integral_constant

#include <gx/core/contract.hpp>  // GX_EXPECT
#include <gx/core/device.hpp>    // ParameterSlice

namespace gx {

/// One step along gradients * unscale, of the parameters that `slices` cover. Elements outside of
/// all slices stay as they are; a parameter may lie in several slices.
/// Shapes: parameters and gradients as long as was reserved, in the device's own layout; state as
///         many such vectors as the optimizer has state_names, one after the other, zeros at first
///         and then what the update before left there.
/// Units:  rate as the Scheduler returns it; unscale is 1 / loss scale.
struct UpdateArgs {
    std::span<float> parameters{};
    std::span<const float> gradients{};
    std::span<float> state{};                  ///< the optimizer's, of each element
    std::span<const ParameterSlice> slices{};  ///< each names a parameter of the reserved Graph
    float rate = 0;
    float unscale = 1;
    std::int64_t step = 0;  ///< updates made before it; skipped ones are not counted
};

namespace detail::optimizer {

/// Vectorised work goes by blocks of this many elements: with a known trip count g++ -O2
/// vectorises the loop, with an unknown one it does not.
inline constexpr std::size_t block = 1024;

/// Breaks the contract unless every slice lies in the flat vector and names a parameter.
inline void expect_slices(std::span<const ParameterSlice> slices, std::size_t elements,
                          std::size_t parameters) {
    for (const ParameterSlice& s : slices) {
        GX_EXPECT(s.offset <= elements && s.count <= elements - s.offset,
                  "a parameter lies outside of the flat vector");
        GX_EXPECT(s.parameter >= 0 && static_cast<std::size_t>(s.parameter) < parameters,
                  "a slice names a parameter of the reserved graph");
    }
}

/// Breaks the contract unless `a` has the lengths and the parameters that were reserved, and
/// `vectors` of state.
inline void expect_reserved(const UpdateArgs& a, std::size_t elements, std::size_t parameters,
                            std::size_t vectors) {
    GX_EXPECT(a.parameters.size() == elements && a.gradients.size() == elements,
              "parameters and gradients are as long as was reserved");
    GX_EXPECT(a.state.size() == vectors * elements,
              "an optimizer's state has a vector as long as was reserved for each of its names");
    GX_EXPECT(!a.slices.empty() || elements == 0,
              "an update names its parameters: pass the device's slices()");
    expect_slices(a.slices, elements, parameters);
}

/// Calls f(offset, count) for each part of `slice`, of a block or, last, of fewer elements. The
/// count of a block is a constant, so that the compiler knows how long its loops are.
template <class F>
void for_each_block(const ParameterSlice& slice, F&& f) {
    std::size_t i = slice.offset;
    const std::size_t end = i + slice.count;
    for (; end - i >= block; i += block) f(i, std::integral_constant<std::size_t, block>());
    if (i < end) f(i, end - i);
}

/// Applies (rule.*update)(w, g, v) to each element of vectors that do not overlap.
template <auto update, class Rule>
[[gnu::always_inline]] inline void update_each(float* __restrict w, const float* __restrict g,
                                               float* __restrict v, std::size_t count, Rule rule) {
    for (std::size_t i = 0; i < count; ++i) (rule.*update)(w[i], g[i], v[i]);
}

}  // namespace detail::optimizer

}  // namespace gx
