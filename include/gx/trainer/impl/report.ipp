// Bodies of report.hpp.
#pragma once

#include <algorithm>     // max, min
#include <array>         // tracks
#include <cmath>         // isnan
#include <system_error>  // error_code
#include <utility>       // pair

#include <fmt/core.h>  // numbers

#include <gx/io/atomic_file.hpp>     // write_file
#include <gx/report/chart.hpp>       // lines, bars
#include <gx/report/version.hpp>     // version
#include <gx/trainer/link_load.hpp>  // link_strip
#include <gx/trainer/report.hpp>
#include <gx/trainer/table.hpp>  // groups, known, names_of

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
GX_DECL Points accuracy_curve(const RunRecord& r, bool by_time, std::size_t most) {
    Points out;
    const std::size_t every = (r.epochs.size() + most - 1) / most;
    for (std::size_t i = 0; i < r.epochs.size(); ++i) {
        const EpochRow& e = r.epochs[i];
        if (i % every == 0 || i + 1 == r.epochs.size())
            out.emplace_back(by_time ? e.seconds : double(e.step), e.test_accuracy_pct);
    }
    return out;
}

GX_DECL Points rate_curve(const RunRecord& r, std::size_t most) {
    Points out;
    const std::size_t every = std::max<std::size_t>(1, r.steps.size() / most);
    for (std::size_t i = 0; i < r.steps.size(); ++i) {
        const bool shown = i % every == 0 || i + 1 == r.steps.size();
        if (shown && r.steps[i].rate > 0)
            out.emplace_back(double(r.steps[i].step), r.steps[i].rate);
    }
    return out;
}
GX_DECL std::vector<double> round_accuracies(const std::vector<RunRecord>& runs) {
    double least = 100, most = 0;
    for (const RunRecord& r : runs)
        for (const EpochRow& e : r.epochs) {
            least = std::min(least, e.test_accuracy_pct);
            most = std::max(most, e.test_accuracy_pct);
        }
    if (!(most > 0)) return {};  // none has tested
    std::vector<double> out = chart::ticks(std::max(std::min(least, most - 4), most - 20), most, 5);
    if (out.size() > 4) out.erase(out.begin(), out.end() - 4);
    return out;
}

/// A file's name in a link: characters with a meaning there are escaped.
GX_DECL std::string href(const std::filesystem::path& file) {
    std::string out;
    for (const char c : file.generic_string()) {
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                           (c >= '0' && c <= '9') ||
                           std::string_view("-._~/").find(c) != std::string_view::npos;
        if (plain) out += c;
        else out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
    return out;
}

using Names = std::vector<std::string>;

/// "A, B: " where `group` is some of the runs; nothing where it is all of them.
GX_DECL std::string of_runs(const table::Group& group, const Names& names) {
    if (group.size() == names.size()) return "";
    std::string html;
    for (const std::size_t i : group)
        html += (html.empty() ? "<b>" : ", <b>") + chart::escaped(names[i]) + "</b>";
    return html + ": ";
}

/// The line of run i in the legend.
GX_DECL std::string swatch(std::size_t i) {
    const std::string_view colour = chart::colour(i);
    const std::string_view dashes = chart::dashes(i);
    if (dashes.empty()) return fmt::format("<i style=\"background:{}\"></i>", colour);
    return fmt::format(
        "<svg viewBox=\"0 0 24 8\" style=\"width:24px\"><line x2=\"24\" y1=\"4\" y2=\"4\" "
        "stroke=\"{}\" stroke-width=\"4\" stroke-dasharray=\"{}\"/></svg> ",
        colour, dashes);
}

/// Schedule and optimizer, once for each group of runs that share them.
GX_DECL std::string schedules(const std::vector<RunRecord>& runs, const Names& names) {
    const auto schedule = [&](std::size_t i) {
        const RunRecord& r = runs[i];
        const bool named = names[i].find(r.reducer) != std::string::npos;
        return (named ? "" : "reducer " + chart::escaped(r.reducer) + ", ") + "schedule " +
               chart::escaped(r.scheduler) + ", optimizer " + chart::escaped(r.optimizer) + ".";
    };
    std::string html;
    for (const table::Group& group : table::groups(table::all(runs.size()), schedule)) {
        const bool all = group.size() == runs.size();
        html += (!all               ? of_runs(group, names)
                 : group.size() > 1 ? std::string("<b>All runs</b>: ")
                                    : "<b>" + chart::escaped(names.front()) + "</b>: ") +
                schedule(group.front()) + "<br>";
    }
    return html;
}

/// Title of the column with the runs' names.
GX_DECL std::string title_of(const std::vector<RunRecord>& runs, const Names& names) {
    return table::heading_of(runs, names) == "run" ? "Run" : "Reducer";
}

/// What was trained where, once for each group of runs of which it is true; then what was timed.
GX_DECL std::string introduction(const std::vector<RunRecord>& runs, const Names& names) {
    const table::Group all = table::all(runs.size());
    const auto trained = [&](std::size_t i) {
        const RunRecord& r = runs[i];
        return fmt::format(
            "{} trained on {} ranks, {} images a rank and step, epochs: {}, seed {}. World: {}; "
            "clock: {}.",
            chart::escaped(r.model), r.ranks, r.batch_per_rank, r.epochs_planned, r.seed,
            chart::escaped(r.world), chart::escaped(r.clock));
    };
    std::string html, timed;
    for (const table::Group& group : table::groups(all, trained))
        html += "<p>" + of_runs(group, names) + trained(group.front()) + "</p>\n";
    for (const auto& group : table::groups(all, [&](std::size_t i) { return runs[i].timed_as; }))
        if (const std::string& as = runs[group.front()].timed_as; !as.empty())
            timed += of_runs(group, names) + "<b>Timed as:</b> " + chart::escaped(as) + ".\n";
    if (timed.empty()) return html;
    return html + "<p class=\"note\">" + timed +
           "Accuracy is that of the network that was trained; time, images per second, bytes and "
           "dollars are those of the one that was timed.</p>\n";
}

/// The notes of all runs, then those of some, by the runs that they are of; in the order in which
/// they first appear.
GX_DECL std::string in_force(const std::vector<RunRecord>& runs, const Names& names) {
    Names notes;
    std::vector<table::Group> of;  // the runs of each note
    for (std::size_t i = 0; i < runs.size(); ++i)
        for (const std::string& note : runs[i].notes) {
            const auto at = std::size_t(std::ranges::find(notes, note) - notes.begin());
            if (at == notes.size()) {
                notes.push_back(note);
                of.emplace_back();
            }
            if (of[at].empty() || of[at].back() != i) of[at].push_back(i);
        }
    if (notes.empty()) return "";
    std::string html = "<h2>In force</h2><ul>\n", some;
    const auto runs_of = [&](std::size_t note) { return of_runs(of[note], names); };
    for (const table::Group& equal : table::groups(table::all(notes.size()), runs_of)) {
        const std::string whose = runs_of(equal.front());
        std::string list;
        for (const std::size_t i : equal) list += "<li>" + chart::escaped(notes[i]) + "</li>\n";
        if (whose.empty()) html += list;
        else some += "<li>" + whose + "<ul>\n" + list + "</ul></li>\n";
    }
    return html + some + "</ul>\n";
}

GX_DECL std::string accuracy_table(const std::vector<RunRecord>& runs, const Names& names) {
    const std::vector<double> accuracies = round_accuracies(runs);
    if (accuracies.empty()) return "";
    std::string html =
        "<h2>Time to accuracy</h2><div class=\"scroll\"><table><tr><th>" + title_of(runs, names);
    for (const double a : accuracies) html += fmt::format("<th>{:g} %", a);
    html += "</tr>\n";
    for (std::size_t i = 0; i < runs.size(); ++i) {
        html += "<tr><td>" + chart::escaped(names[i]);
        for (const double a : accuracies) {
            const auto seconds = seconds_to_accuracy(runs[i], a);
            html += "<td>" + (seconds ? table::time(*seconds) : "not reached");
        }
        html += "</tr>\n";
    }
    html +=
        "</table></div>\n<p class=\"note\">Runs are tested at the ends of epochs: a time is that "
        "of the first test with the accuracy.</p>\n";
    const auto sources = [&](std::size_t i) {
        const RunRecord& r = runs[i];
        if (r.timed_as.empty()) return std::string();
        return fmt::format("Accuracies of {}, seconds of {}.", chart::escaped(r.model),
                           chart::escaped(r.timed_as));
    };
    for (const table::Group& group : table::groups(table::all(runs.size()), sources))
        if (const std::string text = sources(group.front()); !text.empty())
            html += "<p class=\"note\">" + of_runs(group, names) + text + "</p>\n";
    return html;
}

/// "2.50 MB"; below 100 kB "1.44 kB".
GX_DECL std::string bytes(std::int64_t count) {
    return count >= 100'000 ? fmt::format("{:.2f} MB", double(count) / 1e6)
                            : fmt::format("{:.2f} kB", double(count) / 1e3);
}

GX_DECL std::string summary(const std::vector<RunRecord>& runs, const Names& names) {
    std::string html =
        "<div class=\"scroll\"><table><tr><th>" + title_of(runs, names) +
        "<th>Test accuracy<th>Top-5<th>Time"
        "<th>Images/s<th>Scaling efficiency"
        "<th>Exposed communication<th>Sent per step<th>Dollars<th>Skipped steps</tr>\n";
    for (std::size_t i = 0; i < runs.size(); ++i) {
        const RunRecord& r = runs[i];
        html += fmt::format(
            "<tr><td>{}<td>{}{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}</tr>\n",
            chart::escaped(names[i]), table::tested(r.test_accuracy_pct(), "{:.2f} %"),
            r.at_chance ? " (chance)" : "", table::tested(r.test_top5_accuracy_pct(), "{:.2f} %"),
            table::time(r.seconds), table::known(r.images_per_second, "{:.0f}"),
            table::known(r.scaling_efficiency_pct, "{:.1f} %"),
            table::known(r.exposed_communication_pct, "{:.1f} %"), bytes(r.bytes_sent_per_step),
            table::dollars(r.dollars), r.skipped_steps);
    }
    return html + "</table></div>\n";
}

/// A phase of a step or a reduction; not one of the kernels or messages in it.
GX_DECL bool is_phase(const Span& s) {
    if (s.track != Track::compute) return s.track == Track::communication;
    for (const char* phase : {"FORWARD", "BACKWARD", "UPDATE", "INPUT", "WAIT_FOR_ALLREDUCE"})
        if (s.name.view() == phase) return true;
    return false;
}

GX_DECL chart::Part part_of(const Span& s) {
    using chart::Part;
    if (s.track == Track::communication) return Part::communication;
    if (s.name.view().starts_with("WAIT")) return Part::waiting;
    if (s.name.view() == "BACKWARD") return Part::backward;
    if (s.name.view() == "UPDATE") return Part::update;
    return s.name.view() == "INPUT" ? Part::input : Part::forward;
}

/// From the end of rank 0's first update in that time to that of its last one; all of the time
/// where it has no two.
GX_COLD GX_DECL std::pair<Nanoseconds, Nanoseconds> whole_steps(const RunRecord& r,
                                                                Nanoseconds begin,
                                                                Nanoseconds end) {
    Nanoseconds first = end, last = begin;
    for (const Span& s : r.spans) {
        if (s.rank != 0 || s.track != Track::compute || s.name.view() != "UPDATE") continue;
        if (s.end < begin || s.end > end) continue;
        first = std::min(first, s.end);
        last = std::max(last, s.end);
    }
    return first < last ? std::pair(first, last) : std::pair(begin, end);
}

/// The last traced step and a half of rank 0, one strip a track, above an axis of time.
GX_DECL std::string timeline(const RunRecord& r, std::string_view name, double shown_ms) {
    std::int64_t end = 0;
    for (const Span& s : r.spans)
        if (s.rank == 0 && s.track == Track::compute)
            end = std::max<std::int64_t>(end, s.end.count());
    if (end == 0) return "";
    const double begin = double(end) - shown_ms * 1e6;
    constexpr double width = 980, left = 100, bottom = 64;
    const double scale = (width - left - 8) / (shown_ms * 1e6);
    std::string svg = fmt::format(
        "<div class=\"scroll\"><svg viewBox=\"0 0 {} 96\" role=\"img\" "
        "aria-label=\"timeline\"><text class=\"t\" x=\"0\" y=\"12\">{}</text>\n",
        width, chart::escaped(name));
    for (const double ms : chart::ticks(0, shown_ms, 8))
        svg += fmt::format(
            "<line class=\"g\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"18\" y2=\"{1}\"/><text "
            "class=\"x\" x=\"{0:.1f}\" y=\"{2}\">{3:g}</text>\n",
            left + ms * 1e6 * scale, bottom, bottom + 13, ms);
    svg += fmt::format("<text class=\"x\" x=\"{:.0f}\" y=\"{}\">ms</text>\n",
                       left + (width - left) / 2, bottom + 28);
    constexpr std::array tracks{"compute", "communication"};
    for (std::size_t t = 0; t < tracks.size(); ++t)
        svg +=
            fmt::format("<text class=\"l\" x=\"0\" y=\"{}\">{}</text>\n", 33 + 24 * t, tracks[t]);
    for (const Span& s : r.spans) {
        if (s.rank != 0 || !is_phase(s) || double(s.end.count()) < begin) continue;
        const double from = std::max(0.0, double(s.begin.count()) - begin),
                     to = double(s.end.count()) - begin;
        svg += fmt::format(
            "<rect x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"16\" fill=\"{}\"><title>{} "
            "{:.3f} ms</title></rect>\n",
            left + from * scale, s.track == Track::communication ? 44 : 20,
            std::max(0.4, (to - from) * scale - 0.4), chart::colour(part_of(s)),
            chart::escaped(s.name.view()), seconds(s.end - s.begin) * 1e3);
    }
    svg += "</svg>\n";
    const Nanoseconds from(std::int64_t(std::max(0.0, begin))), to(end);
    const auto [first, last] = whole_steps(r, from, to);
    return svg + link_strip(r.link_rates, from, to, first, last, left, width - 8) + "</div>\n";
}

/// Those that its times are of: earlier parts' rows may be gone.
GX_COLD GX_DECL double steps_made(const RunRecord& r) {
    const std::int64_t last = r.epochs.empty() ? 0 : r.epochs.back().step;
    return double(std::max({std::int64_t{1}, last, std::ssize(r.steps)}));
}

/// Of rank 0's traced steps; of the whole run where it has no two traced updates.
GX_COLD GX_DECL double step_ms(const RunRecord& r) {
    Nanoseconds first = Nanoseconds::max(), last{};
    int updates = 0;
    for (const Span& s : r.spans)
        if (s.rank == 0 && s.track == Track::compute && s.name.view() == "UPDATE") {
            first = std::min(first, s.end);
            last = std::max(last, s.end);
            ++updates;
        }
    if (updates > 1) return 1e3 * seconds(last - first) / (updates - 1);
    return r.steps.empty() ? 0 : 1e3 * r.seconds / steps_made(r);
}

/// All timelines on one scale: the longest step, and a half. Nothing where none was traced, as in a
/// run that is resumed behind its first epoch.
GX_DECL std::string timelines(const std::vector<RunRecord>& runs, const Names& names) {
    double shown_ms = 0;
    for (const RunRecord& r : runs)
        if (const double ms = 1.5 * step_ms(r); !r.spans.empty() && ms > shown_ms) shown_ms = ms;
    std::string strips;
    for (std::size_t i = 0; shown_ms > 0 && i < runs.size(); ++i)
        strips += timeline(runs[i], names[i], shown_ms);
    if (strips.empty()) return "";
    std::string html = fmt::format(
        "<p>The last {} of the first epoch, rank 0; where the network is simulated, the "
        "load of its first NIC. An epoch's last step may hold fewer images than the "
        "others.</p>\n<p class=\"key\">",
        table::time(1e-3 * shown_ms));
    using chart::Part;
    for (const auto& [part, name] : {std::pair{Part::forward, "forward"},
                                     {Part::backward, "backward"},
                                     {Part::update, "update"},
                                     {Part::input, "input"},
                                     {Part::waiting, "waiting"},
                                     {Part::communication, "communication"}})
        html += fmt::format("<span><i style=\"background:{}\"></i>{}</span>", chart::colour(part),
                            name);
    return html + "</p>\n" + strips;
}

}  // namespace detail::report

GX_DECL std::string breakdown_chart(const std::vector<RunRecord>& runs,
                                    const std::vector<std::string>& given) {
    using chart::colour, chart::Part;
    const std::vector<std::string> names = detail::table::names_of(runs, given);
    std::vector<chart::Bar> rows;
    for (std::size_t i = 0; i < runs.size(); ++i) {
        const RunRecord& r = runs[i];
        if (std::isnan(r.seconds)) continue;
        const double steps = detail::report::steps_made(r);
        const Breakdown& b = r.breakdown;
        rows.push_back({names[i],
                        {1e3 * b.compute / steps, 1e3 * b.exposed_communication / steps,
                         1e3 * b.input / steps, 1e3 * b.idle / steps}});
    }
    return chart::bars("Where a step's time goes (rank 0, mean over the run)", "ms",
                       {{"compute", colour(Part::compute)},
                        {"exposed communication", colour(Part::waiting)},
                        {"input", colour(Part::input)},
                        {"idle", colour(Part::idle)}},
                       rows);
}

GX_DECL std::optional<double> seconds_to_accuracy(const RunRecord& r, double pct) {
    for (const EpochRow& e : r.epochs)
        if (e.test_accuracy_pct >= pct) return e.seconds;
    return std::nullopt;
}

GX_DECL std::vector<std::string> versions() {
#if defined(__clang__)
    const std::string compiler = fmt::format("clang {}", __clang_version__);
#else
    const std::string compiler = fmt::format("g++ {}", __VERSION__);
#endif
    return {fmt::format("gx {}", version), compiler};
}

GX_DECL std::string report_html(const std::vector<RunRecord>& runs, const ReportPage& page) {
    using namespace detail::report;
    const Names names = detail::table::names_of(runs, page.names);
    std::string html = fmt::format(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" "
        "content=\"width=device-width,initial-scale=1\"><title>{0}</title><style>{1}</style>"
        "<h1>{0}</h1>\n",
        chart::escaped(page.title), chart::page_style);
    if (runs.empty()) return html + "<p>No runs.</p></html>\n";
    html += introduction(runs, names);
    html += "<p class=\"key\">";
    for (std::size_t i = 0; i < runs.size(); ++i)
        html += fmt::format("<span>{}{}</span>", swatch(i), chart::escaped(names[i]));
    html += "</p>\n" + summary(runs, names);
    for (std::size_t i = 0; i < runs.size(); ++i)
        for (const std::string& warning : runs[i].warnings)
            html += "<p class=\"note\"><b>Warning:</b> " + chart::escaped(names[i]) + ": " +
                    chart::escaped(warning) + "</p>\n";
    html += "<h2>Learning</h2><div class=\"grid\">\n";
    for (const bool by_time : {false, true}) {
        std::vector<chart::Series> loss, accuracy;
        for (std::size_t i = 0; i < runs.size(); ++i) {
            loss.push_back({names[i], loss_curve(runs[i], by_time), false});
            accuracy.push_back({names[i], accuracy_curve(runs[i], by_time), true});
        }
        const std::string x = by_time ? detail::table::clock_of(runs) + "time, s" : "steps";
        html += chart::lines("Training loss against " + std::string(by_time ? "time" : "steps"), x,
                             "nats", loss);
        html += chart::lines("Test accuracy against " + std::string(by_time ? "time" : "steps"), x,
                             "%", accuracy);
    }
    std::vector<chart::Series> rates;
    for (std::size_t i = 0; i < runs.size(); ++i)
        rates.push_back({names[i], rate_curve(runs[i]), false});
    html += chart::lines("Learning rate against steps", "steps", "rate", rates) + "<p>";
    html += schedules(runs, names);
    html += "</p></div>" + accuracy_table(runs, names) + "<h2>Time</h2><div class=\"scroll\">\n" +
            breakdown_chart(runs, names) + "</div>\n";
    html += timelines(runs, names);
    html += in_force(runs, names);
    if (std::ranges::any_of(page.links, [](const auto& of_run) { return !of_run.empty(); })) {
        html += "<h2>Files</h2><ul>\n";
        for (std::size_t i = 0; i < std::min(runs.size(), page.links.size()); ++i) {
            html += "<li>" + chart::escaped(names[i]) + ":";
            for (const ReportLink& link : page.links[i])
                html +=
                    " <a href=\"" + href(link.file) + "\">" + chart::escaped(link.text) + "</a>";
            html += "</li>\n";
        }
        html += "</ul>\n";
    }
    if (!page.command.empty() || !page.versions.empty()) {
        html += "<h2>Made by</h2>\n<p><code>" + chart::escaped(page.command) + "</code></p><p>";
        for (std::size_t i = 0; i < page.versions.size(); ++i)
            html += (i > 0 ? ", " : "") + chart::escaped(page.versions[i]);
        html += "</p>\n";
    }
    return html + "</html>\n";
}

GX_DECL std::filesystem::path write_report(const std::filesystem::path& path,
                                           const std::vector<RunRecord>& runs, ReportPage page) {
    std::error_code ignored;  // write_file names a file in a folder that can't be made
    if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), ignored);
    const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
    for (auto& of_run : page.links)
        for (ReportLink& link : of_run) {
            std::error_code stays_as_it_is;
            const auto relative = std::filesystem::proximate(link.file, folder, stays_as_it_is);
            if (!stays_as_it_is) link.file = relative;
        }
    write_file(path, report_html(runs, page));
    return path;
}

}  // namespace gx
