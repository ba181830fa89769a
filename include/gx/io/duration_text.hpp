// duration_text: a time for readers.
#pragma once

#include <string>  // the text

#include <gx/core/decl.hpp>   // GX_DECL
#include <gx/core/units.hpp>  // Nanoseconds

namespace gx {

/// Returns `t` in the largest of s, ms, us and ns not above it. It has all its digits: "8 ms",
/// "2.01 ms", "600 s", "0 ns". Exact: equal texts are equal times.
[[nodiscard]] GX_DECL std::string duration_text(Nanoseconds t);

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/io/impl/duration_text.ipp>
#endif
