// Patterns and noise of synthetic images.
#pragma once

#include <algorithm>  // clamp
#include <memory>     // make_unique
#include <string>     // sentences

#include <gx/core/rng.hpp>          // Rng
#include <gx/io/problems.hpp>       // Problems
#include <gx/loader/synthetic.hpp>  // synthetic

namespace gx {

namespace detail::loader {

/// Images `first` ... `first + count - 1`: the pattern of class i % classes, 4 x 4 patches of
/// random brightness, plus noise. Whole numbers only.
[[nodiscard]] inline Dataset synthetic_part(const SyntheticOptions& o, std::int64_t first,
                                            std::int64_t count) {
    Dataset data{.name = "synthetic", .shape = o.shape, .classes = o.classes};
    data.pixels.reserve(static_cast<std::size_t>(count * o.shape.elements()));
    const Rng patterns(o.seed, "synthetic.pattern"), noises(o.seed, "synthetic.noise");
    const int levels = 2 * o.noise + 1;
    std::vector<int> patches(static_cast<std::size_t>(o.shape.channels) * 16);
    for (std::int64_t image = first; image < first + count; ++image) {
        const auto label = static_cast<std::uint64_t>(image % o.classes);
        for (std::size_t p = 0; p < patches.size(); ++p)
            patches[p] = 64 + static_cast<int>(patterns.at(label).bits(p)[0] >> 25);  // 64 ... 191
        const Rng noise = noises.at(static_cast<std::uint64_t>(image));
        RandomWords words{};
        std::uint64_t drawn = 0;  // bytes of noise, 16 from one block of words
        for (int c = 0; c < o.shape.channels; ++c)
            for (int y = 0; y < o.shape.height; ++y)
                for (int x = 0; x < o.shape.width; ++x, ++drawn) {
                    if (drawn % 16 == 0) words = noise.bits(drawn / 16);
                    const int byte = words[drawn / 4 % 4] >> (drawn % 4 * 8) & 0xff;
                    const int patch = (c * 4 + y * 4 / o.shape.height) * 4 + x * 4 / o.shape.width;
                    const int pixel =
                        patches[static_cast<std::size_t>(patch)] + (byte * levels >> 8) - o.noise;
                    data.pixels.push_back(static_cast<std::uint8_t>(std::clamp(pixel, 0, 255)));
                }
        data.labels.push_back(static_cast<std::uint8_t>(label));
    }
    return data;
}

}  // namespace detail::loader

GX_DECL Split synthetic(const SyntheticOptions& o) {
    constexpr int most_side = 65'536;
    constexpr std::int64_t most_images = 2'000'000'000;
    Problems problems;
    const auto in = [&](const char* option, std::int64_t x, std::int64_t least, std::int64_t most) {
        problems.check(x >= least && x <= most, std::string(option) + " is " + std::to_string(x) +
                                                    ": give " + std::to_string(least) + " to " +
                                                    std::to_string(most));
    };
    in("shape.channels", o.shape.channels, 1, most_side);
    in("shape.height", o.shape.height, 1, most_side);
    in("shape.width", o.shape.width, 1, most_side);
    in("classes", o.classes, 2, 256);  // labels are bytes
    in("train_count", o.train_count, 1, most_images);
    in("test_count", o.test_count, 0, most_images);
    in("noise", o.noise, 0, 255);
    problems.throw_if_any("synthetic images");
    Split split{detail::loader::synthetic_part(o, 0, o.train_count),
                detail::loader::synthetic_part(o, o.train_count, o.test_count)};
    normalise_as(split.test, split.train);
    normalise_as(split.train, split.train);
    return split;
}

GX_DECL SyntheticLoader::SyntheticLoader(const SyntheticOptions& images, const LoaderOptions& share)
    : data_(std::make_unique<Dataset>(synthetic(images).train)), loader_(*data_, share) {}

}  // namespace gx
