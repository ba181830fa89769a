// to_json: a run record as JSON text; units in the field names.
#pragma once

#include <string>  // text

#include <gx/core/decl.hpp>       // GX_DECL
#include <gx/trainer/record.hpp>  // RunRecord

namespace gx {

/// Returns all of the record except the timeline, which is a trace of its own; `indent` 0: one
/// line. Keys are the members' names, with the unit where the name has none; all are always there.
/// Hashes are texts of 16 hexadecimal digits: readers that keep numbers as doubles would round
/// them.
[[nodiscard]] GX_DECL std::string to_json(const RunRecord& r, int indent = 1);

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/trainer/impl/json.ipp>
#endif
