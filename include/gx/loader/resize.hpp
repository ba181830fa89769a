// Resize: bilinear change of an 8-bit image's height and width, in whole numbers.
#pragma once

#include <cstdint>  // int64_t
#include <vector>   // weights

#include <gx/core/cold.hpp>    // GX_COLD
#include <gx/core/decl.hpp>    // GX_HEADER_ONLY
#include <gx/model/graph.hpp>  // ImageShape

namespace gx {

/// Bilinear resizing between two fixed shapes.
///
/// Output pixel x of n lies at c = (x + 1/2) m / n - 1/2 in a row of m. Input pixel i has the
/// weight max(0, 1 - |i - c| / s), s = max(1, m / n), over the sum of the weights inside the image:
/// a smaller image is an average over what each pixel covers, and an equal one the same bits.
/// Columns as rows.
///
/// Errors: shapes with other channels, or without pixels, break the contract.
/// Order:  whole numbers; weights are multiples of 2^-20, so equal on every target, and pixels are
///         rounded once, halves up.
/// Cost:   tables on construction; C H W' k + C H' W' l products, k and l the weights of a pixel.
class Resize {
public:
    GX_COLD Resize(ImageShape from, ImageShape to);

    [[nodiscard]] ImageShape to() const { return to_; }
    /// Shapes: from and to as constructed; they do not overlap.
    void operator()(const std::uint8_t* from, std::uint8_t* to);

private:
    /// Of one output row or column: weights of the inputs from `first` on.
    struct Taps {
        int first = 0, count = 0;
        std::size_t weights = 0;  // index in weights_
    };
    [[nodiscard]] std::vector<Taps> taps(int from, int to);

    ImageShape from_, to_;
    std::vector<std::int64_t> weights_{};
    std::vector<Taps> rows_, columns_;
    std::vector<std::int64_t> lines_;  // (H, W') of one channel
};

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/loader/impl/resize.ipp>
#endif
