// The numbers of reference/oracle/torch_numbers.py, and comparison with what PyTorch made of them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>  // max
#include <cmath>      // fabs
#include <cstddef>    // size_t
#include <cstdint>    // int64_t

namespace gx::reference::testing {

[[nodiscard]] inline float number(std::int64_t i, int stream) {
    return static_cast<float>((i * 37 + stream * 101 + 11) % 257 - 128) / 64;
}

/// Equal to `relative` of the larger of 1 and the value.
template <class Mine, std::size_t N>
void expect_equal(const Mine& mine, const double (&theirs)[N], double relative) {
    ASSERT_EQ(mine.size(), N);
    for (std::size_t i = 0; i < N; ++i) {
        const double allowed = relative * std::max(1.0, std::fabs(theirs[i]));
        EXPECT_NEAR(double{mine[i]}, theirs[i], allowed) << i;
    }
}

}  // namespace gx::reference::testing
