// overlap: how much of a slow network's time a step with buckets hides behind its computation.
#pragma once

#include <string>  // files

namespace gx::bench {

/// On the two ranks of an MPI job, one a host, each on one core: trains with buckets and without,
/// at a batch whose computation takes 1.25 times as long as the communication. Prints both steps
/// beside the longer of the two, and writes them to `json`, if named. Returns the exit status.
/// Errors: gx::Error unless there are two ranks, on two hosts.
[[nodiscard]] int measure_overlap(const std::string& json, bool namespaces);

}  // namespace gx::bench
