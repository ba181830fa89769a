// Generators of rows and placements that rapidcheck can shrink.
#pragma once

#include <rapidcheck.h>

#include <gx/core/transport.hpp>  // Placement
#include <gx/testing/rows.hpp>    // Rows

/// Placements of 1 to 8 ranks.
inline rc::Gen<gx::Placement> a_placement() {
    return rc::gen::map(
        rc::gen::element(11, 12, 13, 14, 15, 16, 17, 18, 21, 22, 23, 24, 31, 32, 41, 42, 51, 71),
        [](int code) { return gx::Placement{code / 10, code % 10}; });
}

/// Wide magnitudes for a placement; length 0 to 300.
inline gx::testing::Rows some_rows(gx::Placement placement) {
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    return gx::testing::wide_magnitudes(seed, placement.ranks(), *rc::gen::inRange(0, 301));
}
