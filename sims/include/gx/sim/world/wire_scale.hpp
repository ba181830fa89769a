// WireScale: cost of a message where the timed model is not the trained one.
#pragma once

#include <cstddef>  // size_t
#include <cstdint>  // int64_t

#include <gx/core/units.hpp>  // Bytes

namespace gx::sim {

/// Wire scale: a message costs as many bytes as the timed model would send, bytes * timed / real,
/// rounded to nearest. Equal numbers leave it as it is.
struct WireScale {
    std::int64_t timed = 1, real = 1;
    [[nodiscard]] constexpr Bytes operator()(std::size_t bytes) const {
        __extension__ typedef __int128 Wide;
        const Wide scaled = Wide{static_cast<std::int64_t>(bytes)} * timed;
        return {static_cast<std::int64_t>((scaled + real / 2) / real)};
    }
};

}  // namespace gx::sim
