// Layout and drawing of charts.
#pragma once

#include <algorithm>  // adjacent_find, min, max
#include <array>      // colours
#include <cmath>      // ceil, floor, log10

#include <fmt/core.h>  // numbers

#include <gx/core/cold.hpp>     // GX_COLD
#include <gx/report/chart.hpp>  // lines

namespace gx::chart {

GX_DECL const char* colour(std::size_t i) {
    constexpr std::array colours{"#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00"};
    return colours[i % colours.size()];
}

GX_DECL const char* dashes(std::size_t i) { return i < 6 ? "" : i < 12 ? "6 3" : "2 3"; }

GX_DECL const char* colour(Part part) {
    constexpr std::array colours{"#6f64c9", "#5548b8", "#8a80d8", "#bdb6ee",
                                 "#999933", "#b03070", "#8a6d4b", "#b5b5b5"};
    return colours[static_cast<std::size_t>(part)];
}

GX_DECL std::string escaped(std::string_view text) {
    std::string out;
    for (const char c : text) {
        if (c == '&') out += "&amp;";
        else if (c == '<') out += "&lt;";
        else if (c == '>') out += "&gt;";
        else if (c == '"') out += "&quot;";
        else out += c;
    }
    return out;
}

GX_DECL std::vector<double> ticks(double least, double most, int count) {
    const double range = most > least ? most - least : 1.0;
    const double power = std::pow(10.0, std::floor(std::log10(range / count)));
    double step = power;
    for (const double factor : {1.0, 2.0, 5.0, 10.0})
        if (range / (factor * power) <= count) {
            step = factor * power;
            break;
        }
    std::vector<double> out;
    const double first = std::ceil(least / step);
    for (int i = 0; i <= count + 1; ++i) {  // beyond 2^53 steps have no numbers of their own
        const double at = (first + i) * step + 0.0;  // 0, not -0
        if (!(at <= most + 1e-9 * range) || (!out.empty() && at <= out.back())) break;
        out.push_back(at);
    }
    return out;
}

/// Ticks with their labels; where six digits are the same for two, with as many as tell them apart.
GX_COLD GX_DECL std::vector<std::pair<double, std::string>> labelled(double least, double most) {
    const std::vector<double> at = ticks(least, most);
    std::vector<std::pair<double, std::string>> out;
    for (int digits = 6; digits <= 17; ++digits) {
        out.clear();
        for (const double x : at) out.emplace_back(x, fmt::format("{:.{}g}", x, digits));
        const auto same = [](const auto& a, const auto& b) { return a.second == b.second; };
        if (std::ranges::adjacent_find(out, same) == out.end()) break;
    }
    return out;
}

GX_DECL std::string lines(std::string_view title, std::string_view x_label,
                          std::string_view y_label, const std::vector<Series>& series) {
    constexpr double width = 480, height = 270, right = 12, top = 30, bottom = 42, digit = 6.6;
    const auto is_size = [](double x) { return x == 0 || std::abs(x) > 1e-150; };
    const auto is_shown = [&](double x, double y) {  // not NaN, and of differences that divide
        return std::abs(x) < 1e150 && std::abs(y) < 1e150 && is_size(x) && is_size(y);
    };
    double x0 = 0, x1 = 0, y0 = 1e300, y1 = -1e300;
    for (const auto& s : series)
        for (const auto& [x, y] : s.points) {
            if (!is_shown(x, y)) continue;
            x1 = std::max(x1, x);
            y0 = std::min(y0, y);
            y1 = std::max(y1, y);
        }
    if (y0 > y1) y0 = 0, y1 = 1;
    if (x1 <= x0) x1 = x0 + 1;
    if (y1 > y0) {
        const double margin = 0.05 * (y1 - y0);
        y0 -= margin, y1 += margin;
    } else {  // one value is in the middle; 0 is the lowest
        const double margin = y0 == 0 ? 1.0 : 0.05 * std::abs(y0);
        y0 -= y0 == 0 ? 0 : margin, y1 += margin;
    }
    const auto y_ticks = labelled(y0, y1);
    double left = 52;
    for (const auto& [y, label] : y_ticks)
        left = std::max(left, 25 + std::ceil(digit * double(label.size())));
    const auto px = [&](double x) { return left + (x - x0) / (x1 - x0) * (width - left - right); };
    const auto py = [&](double y) {
        return height - bottom - (y - y0) / (y1 - y0) * (height - top - bottom);
    };

    std::string svg = fmt::format(
        "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n<text class=\"t\" x=\"{}\" "
        "y=\"16\">{}</text>\n",
        width, height, escaped(title), left, escaped(title));
    for (const auto& [x, label] : labelled(x0, x1)) {
        const double middle = std::min(px(x), width - 0.5 * digit * double(label.size()));
        svg += fmt::format(
            "<line class=\"g\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/><text "
            "class=\"x\" x=\"{3:.1f}\" y=\"{4}\">{5}</text>\n",
            px(x), top, height - bottom, middle, height - bottom + 14, label);
    }
    for (const auto& [y, label] : y_ticks)
        svg += fmt::format(
            "<line class=\"g\" x1=\"{1}\" x2=\"{2}\" y1=\"{0:.1f}\" y2=\"{0:.1f}\"/><text "
            "class=\"y\" x=\"{3}\" y=\"{4:.1f}\">{5}</text>\n",
            py(y), left, width - right, left - 5, py(y) + 4, label);
    svg += fmt::format(
        "<text class=\"x\" x=\"{}\" y=\"{}\">{}</text><text class=\"x\" "
        "transform=\"translate(13,{}) rotate(-90)\">{}</text>\n",
        (left + width - right) / 2, height - 8, escaped(x_label), (top + height - bottom) / 2,
        escaped(y_label));
    for (std::size_t i = 0; i < series.size(); ++i) {
        std::string points;
        std::size_t shown = 0;
        for (const auto& [x, y] : series[i].points)
            if (is_shown(x, y)) points += fmt::format("{:.1f},{:.1f} ", px(x), py(y)), ++shown;
        if (series[i].line)
            svg += fmt::format(
                "<polyline fill=\"none\" stroke=\"{}\"{} stroke-width=\"1.6\" "
                "points=\"{}\"><title>{}</title></polyline>\n",
                colour(i), *dashes(i) ? fmt::format(" stroke-dasharray=\"{}\"", dashes(i)) : "",
                points, escaped(series[i].name));
        if (!series[i].dots && shown != 1) continue;  // a line of one point is not seen
        for (const auto& [x, y] : series[i].points)
            if (is_shown(x, y))
                svg += fmt::format(
                    "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\"><title>{}: {:.4g} "
                    "at {:.4g}</title></circle>\n",
                    px(x), py(y), colour(i), escaped(series[i].name), y, x);
    }
    return svg + "</svg>\n";
}

GX_DECL std::string bars(std::string_view title, std::string_view unit,
                         const std::vector<BarPart>& parts, const std::vector<Bar>& rows) {
    constexpr double width = 980, row_height = 42, left = 12, top = 44;
    double most = 0;
    for (const Bar& row : rows) {
        double sum = 0;
        for (const double p : row.parts) sum += p;
        most = std::max(most, sum);
    }
    const double height = top + row_height * double(rows.size()) + 8;
    const double scale = most > 0 ? (width - left - 110) / most : 0;
    std::string svg = fmt::format(
        "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n<text class=\"t\" x=\"{}\" "
        "y=\"16\">{}</text>\n",
        width, height, escaped(title), left, escaped(title));
    double x = left;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        svg += fmt::format(
            "<rect x=\"{:.0f}\" y=\"24\" width=\"10\" height=\"10\" fill=\"{}\"/><text class=\"l\" "
            "x=\"{:.0f}\" y=\"33\">{}</text>\n",
            x, parts[i].colour, x + 14, escaped(parts[i].name));
        x += 30 + 7.0 * double(parts[i].name.size());
    }
    for (std::size_t r = 0; r < rows.size(); ++r) {
        const double y = top + row_height * double(r);
        svg += fmt::format("<text class=\"l\" x=\"{}\" y=\"{:.0f}\">{}</text>\n", left, y + 12,
                           escaped(rows[r].name));
        x = left;
        double sum = 0;
        for (std::size_t i = 0; i < rows[r].parts.size(); ++i) {
            const double part = rows[r].parts[i];
            svg += fmt::format(
                "<rect x=\"{:.1f}\" y=\"{:.0f}\" width=\"{:.1f}\" height=\"18\" "
                "fill=\"{}\"><title>{}: {:.3f} {}</title></rect>\n",
                x, y + 17, part * scale, parts[i].colour, escaped(parts[i].name), part,
                escaped(unit));
            x += part * scale;
            sum += part;
        }
        svg += fmt::format("<text class=\"l\" x=\"{:.1f}\" y=\"{:.0f}\">{:.1f} {}</text>\n", x + 6,
                           y + 31, sum, escaped(unit));
    }
    return svg + "</svg>\n";
}

GX_DECL std::string standalone(std::string svg) {
    constexpr std::string_view opening = "<svg ";
    constexpr std::string_view with =
        "<svg xmlns=\"http://www.w3.org/2000/svg\" style=\"background:#fff\" "
        "font-family=\"sans-serif\" font-size=\"11\" fill=\"#333\" ";
    if (std::string_view(svg).starts_with(opening)) svg.replace(0, opening.size(), with);
    return svg;
}

}  // namespace gx::chart
