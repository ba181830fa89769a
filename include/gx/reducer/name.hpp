// reducer_name<R>(): what reports call a reducer, as in "DoubleBuffered<MultiRing<4, fp16>>".
#pragma once

#include <concepts>  // convertible_to
#include <string>    // the name

#include <gx/reflect/type_name.hpp>  // type_name
#include <gx/reducer/concept.hpp>    // explain_reducer

namespace gx {

/// Name of R as a program spells it, defaults omitted: `R::name()`, or else its type's name.
template <class R>
[[nodiscard]] std::string reducer_name() {
    static_assert(explain_reducer<R>());
    if constexpr (requires {
                      { R::name() } -> std::convertible_to<std::string>;
                  })
        return R::name();
    else return type_name<R>();
}

}  // namespace gx
