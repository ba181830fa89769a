// Fields: walking the members of an aggregate by name: options, records, reports.
#pragma once

#include <array>        // names
#include <concepts>     // convertible_to
#include <cstddef>      // size_t
#include <string_view>  // names
#include <tuple>        // apply
#include <type_traits>  // is_aggregate_v

#include <boost/pfr.hpp>  // structure_tie, tuple_size_v

namespace gx {

namespace detail::fields {
template <class T>
concept NamesItsFields = std::is_aggregate_v<T> && requires {
    { T::names.size() } -> std::convertible_to<std::size_t>;
    { T::names[0] } -> std::convertible_to<std::string_view>;
};
template <class T>
concept NamesEach = boost::pfr::tuple_size_v<T> == T::names.size();

template <class T>
consteval bool names_differ() {
    for (std::size_t i = 0; i < T::names.size(); ++i)
        for (std::size_t j = 0; j < i; ++j)
            if (std::string_view(T::names[i]) == T::names[j]) return false;
    return true;
}
}  // namespace detail::fields

/// An aggregate with its members' names beside it, in their order:
///
///     struct Options {
///         int batch = 128;
///         float rate = 0.1f;
///         static constexpr std::array names{"batch", "rate"};
///     };
///
/// Members may be anything but references, C arrays and bit fields; no base classes.
template <class T>
concept NamedFields = detail::fields::NamesItsFields<T> && detail::fields::NamesEach<T> &&
                      detail::fields::names_differ<T>();

template <class T>
consteval bool explain_named_fields() {
    static_assert(detail::fields::NamesItsFields<T>,
                  "gx: no named fields: the type is not an aggregate with an array 'names'. "
                  "Options and records are read and printed by name. "
                  "Fix: add 'static constexpr std::array names{\"first\", \"second\"};'.");
    if constexpr (detail::fields::NamesItsFields<T>) {
        static_assert(detail::fields::NamesEach<T>,
                      "gx: no named fields: 'names' is shorter or longer than the list of members. "
                      "Names belong to members by position. Fix: one name for each, in order.");
        static_assert(detail::fields::names_differ<T>(),
                      "gx: no named fields: 'names' says one name twice. Fix: one name for each.");
    }
    return true;
}

/// The names of T's members, in order.
template <class T>
inline constexpr auto field_names = [] {
    static_assert(explain_named_fields<T>());
    std::array<std::string_view, T::names.size()> names{};
    for (std::size_t i = 0; i < names.size(); ++i) names[i] = T::names[i];
    return names;
}();

/// Calls f(name, member) for every member in order; members of a const object are const.
template <class T, class F>
constexpr void for_each_field(T& object, F&& f) {
    std::apply(
        [&](auto&... members) {
            std::size_t i = 0;
            (f(field_names<std::remove_cv_t<T>>[i++], members), ...);
        },
        boost::pfr::structure_tie(object));
}

/// Calls f(member) for the member called `name`; false, and no call, when there is none.
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
