// traffic_bytes: memory traffic of a kernel on whole vectors, for worlds that time it.
#pragma once

#include <concepts>     // convertible_to
#include <cstdint>      // int64_t
#include <type_traits>  // is_const_v

#include <gx/memory/queue.hpp>  // DeviceKernel

namespace gx {

namespace detail::traffic {

/// A kernel that writes each output before it reads it: `static constexpr bool overwrites = true`.
template <class K>
inline constexpr bool overwrites = [] {
    if constexpr (requires { K::overwrites; }) return bool{K::overwrites};
    else return false;
}();

/// Of one argument: a constant view is read, another is written and, unless overwritten, read.
template <class K, class Argument>
[[nodiscard]] constexpr std::int64_t of(const Argument& argument) {
    if constexpr (requires { typename Argument::element_type; }) {
        const auto bytes = static_cast<std::int64_t>(argument.size_bytes());
        const bool once = std::is_const_v<typename Argument::element_type> || overwrites<K>;
        return once ? bytes : 2 * bytes;
    } else {
        return 0;  // a scalar or a plain value
    }
}

}  // namespace detail::traffic

/// Bytes that kernel(arguments...) reads from and writes to memory.
///
///     T = sum of the constant views + sum of the others        if K::overwrites
///     T = sum of the constant views + 2 * sum of the others    by default
///
/// A kernel of several passes states its own: `std::int64_t traffic_bytes(arguments...) const`.
template <DeviceKernel K, class... Arguments>
[[nodiscard]] constexpr std::int64_t traffic_bytes([[maybe_unused]] const K& kernel,
                                                   const Arguments&... arguments) {
    if constexpr (requires {
                      { kernel.traffic_bytes(arguments...) } -> std::convertible_to<std::int64_t>;
                  })
        return kernel.traffic_bytes(arguments...);
    else return (std::int64_t{0} + ... + detail::traffic::of<K>(arguments));
}

}  // namespace gx
