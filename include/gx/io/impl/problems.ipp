// Sentences of errors, collected and joined.
#pragma once

#include <string>       // sentences
#include <string_view>  // titles
#include <utility>      // move

#include <gx/io/problems.hpp>  // the declarations

namespace gx {

GX_DECL bool Problems::check(bool good, std::string_view sentence) {
    if (!good) add(std::string(sentence));
    return good;
}

GX_DECL void Problems::add(std::string sentence) { sentences_.push_back(std::move(sentence)); }

GX_DECL std::string Problems::text(std::string_view title) const {
    std::string all = std::string(title) + ":";
    for (const std::string& sentence : sentences_) all += "\n  - " + sentence;
    return all;
}

GX_DECL void Problems::throw_if_any(std::string_view title) const {
    if (!empty()) throw Error(text(title));
}

}  // namespace gx
