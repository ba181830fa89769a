// page(offers, job): a plan as one page of HTML that loads nothing from the network.
#pragma once

#include <algorithm>  // max
#include <optional>   // prices
#include <string>     // the page
#include <vector>     // offers

#include <fmt/core.h>  // numbers

#include <gx/core/chart.hpp>      // lines, escaped
#include <gx/sim/plan/offer.hpp>  // Offer, Job

namespace gx::sim::plan {

namespace detail {

/// Hours against dollars: the frontier joined, everything else as dots.
[[nodiscard]] inline std::string picture(const std::vector<Offer>& offers) {
    chart::Series best{.name = "the frontier", .dots = true};
    chart::Series others{.name = "others", .dots = true, .line = false};
    double slowest = 0, dearest = 0;
    for (const Offer& o : offers) {
        if (!o.on_frontier || !o.on_demand) continue;
        slowest = std::max(slowest, seconds(o.total) / 3600);
        dearest = std::max(dearest, o.on_demand->count);
    }
    for (const Offer& o : offers) {
        if (!o.trouble.empty() || !o.on_demand) continue;
        const double hours = seconds(o.total) / 3600, dollars = o.on_demand->count;
        if (hours > 1.5 * slowest || dollars > 2 * dearest) continue;  // keeps it readable
        (o.on_frontier ? best : others).points.emplace_back(hours, dollars);
    }
    return chart::lines("Ways to train it", "hours", "dollars, on demand", {others, best});
}

[[nodiscard]] inline std::string row(const Offer& o) {
    const bool runs = o.trouble.empty();
    const auto number = [&](const char* format, double x) {
        return runs ? fmt::format(fmt::runtime(format), x) : std::string("-");
    };
    const auto price = [&](const std::optional<Dollars>& p) {
        return p ? fmt::format("{:.2f}", p->count) : std::string(runs ? "unknown" : "-");
    };
    return fmt::format(
        "<tr><td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td style=\"text-align:left;white-space:normal\">"
        "{}</tr>\n",
        chart::escaped(o.way.text()), runs ? hours(o.total) : "-",
        price(o.on_demand), price(o.spot),
        number("{:.1f}", seconds(o.step) * 1e3), number("{:.1f} %", o.exposed_pct()),
        chart::escaped(o.why));
}

}  // namespace detail

/// The frontier, the picture, and every other way with the reason why it loses.
[[nodiscard]] inline std::string page(const std::vector<Offer>& offers, const Job& job) {
    const std::string head =
        "<table><tr><th>Way<th>Time<th>Dollars<th>Spot<th>Step, ms<th>Exposed<th>Why it loses"
        "</tr>\n";
    std::string winners = head, losers = head;
    for (const Offer& o : offers) (o.on_frontier ? winners : losers) += detail::row(o);
    return fmt::format(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>gx plan: {0}</title>\n"
        "<style>{1}</style>\n<h1>{0}: {2} examples x {3} epochs</h1>\n"
        "<h2>The frontier: nothing else is both faster and cheaper</h2>\n{4}</table>\n{5}"
        "<p class=\"key\"><span><i style=\"background:{6}\"></i>the frontier</span><span><i "
        "style=\"background:{7}\"></i>others, up to 1.5 times its slowest and twice its "
        "dearest</span></p>\n"
        "<h2>Why the others lose</h2>\n{8}</table>\n"
        "<p class=\"note\">Times are of simulated steps alone. A late gradient and a large batch "
        "cost accuracy, which a simulated training shows and this page does not.</p></html>\n",
        chart::escaped(job.model), chart::page_style, job.examples, job.epochs, winners,
        detail::picture(offers), chart::colour(1), chart::colour(0), losers);
}

}  // namespace gx::sim::plan
