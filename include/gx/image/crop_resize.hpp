// CropResize: bilinear resizing of interleaved 8-bit RGB, row by row: antialiased or plain.
#pragma once

#include <cstddef>  // size_t
#include <cstdint>  // uint8_t

#include <gx/core/cpu.hpp>             // Simd
#include <gx/core/decl.hpp>            // GX_DECL
#include <gx/core/trivial_vector.hpp>  // tables, rows
#include <gx/image/region.hpp>         // ImageSize, ImageBox

namespace gx {

enum class ResizeMode : unsigned char {
    antialiased,  ///< a pixel is an average over what it covers: Pillow's BILINEAR, torchvision's
    plain         ///< the 2 x 2 pixels around its centre: OpenCV's INTER_LINEAR, faster
};

namespace detail::image {

/// Antialiased weights of one direction: output i is the sum over k < count[i] of weight k times
/// input first[i] + k. A weight is a multiple of 2^-22, w = 2^12 high + low, for sums of 16-bit
/// products.
struct Taps {
    int padded = 0;  ///< weights of an output, a multiple of 4; those from count on are zero
    TrivialVector<int> first{}, count{};
    TrivialVector<std::int16_t> high{}, low{};  ///< (outputs, padded)
};

/// Plain weights: output i is input first[i] plus weight[i] / 2^15 of the step to the next input.
struct Steps {
    TrivialVector<int> first{};
    TrivialVector<std::int16_t> weight{};  ///< (outputs, 4): a lane for each channel
};

}  // namespace detail::image

/// Resizes one image after another; rows come from a decoder or from memory.
///
/// Output pixel x of n lies at c = left + (x + 1/2) width / n in a box of `width` pixels.
///
///     antialiased   input pixel i weighs max(0, 1 - |i + 1/2 - c| / s), s = max(1, width / n)
///     plain         input pixel i weighs max(0, 1 - |i + 1/2 - c|); beyond the border its pixel
///
/// Both are separable. Weights are taken over the pixels given, as torchvision's resized_crop does,
/// which crops first. gx::Resize of the loaders is the antialiased mode on (C, H, W) between two
/// fixed shapes: it rounds once, and this class, as Pillow, after the horizontal pass, too.
///
/// Errors: no pixels, or a box that is not inside, breaks the contract.
/// Order:  antialiased: the bits of Pillow 9.4's resize(BILINEAR, box, reducing_gap=None) at boxes
///         of whole pixels: weights are multiples of 2^-22, horizontally to 8 bits, then
///         vertically. Pillow keeps a box in floats: at fractional ones a byte in 10^4 differs by
///         1. Pillow 13 begins with the direction that is less work: a difference of 1 where that
///         is the vertical one.
///         plain: weights are multiples of 2^-15, vertically to 15 bits, then horizontally; within
///         0.52 of the formula. Whole numbers, so each instruction set gives the same bits.
/// Cost:   tables of W' + H' outputs for each image; allocates for larger images than before only.
class CropResize {
public:
    explicit CropResize(Simd simd = best_simd()) : simd_(simd) {}

    /// Begins an image of `from`, of which `box` is shown on `out`, mirrored left to right or not.
    /// Shapes: out (to.height, to.width, 3), rows `stride` bytes apart.
    GX_DECL void begin(ImageSize from, ImageBox box, ImageSize to, ResizeMode mode, bool mirrored,
                       std::uint8_t* out, std::size_t stride);
    /// Takes the next row; those behind the last one needed are ignored.
    /// Shapes: row (from.width, 3).
    GX_DECL void push(const std::uint8_t* row);
    /// Rows of the image, from the first, without which `out` is not complete.
    [[nodiscard]] int rows_needed() const { return rows_needed_; }

    /// Resizes an image in memory. Shapes: image (from.height, from.width, 3), out as in begin().
    void operator()(const std::uint8_t* image, ImageSize from, ImageSize to, ResizeMode mode,
                    bool mirrored, std::uint8_t* out) {
        begin(from, whole_box(from), to, mode, mirrored, out, std::size_t(3) * to.width);
        for (int y = 0; y < rows_needed(); ++y) push(image + std::size_t(3) * from.width * y);
    }

private:
    void sum_pixels(const std::uint8_t* row, std::uint8_t* to) const;
    void push_antialiased(const std::uint8_t* row);
    void push_plain(const std::uint8_t* row);

    Simd simd_;
    ImageSize from_{}, to_{};
    ResizeMode mode_{};
    std::uint8_t* out_ = nullptr;
    std::size_t stride_ = 0;
    int rows_needed_ = 0;
    int row_ = 0;     // that comes next
    int output_ = 0;  // row of `to` that comes next
    detail::image::Taps columns_{}, rows_{};
    detail::image::Steps column_steps_{}, row_steps_{};
    TrivialVector<std::uint8_t> lines_{};  // antialiased: (ring, line), resized horizontally
    TrivialVector<const std::uint8_t*> sources_{};
    TrivialVector<std::uint8_t> previous_{};  // plain: the row before
    TrivialVector<std::int16_t> blended_{};   // plain: of two rows, times 2^7
    TrivialVector<std::uint8_t> line_{};      // plain: an output row
    std::size_t line_bytes_ = 0;
    int ring_ = 0;
};

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/image/impl/crop_resize.ipp>
#endif
