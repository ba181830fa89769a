// PixelSums: exact sums of 8-bit pixels, for the mean and the deviation of each channel.
#pragma once

#include <cmath>    // sqrt
#include <cstdint>  // uint64_t
#include <vector>   // channels

#include <gx/model/graph.hpp>  // ImageShape

namespace gx::detail::loader {

class PixelSums {
public:
    explicit PixelSums(const ImageShape& shape)
        : plane_(std::size_t(shape.height) * std::size_t(shape.width)),
          sum_(std::size_t(shape.channels)),
          squares_(std::size_t(shape.channels)) {}

    /// One image. Shapes: pixels (C, H, W) row-major.
    void add(const std::uint8_t* pixels) {
        for (std::size_t c = 0; c < sum_.size(); ++c, pixels += plane_) {
            std::uint64_t sum = 0, squares = 0;
            for (std::size_t i = 0; i < plane_; ++i) {
                sum += pixels[i];
                squares += std::uint64_t{pixels[i]} * pixels[i];
            }
            sum_[c] += sum;
            squares_[c] += squares;
        }
        ++images_;
    }
    /// Of pixels scaled to 0 ... 1; the deviation of a channel of one value is 1.
    void set(std::vector<float>& means, std::vector<float>& deviations) const {
        const auto n = static_cast<double>(images_) * static_cast<double>(plane_);
        means.resize(sum_.size());
        deviations.resize(sum_.size());
        for (std::size_t c = 0; c < sum_.size(); ++c) {
            const double mean = static_cast<double>(sum_[c]) / n;
            const double variance = static_cast<double>(squares_[c]) / n - mean * mean;
            means[c] = static_cast<float>(mean / 255);
            deviations[c] = variance > 1e-9 ? static_cast<float>(std::sqrt(variance) / 255) : 1.0f;
        }
    }

private:
    std::size_t plane_;
    std::int64_t images_ = 0;
    std::vector<std::uint64_t> sum_, squares_;  // [channel]
};

}  // namespace gx::detail::loader
