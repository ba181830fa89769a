// weight_gradient: the gradient of a convolution's weights by tiles of AMX, channels last.
#pragma once

#include <algorithm>  // max, min, fill
#include <cstddef>    // byte
#include <cstdint>    // int64_t

#include <gx/core/cold.hpp>                      // GX_COLD
#include <gx/core/trivial_vector.hpp>            // taps
#include <gx/model/graph.hpp>                    // Window
#include <gx/onednn/detail/layout.hpp>           // Layout
#include <gx/onednn/detail/numbers.hpp>          // Bf16
#include <gx/onednn/detail/simd.hpp>             // run_kernel
#include <gx/onednn/detail/tiles/packing.hpp>    // pack_rows, pack_columns
#include <gx/onednn/detail/tiles/registers.hpp>  // AmxTiles, EmulatedTiles

namespace gx::onednn::detail {

/// How much is packed at once, so that it stays in a core's L2 cache.
struct Blocking {
    std::int64_t row_bytes = 512 << 10, column_bytes = 512 << 10;
    int panel_pixels = 512;  ///< where sums of several panels are kept between them
};

/// Images in memory, channels last; from one to the next in numbers.
struct PixelGrid {
    int height = 0, width = 0, channels = 0;
    std::int64_t image = 0, row = 0, pixel = 0;
    [[nodiscard]] static PixelGrid of(const Layout& l) {
        const std::int64_t c = l.channels();
        return {l.shape.height, l.shape.width, l.channels(), l.floats(), c * l.shape.width, c};
    }
};

/// Sums dw over images and pixels (p, q); bf16 in, fp32 out:
///
///     dw[k, r, s, c] = sum of dy[p, q, k] * x[stride p + r - pad, stride q + s - pad, c]
///
/// A product of tiles sums over 32 pixels. Pixels are numbered with zeros behind each row and each
/// image, which serve as padding, so that what a tap (r, s) reads lies at one distance from what it
/// is multiplied with. With a stride, x is an image for each remainder of rows and columns.
///
/// Rows of a product are channels of dy, or of x where a 1x1 convolution reads fewer channels than
/// it writes: rows are transposed, which takes three times as long as to interleave columns.
/// Shapes: dw (rows, taps, columns), row-major: (k, r, s, c), or (c, k) where rows are of x.
/// Order:  32 pixels as a product of tiles sums them, one after another; then, if it adds, dw.
/// Errors: none; an infinity that the zeros of padding meet gives NaN, where the definition has no
///         product.
/// Cost:   scratch_bytes() of memory, at most about row_bytes + column_bytes and sums of panels.
class TileWeightGradient {
public:
    /// Of `images` images. Layouts as runs() accepts them.
    GX_COLD TileWeightGradient(const Layout& x, const Layout& dy, const Window& window, int images,
                               const Blocking& blocking = {})
        : TileWeightGradient(PixelGrid::of(x), PixelGrid::of(dy), window, window.stride, images,
                             rows_of_x(x, dy, window), blocking) {}
    /// Columns of x are `window.stride` or, along a row, `stride_of_columns` apart.
    GX_COLD TileWeightGradient(const PixelGrid& x, const PixelGrid& dy, const Window& window,
                               int stride_of_columns, int images, bool rows_of_x,
                               const Blocking& blocking = {})
        : images_(images),
          stride_(window.stride),
          stride_of_columns_(stride_of_columns),
          x_(x),
          dy_(dy),
          swapped_(rows_of_x) {
        number_pixels(window);
        place_taps(window);
        choose_panels(blocking);
    }
    /// Channels last, in whole pairs of tiles.
    [[nodiscard]] static bool runs(const Layout& x, const Layout& dy) {
        return x.channels_last && dy.channels_last && x.channels() % 32 == 0 &&
               dy.channels() % 32 == 0;
    }
    [[nodiscard]] static bool rows_of_x(const Layout& x, const Layout& dy, const Window& w) {
        return w.height * w.width == 1 && x.channels() < dy.channels();
    }
    [[nodiscard]] std::int64_t scratch_bytes() const {
        return sums_begin() +
               (panel_ < total_ ? std::int64_t{4} * part_ * columns() * tap_count() : 0);
    }
    /// Writes dw, or adds to it. Tiles: AmxTiles or EmulatedTiles. `scratch`: scratch_bytes(),
    /// aligned to 64.
    template <class Tiles>
    void run(const Bf16* x, const Bf16* dy, float* dw, bool add, void* scratch) const {
        run_kernel<Kernel<Tiles>>(
            typename Kernel<Tiles>::Args{*this, x, dy, dw, add, static_cast<std::byte*>(scratch)});
    }

private:
    /// The pixels of x whose row and column leave these remainders, as an image.
    struct Phase {
        int row = 0, column = 0, height = 0, width = 0;
        bool even = false, odd = false;  // the distances of its taps
        int first_stream = 0;
        [[nodiscard]] int streams() const { return int{even} + int{odd}; }
    };
    struct Tap {
        int phase = 0, distance = 0;
    };

    [[nodiscard]] static constexpr int floor_div(int a, int b) {
        return (a >= 0 ? a : a - b + 1) / b;
    }
    [[nodiscard]] static constexpr std::size_t at(int i) { return static_cast<std::size_t>(i); }
    GX_COLD int phase_of(int row, int column) {
        for (std::size_t p = 0; p < phases_.size(); ++p)
            if (phases_[p].row == row && phases_[p].column == column) return static_cast<int>(p);
        const auto count = [&](int size, int begin, int stride) {
            return std::max(0, (size - begin + stride - 1) / stride);
        };
        phases_.push_back({.row = row,
                           .column = column,
                           .height = count(x_.height, row, stride_),
                           .width = count(x_.width, column, stride_of_columns_)});
        return static_cast<int>(phases_.size()) - 1;
    }
    /// Calls f(row, column, how far row and column lie from those of dy in their phase) by taps.
    template <class F>
    void each_tap(const Window& w, F f) {
        for (int r = 0; r < w.height; ++r)
            for (int s = 0; s < w.width; ++s) {
                const int y = floor_div(r - w.pad_height, stride_),
                          x = floor_div(s - w.pad_width, stride_of_columns_);
                f(r - w.pad_height - y * stride_, s - w.pad_width - x * stride_of_columns_, y, x);
            }
    }
    /// Room for the zeros that the farthest taps read on either side, which neighbours share.
    GX_COLD void number_pixels(const Window& w) {
        int up = 0, left = 0;
        each_tap(w,
                 [&](int, int, int y, int x) { up = std::max(up, -y), left = std::max(left, -x); });
        each_tap(w, [&](int row, int column, int y, int x) {
            const Phase& p = phases_[at(phase_of(row, column))];
            rows_ = std::max({rows_, p.height + up, dy_.height + y});
            pitch_ = std::max({pitch_, p.width + left, dy_.width + x});
        });
        first_of_x_ = up * pitch_ + left;
    }
    GX_COLD void place_taps(const Window& w) {
        each_tap(w, [&](int row, int column, int y, int x) {
            const Tap tap{phase_of(row, column), first_of_x_ + y * pitch_ + x};
            Phase& p = phases_[at(tap.phase)];
            (tap.distance % 2 == 0 ? p.even : p.odd) = true;
            farthest_ = std::max(farthest_, tap.distance);
            taps_.push_back(tap);
        });
        for (Phase& p : phases_) p.first_stream = streams_, streams_ += p.streams();
    }
    /// Rows of all pixels, if they fit. Else a part of the rows at once, for each of which the
    /// columns are packed again; or a panel of pixels, between which sums are written and read:
    /// whichever moves less.
    GX_COLD void choose_panels(const Blocking& b) {
        total_ = round_up(((images_ - 1) * rows_ + dy_.height - 1) * pitch_ + dy_.width, 32);
        part_ = row_count(), panel_ = total_;
        const std::int64_t bytes = std::int64_t{2} * row_count() * total_;
        const auto pieces = static_cast<int>((bytes + b.row_bytes - 1) / b.row_bytes);
        if (pieces > 1 &&
            std::int64_t{2} * row_count() * tap_count() > std::int64_t{total_} * streams_)
            part_ = round_up((row_count() + pieces - 1) / pieces, 32);
        else if (pieces > 1) {
            const int panels = std::max(pieces, (total_ + b.panel_pixels - 1) / b.panel_pixels);
            panel_ = round_up((total_ + panels - 1) / panels, 32);
        }
        const std::int64_t each = stream_bytes() * 2 * streams_;  // of 32 columns
        group_ = columns();
        while (group_ > 32 && group_ / 32 * each > b.column_bytes)
            group_ = round_up(group_ / 2, 32);
    }

    [[nodiscard]] int row_count() const { return (swapped_ ? x_ : dy_).channels; }
    [[nodiscard]] int columns() const { return (swapped_ ? dy_ : x_).channels; }
    [[nodiscard]] int tap_count() const { return static_cast<int>(taps_.size()); }
    /// Of x those that the farthest tap reads, and one more, which ends the last odd pair.
    [[nodiscard]] int column_pixels() const { return round_up(panel_ + farthest_ + 3, 32); }
    /// Of the pairs of one tile of columns. Streams begin at different places of a page.
    [[nodiscard]] std::int64_t stream_bytes() const {
        return std::int64_t{32} * column_pixels() + 320;
    }
    /// Scratch: addresses of pixels, a pixel of zeros, rows, columns, sums.
    [[nodiscard]] std::int64_t zero_begin() const {
        const std::int64_t addresses = panel_ + std::int64_t{column_pixels()} * int(phases_.size());
        return (addresses * std::int64_t{sizeof(void*)} + 63) / 64 * 64;
    }
    [[nodiscard]] std::int64_t rows_begin() const {
        return zero_begin() + std::int64_t{2} * std::max(row_count(), columns());
    }
    [[nodiscard]] std::int64_t columns_begin() const {
        return rows_begin() + std::int64_t{2} * part_ * panel_;
    }
    [[nodiscard]] std::int64_t sums_begin() const {
        return columns_begin() + group_ / 16 * streams_ * stream_bytes();
    }

    template <class Tiles>
    struct Kernel;

    int images_, stride_, stride_of_columns_;
    PixelGrid x_, dy_;
    bool swapped_;  // rows are of x
    TrivialVector<Phase> phases_{};
    TrivialVector<Tap> taps_{};
    int rows_ = 1, pitch_ = 1;  // of an image and of a row, with zeros
    int first_of_x_ = 0;        // the number of its first pixel; that of dy is 0
    int farthest_ = 0;          // distance of a tap
    int streams_ = 0;           // of two tiles of columns: the even and the odd pairs of each phase
    int total_ = 0;             // pixels of dy, with zeros
    int panel_ = 0, part_ = 0, group_ = 0;  // pixels, rows and columns at once
};

template <class Tiles>
struct TileWeightGradient::Kernel {
    using number = Bf16;
    struct Args {
        const TileWeightGradient& plan;
        const Bf16 *x, *dy;
        float* dw;
        bool add;
        std::byte* scratch;
    };
    struct Places {
        const Bf16 **row_pixels, **column_pixels;
        Bf16 *zero, *rows, *columns;
        float* sums;
        std::int64_t tile;  // numbers from one tile of columns to the next
        bool aligned;       // dw, to cache lines
    };
    struct Panel {
        int first, count, row, row_end;
        bool opens, closes;  // the sums
    };

    template <int B>
    GX_ONEDNN_INLINE static void run(const Args& a) {
        const TileWeightGradient& p = a.plan;
        std::byte* s = a.scratch;
        const Places at{reinterpret_cast<const Bf16**>(s),
                        reinterpret_cast<const Bf16**>(s) + p.panel_,
                        reinterpret_cast<Bf16*>(s + p.zero_begin()),
                        reinterpret_cast<Bf16*>(s + p.rows_begin()),
                        reinterpret_cast<Bf16*>(s + p.columns_begin()),
                        reinterpret_cast<float*>(s + p.sums_begin()),
                        p.stream_bytes() / 2,
                        reinterpret_cast<std::uintptr_t>(a.dw) % 64 == 0};
        std::fill(at.zero, at.rows, Bf16{0});
        Tiles::configure();
        for (int row = 0; row < p.row_count(); row += p.part_)
            for (int first = 0; first < p.total_; first += p.panel_) {
                const int count = std::min(p.panel_, p.total_ - first);
                run_panel(a, at,
                          {first, count, row, std::min(p.row_count(), row + p.part_), first == 0,
                           first + count == p.total_});
            }
        Tiles::release();
        end_streams();
    }

private:
    GX_ONEDNN_INLINE static void run_panel(const Args& a, const Places& at, const Panel& panel) {
        const TileWeightGradient& p = a.plan;
        point(a, at, panel);
        pack_rows(at.row_pixels, panel.count, panel.row, panel.row_end, at.rows);
        for (int c = 0; c < p.columns(); c += p.group_) {
            const int end = std::min(p.columns(), c + p.group_);
            pack(p, at, panel, c, end);
            asm volatile("" ::: "memory");  // tiles read what was packed
            for (int k = c; k < end; k += 32)
                for (int r = panel.row; r < panel.row_end; r += 32)
                    for (int t = 0; t < p.tap_count(); ++t) multiply(a, at, panel, r, t, c, k);
        }
    }
    GX_ONEDNN_INLINE static void point(const Args& a, const Places& at, const Panel& panel) {
        const TileWeightGradient& p = a.plan;
        const int more = p.column_pixels();
        const NumberedPixels dy{a.dy,     p.images_,   p.dy_.height, p.dy_.width, p.rows_,
                                p.pitch_, p.dy_.image, p.dy_.row,    p.dy_.pixel};
        if (p.swapped_) point_at(dy, at.zero, panel.first, more, at.column_pixels);
        else point_at(dy, at.zero, panel.first, panel.count, at.row_pixels);
        const Bf16** to = p.swapped_ ? at.row_pixels : at.column_pixels;
        for (const Phase& f : p.phases_) {
            const NumberedPixels x{a.x + f.row * p.x_.row + f.column * p.x_.pixel,
                                   p.images_,
                                   f.height,
                                   f.width,
                                   p.rows_,
                                   p.pitch_,
                                   p.x_.image,
                                   p.stride_ * p.x_.row,
                                   p.stride_of_columns_ * p.x_.pixel};
            point_at(x, at.zero, panel.first - p.first_of_x_, p.swapped_ ? panel.count : more, to);
            to += more;
        }
    }
    /// Columns [c, end).
    GX_ONEDNN_INLINE static void pack(const TileWeightGradient& p, const Places& at,
                                      const Panel& panel, int c, int end) {
        const int count = panel.count + p.farthest_ + 1;
        const Bf16** from = at.column_pixels;
        for (const Phase& f : p.phases_) {
            Bf16* to = at.columns + f.first_stream * (p.group_ / 16) * at.tile;
            if (f.even && f.odd) pack_columns<true, true>(from, count, c, end, to, at.tile);
            else if (f.even) pack_columns<true, false>(from, count, c, end, to, at.tile);
            else pack_columns<false, true>(from, count, c, end, to, at.tile);
            from += p.column_pixels();
        }
    }
    /// Rows [r, r + 32) and columns [k, k + 32) of a tap. Columns from `c` on are packed.
    GX_ONEDNN_INLINE static void multiply(const Args& a, const Places& at, const Panel& panel,
                                          int r, int t, int c, int k) {
        const TileWeightGradient& p = a.plan;
        const auto [phase, distance] = p.taps_[TileWeightGradient::at(t)];
        const Phase& f = p.phases_[TileWeightGradient::at(phase)];
        const int tile = f.first_stream * (p.group_ / 16) + (k - c) / 16 * f.streams() +
                         (distance % 2 != 0 && f.even ? 2 : 0);
        const Bf16* columns = at.columns + tile * at.tile + std::int64_t{distance / 2} * 32;
        const Bf16* rows = at.rows + std::int64_t{r - panel.row} * panel.count;
        const std::int64_t block = std::int64_t{(r - panel.row) / 32} * (p.columns() / 32) + k / 32;
        float* kept = at.sums + (block * p.tap_count() + t) * 1024;
        alignas(64) float final[1024];
        float* to = panel.closes ? final : kept;
        sum(rows, std::int64_t{16} * panel.count, columns, at.tile, panel.count / 32,
            panel.opens ? nullptr : kept, to);
        if (!panel.closes) return;
        asm volatile("" ::: "memory");  // tiles have written
        const std::int64_t row = std::int64_t{p.tap_count()} * p.columns();
        float* dw = a.dw + r * row + std::int64_t{t} * p.columns() + k;
        if (a.add) return store<Sums::added>(final, dw, row);
        at.aligned ? store<Sums::streamed>(final, dw, row) : store<Sums::stored>(final, dw, row);
    }
    /// Four tiles, 32 rows by 32 columns: `steps` products, added to `from` or to 0.
    GX_ONEDNN_INLINE static void sum(const Bf16* a, std::int64_t next_a, const Bf16* b,
                                     std::int64_t next_b, int steps, const float* from, float* to) {
        if (from == nullptr) {
            Tiles::template zero<0>(), Tiles::template zero<1>();
            Tiles::template zero<2>(), Tiles::template zero<3>();
        } else {
            Tiles::template load<0>(from), Tiles::template load<1>(from + 256);
            Tiles::template load<2>(from + 512), Tiles::template load<3>(from + 768);
        }
        for (int i = 0; i < steps; ++i, a += 512, b += 512) {
            Tiles::template load<6>(b), Tiles::template load<4>(a);
            Tiles::template multiply_add<0, 4, 6>();
            Tiles::template load<7>(b + next_b);
            Tiles::template multiply_add<1, 4, 7>();
            Tiles::template load<5>(a + next_a);
            Tiles::template multiply_add<2, 5, 6>();
            Tiles::template multiply_add<3, 5, 7>();
        }
        Tiles::template store<0>(to), Tiles::template store<1>(to + 256);
        Tiles::template store<2>(to + 512), Tiles::template store<3>(to + 768);
    }
    template <Sums how>
    GX_ONEDNN_INLINE static void store(const float* tiles, float* to, std::int64_t row) {
        for (int r = 0; r < 32; ++r, to += row) {
            const float* from = tiles + r / 16 * 512 + r % 16 * 16;
            store_columns<how>(from, from + 256, to);
        }
    }
};

}  // namespace gx::onednn::detail
