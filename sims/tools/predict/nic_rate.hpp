// nic_gbps: NIC rate in Gb/s, parsed from text.
#pragma once

#include <string_view>

namespace gx::tools::predict {

/// Gb/s that a machine's name or description tells, as "p3.16xlarge" or "4 nodes, 25 GbE"; 0: none.
[[nodiscard]] double machine_gbps(std::string_view written);

/// Gb/s of "8 x InfiniBand HDR 200 Gb/s" (1,600), "25 GbE", "2x EDR", "p3.16xlarge"; 0: none said.
[[nodiscard]] double nic_gbps(std::string_view written);

/// N of "N x ..." or "N × ...", where it opens the text; else 1. `text` goes on behind it. 0: N is
/// none from 1 to 64.
[[nodiscard]] double multiplier(std::string_view& text);

}  // namespace gx::tools::predict
