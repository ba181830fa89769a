// Bodies of option_list.hpp.
#pragma once

#include <utility>  // move

#include <fmt/core.h>  // shortest numbers

#include <gx/trainer/option_list.hpp>

namespace gx::detail::trainer {

GX_DECL void add_value(OptionList& out, std::string name, float x) {
    out.push_back({std::move(name), fmt::format("{}", x)});
}
GX_DECL void add_value(OptionList& out, std::string name, double x) {
    out.push_back({std::move(name), fmt::format("{}", x)});
}
GX_DECL void add_value(OptionList& out, std::string name, std::int64_t x) {
    out.push_back({std::move(name), fmt::format("{}", x)});
}
GX_DECL void add_value(OptionList& out, std::string name, std::uint64_t x) {
    out.push_back({std::move(name), fmt::format("{}", x)});
}
GX_DECL void add_value(OptionList& out, std::string name, std::string_view x) {
    out.push_back({std::move(name), std::string(x)});
}

}  // namespace gx::detail::trainer
