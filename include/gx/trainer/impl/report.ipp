// Bodies of report.hpp.
#pragma once

#include <algorithm>     // max
#include <array>         // tracks
#include <cmath>         // isnan
#include <system_error>  // error_code

#include <fmt/core.h>  // numbers

#include <gx/io/atomic_file.hpp>     // write_file
#include <gx/report/chart.hpp>       // lines, bars
#include <gx/trainer/link_load.hpp>  // link_strip
#include <gx/trainer/report.hpp>
#include <gx/trainer/table.hpp>  // known

namespace gx {

namespace detail::report {

GX_DECL Points loss_curve(const RunRecord& r, bool by_time, std::size_t most) {
    Points out;
    const std::size_t run = (r.steps.size() + most - 1) / most;
    for (std::size_t i = 0; run > 0 && i < r.steps.size(); i += run) {
        const std::size_t end = std::min(i + run, r.steps.size());
        double loss = 0;
        for (std::size_t j = i; j < end; ++j) loss += r.steps[j].loss;
        const StepRow& last = r.steps[end - 1];
        out.emplace_back(by_time ? last.seconds : double(last.step + 1), loss / double(end - i));
    }
    return out;
}
GX_DECL Points accuracy_curve(const RunRecord& r, bool by_time) {
    Points out;
    for (const EpochRow& e : r.epochs)
        out.emplace_back(by_time ? e.seconds : double(e.step), e.test_accuracy_pct);
    return out;
}

GX_DECL std::string table(const std::vector<RunRecord>& runs) {
    std::string html =
        "<table><tr><th>Reducer<th>Test accuracy<th>Top-5<th>Time<th>Images/s<th>Scaling efficiency"
        "<th>Exposed communication<th>Sent per step<th>Dollars<th>Skipped steps</tr>\n";
    for (const RunRecord& r : runs)
        html += fmt::format(
            "<tr><td>{}<td>{:.2f} %{}<td>{:.2f} %<td>{}<td>{}<td>{}<td>{}<td>{:.2f} "
            "MB<td>{}<td>{}</tr>\n",
            chart::escaped(r.reducer), r.test_accuracy_pct(), r.at_chance ? " (chance)" : "",
            r.test_top5_accuracy_pct(), table::known(r.seconds, "{:.1f} s"),
            table::known(r.images_per_second, "{:.0f}"),
            table::known(r.scaling_efficiency_pct, "{:.1f} %"),
            table::known(r.exposed_communication_pct, "{:.1f} %"),
            double(r.bytes_sent_per_step) / 1e6, table::known(r.dollars, "{:.3f}"),
            r.skipped_steps);
    return html + "</table>\n";
}

/// A phase of a step or a reduction; not one of the kernels or messages in it.
GX_DECL bool is_phase(const Span& s) {
    if (s.track != Track::compute) return s.track == Track::communication;
    for (const char* phase : {"FORWARD", "BACKWARD", "UPDATE", "INPUT", "WAIT_FOR_ALLREDUCE"})
        if (s.name.view() == phase) return true;
    return false;
}

/// The last traced step and a half of rank 0, one strip a track.
GX_DECL std::string timeline(const RunRecord& r, double shown_ms) {
    std::int64_t end = 0;
    for (const Span& s : r.spans)
        if (s.rank == 0 && s.track == Track::compute)
            end = std::max<std::int64_t>(end, s.end.count());
    if (end == 0) return "";
    const double begin = double(end) - shown_ms * 1e6;
    constexpr double width = 980, left = 100;
    const double scale = (width - left - 8) / (shown_ms * 1e6);
    std::string svg = fmt::format(
        "<svg viewBox=\"0 0 {} 74\" role=\"img\" aria-label=\"timeline\"><text class=\"t\" x=\"0\" "
        "y=\"12\">{}</text>\n",
        width, chart::escaped(r.reducer));
    constexpr std::array tracks{"compute", "communication"};
    for (std::size_t t = 0; t < tracks.size(); ++t)
        svg +=
            fmt::format("<text class=\"l\" x=\"0\" y=\"{}\">{}</text>\n", 33 + 24 * t, tracks[t]);
    for (const Span& s : r.spans) {
        if (s.rank != 0 || !is_phase(s) || double(s.end.count()) < begin) continue;
        const bool waits = s.name.view().starts_with("WAIT");
        const double from = std::max(0.0, double(s.begin.count()) - begin),
                     to = double(s.end.count()) - begin;
        const bool communicates = s.track == Track::communication;
        svg += fmt::format(
            "<rect x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"16\" fill=\"{}\"><title>{} "
            "{:.3f} ms</title></rect>\n",
            left + from * scale, communicates ? 44 : 20, std::max(0.4, (to - from) * scale - 0.4),
            waits ? "#ddd"
                  : chart::colour(communicates                  ? 1
                                  : s.name.view() == "BACKWARD" ? 4
                                                                : 0),
            chart::escaped(s.name.view()), seconds(s.end - s.begin) * 1e3);
    }
    svg += "</svg>\n";
    return svg + link_strip(r.link_rates, Nanoseconds(std::int64_t(std::max(0.0, begin))),
                            Nanoseconds(end), left, width - 8);
}

}  // namespace detail::report

GX_DECL std::string breakdown_chart(const std::vector<RunRecord>& runs) {
    std::vector<chart::Bar> rows;
    for (const RunRecord& r : runs) {
        if (std::isnan(r.seconds)) continue;
        const double steps = r.steps.empty() ? 1.0 : double(r.steps.size());
        const Breakdown& b = r.breakdown;
        rows.push_back({r.reducer,
                        {1e3 * b.compute / steps, 1e3 * b.exposed_communication / steps,
                         1e3 * b.input / steps, 1e3 * b.idle / steps}});
    }
    return chart::bars("Where a step's time goes (rank 0, mean over the run)", "ms",
                       {"compute", "exposed communication", "input", "idle"}, rows);
}

GX_DECL std::string report_html(const std::vector<RunRecord>& runs, std::string_view title) {
    using namespace detail::report;
    std::string html = fmt::format(
        "<!doctype html><html lang=\"en\"><meta "
        "charset=\"utf-8\"><title>{0}</title><style>{1}</style>"
        "<h1>{0}</h1>\n",
        chart::escaped(title), chart::page_style);
    if (runs.empty()) return html + "<p>No runs.</p></html>\n";
    const RunRecord& first = runs.front();
    html += fmt::format(
        "<p>{} trained on {} ranks, {} images a rank and step, {} epochs, seed {}. World: {}; "
        "clock: {}.</p>\n",
        chart::escaped(first.model), first.ranks, first.batch_per_rank, first.epochs_planned,
        first.seed, chart::escaped(first.world), chart::escaped(first.clock));
    if (!first.timed_as.empty())
        html += fmt::format(
            "<p class=\"note\"><b>Timed as:</b> {}. Accuracy is that of the network that was "
            "trained; time, "
            "images per second, bytes and dollars are those of the one that was timed.</p>\n",
            chart::escaped(first.timed_as));
    html += "<p class=\"key\">";
    for (std::size_t i = 0; i < runs.size(); ++i)
        html += fmt::format("<span><i style=\"background:{}\"></i>{}</span>", chart::colour(i),
                            chart::escaped(runs[i].reducer));
    html += "</p>\n" + table(runs);
    for (const RunRecord& r : runs)
        for (const std::string& warning : r.warnings)
            html += "<p class=\"note\"><b>Warning:</b> " + chart::escaped(r.reducer) + ": " +
                    chart::escaped(warning) + "</p>\n";
    html += "<h2>Learning</h2><div class=\"grid\">\n";
    for (const bool by_time : {false, true}) {
        std::vector<chart::Series> loss, accuracy;
        for (const RunRecord& r : runs) {
            loss.push_back({r.reducer, loss_curve(r, by_time), false});
            accuracy.push_back({r.reducer, accuracy_curve(r, by_time), true});
        }
        const std::string x = by_time ? first.clock + " time, s" : "steps";
        html += chart::lines("Training loss against " + std::string(by_time ? "time" : "steps"), x,
                             "nats", loss);
        html += chart::lines("Test accuracy against " + std::string(by_time ? "time" : "steps"), x,
                             "%", accuracy);
    }
    html += "</div><h2>Time</h2>\n" + breakdown_chart(runs);
    double shown_ms = 0;  // one scale for all: the longest mean step, and a half
    for (const RunRecord& r : runs)
        if (!r.steps.empty())
            shown_ms = std::max(shown_ms, 1.5e3 * r.seconds / double(r.steps.size()));
    html += fmt::format(
        "<p>The last {:.0f} ms of the first epoch, rank 0: forward, <span "
        "style=\"color:{}\">backward</span>, "
        "update; waiting in grey; where the network is simulated, the load of its first NIC.</p>\n",
        shown_ms, chart::colour(4));
    for (const RunRecord& r : runs) html += timeline(r, shown_ms);
    html += "<h2>In force</h2><ul>\n";
    for (const std::string& note : first.notes) html += "<li>" + chart::escaped(note) + "</li>\n";
    return html + "</ul></html>\n";
}

GX_DECL std::filesystem::path write_report(const std::filesystem::path& path,
                                           const std::vector<RunRecord>& runs,
                                           std::string_view title) {
    std::error_code ignored;  // write_file names a file in a folder that can't be made
    if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), ignored);
    write_file(path, report_html(runs, title));
    return path;
}

}  // namespace gx
