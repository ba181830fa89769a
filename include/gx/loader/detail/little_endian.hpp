// Whole numbers in files, least significant byte first.
#pragma once

#include <cstdint>  // uint64_t
#include <span>     // bytes
#include <vector>   // bytes

namespace gx::detail::loader {

[[nodiscard]] inline std::uint64_t number_at(std::span<const std::uint8_t> bytes, std::size_t at,
                                             int width) {
    std::uint64_t x = 0;
    for (int i = width; i-- > 0;) x = x << 8 | bytes[at + std::size_t(i)];
    return x;
}
inline void put(std::vector<std::uint8_t>& to, std::uint64_t x, int width) {
    for (int i = 0; i < width; ++i, x >>= 8) to.push_back(static_cast<std::uint8_t>(x));
}

}  // namespace gx::detail::loader
