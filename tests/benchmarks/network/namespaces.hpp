// run_grid: the benchmark on each fabric of a grid, on hosts of network namespaces.
#pragma once

#include <string>  // files

namespace gx::bench {

/// The rank that an MPI launcher has given to this process; -1: there is no launcher.
[[nodiscard]] int launcher_rank();

/// Runs this program on the hosts of each fabric of `grid` ("": grid.json), prints the errors of
/// all scored rows, and writes everything to `json`, if named. Returns the exit status.
/// Errors: gx::Error for a grid that can't be read, and where hosts.sh can't make hosts.
[[nodiscard]] int run_grid(const std::string& grid, const std::string& json);

}  // namespace gx::bench
