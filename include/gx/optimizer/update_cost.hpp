// update_cost_of: memory traffic and state of an optimizer's update, for time and memory models.
#pragma once

#include <gx/core/device.hpp>  // UpdateCost

namespace gx {

/// Update cost of optimizer O: its member `update_cost`, or that of SGD with momentum.
///
///     struct Adam { static constexpr gx::UpdateCost update_cost{28, 2}; ... };
///
/// Adam reads gradient, parameter and two moments and writes the last three: 7 floats of 4 bytes.
template <class O>
[[nodiscard]] consteval UpdateCost update_cost_of() {
    if constexpr (requires { O::update_cost; }) return O::update_cost;
    else return {};
}

}  // namespace gx
