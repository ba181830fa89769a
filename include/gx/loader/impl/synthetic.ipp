// Patterns and noise of synthetic images.
#pragma once

#include <algorithm>  // clamp
#include <memory>     // make_unique

#include <gx/core/contract.hpp>     // GX_EXPECT
#include <gx/core/rng.hpp>          // Rng
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
    GX_EXPECT(o.classes >= 2 && o.classes <= 256, "labels are bytes: 2 to 256 classes");
    GX_EXPECT(o.shape.elements() > 0, "an image needs at least one channel, row and column");
    GX_EXPECT(o.train_count >= 1 && o.test_count >= 0, "there is at least one image to train on");
    GX_EXPECT(o.noise >= 0 && o.noise <= 255, "noise is an amount of 0 to 255");
    Split split{detail::loader::synthetic_part(o, 0, o.train_count),
                detail::loader::synthetic_part(o, o.train_count, o.test_count)};
    normalise_as(split.test, split.train);
    normalise_as(split.train, split.train);
    return split;
}

GX_DECL SyntheticLoader::SyntheticLoader(const SyntheticOptions& images, const LoaderOptions& share)
    : data_(std::make_unique<Dataset>(synthetic(images).train)), loader_(*data_, share) {}

}  // namespace gx
