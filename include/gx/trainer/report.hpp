// report.html: runs side by side on one page that loads nothing from the network.
#pragma once

#include <cstddef>     // size_t
#include <filesystem>  // path
#include <optional>    // an accuracy that is not reached
#include <string>      // the page
#include <utility>     // pair
#include <vector>      // runs

#include <gx/core/decl.hpp>       // GX_DECL
#include <gx/trainer/record.hpp>  // RunRecord

namespace gx {

namespace detail::report {

using Points = std::vector<std::pair<double, double>>;

/// Training loss in at most `most` points, each the mean of an equal number of steps.
[[nodiscard]] GX_DECL Points loss_curve(const RunRecord& r, bool by_time, std::size_t most = 160);
/// Test accuracy in about `most` points, of epochs at equal distances and the last.
[[nodiscard]] GX_DECL Points accuracy_curve(const RunRecord& r, bool by_time,
                                            std::size_t most = 160);
/// Learning rate in about `most` points, against steps; steps without an update are omitted.
[[nodiscard]] GX_DECL Points rate_curve(const RunRecord& r, std::size_t most = 160);
/// The highest four round accuracies, in percent, that one of the runs has reached; ascending.
[[nodiscard]] GX_DECL std::vector<double> round_accuracies(const std::vector<RunRecord>& runs);

}  // namespace detail::report

/// Bar chart of a mean step's time in ms, one bar for each run whose time is known. Time of steps
/// that a loss has undone counts, the steps do not.
/// Names: one for each run; none: run_names(runs). Another count breaks the contract.
[[nodiscard]] GX_DECL std::string breakdown_chart(const std::vector<RunRecord>& runs,
                                                  const std::vector<std::string>& names = {});

/// Seconds of training until the end of the first epoch whose test accuracy is at least `pct`; none
/// where no epoch has it.
[[nodiscard]] GX_DECL std::optional<double> seconds_to_accuracy(const RunRecord& r, double pct);

/// A file to follow from the page, as a timeline or a record.
struct ReportLink {
    std::string text{};
    std::filesystem::path file{};
};
/// What a page has beside its runs.
struct ReportPage {
    std::string title = "gx: compositions side by side";
    std::string command{};                         ///< that has made it
    std::vector<std::string> versions{};           ///< of what has made it, as versions() has them
    std::vector<std::vector<ReportLink>> links{};  ///< of each run; relative to the page's folder
    std::vector<std::string> names{};  ///< one for each run; none: run_names of table.hpp
};

/// "gx 0.1.0" and the compiler of this program.
[[nodiscard]] GX_DECL std::vector<std::string> versions();

/// Page for `runs`: what was trained and timed, table, warnings, loss and accuracy against steps
/// and time, time to accuracies, learning rate, breakdown, timeline, notes, and how it was made. It
/// loads nothing, fits narrow screens, and is dark where the reader's system is. A run has one
/// colour and one kind of line, and a part of a step has one colour.
///
/// A run has one name on the whole page. Model, ranks, batch, epochs, seed, world, clock and what
/// was timed stand there once for each group of runs that share them, with the names of the group.
/// Notes ("In force") that all runs have come first, then those of some runs, with their names.
/// Errors: a count of names that is neither 0 nor that of the runs breaks the contract.
[[nodiscard]] GX_DECL std::string report_html(const std::vector<RunRecord>& runs,
                                              const ReportPage& page = {});

/// Writes the page and returns its path; makes the folder. Links are made relative to it.
/// Errors: gx::Error naming the file; names as in report_html.
GX_DECL std::filesystem::path write_report(const std::filesystem::path& path,
                                           const std::vector<RunRecord>& runs,
                                           ReportPage page = {});

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/trainer/impl/report.ipp>
#endif
