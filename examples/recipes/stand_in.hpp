// stand_in: images for the recipes, drawn from a seed, a folder a class, and a temporary folder.
#pragma once

#include <stdlib.h>  // mkdtemp

#include <cerrno>        // errno
#include <cmath>         // sin
#include <cstdint>       // uint64_t
#include <cstring>       // strerror
#include <filesystem>    // folders
#include <string>        // names
#include <system_error>  // error_code
#include <vector>        // pixels

#include <png.h>  // png_image_write_to_file

#include <gx/core/error.hpp>  // Error
#include <gx/core/rng.hpp>    // Rng

namespace recipes {

inline constexpr int arms = 5, textures = 4, classes = arms * textures;

/// A star of 3 to 7 arms, filled with stripes of one of four widths: turned, placed and coloured at
/// random, on a ground of noise.
inline void draw(const std::filesystem::path& file, int label, std::uint64_t number) {
    const gx::Rng random = gx::Rng(7, "stars").at(number);
    const auto unit = [&](std::uint64_t i) { return double(random.uniform(i)); };
    const int width = 40 + int(24 * unit(0)), height = 40 + int(24 * unit(1));
    const double size = 12 + 6 * unit(2), turn = 6.3 * unit(3), stripes = 6.3 * unit(4);
    const double x0 = size + (width - 2 * size) * unit(5),
                 y0 = size + (height - 2 * size) * unit(6);
    const double wave = 2.2 + 1.6 * (label % textures);  // pixels
    std::vector<unsigned char> pixels;
    for (int y = 0; y < height; ++y)
        for (int x = 0; x < width; ++x) {
            const double dx = x - x0, dy = y - y0, angle = std::atan2(dy, dx) + turn;
            const double edge = size * (0.7 + 0.3 * std::cos((3 + label / textures) * angle));
            const double bright =
                std::sin((dx * std::cos(stripes) + dy * std::sin(stripes)) * 6.283 / wave);
            const auto at = std::uint64_t(64 + 3 * (y * width + x));
            for (std::uint64_t c = 0; c < 3; ++c) {
                const double tint = 60 * unit(10 + c), noise = 70 * unit(at + c);
                const double star = 110 + tint + 60 * bright;
                const double sky = 60 + 60 * unit(20 + c);
                const double value = (std::hypot(dx, dy) < edge ? star : sky) + noise - 35;
                pixels.push_back(static_cast<unsigned char>(static_cast<int>(value)));  // wraps
            }
        }
    png_image image{};
    image.version = PNG_IMAGE_VERSION;
    image.width = static_cast<png_uint_32>(width);
    image.height = static_cast<png_uint_32>(height);
    image.format = PNG_FORMAT_RGB;
    if (png_image_write_to_file(&image, file.c_str(), 0, pixels.data(), 0, nullptr) == 0)
        throw gx::Error("'" + file.string() + "' can't be written: " + image.message);
}

/// A folder of its own below the temporary one, so that copies of a program draw apart; it goes
/// with this.
class TemporaryFolder {
public:
    explicit TemporaryFolder(const std::string& name) {
        std::error_code none;
        const auto parent = std::filesystem::temp_directory_path(none);
        if (none)
            throw gx::Error("there is no folder for temporary files: " + none.message() +
                            ". Let TMPDIR name one that exists.");
        std::string made = (parent / (name + "-XXXXXX")).string();
        if (mkdtemp(made.data()) == nullptr)
            throw gx::Error("folder '" + made + "' can't be made: " + std::strerror(errno) +
                            ". Let TMPDIR name a folder that can be written.");
        path = made;
    }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    ~TemporaryFolder() {
        std::error_code gone;
        std::filesystem::remove_all(path, gone);
    }
    std::filesystem::path path{};
};

/// Makes the folder of a program's --folder, so that nothing is drawn beside other images.
inline void make_new_folder(const std::filesystem::path& folder) {
    std::error_code trouble;
    if (std::filesystem::create_directories(folder, trouble)) return;
    throw gx::Error("--folder '" + folder.string() +
                    (trouble ? "' can't be made: " + trouble.message() : "' is there already") +
                    ". Name a new one.");
}

struct StandIns {
    int first_class = 0, end_class = classes;
    int train = 100, test = 25;     ///< images of a class
    std::uint64_t first_image = 0;  ///< of a class; below 250, with `train`
};
/// Draws FOLDER/train/CLASS/N.png and FOLDER/test/CLASS/N.png.
inline void draw_images(const std::filesystem::path& folder, const StandIns& of = {}) {
    for (const bool train : {true, false})
        for (int label = of.first_class; label < of.end_class; ++label) {
            const auto below = folder / (train ? "train" : "test") / std::to_string(100 + label);
            std::filesystem::create_directories(below);
            for (int i = 0; i < (train ? of.train : of.test); ++i)
                draw(below / (std::to_string(i) + ".png"), label,
                     std::uint64_t(label * 1000 + i + (train ? 0 : 500)) + of.first_image);
        }
}

}  // namespace recipes
