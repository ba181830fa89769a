// photograph: the JPEG that all decode, and the crops that they cut out of it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <jpeglib.h>

#include <gx/image/codec/recipe.hpp>  // RandomResizedCrop, mirrored, SampleDraws

namespace gx::bench {

using Bytes = std::vector<std::uint8_t>;

inline constexpr ImageSize image_size{500, 375}, output_size{224, 224};
inline constexpr std::size_t file_bytes = 67'000;

/// Noise of octaves whose strength falls as 1 / frequency, as in photographs; `fine` scales those
/// of a few pixels.
inline Bytes photograph(double fine) {
    const auto lattice = [](int octave, int c, int x, int y) {
        return Rng(octave, "photograph")
                       .at(std::uint64_t(c))
                       .uniform(std::uint64_t(y) * 4096 + std::uint64_t(x)) *
                   2.0 -
               1;
    };
    Bytes pixels(std::size_t(3 * image_size.pixels()));
    std::vector<double> sum(pixels.size());
    for (int octave = 1; octave <= 8; ++octave) {
        const double step = 512.0 / (1 << octave), strength = 75.0 / octave;
        const double scale = octave > 5 ? strength * fine : strength;
        for (int c = 0; c < 3; ++c)  // 0: of all channels alike
            for (int y = 0; y < image_size.height; ++y)
                for (int x = 0; x < image_size.width; ++x) {
                    const int i = int(x / step), k = int(y / step);
                    const double u = x / step - i, v = y / step - k;
                    const double value = (1 - v) * ((1 - u) * lattice(octave, c, i, k) +
                                                    u * lattice(octave, c, i + 1, k)) +
                                         v * ((1 - u) * lattice(octave, c, i, k + 1) +
                                              u * lattice(octave, c, i + 1, k + 1));
                    const std::size_t at = std::size_t(3) * (image_size.width * y + x);
                    for (std::size_t k2 = 0; k2 < 3; ++k2)
                        if (c == 0 || int(k2) == c)
                            sum[at + k2] += scale * value / (c == 0 ? 1 : 4);
                }
    }
    for (std::size_t i = 0; i < sum.size(); ++i)
        pixels[i] = static_cast<std::uint8_t>(std::clamp(128 + sum[i], 0.0, 255.0));
    return pixels;
}
inline Bytes jpeg_of(const Bytes& pixels) {
    jpeg_compress_struct info{};
    jpeg_error_mgr errors;
    info.err = jpeg_std_error(&errors);
    jpeg_create_compress(&info);
    unsigned char* memory = nullptr;
    unsigned long count = 0;
    jpeg_mem_dest(&info, &memory, &count);
    info.image_width = image_size.width;
    info.image_height = image_size.height;
    info.input_components = 3;
    info.in_color_space = JCS_RGB;
    jpeg_set_defaults(&info);
    jpeg_set_quality(&info, 90, TRUE);
    jpeg_start_compress(&info, TRUE);
    while (info.next_scanline < info.image_height) {
        auto* row =
            const_cast<JSAMPROW>(&pixels[std::size_t(3) * image_size.width * info.next_scanline]);
        jpeg_write_scanlines(&info, &row, 1);
    }
    jpeg_finish_compress(&info);
    Bytes file(memory, memory + count);
    jpeg_destroy_compress(&info);
    std::free(memory);
    return file;
}
/// The strength of texture at which the file has `file_bytes`.
inline Bytes make_file() {
    double least = 0, most = 4;
    Bytes file;
    for (int i = 0; i < 9; ++i) {
        const double middle = (least + most) / 2;
        file = jpeg_of(photograph(middle));
        (file.size() < file_bytes ? least : most) = middle;
    }
    return file;
}

struct Crop {
    ImageRegion region;
    bool mirrored;
};
/// Random resized crops of the image, those of a first epoch.
inline std::vector<Crop> draw_crops(std::uint64_t count) {
    std::vector<Crop> crops;
    for (std::uint64_t sample = 0; sample < count; ++sample)
        crops.push_back(
            {RandomResizedCrop{}(image_size, SampleDraws(1, RandomResizedCrop::stream, 0, sample)),
             mirrored(1, 0, sample)});
    return crops;
}

}  // namespace gx::bench
