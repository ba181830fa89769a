// hash_fields: one number for the values of an aggregate's members, to compare options of runs.
#pragma once

#include <bit>          // bit_cast
#include <concepts>     // integral, floating_point, same_as
#include <cstdint>      // uint64_t
#include <string_view>  // streams
#include <tuple>        // apply
#include <type_traits>  // is_aggregate_v, is_empty_v, is_enum_v

#include <boost/pfr/core.hpp>  // structure_tie

#include <gx/core/hash.hpp>  // mix64, hash_name

namespace gx {

namespace detail::fields {
template <class T>
concept HasStream = requires {
    { T::stream } -> std::convertible_to<std::string_view>;
};
template <class T>
concept HasHash = requires(const T& t) {
    { t.hash() } -> std::same_as<std::uint64_t>;
};
template <class T>
inline constexpr bool is_tuple = false;
template <class... Ts>
inline constexpr bool is_tuple<std::tuple<Ts...>> = true;
}  // namespace detail::fields

/// Folds the values of `object` into `hash`: a number's or an enumerator's; those of a tuple's
/// parts and of an aggregate's members, in order, and the aggregate's T::stream where it has one.
/// Of a type with 'std::uint64_t hash() const', that and T::stream. Names of members do not count.
/// Errors: another type that holds values does not compile, nor an aggregate with a base.
template <class T>
[[nodiscard]] constexpr std::uint64_t hash_fields(std::uint64_t hash, const T& object) {
    const auto fold = [](std::uint64_t h, const auto&... parts) {
        ((h = hash_fields(h, parts)), ...);
        return h;
    };
    if constexpr (detail::fields::HasStream<T>) hash = mix64(hash ^ hash_name(T::stream));
    if constexpr (detail::fields::HasHash<T>) return mix64(hash ^ object.hash());
    else if constexpr (std::floating_point<T>)
        return mix64(hash ^ std::bit_cast<std::uint64_t>(double{object}));
    else if constexpr (std::integral<T> || std::is_enum_v<T>)
        return mix64(hash ^ static_cast<std::uint64_t>(object));
    else if constexpr (detail::fields::is_tuple<T>)
        return std::apply([&](const auto&... parts) { return fold(hash, parts...); }, object);
    else if constexpr (std::is_aggregate_v<T> && !std::is_empty_v<T>)
        return std::apply([&](const auto&... members) { return fold(hash, members...); },
                          boost::pfr::structure_tie(object));
    else {
        static_assert(std::is_empty_v<T>,
                      "gx: options of a type whose values can't be compared between runs: it has a "
                      "constructor or private members. Fix: add 'std::uint64_t hash() const' of "
                      "all that it depends on, as by hash_fields, or make it an aggregate.");
        return hash;
    }
}

}  // namespace gx
