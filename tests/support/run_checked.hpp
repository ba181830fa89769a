// run_checked: runs a world of processes; expectations that fail in a child fail the test.
#pragma once

#include <gtest/gtest.h>

#include <sstream>  // a failure as text
#include <string>   // failures

#include <gx/core/error.hpp>  // Error

namespace testing_support {

/// Failures of this test from part `first` on, as gtest prints them.
inline std::string failures_from(int first) {
    const auto& result = *::testing::UnitTest::GetInstance()->current_test_info()->result();
    std::ostringstream text;
    for (int i = first; i < result.total_part_count(); ++i)
        if (result.GetTestPartResult(i).failed()) text << result.GetTestPartResult(i);
    return text.str();
}

/// Calls f(rank) on every rank of `world`. What EXPECT_ and ASSERT_ find in a child is an error of
/// its rank, which run() throws here; what they find on rank 0 is this test's already.
template <class World, class F>
void run_checked(World& world, F f) {
    const auto& result = *::testing::UnitTest::GetInstance()->current_test_info()->result();
    const int before = result.total_part_count();
    world.run([&](auto& rank) {
        f(rank);
        const std::string failures = failures_from(before);
        if (rank.rank() != 0 && !failures.empty())
            throw gx::Error("rank " + std::to_string(rank.rank()) + " failed:\n" + failures);
    });
}

}  // namespace testing_support
