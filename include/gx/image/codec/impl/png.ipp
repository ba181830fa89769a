// libpng behind PngDecoder.
#pragma once

#include <algorithm>  // max, min
#include <csetjmp>    // setjmp
#include <cstdio>     // snprintf
#include <cstring>    // memcpy
#include <string>     // names
#include <png.h>

#include <fmt/format.h>  // format

#include <gx/core/cold.hpp>                // GX_COLD
#include <gx/core/contract.hpp>            // GX_EXPECT
#include <gx/core/error.hpp>               // Error
#include <gx/core/trivial_vector.hpp>      // rows
#include <gx/image/codec/detail/exif.hpp>  // exif_orientation
#include <gx/image/codec/png.hpp>          // PngDecoder
#include <gx/image/detail/arena.hpp>       // Arena

namespace gx {

struct PngDecoder::State {
    explicit State(const DecodeOptions& o) : options(o) {}
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    ~State() { close(); }

    void close() {
        if (png) png_destroy_read_struct(&png, &info, nullptr);
        memory.reset();
        left_rows = 0;
    }
    /// Runs calls of libpng: only its frames lie between an error and here.
    template <class Calls>
    void guarded(const Calls& calls) {
        if (setjmp(before) == 0) calls();
        else fail();
    }
    [[noreturn]] GX_COLD void fail();
    [[noreturn]] static void on_error(png_structp png, png_const_charp what);
    static void on_warning(png_structp png, png_const_charp what);
    static void read(png_structp png, png_bytep to, std::size_t count);
    [[nodiscard]] int set_transforms();
    [[nodiscard]] std::uint8_t* row(int y) {
        return &rows[row_bytes * static_cast<std::size_t>(y)];
    }

    png_structp png = nullptr;
    png_infop info = nullptr;
    std::jmp_buf before{};
    char sentence[256] = {};
    detail::image::Arena memory;
    std::size_t allocation_max = 0;
    DecodeOptions options;
    std::string where;
    std::span<const std::uint8_t> left;  // not yet read
    ImageHeader header;
    bool interlaced = false;
    std::int64_t warnings = 0;
    TrivialVector<std::uint8_t> rows;  // a few, or all of an interlaced image
    std::size_t row_bytes = 0;
    int rows_at_once = 0;
    ImageRegion region;
    int left_rows = 0;
};

namespace detail::image {
inline constexpr std::size_t png_chunk_bytes_max = 8'000'000;
inline constexpr std::size_t png_rows_bytes_max = std::size_t{1} << 20;  // or one row
inline constexpr int png_rows_at_once = 16;
}  // namespace detail::image

GX_COLD GX_DECL void PngDecoder::State::fail() {
    close();
    throw Error(fmt::format("{}: {}", where, sentence));
}
GX_DECL void PngDecoder::State::on_error(png_structp png, png_const_charp what) {
    State& s = *static_cast<State*>(png_get_error_ptr(png));
    const bool truncated = std::strcmp(what, "truncated") == 0;
    std::snprintf(s.sentence, sizeof s.sentence, "%s%s",
                  truncated ? "truncated PNG: the file ends before its last pixel. Copy it again"
                            : "no PNG that can be decoded: ",
                  truncated ? "" : what);
    std::longjmp(s.before, 1);
}
GX_DECL void PngDecoder::State::on_warning(png_structp png, png_const_charp what) {
    State& s = *static_cast<State*>(png_get_error_ptr(png));
    ++s.warnings;
    if (s.options.damage == DamageLimit::any) on_error(png, what);
}
GX_DECL void PngDecoder::State::read(png_structp png, png_bytep to, std::size_t count) {
    State& s = *static_cast<State*>(png_get_io_ptr(png));
    if (count > s.left.size()) png_error(png, "truncated");
    std::memcpy(to, s.left.data(), count);
    s.left = s.left.subspan(count);
}

GX_DECL PngDecoder::PngDecoder(const DecodeOptions& options)
    : state_(std::make_unique<State>(options)) {}
GX_DECL PngDecoder::PngDecoder(PngDecoder&&) noexcept = default;
GX_DECL PngDecoder::~PngDecoder() = default;
GX_DECL std::int64_t PngDecoder::warnings() const { return state_->warnings; }
GX_DECL std::size_t PngDecoder::bytes() const {
    return state_->memory.bytes() + state_->rows.capacity();
}

GX_DECL const ImageHeader& PngDecoder::open(std::span<const std::uint8_t> bytes,
                                            std::string_view where) {
    State& s = *state_;
    s.close();
    s.where = where;
    s.left = bytes;
    s.warnings = 0;
    s.allocation_max = 2 * detail::image::png_chunk_bytes_max;  // libpng takes eXIf of any length
    std::strcpy(s.sentence, "no memory for a PNG decoder");
    s.guarded([&s] {
        s.png = png_create_read_struct_2(
            PNG_LIBPNG_VER_STRING, &s, State::on_error, State::on_warning, &s,
            [](png_structp png, png_alloc_size_t count) -> png_voidp {
                State& state = *static_cast<State*>(png_get_mem_ptr(png));
                return count <= state.allocation_max ? state.memory.allocate(count) : nullptr;
            },
            [](png_structp, png_voidp) {});
        if (s.png) s.info = png_create_info_struct(s.png);
        if (!s.info) std::longjmp(s.before, 1);
        png_set_read_fn(s.png, &s, State::read);
        png_set_user_limits(s.png, 0x7fffffff, 0x7fffffff);  // DecodeOptions has the limit
        png_set_chunk_malloc_max(s.png, detail::image::png_chunk_bytes_max);
        // Of no use here, and up to 1000 of them, each of which unpacks to as much as one may.
        constexpr png_byte texts[] = "zTXt\0iTXt\0tEXt\0iCCP\0sPLT";
        png_set_keep_unknown_chunks(s.png, PNG_HANDLE_CHUNK_NEVER, texts, 5);
        png_read_info(s.png, s.info);
    });
    s.header = {
        .format = ImageFormat::png,
        .size = {int(png_get_image_width(s.png, s.info)), int(png_get_image_height(s.png, s.info))},
        .channels = png_get_color_type(s.png, s.info) == PNG_COLOR_TYPE_PALETTE
                        ? 3
                        : png_get_channels(s.png, s.info)};
    if (s.header.size.pixels() > s.options.pixels_max)
        throw Error(
            fmt::format("{}: decompression bomb: {} x {} pixels, and at most {} are "
                        "decoded. Raise DecodeOptions::pixels_max if it is a real image",
                        where, s.header.size.width, s.header.size.height, s.options.pixels_max));
    png_uint_32 count = 0;
    png_bytep exif = nullptr;
    if (s.options.orient && png_get_eXIf_1(s.png, s.info, &count, &exif))
        s.header.orientation = std::max(detail::image::exif_orientation({exif, count}), 1);
    return s.header;
}

/// Returns the number of passes of the rows.
GX_DECL int PngDecoder::State::set_transforms() {
    png_set_strip_16(png);
    png_set_palette_to_rgb(png);
    png_set_expand_gray_1_2_4_to_8(png);
    png_set_gray_to_rgb(png);
    png_set_strip_alpha(png);
    const int passes = png_set_interlace_handling(png);
    png_read_update_info(png, info);
    return passes;
}

GX_DECL void PngDecoder::begin(ImageRegion region) {
    State& s = *state_;
    GX_EXPECT(s.png, "open() comes before begin()");
    GX_EXPECT(lies_in(region, s.header.size), "a region lies inside its image");
    s.region = region;
    s.left_rows = region.height;
    s.allocation_max = ~std::size_t{0};  // the size of the image is known
    s.interlaced = png_get_interlace_type(s.png, s.info) != PNG_INTERLACE_NONE;
    s.row_bytes = std::size_t(3) * s.header.size.width;
    // A file of a few bytes may claim rows of any length.
    s.rows_at_once = s.interlaced ? s.header.size.height
                                  : static_cast<int>(std::clamp<std::size_t>(
                                        detail::image::png_rows_bytes_max / s.row_bytes, 1,
                                        detail::image::png_rows_at_once));
    s.rows.resize(s.row_bytes * static_cast<std::size_t>(s.rows_at_once) +
                  64);  // and what vector loops read
    s.guarded([&s] {
        const int passes = s.set_transforms();
        for (int pass = 0; s.interlaced && pass < passes; ++pass)
            for (int y = 0; y < s.header.size.height; ++y) png_read_row(s.png, s.row(y), nullptr);
        for (int y = 0; !s.interlaced && y < s.region.top; ++y)
            png_read_row(s.png, s.row(0), nullptr);
    });
}

GX_DECL ImageRows PngDecoder::next() {
    State& s = *state_;
    if (s.left_rows == 0) return {};
    const std::size_t left = std::size_t(3) * s.region.left;
    if (s.interlaced) {
        s.left_rows = 0;
        return {s.row(s.region.top) + left, s.row_bytes, s.region.height};
    }
    const int count = std::min(s.left_rows, s.rows_at_once);
    s.guarded([&s, count] {
        for (int i = 0; i < count; ++i) png_read_row(s.png, s.row(i), nullptr);
    });
    s.left_rows -= count;
    return {s.rows.data() + left, s.row_bytes, count};
}

}  // namespace gx
