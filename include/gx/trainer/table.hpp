// Tables of run records, as plain text.
#pragma once

#include <string>       // the text
#include <string_view>  // formats
#include <vector>       // runs

#include <gx/core/decl.hpp>       // GX_DECL
#include <gx/trainer/record.hpp>  // RunRecord

namespace gx {

namespace detail::table {

/// `x` by a format of fmt, or "unknown" for NaN.
[[nodiscard]] GX_DECL std::string known(double x, std::string_view form);
/// With three decimals; "-" for none: machines without a price.
[[nodiscard]] GX_DECL std::string dollars(double x);

}  // namespace detail::table

/// Table of epochs, one line each.
[[nodiscard]] GX_DECL std::string epoch_table(const RunRecord& r);

/// Table of compositions, one line each; below it the runs' warnings.
[[nodiscard]] GX_DECL std::string comparison_table(const std::vector<RunRecord>& runs);

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/trainer/impl/table.ipp>
#endif
