// run_grid, run_overlap: the benchmark on hosts of network namespaces.
#pragma once

#include <string>  // files

#include "grid.hpp"  // Grid

namespace gx::bench {

/// The rank that an MPI launcher has given to this process; -1: there is no launcher.
[[nodiscard]] int launcher_rank();

/// Runs this program on the hosts of each fabric of `grid`, prints the errors of all scored rows,
/// and writes everything to `json`, if named. Returns the exit status.
/// 77: this machine can't make hosts, as hosts.sh has said; 130: interrupted, as it says.
/// Errors: gx::Error where a fabric can't be measured.
[[nodiscard]] int run_grid(const Grid& grid, const std::string& json);

/// Runs `--overlap` of this program on two hosts whose links carry `rate_mbps`. Returns its exit
/// status, or 77 and 130 as above.
[[nodiscard]] int run_overlap(int rate_mbps, const std::string& json);

/// Of the last minute, by all programs of this machine; -1: unknown.
[[nodiscard]] double load_average();

/// Other programs of this machine shall delay the ranks as little as they can: they are no part of
/// the network. Of this session, and of this thread and those that it makes; where that is allowed.
void raise_priority();

}  // namespace gx::bench
