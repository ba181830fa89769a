#include <tools/predict/plot.hpp>

#include <algorithm>  // clamp
#include <array>      // ticks
#include <map>        // groups

#include <fmt/core.h>  // format

#include <gx/report/chart.hpp>  // colour, escaped

namespace gx::tools::predict {

namespace {

constexpr double size = 520, left = 50, top = 20, least = 30, most = 110;

double along(double pct) { return (std::clamp(pct, least, most) - least) / (most - least) * size; }
/// Axes from 30 to 110 %, the diagonal, and the band of five points around it.
std::string frame() {
    std::string svg;
    for (int t = 30; t <= 110; t += 10) {
        const double at = along(t);
        svg += fmt::format(
            "<line x1=\"{0:.0f}\" x2=\"{0:.0f}\" y1=\"{1}\" y2=\"{2}\" "
            "stroke=\"#eee\"/><text x=\"{0:.0f}\" y=\"{3}\" "
            "text-anchor=\"middle\">{4}</text>",
            left + at, top, top + size, top + size + 16, t);
        svg += fmt::format(
            "<line x1=\"{1}\" x2=\"{2}\" y1=\"{0:.0f}\" y2=\"{0:.0f}\" "
            "stroke=\"#eee\"/><text x=\"{3}\" y=\"{4:.0f}\" "
            "text-anchor=\"end\">{5}</text>\n",
            top + size - at, left, left + size, left - 6, top + size - at + 4, t);
    }
    for (const double off : {-5.0, 0.0, 5.0})
        svg += fmt::format(
            "<line x1=\"{:.0f}\" y1=\"{:.0f}\" x2=\"{:.0f}\" y2=\"{:.0f}\" "
            "stroke=\"#999\"{}/>\n",
            left + along(least + 5), top + size - along(least + 5 + off), left + along(most - 5),
            top + size - along(most - 5 + off), off == 0 ? "" : " stroke-dasharray=\"4 4\"");
    return svg;
}

}  // namespace

std::string scatter(const Score& s) {
    std::map<std::string, std::size_t> groups;
    for (const auto& [name, e] : s.groups) groups.emplace(name, groups.size());
    std::string svg = fmt::format(
        "<svg viewBox=\"0 0 {:.0f} {:.0f}\" width=\"100%\" style=\"max-width:960px\" role=\"img\" "
        "aria-label=\"predicted against published efficiency\" font-size=\"12\">\n",
        left + size + 380, top + size + 40);
    svg += frame();
    for (const ScoredPoint& p : s.points) {
        if (!p.counts()) continue;
        svg += fmt::format(
            "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\" "
            "fill-opacity=\"0.7\"><title>{}, {} GPUs: published {:.1f} %, "
            "predicted {:.1f} %</title></circle>\n",
            left + along(p.published_pct), top + size - along(p.predicted_pct),
            chart::colour(groups[p.group]), chart::escaped(p.id), p.gpus, p.published_pct,
            p.predicted_pct);
    }
    for (const auto& [name, i] : groups) {
        const double y = top + 14 + 18 * static_cast<double>(i);
        svg += fmt::format(
            "<circle cx=\"{:.0f}\" cy=\"{:.0f}\" r=\"5\" fill=\"{}\"/><text "
            "x=\"{:.0f}\" y=\"{:.0f}\">{}: {:.1f}</text>\n",
            left + size + 16, y - 4, chart::colour(i), left + size + 26, y,
            chart::escaped(name.substr(0, 52)), s.groups.at(name).mae());
    }
    svg += fmt::format(
        "<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"middle\">published "
        "efficiency, %</text></svg>\n",
        left + size / 2, top + size + 36);
    return fmt::format(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>gx: predicted against "
        "published</title><body style=\"font-family:sans-serif;margin:2em\"><h1>Predicted against "
        "published efficiency</h1><p>{} points on several machines: mean absolute error {:.2f} "
        "percentage points; the formula without overlap {:.2f}, perfect scaling {:.2f}. Behind "
        "each source, its own error. Dashed: five points off.</p>\n{}</body></html>\n",
        s.several_machines.points, s.several_machines.mae(), s.several_machines.formula_mae(),
        s.several_machines.perfect_mae(), svg);
}

}  // namespace gx::tools::predict
