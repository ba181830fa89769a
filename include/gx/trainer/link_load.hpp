// Load of a link: its mean, and a strip of it under a timeline.
#pragma once

#include <string>  // SVG
#include <vector>  // stretches

#include <gx/core/decl.hpp>   // GX_DECL
#include <gx/core/trace.hpp>  // LinkRates

namespace gx {

/// A stretch of time in which a link carried one rate.
struct LinkStretch {
    Nanoseconds begin{}, end{};
    BytesPerSecond rate{};
};

/// Rates of a link from `begin` to `end`, without gaps; before its first change it was idle.
[[nodiscard]] GX_DECL std::vector<LinkStretch> link_stretches(const LinkRates& rates, int link,
                                                              Nanoseconds begin, Nanoseconds end);

/// Mean share of a link's capacity in use from `begin` to `end`; 0 for no time.
[[nodiscard]] GX_DECL double mean_load(const LinkRates& rates, int link, Nanoseconds begin,
                                       Nanoseconds end);

/// Load against time of the first link that has a name, on a timeline's scale: `left` to `width`
/// pixels are `begin` to `end`. Its mean is of the time from `mean_begin` to `mean_end`: whole
/// steps, unless that is all that is shown. Empty if no link has a name.
[[nodiscard]] GX_DECL std::string link_strip(const LinkRates& rates, Nanoseconds begin,
                                             Nanoseconds end, Nanoseconds mean_begin,
                                             Nanoseconds mean_end, double left, double width);

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/trainer/impl/link_load.ipp>
#endif
