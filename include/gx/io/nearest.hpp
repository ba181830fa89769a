// nearest_name: the known name nearest to a typed one, "did you mean 'batch'?".
#pragma once

#include <cstddef>      // size_t
#include <span>         // the known names
#include <string>       // the sentence
#include <string_view>  // names

#include <gx/core/decl.hpp>  // GX_DECL

namespace gx {

/// Returns the edit distance: fewest insertions, deletions, changes and swaps of neighbours that
/// make `a` into `b`, no letter edited twice. Case is ignored, and '-' equals '_'.
/// Source: Boytsov 2011, "Indexing methods for approximate dictionary searching", section 2.2
///         (optimal string alignment).
[[nodiscard]] GX_DECL std::size_t edit_distance(std::string_view a, std::string_view b);

/// Returns the known name nearest to `typed`, the first of several; empty if more than a third of
/// the longer name would have to change.
[[nodiscard]] GX_DECL std::string_view nearest_name(std::string_view typed,
                                                    std::span<const std::string_view> known);

/// Returns the one known name whose first words are `typed`, as "p5" of "p5.48xlarge"; else
/// nearest_name(); else the one that begins with `typed`, or that `typed` begins with, by at least
/// two letters behind dashes. Empty if there are none, or several of the last.
[[nodiscard]] GX_DECL std::string_view suggested_name(std::string_view typed,
                                                      std::span<const std::string_view> known);

/// "known are batch, epochs", or "none is known here".
[[nodiscard]] GX_DECL std::string known_names(std::span<const std::string_view> known);

/// "unknown option 'bacth': did you mean 'batch'?", or the list of known names where none is near.
[[nodiscard]] GX_DECL std::string unknown_name(std::string_view what, std::string_view typed,
                                               std::span<const std::string_view> known);

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/io/impl/nearest.ipp>
#endif
