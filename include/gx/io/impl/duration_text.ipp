// Body of duration_text.hpp.
#pragma once

#include <cstdint>  // uint64_t
#include <string>   // the text

#include <gx/io/duration_text.hpp>

namespace gx {

GX_DECL std::string duration_text(Nanoseconds t) {
    const std::int64_t count = t.count();
    const auto ns = count < 0 ? 0 - static_cast<std::uint64_t>(count)  // the least has no opposite
                              : static_cast<std::uint64_t>(count);
    std::uint64_t unit = 1'000'000'000;
    const char* name = " s";
    for (const char* const smaller : {" ms", " us", " ns"}) {
        if (ns >= unit) break;
        unit /= 1000;
        name = smaller;
    }
    std::string text = (count < 0 ? "-" : "") + std::to_string(ns / unit);
    if (ns % unit != 0) {
        std::string part = std::to_string(unit + ns % unit).substr(1);  // with its leading zeros
        part.erase(part.find_last_not_of('0') + 1);
        text += '.' + part;
    }
    return text + name;
}

}  // namespace gx
