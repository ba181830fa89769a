// libjpeg-turbo behind JpegDecoder: its memory, its source of bytes, its errors.
#pragma once

#include <algorithm>  // min, max
#include <csetjmp>    // setjmp
#include <cstdio>     // FILE, which jpeglib.h needs
#include <cstring>    // memset
#include <string>     // names
#include <jpeglib.h>
#include <jerror.h>

#include <fmt/format.h>  // format

#include <gx/core/cold.hpp>                // GX_COLD
#include <gx/core/contract.hpp>            // GX_EXPECT
#include <gx/core/error.hpp>               // Error
#include <gx/core/trivial_vector.hpp>      // rows
#include <gx/image/codec/detail/exif.hpp>  // exif_orientation
#include <gx/image/codec/jpeg.hpp>         // JpegDecoder
#include <gx/image/detail/arena.hpp>       // Arena

namespace gx {

namespace detail::image {

/// Arrays that libjpeg reads in parts; here they are in memory whole.
struct CoefficientArray {
    JBLOCKARRAY rows;
    CoefficientArray* next;
    JDIMENSION blocks_per_row, row_count;
    boolean pre_zero;
};

/// libjpeg's memory manager over two arenas. Source: libjpeg.txt, "Memory management"; rows of
/// samples are multiples of 64 bytes, which the vector code of libjpeg-turbo needs.
class JpegMemory : jpeg_memory_mgr {
public:
    void install(j_common_ptr info);
    /// Before jpeg_destroy.
    void remove(j_common_ptr info) { info->mem = original_; }
    [[nodiscard]] std::size_t bytes() const { return arenas_[0].bytes() + arenas_[1].bytes(); }

private:
    static JpegMemory& of(j_common_ptr info) { return *static_cast<JpegMemory*>(info->mem); }
    static void* allocate(j_common_ptr info, int pool, std::size_t bytes) {
        void* const memory = of(info).arenas_[pool == JPOOL_PERMANENT ? 0 : 1].allocate(bytes);
        if (!memory) ERREXIT1(info, JERR_OUT_OF_MEMORY, 0);
        return memory;
    }
    template <class T>
    static T** rows(j_common_ptr info, int pool, std::size_t row_elements, JDIMENSION count) {
        const auto table = static_cast<T**>(allocate(info, pool, count * sizeof(T*)));
        const auto memory = static_cast<T*>(allocate(info, pool, count * row_elements * sizeof(T)));
        for (JDIMENSION i = 0; i < count; ++i) table[i] = memory + i * row_elements;
        return table;
    }
    void use_functions();

    jpeg_memory_mgr* original_ = nullptr;
    CoefficientArray* arrays_ = nullptr;
    Arena arenas_[2]{};  // permanent, of an image
};

}  // namespace detail::image

struct JpegDecoder::State {
    explicit State(const DecodeOptions& o);
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    ~State() {
        memory.remove(reinterpret_cast<j_common_ptr>(&info));
        jpeg_destroy_decompress(&info);
    }
    /// Runs calls of libjpeg: only its frames lie between an error and here.
    template <class Calls>
    void guarded(const Calls& calls) {
        if (setjmp(before) == 0) calls();
        else fail();
    }
    [[noreturn]] GX_COLD void fail();
    [[noreturn]] GX_COLD void refuse(const std::string& what) const { throw Error(where + what); }
    /// The error that `fail` throws; libjpeg's frames are left by longjmp.
    [[noreturn]] static void leave(j_common_ptr info, std::string_view sentence);

    static State& of(j_common_ptr info) { return *static_cast<State*>(info->client_data); }
    static void on_error(j_common_ptr info);
    static void on_message(j_common_ptr info, int level);
    static boolean fill_input(j_decompress_ptr info);
    static void skip_input(j_decompress_ptr info, long count);
    static void on_progress(j_common_ptr info);
    void convert_cmyk(std::uint8_t* row, int pixels) const;

    jpeg_decompress_struct info{};
    jpeg_error_mgr errors{};
    jpeg_source_mgr source{};
    jpeg_progress_mgr progress{};
    std::jmp_buf before{};
    char sentence[JMSG_LENGTH_MAX + 64] = {};
    detail::image::JpegMemory memory;
    DecodeOptions options;
    std::string where;
    std::span<const std::uint8_t> bytes;
    ImageHeader header;
    TrivialVector<std::uint8_t, 64> rows;
    int left_rows = 0;           // of the region
    std::size_t row_offset = 0;  // of the region in a row
    std::size_t row_bytes = 0;
};

namespace detail::image {

inline constexpr int scans_max = 500;
inline constexpr int rows_at_once = 16;
/// Where rows begin, beyond a multiple of 64 bytes. libjpeg-turbo's vector code writes rows on
/// multiples of 16 or 32 past the caches (MOVNTDQ); with those, decoding and resizing a crop of
/// 500 x 375 took 1.3 times as long on an Intel Xeon with AMX.
inline constexpr std::size_t unaligned = 8;

GX_DECL void JpegMemory::use_functions() {
    alloc_small = allocate;
    alloc_large = allocate;
    alloc_sarray = [](j_common_ptr info, int pool, JDIMENSION samples,
                      JDIMENSION count) -> JSAMPARRAY {
        return rows<JSAMPLE>(info, pool, (std::size_t{samples} + 63) / 64 * 64, count);
    };
    alloc_barray = [](j_common_ptr info, int pool, JDIMENSION blocks,
                      JDIMENSION count) -> JBLOCKARRAY {
        return rows<JBLOCK>(info, pool, blocks, count);
    };
    request_virt_sarray = [](j_common_ptr info, int, boolean, JDIMENSION, JDIMENSION,
                             JDIMENSION) -> jvirt_sarray_ptr {
        ERREXIT(info, JERR_NOT_COMPILED);  // of two-pass quantisation, which is off
        return nullptr;
    };
    request_virt_barray = [](j_common_ptr info, int pool, boolean pre_zero, JDIMENSION blocks,
                             JDIMENSION count, JDIMENSION) -> jvirt_barray_ptr {
        auto* const array =
            static_cast<CoefficientArray*>(allocate(info, pool, sizeof(CoefficientArray)));
        JpegMemory& memory = of(info);
        *array = {nullptr, memory.arrays_, blocks, count, pre_zero};
        memory.arrays_ = array;
        return reinterpret_cast<jvirt_barray_ptr>(array);
    };
    realize_virt_arrays = [](j_common_ptr info) {
        for (CoefficientArray* a = of(info).arrays_; a && !a->rows; a = a->next) {
            a->rows = rows<JBLOCK>(info, JPOOL_IMAGE, a->blocks_per_row, a->row_count);
            if (a->pre_zero && a->row_count > 0)
                std::memset(a->rows[0], 0,
                            sizeof(JBLOCK) * a->blocks_per_row * std::size_t{a->row_count});
        }
    };
    access_virt_barray = [](j_common_ptr info, jvirt_barray_ptr array, JDIMENSION first,
                            JDIMENSION count, boolean) -> JBLOCKARRAY {
        const auto* const a = reinterpret_cast<const CoefficientArray*>(array);
        if (!a->rows || first + count > a->row_count) ERREXIT(info, JERR_BAD_VIRTUAL_ACCESS);
        return a->rows + first;
    };
    free_pool = [](j_common_ptr info, int pool) {
        JpegMemory& memory = of(info);
        memory.arenas_[pool == JPOOL_PERMANENT ? 0 : 1].reset();
        if (pool == JPOOL_IMAGE) memory.arrays_ = nullptr;
    };
}
GX_DECL void JpegMemory::install(j_common_ptr info) {
    original_ = info->mem;
    static_cast<jpeg_memory_mgr&>(*this) = *original_;  // its limits
    use_functions();
    info->mem = this;
}

}  // namespace detail::image

GX_DECL JpegDecoder::State::State(const DecodeOptions& o) : options(o) {
    info.err = jpeg_std_error(&errors);
    errors.error_exit = on_error;
    errors.emit_message = on_message;
    info.client_data = this;
    guarded([this] { jpeg_create_decompress(&info); });
    info.client_data = this;
    memory.install(reinterpret_cast<j_common_ptr>(&info));
    progress.progress_monitor = on_progress;
    info.progress = &progress;
    source.init_source = [](j_decompress_ptr) {};
    source.fill_input_buffer = fill_input;
    source.skip_input_data = skip_input;
    source.resync_to_restart = jpeg_resync_to_restart;
    source.term_source = [](j_decompress_ptr) {};
    info.src = &source;
    if (options.orient) jpeg_save_markers(&info, JPEG_APP0 + 1, 0xffff);
}

GX_COLD GX_DECL void JpegDecoder::State::fail() {
    jpeg_abort_decompress(&info);
    left_rows = 0;
    throw Error(fmt::format("{}: {}", where, sentence));
}
GX_DECL void JpegDecoder::State::leave(j_common_ptr info, std::string_view why) {
    State& state = of(info);
    const std::size_t count = std::min(why.size(), sizeof state.sentence - 1);
    std::memcpy(state.sentence, why.data(), count);
    state.sentence[count] = 0;
    std::longjmp(state.before, 1);
}
GX_DECL void JpegDecoder::State::on_error(j_common_ptr info) {
    char text[JMSG_LENGTH_MAX];
    info->err->format_message(info, text);
    char why[JMSG_LENGTH_MAX + 32];
    std::snprintf(why, sizeof why, "no JPEG that can be decoded: %s", text);
    leave(info, why);
}
GX_DECL void JpegDecoder::State::on_message(j_common_ptr info, int level) {
    if (level >= 0) return;
    ++info->err->num_warnings;
    if (of(info).options.damage != DamageLimit::any) return;
    char text[JMSG_LENGTH_MAX];
    info->err->format_message(info, text);
    char why[JMSG_LENGTH_MAX + 32];
    std::snprintf(why, sizeof why, "damaged JPEG: %s", text);
    leave(info, why);
}
GX_DECL boolean JpegDecoder::State::fill_input(j_decompress_ptr info) {
    const auto common = reinterpret_cast<j_common_ptr>(info);
    if (of(common).options.damage != DamageLimit::none)
        leave(common,
              "truncated JPEG: the file ends before its last pixel. Copy it again; a program may "
              "decode what is there by DamageLimit::none");
    static constexpr JOCTET end_of_image[] = {0xff, JPEG_EOI};
    WARNMS(info, JWRN_JPEG_EOF);
    info->src->next_input_byte = end_of_image;
    info->src->bytes_in_buffer = sizeof end_of_image;
    return TRUE;
}
GX_DECL void JpegDecoder::State::skip_input(j_decompress_ptr info, long count) {
    if (count <= 0) return;
    if (static_cast<std::size_t>(count) > info->src->bytes_in_buffer) {
        fill_input(info);
        return;
    }
    info->src->next_input_byte += count;
    info->src->bytes_in_buffer -= static_cast<std::size_t>(count);
}
GX_DECL void JpegDecoder::State::on_progress(j_common_ptr info) {
    if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > detail::image::scans_max)
        leave(info, "decompression bomb: a JPEG of more than 500 scans");
}

/// As Pillow's convert("RGB") of its mode CMYK, from what libjpeg returns: inverted.
GX_DECL void JpegDecoder::State::convert_cmyk(std::uint8_t* row, int pixels) const {
    const std::uint8_t* from = row;
    for (int x = 0; x < pixels; ++x, from += 4, row += 3) {
        const int light = from[3];
        for (int c = 0; c < 3; ++c) {
            const int product = (255 - from[c]) * light + 128;  // of ink and light, over 255
            const int ink = ((product >> 8) + product) >> 8;
            row[c] = static_cast<std::uint8_t>(std::max(light - ink, 0));
        }
    }
}

GX_DECL JpegDecoder::JpegDecoder(const DecodeOptions& options)
    : state_(std::make_unique<State>(options)) {}
GX_DECL JpegDecoder::JpegDecoder(JpegDecoder&&) noexcept = default;
GX_DECL JpegDecoder::~JpegDecoder() = default;
GX_DECL std::int64_t JpegDecoder::warnings() const { return state_->errors.num_warnings; }
GX_DECL std::size_t JpegDecoder::bytes() const {
    return state_->memory.bytes() + state_->rows.capacity();
}

GX_DECL const ImageHeader& JpegDecoder::open(std::span<const std::uint8_t> bytes,
                                             std::string_view where) {
    State& s = *state_;
    jpeg_decompress_struct& info = s.info;
    s.where = where;
    s.bytes = bytes;
    s.left_rows = 0;
    jpeg_abort_decompress(&info);
    s.errors.num_warnings = 0;
    s.source.next_input_byte = bytes.data();
    s.source.bytes_in_buffer = bytes.size();
    s.guarded([&info] { jpeg_read_header(&info, TRUE); });
    s.header = {.format = ImageFormat::jpeg,
                .size = {int(info.image_width), int(info.image_height)},
                .channels = info.num_components};
    if (s.header.size.pixels() > s.options.pixels_max)
        s.refuse(
            fmt::format(": decompression bomb: {} x {} pixels, and at most {} are decoded. "
                        "Raise DecodeOptions::pixels_max if it is a real image",
                        s.header.size.width, s.header.size.height, s.options.pixels_max));
    for (auto* m = info.marker_list; s.options.orient && m; m = m->next)
        if (const int turned = detail::image::exif_orientation({m->data, m->data_length}))
            s.header.orientation = turned;
    return s.header;
}

namespace detail::image {

/// Whether jpeg_crop_scanline() computes the widths of components rightly. It takes no account of
/// those that scaled decoding leaves larger, which then must need no upsampling. Seen in
/// libjpeg-turbo 2.1.5.
[[nodiscard]] inline bool crops_rightly(const jpeg_decompress_struct& info) {
#if JPEG_LIB_VERSION >= 70
    const auto sides = [](const jpeg_component_info& c) { return c.DCT_h_scaled_size; };
    const int least = info.min_DCT_h_scaled_size;
#else
    const auto sides = [](const jpeg_component_info& c) { return c.DCT_scaled_size; };
    const int least = info.min_DCT_scaled_size;
#endif
    for (int i = 0; i < info.num_components; ++i) {
        const jpeg_component_info& c = info.comp_info[i];
        const int side = sides(c);
        const bool full = c.h_samp_factor * side == info.max_h_samp_factor * least &&
                          c.v_samp_factor * side == info.max_v_samp_factor * least;
        if (side != least && !full) return false;
    }
    return true;
}

}  // namespace detail::image

GX_DECL void JpegDecoder::begin(ImageRegion region, int eighths) {
    State& s = *state_;
    jpeg_decompress_struct& info = s.info;
    GX_EXPECT(info.global_state != 0 && s.header.size.pixels() > 0, "open() comes before begin()");
    GX_EXPECT(eighths == 1 || eighths == 2 || eighths == 4 || eighths == 8,
              "JPEGs are decoded to 1, 2, 4 or 8 eighths");
    const ImageSize size = scaled(s.header.size, eighths);
    GX_EXPECT(lies_in(region, size), "a region lies inside its image");
    const bool cmyk = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
    // Upsampling reads one sample of colour beside those it needs, and at a border takes another
    // path.
    const int beside = 2 * info.max_h_samp_factor;
    const int from = std::max(region.left - beside, 0);
    const int to = std::min(region.right() + beside, size.width);
    JDIMENSION offset = static_cast<JDIMENSION>(from), width = static_cast<JDIMENSION>(to - from);
    s.guarded([&] {
        info.scale_num = static_cast<unsigned>(eighths);
        info.scale_denom = 8;
        info.out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
        info.do_block_smoothing = FALSE;
        jpeg_start_decompress(&info);
        if (to - from < size.width && detail::image::crops_rightly(info))
            jpeg_crop_scanline(&info, &offset, &width);
        else offset = 0;
        if (region.top > 0) jpeg_skip_scanlines(&info, static_cast<JDIMENSION>(region.top));
    });
    const auto channels = static_cast<std::size_t>(info.output_components);
    s.row_bytes = (channels * info.output_width + 127) / 64 * 64;  // and what vector loops read
    s.row_offset = detail::image::unaligned + 3 * (static_cast<std::size_t>(region.left) - offset);
    s.rows.resize(s.row_bytes * detail::image::rows_at_once + detail::image::unaligned);
    s.left_rows = region.height;
}

GX_DECL ImageRows JpegDecoder::next() {
    State& s = *state_;
    jpeg_decompress_struct& info = s.info;
    if (s.left_rows == 0) return {};
    JSAMPROW rows[detail::image::rows_at_once];
    const int wanted = std::min(s.left_rows, detail::image::rows_at_once);
    std::uint8_t* const first = s.rows.data() + detail::image::unaligned;
    for (int i = 0; i < wanted; ++i) rows[i] = first + s.row_bytes * static_cast<std::size_t>(i);
    s.guarded([&] {
        for (int done = 0; done < wanted;)
            done += int(jpeg_read_scanlines(&info, rows + done, JDIMENSION(wanted - done)));
    });
    s.left_rows -= wanted;
    if (info.out_color_space == JCS_CMYK)
        for (int i = 0; i < wanted; ++i) s.convert_cmyk(rows[i], int(info.output_width));
    if (s.left_rows == 0) jpeg_abort_decompress(&info);
    return {s.rows.data() + s.row_offset, s.row_bytes, wanted};
}

}  // namespace gx
