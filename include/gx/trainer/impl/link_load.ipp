// Bodies of link_load.hpp.
#pragma once

#include <algorithm>  // clamp

#include <fmt/core.h>  // numbers

#include <gx/report/chart.hpp>  // escaped, colour
#include <gx/trainer/link_load.hpp>

namespace gx {

GX_DECL std::vector<LinkStretch> link_stretches(const LinkRates& rates, int link, Nanoseconds begin,
                                                Nanoseconds end) {
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

GX_DECL double mean_load(const LinkRates& rates, int link, Nanoseconds begin, Nanoseconds end) {
    const double capacity = rates.capacities[std::size_t(link)].count;
    if (end <= begin || capacity <= 0) return 0;
    double bytes = 0;
    for (const LinkStretch& s : link_stretches(rates, link, begin, end))
        bytes += s.rate.count * seconds(s.end - s.begin);
    return bytes / (capacity * seconds(end - begin));
}

GX_DECL std::string link_strip(const LinkRates& rates, Nanoseconds begin, Nanoseconds end,
                               Nanoseconds mean_begin, Nanoseconds mean_end, double left,
                               double width) {
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
        "x=\"{}\" y=\"12\">{}: {:.0f} % of {:.2f} GB/s on the mean{}</text><polygon "
        "points=\"{}\" "
        "fill=\"{}\"/></svg>\n",
        width + 8, top + height + 4, left, chart::escaped(rates.names[std::size_t(link)].view()),
        100 * mean_load(rates, link, mean_begin, mean_end), capacity * 1e-9,
        mean_begin == begin && mean_end == end ? "" : " of whole steps", points,
        chart::colour(chart::Part::communication));
}

}  // namespace gx
