// Edit distances, and the sentences about unknown names.
#pragma once

#include <algorithm>  // equal, min, max
#include <utility>    // pair
#include <vector>     // rows of the distance table

#include <gx/io/nearest.hpp>  // nearest_name

namespace gx {

namespace detail::nearest {

/// As names are compared: in lower case, with '_' for '-'.
constexpr char letter(char c) {
    if (c == '-') return '_';
    return 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

/// Whether one of the names begins with the other, by at least two letters behind dashes.
constexpr bool one_begins_with_the_other(std::string_view a, std::string_view b) {
    const auto [shorter, longer] = a.size() < b.size() ? std::pair(a, b) : std::pair(b, a);
    const std::size_t dashes = std::min(shorter.find_first_not_of('-'), shorter.size());
    if (shorter.size() < dashes + 2) return false;
    return std::equal(shorter.begin(), shorter.end(), longer.begin(),
                      [](char x, char y) { return letter(x) == letter(y); });
}

}  // namespace detail::nearest

GX_DECL std::size_t edit_distance(std::string_view a, std::string_view b) {
    using detail::nearest::letter;
    const std::size_t width = b.size() + 1;
    std::vector<std::size_t> before(width), above(width), row(width);  // rows i - 2, i - 1, i
    for (std::size_t j = 0; j < width; ++j) above[j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        row[0] = i;
        for (std::size_t j = 1; j < width; ++j) {
            const bool same = letter(a[i - 1]) == letter(b[j - 1]);
            row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (same ? 0 : 1)});
            const bool swapped = i > 1 && j > 1 && letter(a[i - 1]) == letter(b[j - 2]) &&
                                 letter(a[i - 2]) == letter(b[j - 1]);
            if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
        }
        before.swap(above);
        above.swap(row);
    }
    return above[b.size()];
}

GX_DECL std::string_view nearest_name(std::string_view typed,
                                      std::span<const std::string_view> known) {
    std::string_view best;
    std::size_t least = 0;
    for (const std::string_view name : known) {
        const std::size_t distance = edit_distance(typed, name);
        if (3 * distance > std::max(typed.size(), name.size())) continue;
        if (!best.empty() && distance >= least) continue;
        best = name;
        least = distance;
    }
    return best;
}

GX_DECL std::string_view suggested_name(std::string_view typed,
                                        std::span<const std::string_view> known) {
    namespace d = detail::nearest;
    const auto only = [&](auto holds) {
        std::string_view found;
        for (const std::string_view name : known) {
            if (!holds(name)) continue;
            if (!found.empty()) return std::string_view{};  // one of several is a guess
            found = name;
        }
        return found;
    };
    const std::string_view of_words = only([&](std::string_view name) {
        return name.size() > typed.size() && d::one_begins_with_the_other(typed, name) &&
               (name[typed.size()] == '.' || d::letter(name[typed.size()]) == '_');
    });
    if (!of_words.empty()) return of_words;
    const std::string_view nearest = nearest_name(typed, known);
    if (!nearest.empty()) return nearest;
    return only([&](std::string_view name) { return d::one_begins_with_the_other(typed, name); });
}

GX_DECL std::string known_names(std::span<const std::string_view> known) {
    if (known.empty()) return "none is known here";
    std::string sentence = "known are ";
    for (std::size_t i = 0; i < known.size(); ++i) {
        if (i > 0) sentence += ", ";
        sentence += known[i];
    }
    return sentence;
}

GX_DECL std::string unknown_name(std::string_view what, std::string_view typed,
                                 std::span<const std::string_view> known) {
    std::string sentence = "unknown " + std::string(what) + " '" + std::string(typed) + "': ";
    if (const std::string_view near = suggested_name(typed, known); !near.empty())
        return sentence + "did you mean '" + std::string(near) + "'?";
    return sentence + known_names(known);
}

}  // namespace gx
