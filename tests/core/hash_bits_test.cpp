#include <gx/core/hash_bits.hpp>  // first, so the header is seen to stand alone

#include <cstddef>  // byte
#include <limits>   // quiet_NaN
#include <set>      // distinct hashes
#include <vector>   // weights

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

// ---- Cases worked by hand -----------------------------------------------------------
TEST(HashBits, IsXxh3) {  // XXH3_64bits of nothing, as its reference implementation prints it
    EXPECT_EQ(gx::hash_bits({}), 0x2d06800538d394c2u);
}
TEST(HashBits, SeesTheBitsAndNotTheValues) {
    const std::vector<float> plus{0.0f}, minus{-0.0f};
    EXPECT_NE(gx::hash_bits(plus), gx::hash_bits(minus));
    const std::vector<float> nan{std::numeric_limits<float>::quiet_NaN()};
    EXPECT_EQ(gx::hash_bits(nan), gx::hash_bits(nan));
}
TEST(HashBytes, IsThatOfTheBitsOfFloats) {
    const std::vector<float> values{1.5f, -0.0f};
    const std::vector<std::uint8_t> bytes{0, 0, 0xc0, 0x3f, 0, 0, 0, 0x80};  // little-endian
    EXPECT_EQ(gx::hash_bytes(std::as_bytes(std::span(bytes))), gx::hash_bits(values));
}

// ---- A property ---------------------------------------------------------------------
RC_GTEST_PROP(HashBits, EveryFlippedBitShows, (std::vector<float> values)) {
    RC_PRE(!values.empty());
    std::set<std::uint64_t> seen{gx::hash_bits(values)};
    const auto bytes = std::as_writable_bytes(std::span(values));
    for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
        const auto flip = std::byte{static_cast<unsigned char>(1u << bit % 8)};
        bytes[bit / 8] ^= flip;
        RC_ASSERT(seen.insert(gx::hash_bits(values)).second);
        bytes[bit / 8] ^= flip;
    }
}

}  // namespace
