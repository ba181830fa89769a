// median: of the rounds of a benchmark.
#pragma once

#include <algorithm>  // sort
#include <numeric>    // midpoint
#include <vector>     // rounds

namespace gx::bench {

/// The middle one, or the mean of the two in the middle; 0 of none.
[[nodiscard]] inline double median(std::vector<double> v) {
    std::sort(v.begin(), v.end());
    return v.empty() ? 0 : std::midpoint(v[(v.size() - 1) / 2], v[v.size() / 2]);
}

}  // namespace gx::bench
