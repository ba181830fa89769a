// scatter: predicted against published efficiency, as one page that loads nothing.
#pragma once

#include <string>

#include <tools/predict/score.hpp>  // Score

namespace gx::tools::predict {

/// Scatter plot of the scored calibration points of several machines, a colour for each group.
/// Points beyond the axes lie on them.
[[nodiscard]] std::string scatter(const Score& s);

}  // namespace gx::tools::predict
