// Tables of run records, as plain text.
#pragma once

#include <cstddef>      // size_t
#include <span>         // runs
#include <string>       // the text
#include <string_view>  // formats
#include <vector>       // runs

#include <gx/core/decl.hpp>          // GX_DECL
#include <gx/core/function_ref.hpp>  // FunctionRef
#include <gx/trainer/record.hpp>     // RunRecord

namespace gx {

namespace detail::table {

/// `x` by a format of fmt, or "unknown" for NaN.
[[nodiscard]] GX_DECL std::string known(double x, std::string_view form);
/// The result of a test; "-" for NaN: of a run without one.
[[nodiscard]] GX_DECL std::string tested(double x, std::string_view form);
/// "12.3 s"; below a second "31.3 ms" or "7.5 us".
[[nodiscard]] GX_DECL std::string time(double seconds);
/// With three decimals, small ones with two digits; "-" for none: machines without a price.
[[nodiscard]] GX_DECL std::string dollars(double x);
/// Of runs whose times are by it: its name and a space; nothing where they have several, or where
/// some are resumed by another.
[[nodiscard]] GX_DECL std::string clock_of(std::span<const RunRecord> runs);

/// Indices of runs; ascending.
using Group = std::vector<std::size_t>;
/// `of` in groups of equal keys, in the order in which the keys first appear.
[[nodiscard]] GX_DECL std::vector<Group> groups(const Group& of,
                                                FunctionRef<std::string(std::size_t)> key);
/// The indices of `count` runs.
[[nodiscard]] GX_DECL Group all(std::size_t count);
/// The name of each run: `given`, one for each run; where there are none, run_names(runs).
[[nodiscard]] GX_DECL std::vector<std::string> names_of(const std::vector<RunRecord>& runs,
                                                        const std::vector<std::string>& given);
/// Heading of the column with `names`.
[[nodiscard]] GX_DECL std::string_view heading_of(const std::vector<RunRecord>& runs,
                                                  const std::vector<std::string>& names);

}  // namespace detail::table

/// Table of epochs, one line each.
[[nodiscard]] GX_DECL std::string epoch_table(const RunRecord& r);

/// A name for each run, different from those of the others: the reducer's. Where several runs share
/// it, what differs is added: "Ring<fp32> on 8 ranks", else the model, scheduler, optimizer, batch,
/// epochs, seed, world, what is timed, device or composition; and where all of these are equal, the
/// run's number: "Ring<fp32>, run 2". Numbers count from 1 over all runs.
[[nodiscard]] GX_DECL std::vector<std::string> run_names(const std::vector<RunRecord>& runs);

/// Table of compositions, one line each; below it the runs' warnings.
/// Names: one for each run; none: run_names(runs). Another count breaks the contract.
[[nodiscard]] GX_DECL std::string comparison_table(const std::vector<RunRecord>& runs,
                                                   const std::vector<std::string>& names = {});

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/trainer/impl/table.ipp>
#endif
