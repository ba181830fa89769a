// exif_orientation: the orientation that EXIF data hold.
#pragma once

#include <cstddef>  // size_t
#include <cstdint>  // uint8_t
#include <span>     // data

namespace gx::detail::image {

/// 1 ... 8, or 0 where there is none. `data`: an APP1 marker's, "Exif\0\0" and TIFF, or TIFF alone.
/// Source: EXIF 2.32, tag 0x0112 in the first directory.
[[nodiscard]] inline int exif_orientation(std::span<const std::uint8_t> data) {
    constexpr std::uint8_t name[] = {'E', 'x', 'i', 'f', 0, 0};
    bool named = data.size() >= sizeof name;
    for (std::size_t i = 0; named && i < sizeof name; ++i) named = data[i] == name[i];
    if (named) data = data.subspan(sizeof name);
    if (data.size() < 8 || data[0] != data[1] || (data[0] != 'I' && data[0] != 'M')) return 0;
    const bool little = data[0] == 'I';
    const auto number = [&](std::size_t at, std::size_t bytes) -> std::size_t {
        if (at > data.size() || data.size() - at < bytes) return 0;
        std::size_t value = 0;
        for (std::size_t i = 0; i < bytes; ++i)
            value = value << 8 | data[at + (little ? bytes - 1 - i : i)];
        return value;
    };
    if (number(2, 2) != 42) return 0;
    const std::size_t directory = number(4, 4), entries = number(directory, 2);
    for (std::size_t i = 0; i < entries; ++i) {
        const std::size_t entry = directory + 2 + 12 * i;
        if (entry >= data.size()) return 0;
        if (number(entry, 2) != 0x0112) continue;
        const std::size_t value = number(entry + 8, 2);
        return value >= 1 && value <= 8 ? static_cast<int>(value) : 0;
    }
    return 0;
}

}  // namespace gx::detail::image
