// Charts as SVG text: lines and stacked bars, for pages that load nothing else.
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
    ":root{color-scheme:light dark;--page:#fff;--ink:#222;--soft:#555;--rule:#ddd;--grid:#e5e5e5}"
    "@media(prefers-color-scheme:dark){:root{--page:#16181c;--ink:#ddd;--soft:#aaa;--rule:#444;"
    "--grid:#33363c}}"
    "body{font:15px/1.5 system-ui,sans-serif;max-width:1020px;margin:2em auto;padding:0 "
    "1em;color:var(--ink);background:var(--page);overflow-wrap:anywhere}"
    "h1{font-size:1.5em}h2{font-size:1.15em;margin-top:1.8em}table{font-size:94%;border-collapse:"
    "collapse;width:"
    "100%;overflow-wrap:normal}"
    "td,th{text-align:right;padding:.3em .35em;border-bottom:1px solid "
    "var(--rule);white-space:nowrap}th{white-space:normal}td:first-child,th:first-child{text-align:"
    "left}td:first-child{white-space:normal;min-width:9em}a{color:inherit}.scroll{overflow-x:auto}"
    ".grid{display:grid;grid-template-columns:1fr 1fr;gap:8px}svg{width:100%;height:auto}"
    "svg text{font:11px system-ui,sans-serif;fill:var(--ink)}svg "
    ".t{font-weight:600;font-size:13px}svg .x{text-anchor:middle}"
    "svg .y{text-anchor:end}svg .g{stroke:var(--grid)}.key span{margin-right:1.4em;display:"
    "inline-block}.key i{display:inline-block;width:.8em;"
    "height:.8em;margin-right:.35em}.note{color:var(--soft)}"
    "@media(max-width:700px){.grid{grid-template-columns:1fr}.scroll svg{min-width:680px}}"
    "@media print{body{max-width:none;margin:0}.scroll{overflow:visible}.scroll "
    "svg{min-width:0}table{font-size:75%}td,th{white-space:normal;padding:.2em .3em}"
    "td:first-child{min-width:0}svg,tr{break-inside:avoid}}";

/// Returns colour i of a cycle of six that colour-blind readers can tell apart.
/// Source: Okabe and Ito 2008, "Color Universal Design".
[[nodiscard]] GX_DECL const char* colour(std::size_t i);
/// SVG dashes of line i, which tell apart the lines of one colour(i): "" for the first six, "6 3"
/// for the next six, then "2 3".
[[nodiscard]] GX_DECL const char* dashes(std::size_t i);

/// What a rank's time goes to. Each has one colour on a page, which no colour(i) has.
enum class Part : unsigned char {
    compute,
    forward,
    backward,
    update,
    communication,
    waiting,
    input,
    idle
};
[[nodiscard]] GX_DECL const char* colour(Part part);

/// Returns `text` with the characters that HTML and SVG reserve escaped.
[[nodiscard]] GX_DECL std::string escaped(std::string_view text);

/// Returns round numbers from `least` to `most`, about `count` of them. Their steps are 1, 2 or 5
/// times a power of ten.
[[nodiscard]] GX_DECL std::vector<double> ticks(double least, double most, int count = 5);

struct Series {
    std::string name{};
    std::vector<std::pair<double, double>> points{};
    bool dots = false;  ///< mark every point: for few points
    bool line = true;   ///< join the points; false: a scatter plot
};

/// Line chart with an x axis from 0. Points that are not below 1e150 are omitted, and so are those
/// within 1e-150 of 0 but not on it; without points only the axes are drawn. Series i has colour(i)
/// and dashes(i).
[[nodiscard]] GX_DECL std::string lines(std::string_view title, std::string_view x_label,
                                        std::string_view y_label,
                                        const std::vector<Series>& series);

/// A horizontal bar, made of parts.
struct Bar {
    std::string name{};
    std::vector<double> parts{};
};
struct BarPart {
    std::string name{};
    const char* colour = "";
};
/// Stacked bar chart, a row each, with a legend of the parts.
[[nodiscard]] GX_DECL std::string bars(std::string_view title, std::string_view unit,
                                       const std::vector<BarPart>& parts,
                                       const std::vector<Bar>& rows);

/// Returns a chart as a file of its own: with name space, fonts and a white background.
[[nodiscard]] GX_DECL std::string standalone(std::string svg);

}  // namespace gx::chart

#if defined(GX_HEADER_ONLY)
#include <gx/report/impl/chart.ipp>
#endif
