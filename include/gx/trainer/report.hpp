// report.html: runs side by side on one page that loads nothing from the network.
#pragma once

#include <cstddef>      // size_t
#include <filesystem>   // path
#include <string>       // the page
#include <string_view>  // title
#include <utility>      // pair
#include <vector>       // runs

#include <gx/core/decl.hpp>       // GX_DECL
#include <gx/trainer/record.hpp>  // RunRecord

namespace gx {

namespace detail::report {

using Points = std::vector<std::pair<double, double>>;

/// Training loss in at most `most` points, each the mean of an equal number of steps.
[[nodiscard]] GX_DECL Points loss_curve(const RunRecord& r, bool by_time, std::size_t most = 160);

}  // namespace detail::report

/// Bar chart of a mean step's time in ms, one bar for each run whose time is known.
[[nodiscard]] GX_DECL std::string breakdown_chart(const std::vector<RunRecord>& runs);

/// Page for `runs`: table, warnings, loss and accuracy against steps and time, breakdown, timeline.
[[nodiscard]] GX_DECL std::string report_html(const std::vector<RunRecord>& runs,
                                              std::string_view title);

/// Writes the page and returns its path; makes the folder.
/// Errors: gx::Error naming the file.
GX_DECL std::filesystem::path write_report(
    const std::filesystem::path& path, const std::vector<RunRecord>& runs,
    std::string_view title = "gx: compositions side by side");

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/trainer/impl/report.ipp>
#endif
