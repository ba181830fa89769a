// nic_gbps: NIC rate in Gb/s, parsed from text.
#pragma once

#include <string_view>

namespace gx::tools::predict {

/// Gb/s that a machine's name or description states, as "p3.16xlarge" or "4 nodes, 25 GbE"; 0: it
/// states none.
[[nodiscard]] double machine_gbps(std::string_view written);

/// Gb/s of "8 x InfiniBand HDR 200 Gb/s" (1,600), "25 GbE", "HDR x8", "8 ports of 200 Gb/s",
/// "p3.16xlarge"; 0: none said.
/// Errors: gx::Error for several rates, as "100/200 Gb/s", and for that of each of several, as
///         "200 Gb/s per GPU"; its sentence begins with the text in quotes.
[[nodiscard]] double nic_gbps(std::string_view written);

/// N of "N x ...", "N * ..." or "N × ...", where it opens the text; else 1. `text` goes on
/// behind it. 0: N is none from 1 to 64.
[[nodiscard]] double multiplier(std::string_view& text);

}  // namespace gx::tools::predict
