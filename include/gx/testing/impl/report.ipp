// ConformanceReport: keeping violations and writing them out.
#pragma once

#include <algorithm>  // any_of, count_if
#include <utility>    // move

#include <gx/testing/report.hpp>

namespace gx::testing {

GX_DECL void ConformanceReport::add(std::string_view check, std::string sentence) {
    ++found;
    const auto kept = std::count_if(violations.begin(), violations.end(),
                                    [&](const Violation& v) { return v.check == check; });
    if (kept < kept_per_check) violations.push_back({std::string(check), std::move(sentence)});
}

GX_DECL void ConformanceReport::skip(std::string_view check, std::string reason) {
    skipped.push_back({std::string(check), std::move(reason)});
}

GX_DECL bool ConformanceReport::rejected_by(std::string_view check) const {
    return std::any_of(violations.begin(), violations.end(),
                       [&](const Violation& v) { return v.check == check; });
}

GX_DECL std::string ConformanceReport::text() const {
    std::string lines;
    for (const Violation& v : violations) lines += v.check + ": " + v.sentence + "\n";
    return lines;
}

GX_DECL std::string ConformanceReport::summary() const {
    return std::to_string(reductions) + " reductions, " + std::to_string(values) +
           " values compared, " + std::to_string(messages) + " messages, " + std::to_string(found) +
           " violations";
}

}  // namespace gx::testing
