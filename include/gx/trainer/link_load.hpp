// How busy links were: the mean load of one, and a strip of it under a timeline.
#pragma once

#include <algorithm>  // clamp
#include <string>     // SVG
#include <vector>     // stretches

#include <fmt/core.h>  // numbers

#include <gx/core/trace.hpp>     // LinkRates
#include <gx/core/chart.hpp>  // escaped, colour

namespace gx {

/// A stretch of time in which a link carried one rate.
struct LinkStretch {
    Nanoseconds begin{}, end{};
    BytesPerSecond rate{};
};

/// What a link carried from `begin` to `end`, without gaps; before its first change it was idle.
[[nodiscard]] inline std::vector<LinkStretch> link_stretches(const LinkRates& rates, int link,
                                                             Nanoseconds begin, Nanoseconds end) {
    std::vector<LinkStretch> out;
    LinkStretch now{begin, end, {0}};
    for (const LinkRates::Change& c : rates.changes) {
        if (c.link != link) continue;
        const Nanoseconds at = std::clamp(c.at, begin, end);
        if (at > now.begin) out.push_back({now.begin, at, now.rate});
        now = {at, end, c.rate};
    }
    if (now.begin < end) out.push_back(now);
    return out;
}

/// Mean share of its capacity that a link carried from `begin` to `end`; 0 for no time.
[[nodiscard]] inline double mean_load(const LinkRates& rates, int link, Nanoseconds begin,
                                      Nanoseconds end) {
    const double capacity = rates.capacities[std::size_t(link)].count;
    if (end <= begin || capacity <= 0) return 0;
    double bytes = 0;
    for (const LinkStretch& s : link_stretches(rates, link, begin, end))
        bytes += s.rate.count * seconds(s.end - s.begin);
    return bytes / (capacity * seconds(end - begin));
}

/// Load against time of the first link that has a name, on a timeline's scale: `left` to `width`
/// pixels are `begin` to `end`. Empty where no link has one.
[[nodiscard]] inline std::string link_strip(const LinkRates& rates, Nanoseconds begin,
                                            Nanoseconds end, double left, double width) {
    int link = 0;
    const auto named = [&] { return !rates.names[std::size_t(link)].view().empty(); };
    while (link < int(rates.names.size()) && !named()) ++link;
    if (link == int(rates.names.size()) || rates.changes.empty() || end <= begin) return "";
    const double capacity = rates.capacities[std::size_t(link)].count;
    constexpr double top = 18, height = 30;
    std::string points = fmt::format("{:.2f},{}", left, top + height);
    const auto x = [&](Nanoseconds t) {
        return left + (width - left) * seconds(t - begin) / seconds(end - begin);
    };
    for (const LinkStretch& s : link_stretches(rates, link, begin, end)) {
        const double y = top + height * (1 - s.rate.count / capacity);
        points += fmt::format(" {:.2f},{:.2f} {:.2f},{:.2f}", x(s.begin), y, x(s.end), y);
    }
    points += fmt::format(" {:.2f},{}", width, top + height);
    return fmt::format(
        "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"link load\"><text class=\"l\" "
        "x=\"{}\" y=\"12\">{}: {:.0f} % of {:.2f} GB/s on the mean</text><polygon points=\"{}\" "
        "fill=\"{}\"/></svg>\n",
        width + 8, top + height + 4, left, chart::escaped(rates.names[std::size_t(link)].view()),
        100 * mean_load(rates, link, begin, end), capacity * 1e-9, points, chart::colour(1));
}

}  // namespace gx
