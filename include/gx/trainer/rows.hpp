// rows_text, read_rows: steps, epochs and breakdown of a run record as JSON text.
#pragma once

#include <string>       // text
#include <string_view>  // text

#include <gx/core/decl.hpp>       // GX_DECL
#include <gx/trainer/record.hpp>  // RunRecord

namespace gx {

/// Returns steps, epochs and breakdown as JSON: what a checkpoint keeps of a record. Keys are the
/// members' names, with the unit where the name has none.
[[nodiscard]] GX_DECL std::string rows_text(const RunRecord& r);

/// Reads what rows_text wrote and replaces the same parts of `r`.
/// Errors: JsonError for a text that is not JSON, or a missing field; `r` is then untouched.
GX_DECL void read_rows(std::string_view text, RunRecord& r);

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/trainer/impl/rows.ipp>
#endif
