// within: limits of the fields of a case, and the sentence for a number beyond them.
#pragma once

#include <cmath>
#include <string>

#include <fmt/core.h>  // format

#include <gx/core/error.hpp>  // Error

namespace gx::tools::predict {

/// The numbers that a field takes.
struct Limits {
    double least = 0, most = 0;
    bool whole = false;
};

inline constexpr Limits value_limits{1e-12, 1e24};
inline constexpr Limits gpus_limits{1, 1e6, true}, gpus_per_node_limits{1, 256, true};
inline constexpr Limits gbps_limits{1e-3, 1e6};
inline constexpr Limits gradient_mb_limits{1e-6, 1e7}, millions_limits{1e-6, 2.5e6};
inline constexpr Limits batch_limits{1e-3, 1e7}, global_batch_limits{1, 1e10};
inline constexpr Limits bucket_mb_limits{1e-3, 1e6}, epochs_limits{1e-3, 1e6};
inline constexpr Limits sequence_limits{1, 1e8, true};
inline constexpr Limits times_limits{1, 1e6, true};  ///< of accumulation
inline constexpr Limits step_ms_limits{1e-6, 1e9};   ///< that follows from a value

/// `x`, if the limits hold it. `written` is how the file has it.
/// Errors: gx::Error: `field`, which ends in ": ", what is written, what is expected.
[[nodiscard]] inline double within(const Limits& l, double x, const std::string& field,
                                   const std::string& written) {
    const bool good = x >= l.least && x <= l.most && (!l.whole || x == std::floor(x));
    if (good) return x;
    throw Error(fmt::format("{}'{}' is out of range: expected a {} from {} to {}", field, written,
                            l.whole ? "whole number" : "number", l.least, l.most));
}

}  // namespace gx::tools::predict
