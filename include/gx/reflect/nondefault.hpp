// nondefault: the members of an aggregate that differ from their defaults, as text.
#pragma once

#include <array>        // room for a number
#include <charconv>     // to_chars
#include <concepts>     // same_as, floating_point
#include <string>       // the text
#include <string_view>  // names
#include <tuple>        // get
#include <type_traits>  // is_aggregate_v

#include <gx/core/cold.hpp>           // GX_COLD
#include <gx/reflect/enum_names.hpp>  // enum_name
#include <gx/reflect/fields.hpp>      // field_names

namespace gx {

namespace detail::nondefault {

template <class T>
concept Number = std::integral<T> || std::floating_point<T>;
template <class T>
concept Text = std::convertible_to<const T&, std::string_view>;

template <class T>
GX_COLD void add(std::string& text, const T& mine, const T& standard);

/// Adds ", .name = value" unless both are equal.
template <class T>
GX_COLD void add_member(std::string& text, std::string_view name, const T& mine,
                        const T& standard) {
    std::string value;
    if constexpr (std::same_as<T, bool>) {
        if (mine != standard) value = mine ? "true" : "false";
    } else if constexpr (Number<T>) {
        std::array<char, 64> room{};  // the shortest text that reads back as the same number
        if (mine != standard)
            value.assign(room.data(),
                         std::to_chars(room.data(), room.data() + room.size(), mine).ptr);
    } else if constexpr (FixedEnum<T>) {
        if (mine != standard) value = enum_name(mine);
    } else if constexpr (Text<T>) {
        if (std::string_view(mine) != std::string_view(standard))
            value = '"' + std::string(std::string_view(mine)) + '"';
    } else if constexpr (std::is_aggregate_v<T> && !std::is_array_v<T>) {
        std::string inner;
        add(inner, mine, standard);
        if (!inner.empty()) value = "{" + inner + "}";
    }
    if (value.empty()) return;
    text += text.empty() ? "." : ", .";
    text.append(name).append(" = ").append(value);
}

template <class T>
GX_COLD void add(std::string& text, const T& mine, const T& standard) {
    if constexpr (!std::is_empty_v<T>) {
        const auto values = boost::pfr::structure_tie(mine);
        const auto defaults = boost::pfr::structure_tie(standard);
        [&]<std::size_t... i>(std::index_sequence<i...>) {
            (add_member(text, field_names<T>[i], std::get<i>(values), std::get<i>(defaults)), ...);
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
