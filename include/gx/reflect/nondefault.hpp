// nondefault: the members of an aggregate that differ from their defaults, as text.
#pragma once

#include <concepts>     // same_as, floating_point
#include <cstdint>      // int64_t
#include <string>       // the text
#include <string_view>  // names
#include <type_traits>  // is_aggregate_v
#include <utility>      // index_sequence, make_index_sequence

#include <gx/core/cold.hpp>           // GX_COLD
#include <gx/core/decl.hpp>           // GX_DECL
#include <gx/reflect/enum_names.hpp>  // enum_name
#include <gx/reflect/fields.hpp>      // field_names

namespace gx {

namespace detail::nondefault {

template <class T>
concept Number = std::integral<T> || std::floating_point<T>;
template <class T>
concept Text = std::convertible_to<const T&, std::string_view>;

/// Each adds ", .name = value" unless both values are equal.
GX_DECL void add_value(std::string& text, std::string_view name, bool mine, bool standard);
GX_DECL void add_value(std::string& text, std::string_view name, float mine, float standard);
GX_DECL void add_value(std::string& text, std::string_view name, double mine, double standard);
GX_DECL void add_value(std::string& text, std::string_view name, std::int64_t mine,
                       std::int64_t standard);
GX_DECL void add_value(std::string& text, std::string_view name, std::uint64_t mine,
                       std::uint64_t standard);
/// Adds ", .name = value" of a value that is no number.
GX_DECL void add_text(std::string& text, std::string_view name, std::string_view value);
GX_DECL void add_quoted(std::string& text, std::string_view name, std::string_view value);
GX_DECL void add_braced(std::string& text, std::string_view name, std::string_view inner);

template <class T>
GX_COLD void add(std::string& text, const T& mine, const T& standard);

template <class T>
GX_COLD void add_member(std::string& text, std::string_view name, const T& mine,
                        const T& standard) {
    if constexpr (std::same_as<T, bool> || std::same_as<T, float> || std::same_as<T, double>)
        add_value(text, name, mine, standard);
    else if constexpr (std::floating_point<T>)
        add_value(text, name, static_cast<double>(mine), static_cast<double>(standard));
    else if constexpr (std::unsigned_integral<T>)
        add_value(text, name, std::uint64_t{mine}, std::uint64_t{standard});
    else if constexpr (Number<T>) add_value(text, name, std::int64_t{mine}, std::int64_t{standard});
    else if constexpr (FixedEnum<T>) {
        if (mine != standard) add_text(text, name, enum_name(mine));
    } else if constexpr (Text<T>) {
        if (std::string_view(mine) != std::string_view(standard)) add_quoted(text, name, mine);
    } else if constexpr (std::is_aggregate_v<T> && !std::is_array_v<T>) {
        std::string inner;
        add(inner, mine, standard);
        if (!inner.empty()) add_braced(text, name, inner);
    }
}

template <class T>
GX_COLD void add(std::string& text, const T& mine, const T& standard) {
    if constexpr (!std::is_empty_v<T>) {
        [&]<std::size_t... i>(std::index_sequence<i...>) {
            (add_member(text, field_names<T>[i], boost::pfr::get<i>(mine),
                        boost::pfr::get<i>(standard)),
             ...);
        }(std::make_index_sequence<field_count<T>>());
    }
}

}  // namespace detail::nondefault

/// Returns the members of `options` that differ from those of T{}, as a program spells them:
/// ".weight_decay = 0.1, .nesterov = true"; empty where none does.
/// Numbers have the fewest digits that read back as the same number. What is neither a number, an
/// enumeration, a text nor an aggregate of them is omitted.
template <class T>
    requires std::is_aggregate_v<T>
[[nodiscard]] GX_COLD std::string nondefault(const T& options) {
    std::string text;
    detail::nondefault::add(text, options, T{});
    return text;
}

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/reflect/impl/nondefault.ipp>
#endif
