// Bodies of option_list.hpp.
#pragma once

#include <utility>  // move

#include <fmt/core.h>  // shortest numbers

#include <gx/trainer/option_list.hpp>

namespace gx::detail::trainer {

namespace options {
inline void append(std::string& text, const OptionName& name) {
    if (name.owner != nullptr) {
        append(text, *name.owner);
        text += '.';
    }
    if (name.index < 0) text += name.part;
    else text += std::to_string(name.index);
}
inline void add(OptionList& out, const OptionName& name, std::string value) {
    std::string text;
    append(text, name);
    out.push_back({std::move(text), std::move(value)});
}
}  // namespace options

GX_DECL void add_value(OptionList& out, const OptionName& name, float x) {
    options::add(out, name, fmt::format("{}", x));
}
GX_DECL void add_value(OptionList& out, const OptionName& name, double x) {
    options::add(out, name, fmt::format("{}", x));
}
GX_DECL void add_value(OptionList& out, const OptionName& name, std::int64_t x) {
    options::add(out, name, fmt::format("{}", x));
}
GX_DECL void add_value(OptionList& out, const OptionName& name, std::uint64_t x) {
    options::add(out, name, fmt::format("{}", x));
}
GX_DECL void add_value(OptionList& out, const OptionName& name, std::string_view x) {
    options::add(out, name, std::string(x));
}

}  // namespace gx::detail::trainer
