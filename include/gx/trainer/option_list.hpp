// add_options: options of any policy as names and texts, to be kept and compared.
#pragma once

#include <cstdint>      // int64_t
#include <string>       // names
#include <string_view>  // names
#include <type_traits>  // is_aggregate_v
#include <vector>       // the list

#include <gx/core/decl.hpp>           // GX_DECL
#include <gx/reflect/fields.hpp>      // for_each_field
#include <gx/trainer/checkpoint.hpp>  // Checkpoint::Option

namespace gx::detail::trainer {

using OptionList = std::vector<Checkpoint::Option>;

/// The name of an option as its parts, as in "scheduler" . "next" . 3; a text where kept.
struct OptionName {
    std::string_view part{};
    const OptionName* owner = nullptr;  ///< null: the outermost
    int index = -1;                     ///< of an element of a range, in place of `part`

    OptionName(std::string_view text) : part(text) {}    // NOLINT: a text is a name
    OptionName(const char* text) : part(text) {}         // NOLINT
    OptionName(const std::string& text) : part(text) {}  // NOLINT
    OptionName(const OptionName& of, std::string_view member) : part(member), owner(&of) {}
    OptionName(const OptionName& of, int element) : owner(&of), index(element) {}
};

GX_DECL void add_value(OptionList& out, const OptionName& name, float x);
GX_DECL void add_value(OptionList& out, const OptionName& name, double x);
GX_DECL void add_value(OptionList& out, const OptionName& name, std::int64_t x);
GX_DECL void add_value(OptionList& out, const OptionName& name, std::uint64_t x);
GX_DECL void add_value(OptionList& out, const OptionName& name, std::string_view x);

/// Adds `x` under `name`: numbers in the shortest form that reads back equal, flags and
/// enumerations as integers, members of an aggregate as "name.member", elements of a range as
/// "name.0". What is none of these, such as a function, can't be compared and is omitted.
template <class T>
void add_options(OptionList& out, const OptionName& name, const T& x) {
    if constexpr (std::is_enum_v<T>) add_value(out, name, static_cast<std::int64_t>(x));
    else if constexpr (std::is_floating_point_v<T> && sizeof(T) <= sizeof(double))
        add_value(out, name, x);
    else if constexpr (std::is_unsigned_v<T>) add_value(out, name, std::uint64_t{x});
    else if constexpr (std::is_integral_v<T>) add_value(out, name, std::int64_t{x});
    else if constexpr (std::is_convertible_v<const T&, std::string_view>)
        add_value(out, name, std::string_view(x));
    else if constexpr (requires { x.begin() != x.end(); }) {
        int i = 0;
        for (const auto& each : x) add_options(out, OptionName(name, i++), each);
    } else if constexpr (std::is_aggregate_v<T> && !std::is_empty_v<T> && !std::is_array_v<T>) {
        for_each_field(x, [&](std::string_view member, const auto& each) {
            add_options(out, OptionName(name, member), each);
        });
    }
}

}  // namespace gx::detail::trainer

#if defined(GX_HEADER_ONLY)
#include <gx/trainer/impl/option_list.ipp>
#endif
