// Charts as SVG text: lines and stacked bars, for pages that load nothing from the network.
#pragma once

#include <cstddef>      // size_t
#include <string>       // the text
#include <string_view>  // labels
#include <utility>      // pair
#include <vector>       // points

#include <gx/core/decl.hpp>  // GX_DECL

namespace gx::chart {

/// The style sheet of gx's pages: the text of <style>.
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

/// Returns colour i of a cycle of six that colour-blind readers can tell apart.
/// Source: Okabe and Ito 2008, "Color Universal Design".
[[nodiscard]] GX_DECL const char* colour(std::size_t i);

/// Returns `text` with the characters that HTML and SVG reserve escaped.
[[nodiscard]] GX_DECL std::string escaped(std::string_view text);

/// Returns round numbers from `least` to `most`, about `count` of them, in steps of 1, 2 or 5
/// times a power of ten.
[[nodiscard]] GX_DECL std::vector<double> ticks(double least, double most, int count = 5);

struct Series {
    std::string name{};
    std::vector<std::pair<double, double>> points{};
    bool dots = false;  ///< mark every point: for few points
    bool line = true;   ///< join the points; false: a scatter plot
};

/// Line chart with an x axis from 0. Points that are not finite are omitted; without points only
/// the axes are drawn.
[[nodiscard]] GX_DECL std::string lines(std::string_view title, std::string_view x_label,
                                        std::string_view y_label,
                                        const std::vector<Series>& series);

/// A horizontal bar, made of parts.
struct Bar {
    std::string name{};
    std::vector<double> parts{};
};
/// Stacked bar chart, a row each, with a legend of the parts.
[[nodiscard]] GX_DECL std::string bars(std::string_view title, std::string_view unit,
                                       const std::vector<std::string>& part_names,
                                       const std::vector<Bar>& rows);

/// Returns a chart as a file of its own: with name space, fonts and a white background.
[[nodiscard]] GX_DECL std::string standalone(std::string svg);

}  // namespace gx::chart

#if defined(GX_HEADER_ONLY)
#include <gx/report/impl/chart.ipp>
#endif
