// reducer_name<R>(): what reports call a reducer, as in "DoubleBuffered<MultiRing<4, fp16>>".
#pragma once

#include <concepts>  // convertible_to
#include <string>    // the name

#include <gx/reducer/concept.hpp>  // explain_reducer

namespace gx {

/// The name as it is spelled in a program, defaults left out. A reducer of your own says it with
/// `static std::string name()`; without one it is called by its wire, "reducer over fp16".
template <class R>
[[nodiscard]] std::string reducer_name() {
    static_assert(explain_reducer<R>());
    if constexpr (requires { { R::name() } -> std::convertible_to<std::string>; }) return R::name();
    else return "reducer over " + std::string(R::wire_type::name);
}

}  // namespace gx
