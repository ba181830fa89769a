// Charts as SVG text: lines and stacked bars, for pages that load nothing from the network.
#pragma once

#include <algorithm>    // min, max
#include <array>        // colours
#include <cmath>        // log10, floor
#include <string>       // the text
#include <string_view>  // labels
#include <utility>      // pair
#include <vector>       // points

#include <fmt/core.h>  // numbers

namespace gx::chart {

/// The style sheet of gx's pages: for <style>.
inline constexpr const char* page_style =
    "body{font:15px/1.5 system-ui,sans-serif;max-width:1020px;margin:2em auto;padding:0 "
    "1em;color:#222;background:#fff}"
    "h1{font-size:1.5em}h2{font-size:1.15em;margin-top:1.8em}table{border-collapse:collapse;width:"
    "100%}"
    "td,th{text-align:right;padding:.3em .6em;border-bottom:1px solid "
    "#ddd;white-space:nowrap}th{white-space:normal}td:first-child,th:first-child{text-align:left}"
    ".grid{display:grid;grid-template-columns:1fr 1fr;gap:8px}svg{width:100%;height:auto}"
    "svg text{font:11px system-ui,sans-serif;fill:#333}svg .t{font-weight:600;font-size:13px}svg "
    ".x{text-anchor:middle}"
    "svg .y{text-anchor:end}svg .g{stroke:#e5e5e5}.key span{margin-right:1.4em}.key "
    "i{display:inline-block;width:.8em;"
    "height:.8em;margin-right:.35em}.note{color:#555}@media(max-width:700px){.grid{grid-template-"
    "columns:1fr}}";

/// Told apart by people who see few colours. Source: Okabe and Ito 2008, "Color Universal Design".
[[nodiscard]] inline const char* colour(std::size_t i) {
    constexpr std::array colours{"#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00"};
    return colours[i % colours.size()];
}

/// Text inside HTML and SVG.
[[nodiscard]] inline std::string escaped(std::string_view text) {
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

/// From `least` to `most` in about `count` round steps: 1, 2 or 5 times a power of ten.
[[nodiscard]] inline std::vector<double> ticks(double least, double most, int count = 5) {
    const double range = most > least ? most - least : 1.0;
    const double power = std::pow(10.0, std::floor(std::log10(range / count)));
    double step = power;
    for (const double factor : {1.0, 2.0, 5.0, 10.0})
        if (range / (factor * power) <= count) {
            step = factor * power;
            break;
        }
    std::vector<double> out;
    for (double i = std::ceil(least / step); i * step <= most + 1e-9 * range; ++i)
        out.push_back(i * step + 0.0);  // 0, not -0
    return out;
}

struct Series {
    std::string name{};
    std::vector<std::pair<double, double>> points{};
    bool dots = false;  ///< mark every point: for few points
    bool line = true;   ///< join the points; false: a scatter
};

/// Lines over two axes; x from 0. An empty chart draws its axes only; points that are not finite
/// are left out.
[[nodiscard]] inline std::string lines(std::string_view title, std::string_view x_label,
                                       std::string_view y_label,
                                       const std::vector<Series>& series) {
    constexpr double width = 480, height = 270, left = 52, right = 12, top = 30, bottom = 42;
    double x0 = 0, x1 = 0, y0 = 1e300, y1 = -1e300;
    for (const auto& s : series)
        for (const auto& [x, y] : s.points) {
            if (!std::isfinite(x) || !std::isfinite(y)) continue;
            x1 = std::max(x1, x);
            y0 = std::min(y0, y);
            y1 = std::max(y1, y);
        }
    if (y0 > y1) y0 = 0, y1 = 1;
    if (x1 <= x0) x1 = x0 + 1;
    const double margin = y1 > y0 ? 0.05 * (y1 - y0) : 0.5;
    y0 -= margin;
    y1 += margin;
    const auto px = [&](double x) { return left + (x - x0) / (x1 - x0) * (width - left - right); };
    const auto py = [&](double y) {
        return height - bottom - (y - y0) / (y1 - y0) * (height - top - bottom);
    };

    std::string svg = fmt::format(
        "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n<text class=\"t\" x=\"{}\" "
        "y=\"16\">{}</text>\n",
        width, height, escaped(title), left, escaped(title));
    for (const double x : ticks(x0, x1))
        svg += fmt::format(
            "<line class=\"g\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/><text "
            "class=\"x\" x=\"{0:.1f}\" y=\"{3}\">{4:g}</text>\n",
            px(x), top, height - bottom, height - bottom + 14, x);
    for (const double y : ticks(y0, y1))
        svg += fmt::format(
            "<line class=\"g\" x1=\"{1}\" x2=\"{2}\" y1=\"{0:.1f}\" y2=\"{0:.1f}\"/><text "
            "class=\"y\" x=\"{3}\" y=\"{4:.1f}\">{5:g}</text>\n",
            py(y), left, width - right, left - 5, py(y) + 4, y);
    svg += fmt::format(
        "<text class=\"x\" x=\"{}\" y=\"{}\">{}</text><text class=\"x\" "
        "transform=\"translate(13,{}) rotate(-90)\">{}</text>\n",
        (left + width - right) / 2, height - 8, escaped(x_label), (top + height - bottom) / 2,
        escaped(y_label));
    for (std::size_t i = 0; i < series.size(); ++i) {
        std::string points;
        for (const auto& [x, y] : series[i].points)
            if (std::isfinite(x) && std::isfinite(y))
                points += fmt::format("{:.1f},{:.1f} ", px(x), py(y));
        if (series[i].line)
            svg += fmt::format(
                "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\" "
                "points=\"{}\"><title>{}</title></polyline>\n",
                colour(i), points, escaped(series[i].name));
        if (!series[i].dots) continue;
        for (const auto& [x, y] : series[i].points)
            if (std::isfinite(x) && std::isfinite(y))
                svg += fmt::format(
                    "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\"><title>{}: {:.4g} "
                    "at {:.4g}</title></circle>\n",
                    px(x), py(y), colour(i), escaped(series[i].name), y, x);
    }
    return svg + "</svg>\n";
}

/// One horizontal bar a row, made of parts.
struct Bar {
    std::string name{};
    std::vector<double> parts{};
};
[[nodiscard]] inline std::string bars(std::string_view title, std::string_view unit,
                                      const std::vector<std::string>& part_names,
                                      const std::vector<Bar>& rows) {
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
    for (std::size_t i = 0; i < part_names.size(); ++i) {
        svg += fmt::format(
            "<rect x=\"{:.0f}\" y=\"24\" width=\"10\" height=\"10\" fill=\"{}\"/><text class=\"l\" "
            "x=\"{:.0f}\" y=\"33\">{}</text>\n",
            x, colour(i), x + 14, escaped(part_names[i]));
        x += 30 + 7.0 * double(part_names[i].size());
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
                x, y + 17, part * scale, colour(i), escaped(part_names[i]), part, escaped(unit));
            x += part * scale;
            sum += part;
        }
        svg += fmt::format("<text class=\"l\" x=\"{:.1f}\" y=\"{:.0f}\">{:.1f} {}</text>\n", x + 6,
                           y + 31, sum, escaped(unit));
    }
    return svg + "</svg>\n";
}

/// A chart as a picture of its own: with its name space, its fonts and a white ground.
[[nodiscard]] inline std::string standalone(std::string svg) {
    constexpr std::string_view opening = "<svg ";
    constexpr std::string_view with =
        "<svg xmlns=\"http://www.w3.org/2000/svg\" style=\"background:#fff\" "
        "font-family=\"sans-serif\" font-size=\"11\" fill=\"#333\" ";
    if (std::string_view(svg).starts_with(opening)) svg.replace(0, opening.size(), with);
    return svg;
}

}  // namespace gx::chart
