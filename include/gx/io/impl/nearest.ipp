// Edit distances, and the sentences about unknown names.
#pragma once

#include <algorithm>  // min, max
#include <vector>     // rows of the distance table

#include <gx/io/nearest.hpp>  // nearest_name

namespace gx {

GX_DECL std::size_t edit_distance(std::string_view a, std::string_view b) {
    const auto letter = [](char c) {
        if (c == '-') return '_';
        return 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    };
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

GX_DECL std::string unknown_name(std::string_view what, std::string_view typed,
                                 std::span<const std::string_view> known) {
    std::string sentence = "unknown " + std::string(what) + " '" + std::string(typed) + "': ";
    if (const std::string_view near = nearest_name(typed, known); !near.empty())
        return sentence + "did you mean '" + std::string(near) + "'?";
    if (known.empty()) return sentence + "none is known here";
    sentence += "known are ";
    for (std::size_t i = 0; i < known.size(); ++i) {
        if (i > 0) sentence += ", ";
        sentence += known[i];
    }
    return sentence;
}

}  // namespace gx
