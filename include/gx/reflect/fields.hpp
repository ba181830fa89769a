// for_each_field: the members of an aggregate with their names, for JSON, options and reports.
#pragma once

#include <array>        // names
#include <cstddef>      // size_t
#include <string_view>  // names
#include <tuple>        // apply
#include <type_traits>  // is_aggregate_v
#include <utility>      // index_sequence

#include <boost/pfr/core.hpp>  // structure_tie, tuple_size_v

#include <gx/reflect/detail/last_identifier.hpp>  // last_identifier

namespace gx {

namespace detail::fields {

template <class T>
struct Box {
    T value;
};
/// An object of which only addresses are taken; it is not defined.
#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wundefined-internal"
#pragma clang diagnostic ignored "-Wundefined-var-template"
#endif
template <class T>
extern const Box<T> box;

/// Returns "const char* ... [with auto* member = (& box<T>.Box<T>::value.T::name)]".
template <auto* member>
[[nodiscard]] consteval const char* function_name() {
    return __PRETTY_FUNCTION__;
}
template <class T, std::size_t... i>
[[nodiscard]] consteval auto names(std::index_sequence<i...>) {
    constexpr auto members = boost::pfr::structure_tie(box<T>.value);
    return std::array<std::string_view, sizeof...(i)>{
        last_identifier(function_name<&std::get<i>(members)>())...};
}
#if defined(__clang__)
#pragma clang diagnostic pop
#endif

}  // namespace detail::fields

/// The number of T's members. T is an aggregate without base classes, C arrays and bit fields.
template <class T>
inline constexpr std::size_t field_count = boost::pfr::tuple_size_v<T>;

/// The names of T's members, in order, as the compiler spells them.
/// Source: Boost.PFR 2.2 derives them in the same way (Debian 12 has 2.1, which does not).
template <class T>
inline constexpr auto field_names = [] {
    static_assert(std::is_aggregate_v<T>,
                  "gx: no fields: the type is not an aggregate. Options and records are read and "
                  "printed by the names of their members. Fix: leave out constructors, private "
                  "members and base classes.");
    return detail::fields::names<T>(std::make_index_sequence<field_count<T>>());
}();

/// Calls f(name, member) for each member in order; members of a const object are const.
template <class T, class F>
constexpr void for_each_field(T& object, F&& f) {
    std::apply(
        [&](auto&... member) {
            const std::string_view* name = field_names<std::remove_cv_t<T>>.data();
            (f(*name++, member), ...);
        },
        boost::pfr::structure_tie(object));
}

/// Calls f(member) for the member called `name`; returns false if there is none.
/// f must take every member's type: `[&](auto& member) { ... }`.
template <class T, class F>
constexpr bool with_field(T& object, std::string_view name, F&& f) {
    bool found = false;
    for_each_field(object, [&](std::string_view each, auto& member) {
        if (each != name) return;
        f(member);
        found = true;
    });
    return found;
}

}  // namespace gx
