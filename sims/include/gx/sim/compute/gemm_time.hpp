// GEMM time on a GPU, by tiles, waves and multiprocessors.
#pragma once

#include <algorithm>  // min
#include <array>      // tiles
#include <cstdint>    // int64_t
#include <limits>     // infinity

#include <gx/core/units.hpp>  // BytesPerSecond, FlopsPerSecond

namespace gx::sim {

/// GEMM shape of one image: `count` products of (rows x depth) by (depth x columns) matrices.
/// `grows` names the dimension that scales with the batch.
struct Gemm {
    enum class Grows : unsigned char { rows, depth, count };
    std::int64_t rows = 0, columns = 0, depth = 0, count = 1;
    Grows grows = Grows::rows;

    [[nodiscard]] constexpr Gemm of(int images) const {
        Gemm p = *this;
        (grows == Grows::rows ? p.rows : grows == Grows::depth ? p.depth : p.count) *= images;
        return p;
    }
    [[nodiscard]] constexpr double flops() const {
        return 2.0 * static_cast<double>(rows * columns) * static_cast<double>(depth * count);
    }
};

/// What a multiprocessor computes at a time, and its speed beside a very large tile.
struct Tile {
    int rows = 0, columns = 0;
    [[nodiscard]] constexpr double share() const {
        const double reuse = static_cast<double>(rows) * columns / (rows + columns);
        return reuse / (reuse + 16);  // 128x128: 0.80; 32x32: 0.50
    }
};
inline constexpr std::array<Tile, 7> tiles{
    {{256, 128}, {128, 128}, {128, 64}, {64, 64}, {64, 32}, {32, 32}, {128, 32}}};

/// Arithmetic of one kernel, without its launch.
///
///     tiles = count * ceil(rows / tile rows) * ceil(columns / tile columns) * split
///     waves = ceil(tiles / multiprocessors)
///     time  = waves * 2 * tile rows * tile columns * (depth / split + 32) / (rate * tile's share)
///
/// with the tile and the split of the depth that are quickest, as a library's heuristics choose.
/// A wave that is not full costs as much as a full one: this, and not launches alone, is why small
/// batches run below the GPU's rate. Parts of a split depth are added through memory. An ideal GPU
/// (multiprocessors = 0) takes flops / rate.
///
/// Units: `rate` is the flops a second that the whole GPU reaches on large products.
/// Order: never shorter for more rows, columns, depth or products.
/// Source: NVIDIA, "Matrix Multiplication Background User's Guide", sections on tile and wave
///         quantization, for the form. The tiles' shares and the 32 steps in which the loop over
///         the depth fills are assumptions.
[[nodiscard]] inline double gemm_seconds(const Gemm& p, int multiprocessors, FlopsPerSecond rate,
                                         BytesPerSecond bandwidth) {
    if (multiprocessors == 0) return p.flops() / rate.count;
    const auto parts = [](std::int64_t n, std::int64_t size) { return (n + size - 1) / size; };
    const double full = tiles[0].share();
    double best = std::numeric_limits<double>::infinity();
    for (const Tile& tile : tiles) {
        const std::int64_t area = parts(p.rows, tile.rows) * parts(p.columns, tile.columns);
        const double each = 2.0 * tile.rows * tile.columns * multiprocessors * full /
                            (rate.count * tile.share());  // a step of the depth
        for (std::int64_t split = 1; split <= 64; split *= 2) {
            const std::int64_t waves = parts(area * p.count * split, multiprocessors);
            double t =
                static_cast<double>(waves) * each * static_cast<double>(parts(p.depth, split) + 32);
            if (split > 1)
                t += 8.0 * static_cast<double>(split * p.rows * p.columns * p.count) /
                     bandwidth.count;
            best = std::min(best, t);
        }
    }
    return best;
}

}  // namespace gx::sim
