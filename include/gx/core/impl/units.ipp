// Error texts of the checked conversions in units.hpp.
#pragma once

#include <cstdio>  // snprintf
#include <string>  // the sentence

#include <gx/core/error.hpp>  // Error
#include <gx/core/units.hpp>  // the declarations

namespace gx::detail::units {

GX_DECL void refuse(double x, double least, double most, const char* quantity, const char* unit,
                    const char* kind) {
    const auto shown = [](double number, const char* of) {
        char text[96];
        std::snprintf(text, sizeof text, "%.12g%s%s", number, *of != '\0' ? " " : "", of);
        return std::string(text);
    };
    throw Error(std::string(quantity) + " is " + shown(x, unit) + ": expected " + kind + " from " +
                shown(least, "") + " to " + shown(most, unit) + ".");
}

}  // namespace gx::detail::units
