#include <gx/io/crc32c.hpp>

#include <numeric>      // iota
#include <string_view>  // texts
#include <vector>       // bytes

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

using Bytes = std::vector<std::uint8_t>;

/// The definition, a bit at a time.
std::uint32_t by_definition(const Bytes& bytes) {
    std::uint32_t state = ~0u;
    for (const std::uint8_t byte : bytes) {
        state ^= byte;
        for (int bit = 0; bit < 8; ++bit) state = state & 1 ? state >> 1 ^ 0x82f63b78u : state >> 1;
    }
    return ~state;
}

// RFC 3720, appendix B.4, whose words are the checksum's bytes in order of transmission.
TEST(Crc32c, IsThatOfThePublishedExamples) {
    Bytes up(32), down(32);
    std::iota(up.begin(), up.end(), std::uint8_t{0});
    std::iota(down.rbegin(), down.rend(), std::uint8_t{0});
    const std::string_view digits = "123456789";
    for (const auto f : {gx::crc32c, gx::detail::crc::crc32c_portable}) {
        EXPECT_EQ(f(Bytes(32, 0)), 0x8a9136aau);
        EXPECT_EQ(f(Bytes(32, 0xff)), 0x62a8ab43u);
        EXPECT_EQ(f(up), 0x46dd794eu);
        EXPECT_EQ(f(down), 0x113fdb5cu);
        EXPECT_EQ(f(Bytes(digits.begin(), digits.end())), 0xe3069283u);
        EXPECT_EQ(f(Bytes{}), 0u);
    }
}

RC_GTEST_PROP(Crc32c, EqualsItsDefinition, (const Bytes& bytes)) {
    RC_ASSERT(gx::crc32c(bytes) == by_definition(bytes));
    RC_ASSERT(gx::detail::crc::crc32c_portable(bytes) == by_definition(bytes));
}

}  // namespace
