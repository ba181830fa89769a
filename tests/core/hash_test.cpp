#include <gx/core/hash.hpp>  // first, so the header is seen to stand alone

#include <bit>  // popcount

#include <gtest/gtest.h>

namespace {

// ---- What the types promise ---------------------------------------------------------
static_assert(gx::hash_name("") == 0xcbf29ce484222325u, "FNV-1a of nothing");
static_assert(gx::hash_name("foobar") == 0x85944171f73967e8u, "FNV's own test vector");
// SplitMix64 of seed 1234567: Vigna's first two numbers.
static_assert(gx::mix64(1234567 + gx::golden64) == 6457827717110365317u);
static_assert(gx::mix64(1234567 + 2 * gx::golden64) == 3203168211198807973u);

// ---- A case worked by hand ----------------------------------------------------------
TEST(Mix64, IsABijectionThatSpreadsABit) {
    for (int bit = 0; bit < 64; ++bit) {
        const std::uint64_t changed = gx::mix64(1) ^ gx::mix64(1 ^ std::uint64_t{1} << bit);
        EXPECT_GT(std::popcount(changed), 12) << bit;
        EXPECT_LT(std::popcount(changed), 52) << bit;
    }
}

}  // namespace
