// Batches by aspect.
#pragma once

#include <algorithm>  // min, sort
#include <cmath>      // nearbyint
#include <numeric>    // iota

#include <gx/core/contract.hpp>      // GX_EXPECT
#include <gx/image/rectangular.hpp>  // rectangular_batches

namespace gx {

namespace detail::image {
[[nodiscard]] inline double five_digits(double x) { return std::nearbyint(x * 1e5) / 1e5; }
}  // namespace detail::image

GX_DECL std::vector<RectangularBatch> rectangular_batches(std::span<const ImageSize> sizes,
                                                          int batch, int side) {
    GX_EXPECT(batch >= 1 && side >= 8, "a batch has an image, and an image 8 pixels a side");
    std::vector<double> aspects;
    for (const ImageSize size : sizes) {
        GX_EXPECT(!size.empty(), "an image without pixels has no aspect");
        aspects.push_back(detail::image::five_digits(double(size.width) / size.height));
    }
    std::vector<std::uint32_t> order(sizes.size());
    std::iota(order.begin(), order.end(), 0u);
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
        return aspects[a] != aspects[b] ? aspects[a] < aspects[b] : a < b;
    });
    std::vector<RectangularBatch> batches;
    for (std::size_t first = 0; first < order.size(); first += std::size_t(batch)) {
        const std::size_t count = std::min(std::size_t(batch), order.size() - first);
        RectangularBatch& b = batches.emplace_back();
        b.samples.assign(order.begin() + std::ptrdiff_t(first),
                         order.begin() + std::ptrdiff_t(first + count));
        double sum = 0;
        for (const std::uint32_t sample : b.samples) sum += aspects[sample];
        const double aspect = detail::image::five_digits(sum / static_cast<double>(count));
        if (aspect < 1) b.to = {side, static_cast<int>(side / aspect) / 8 * 8};
        else b.to = {static_cast<int>(side * aspect) / 8 * 8, side};
    }
    return batches;
}

}  // namespace gx
