// OddSource: a source whose samples are made when they are read, with faults that tests ask for.
#pragma once

#include <cmath>  // lround

#include <gx/core/device.hpp>    // Batch
#include <gx/core/error.hpp>     // Error
#include <gx/loader/source.hpp>  // Source

namespace testing_support {

/// Sample i has the pixels (i / 256, i % 256) in both rows, and label i % 3.
struct OddSource {
    explicit OddSource(std::int64_t samples) : count(samples) {}

    std::int64_t count;
    std::int64_t wide = -1;  ///< this sample is of another shape
    std::int64_t ends = -1;  ///< this sample and those behind it can't be read
    int label = -2;          ///< of all samples; -2: i % 3
    float deviation = 1.0f / 255;

    [[nodiscard]] gx::SourceInfo info() const {
        return {.name = "odd",
                .count = count,
                .shape = {1, 2, 2},
                .classes = 3,
                .mean = {0.0f},
                .deviation = {deviation}};
    }
    [[nodiscard]] std::unique_ptr<gx::SampleReader> open() const {
        return std::make_unique<Reader>(*this);
    }
    /// The sample that image i of a batch shows.
    static std::uint32_t sample_of(const gx::Batch& batch, int i) {
        const float* pixels = &batch.images[std::size_t(i) * 4];
        return std::uint32_t(std::lround(pixels[0])) * 256 + std::uint32_t(std::lround(pixels[1]));
    }

private:
    struct Reader final : gx::SampleReader {
        explicit Reader(const OddSource& source) : of(source) {}
        void read(std::span<const std::uint32_t> indices, std::span<gx::Sample> out) override {
            pixels.clear();
            pixels.reserve(indices.size() * 6);
            for (std::size_t i = 0; i < indices.size(); ++i) {
                const std::uint32_t s = indices[i];
                if (of.ends >= 0 && s >= of.ends)
                    throw gx::Error("the odd source ends at sample " + std::to_string(of.ends));
                for (int k = 0; k < 6; ++k)
                    pixels.push_back(std::uint8_t(k % 2 == 0 ? s / 256 : s % 256));
                out[i] = {&pixels[i * 6],
                          of.label == -2 ? int(s % 3) : of.label,
                          {1, 2, s == of.wide ? 3 : 2}};
            }
        }
        const OddSource& of;
        std::vector<std::uint8_t> pixels{};
    };
};

}  // namespace testing_support
