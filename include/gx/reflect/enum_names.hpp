// enum_names: the names of an enumeration's values, as the program spells them.
#pragma once

#include <array>        // names
#include <cstddef>      // size_t
#include <string_view>  // a name
#include <type_traits>  // is_enum_v
#include <utility>      // index_sequence

#include <gx/reflect/detail/last_identifier.hpp>  // last_identifier

namespace gx {

namespace detail::enum_names {

/// "const char* ... [with auto value = gx::Color::red]", or "... = (gx::Color)7]" for no value.
template <auto value>
[[nodiscard]] consteval const char* function_name() {
    return __PRETTY_FUNCTION__;
}
template <auto value>
[[nodiscard]] consteval std::string_view name() {
    const std::string_view last = last_identifier(function_name<value>());
    return '0' <= last[0] && last[0] <= '9' ? std::string_view() : last;
}
template <class E>
[[nodiscard]] consteval std::size_t count() {
    constexpr std::size_t most = 32;
    constexpr auto names = []<std::size_t... i>(std::index_sequence<i...>) {
        return std::array{name<static_cast<E>(i)>()...};
    }(std::make_index_sequence<most>());
    static_assert(names[most - 1].empty(), "gx: enum_names: more than 31 values");
    std::size_t n = 0;
    while (!names[n].empty()) ++n;
    return n;
}

}  // namespace detail::enum_names

/// An enumeration of which every number of its type is a value: `enum class`, or one with a type.
template <class E>
concept FixedEnum = std::is_enum_v<E> && requires { E{0}; };

/// The names of the values 0, 1, 2, ... of E, up to the first number without a name.
template <FixedEnum E>
inline constexpr auto enum_names = []<std::size_t... i>(std::index_sequence<i...>) {
    return std::array<std::string_view, sizeof...(i)>{
        detail::enum_names::name<static_cast<E>(i)>()...};
}(std::make_index_sequence<detail::enum_names::count<E>()>());

/// Returns the name of a value; empty for a number without one.
template <FixedEnum E>
[[nodiscard]] constexpr std::string_view enum_name(E value) {
    const auto i = static_cast<std::size_t>(value);
    return i < enum_names<E>.size() ? enum_names<E>[i] : std::string_view();
}

}  // namespace gx
