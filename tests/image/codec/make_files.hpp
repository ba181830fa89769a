// Files that tests decode: JPEGs by libjpeg and PNGs by libpng, of any sampling and kind.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <jpeglib.h>
#include <png.h>

#include <gx/image/region.hpp>
#include <image/pattern.hpp>

namespace gx::testing::images {

struct JpegKind {
    int quality = 85, horizontal = 2, vertical = 2;  // samples of Y for one of Cb and Cr
    bool progressive = false;
    int restart_rows = 0;
};

inline Pixels jpeg_of(const Pixels& image, ImageSize size, JpegKind kind = {}) {
    jpeg_compress_struct info{};
    jpeg_error_mgr errors;
    info.err = jpeg_std_error(&errors);
    jpeg_create_compress(&info);
    unsigned char* memory = nullptr;
    unsigned long count = 0;
    jpeg_mem_dest(&info, &memory, &count);
    info.image_width = static_cast<JDIMENSION>(size.width);
    info.image_height = static_cast<JDIMENSION>(size.height);
    info.input_components = 3;
    info.in_color_space = JCS_RGB;
    jpeg_set_defaults(&info);
    jpeg_set_quality(&info, kind.quality, TRUE);
    info.comp_info[0].h_samp_factor = kind.horizontal;
    info.comp_info[0].v_samp_factor = kind.vertical;
    info.restart_in_rows = kind.restart_rows;
    if (kind.progressive) jpeg_simple_progression(&info);
    jpeg_start_compress(&info, TRUE);
    while (info.next_scanline < info.image_height) {
        auto* row =
            const_cast<JSAMPROW>(&image[std::size_t(3) * info.next_scanline * info.image_width]);
        jpeg_write_scanlines(&info, &row, 1);
    }
    jpeg_finish_compress(&info);
    Pixels file(memory, memory + count);
    jpeg_destroy_compress(&info);
    std::free(memory);
    return file;
}

/// By libjpeg alone, whole.
inline Pixels decoded_by_libjpeg(const Pixels& file, int eighths = 8) {
    jpeg_decompress_struct info{};
    jpeg_error_mgr errors;
    info.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&info);
    jpeg_mem_src(&info, file.data(), static_cast<unsigned long>(file.size()));
    jpeg_read_header(&info, TRUE);
    info.scale_num = static_cast<unsigned>(eighths);
    info.scale_denom = 8;
    info.out_color_space = JCS_RGB;
    jpeg_start_decompress(&info);
    const std::size_t stride = std::size_t(3) * info.output_width;
    Pixels image(stride * info.output_height);
    while (info.output_scanline < info.output_height) {
        JSAMPROW row = &image[stride * info.output_scanline];
        jpeg_read_scanlines(&info, &row, 1);
    }
    jpeg_finish_decompress(&info);
    jpeg_destroy_decompress(&info);
    return image;
}

struct PngKind {
    int colour = PNG_COLOR_TYPE_RGB, bits = 8;
    bool interlaced = false;
};

/// Shapes: rows as libpng takes them, of `kind`'s channels and bits; 16 bits big-endian.
inline Pixels png_of(const Pixels& rows, ImageSize size, PngKind kind = {}) {
    Pixels file;
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
    png_infop info = png_create_info_struct(png);
    png_set_write_fn(
        png, &file,
        [](png_structp p, png_bytep bytes, std::size_t count) {
            auto& to = *static_cast<Pixels*>(png_get_io_ptr(p));
            to.insert(to.end(), bytes, bytes + count);
        },
        nullptr);
    png_set_IHDR(png, info, static_cast<png_uint_32>(size.width),
                 static_cast<png_uint_32>(size.height), kind.bits, kind.colour,
                 kind.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_BASE, PNG_FILTER_TYPE_BASE);
    png_write_info(png, info);
    std::vector<png_bytep> pointers;
    const std::size_t stride = rows.size() / static_cast<std::size_t>(size.height);
    for (int y = 0; y < size.height; ++y)
        pointers.push_back(const_cast<png_bytep>(&rows[stride * static_cast<std::size_t>(y)]));
    png_write_image(png, pointers.data());
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    return file;
}

}  // namespace gx::testing::images
