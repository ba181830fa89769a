// Lossy reducers of campaigns, and what they promise.
#pragma once

#include <fuzz/any_reducer.hpp>      // Promise
#include <gx/quantized/reducer.hpp>  // Quantized
#include <gx/top_k/reducer.hpp>      // TopK

namespace gx::sim::fuzz {

/// TopK that sends `Percent` of each bucket.
template <int Percent>
struct TopPercent : TopK {
    struct Options {};
    explicit TopPercent(Options = {}) : TopK({.share = Percent / 100.0}) {}
};
inline constexpr Promise tenth{.sent_pct = 10}, quarter{.sent_pct = 25};
inline constexpr Promise eight_bits{.levels = 127}, four_bits{.levels = 7};

}  // namespace gx::sim::fuzz
