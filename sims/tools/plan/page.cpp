#include <tools/plan/page.hpp>

#include <algorithm>  // max
#include <optional>   // prices

#include <fmt/core.h>  // numbers

#include <gx/report/chart.hpp>  // lines, escaped

namespace gx::tools::plan {

namespace {

/// Hours against dollars: the Pareto front joined, everything else as dots.
std::string picture(const std::vector<Candidate>& candidates) {
    chart::Series best{.name = "Pareto front", .dots = true};
    chart::Series others{.name = "others", .dots = true, .line = false};
    double slowest = 0, dearest = 0;
    for (const Candidate& o : candidates) {
        if (!o.on_front || !o.on_demand) continue;
        slowest = std::max(slowest, seconds(o.total) / 3600);
        dearest = std::max(dearest, o.on_demand->count);
    }
    for (const Candidate& o : candidates) {
        if (!o.infeasible.empty() || !o.on_demand) continue;
        const double hours = seconds(o.total) / 3600, dollars = o.on_demand->count;
        if (hours > 1.5 * slowest || dollars > 2 * dearest) continue;  // keeps it readable
        (o.on_front ? best : others).points.emplace_back(hours, dollars);
    }
    return chart::lines("Candidates", "hours", "dollars, on demand", {others, best});
}

std::string row(const Candidate& o) {
    const bool runs = o.infeasible.empty();
    const auto number = [&](const char* format, double x) {
        return runs ? fmt::format(fmt::runtime(format), x) : std::string("-");
    };
    const auto known_price = [&](const std::optional<Dollars>& p) {
        return p ? price(*p) : std::string(runs ? "unknown" : "-");
    };
    return fmt::format(
        "<tr><td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td "
        "style=\"text-align:left;white-space:normal\">"
        "{}</tr>\n",
        chart::escaped(o.choice.text()), runs ? hours(o.total) : "-", known_price(o.on_demand),
        known_price(o.spot), number("{:.1f}", seconds(o.step) * 1e3), step_bounds(o),
        number("{:.1f} %", o.exposed_pct()), chart::escaped(o.why));
}

}  // namespace

std::string page(const std::vector<Candidate>& candidates, const Job& job,
                 const std::vector<std::string>& assumptions) {
    const std::string head =
        "<div class=\"scroll\"><table><tr><th>Candidate<th>Time<th>Dollars<th>Spot<th>Step, "
        "ms<th>80 % interval"
        "<th>Exposed<th>Why it is dominated</tr>\n";
    std::string winners = head, losers = head;
    std::string notes;
    for (const std::string& a : assumptions) notes += chart::escaped(a) + " ";
    for (const Candidate& o : candidates) (o.on_front ? winners : losers) += row(o);
    return fmt::format(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" "
        "content=\"width=device-width,initial-scale=1\"><title>gx plan: {0}</title>\n"
        "<style>{1}</style>\n<h1>{0}: {2} examples x {3} epochs</h1>\n"
        "<h2>Pareto front: nothing else is both faster and cheaper, and stale gradients gain over "
        "1 %</h2>\n{4}</table></div>\n<div style=\"max-width:640px\">{5}</div>"
        "<p class=\"key\"><span><i style=\"background:{6}\"></i>Pareto front</span><span><i "
        "style=\"background:{7}\"></i>others, up to 1.5 times its slowest and twice its "
        "dearest</span></p>\n"
        "<h2>Dominated and infeasible candidates</h2>\n{8}</table></div>\n"
        "<p class=\"note\">{9}Times are of simulated steps alone. A stale gradient and a large "
        "batch cost accuracy, which a simulated training shows and this page does not.</p>"
        "</html>\n",
        chart::escaped(job.network()), chart::page_style, job.examples, job.epochs, winners,
        picture(candidates), chart::colour(1), chart::colour(0), losers, notes);
}

}  // namespace gx::tools::plan
