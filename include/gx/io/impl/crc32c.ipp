// Both paths of crc32c.
#pragma once

#include <array>    // tables
#include <cstring>  // memcpy

#include <gx/io/crc32c.hpp>  // the declarations

namespace gx {

namespace detail::crc {

/// tables[k][b]: what byte b adds to the state k bytes later.
inline constexpr auto tables = [] {
    std::array<std::array<std::uint32_t, 256>, 8> t{};
    for (std::uint32_t b = 0; b < 256; ++b) {
        std::uint32_t x = b;
        for (int bit = 0; bit < 8; ++bit) x = x >> 1 ^ (x & 1 ? 0x82f63b78u : 0u);
        t[0][b] = x;
    }
    for (std::size_t k = 1; k < 8; ++k)
        for (std::size_t b = 0; b < 256; ++b) t[k][b] = t[k - 1][b] >> 8 ^ t[0][t[k - 1][b] & 255];
    return t;
}();

GX_DECL std::uint32_t crc32c_portable(std::span<const std::uint8_t> bytes) {
    std::uint32_t state = ~0u;
    std::size_t i = 0;
    for (; i + 8 <= bytes.size(); i += 8) {
        std::uint32_t next = 0;
        for (std::size_t k = 0; k < 8; ++k) {
            const std::uint32_t byte = bytes[i + k] ^ (k < 4 ? state >> (8 * k) & 255 : 0u);
            next ^= tables[7 - k][byte];
        }
        state = next;
    }
    for (; i < bytes.size(); ++i) state = state >> 8 ^ tables[0][(state ^ bytes[i]) & 255];
    return ~state;
}

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("sse4.2"))) inline std::uint32_t crc32c_sse42(
    std::span<const std::uint8_t> bytes) {
    std::uint64_t state = 0xffffffffu;
    std::size_t i = 0;
    for (; i + 8 <= bytes.size(); i += 8) {
        std::uint64_t word;
        std::memcpy(&word, &bytes[i], 8);
        state = __builtin_ia32_crc32di(state, word);
    }
    auto tail = static_cast<std::uint32_t>(state);
    for (; i < bytes.size(); ++i) tail = __builtin_ia32_crc32qi(tail, bytes[i]);
    return ~tail;
}
#endif

}  // namespace detail::crc

GX_DECL std::uint32_t crc32c(std::span<const std::uint8_t> bytes) {
#if defined(__x86_64__) && defined(__GNUC__)
    static const bool sse42 = __builtin_cpu_supports("sse4.2");
    if (sse42) return detail::crc::crc32c_sse42(bytes);
#endif
    return detail::crc::crc32c_portable(bytes);
}

GX_DECL std::uint32_t masked_crc32c(std::span<const std::uint8_t> bytes) {
    const std::uint32_t crc = crc32c(bytes);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

}  // namespace gx
