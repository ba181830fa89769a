#include <gx/image/rectangular.hpp>

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace {

using gx::ImageSize;
using gx::rectangular_batches;
using gx::RectangularBatch;
using ::testing::ElementsAre;

TEST(RectangularBatches, SortsByAspectAndSizesByTheMean) {  // aspects 2, 1/2, 1.5, 0.8, 1
    const std::vector<ImageSize> sizes{{200, 100}, {100, 200}, {150, 100}, {80, 100}, {64, 64}};
    EXPECT_THAT(rectangular_batches(sizes, 2, 128),
                ElementsAre(RectangularBatch{{1, 3}, {128, 192}},  // 0.65: 128 / 0.65 = 196.9
                            RectangularBatch{{4, 2}, {160, 128}},  // 1.25
                            RectangularBatch{{0}, {256, 128}}));
}
TEST(RectangularBatches, KeepsTheOrderOfEqualAspects) {
    EXPECT_THAT(
        rectangular_batches(std::vector<ImageSize>(5, {30, 20}), 3, 32),
        ElementsAre(RectangularBatch{{0, 1, 2}, {48, 32}}, RectangularBatch{{3, 4}, {48, 32}}));
    EXPECT_TRUE(rectangular_batches({}, 3, 32).empty());
}
TEST(RectangularBatches, HasEverySampleOnceAndSizesOfEights) {
    EXPECT_TRUE(rc::check([] {
        std::vector<ImageSize> sizes;
        for (int i = *rc::gen::inRange(0, 60); i > 0; --i)
            sizes.push_back({*rc::gen::inRange(1, 900), *rc::gen::inRange(1, 900)});
        const int batch = *rc::gen::inRange(1, 20), side = 8 * *rc::gen::inRange(1, 40);
        std::vector<std::uint32_t> seen;
        double last = 0;
        for (const RectangularBatch& b : rectangular_batches(sizes, batch, side)) {
            RC_ASSERT(b.samples.size() <= std::size_t(batch));
            RC_ASSERT(std::min(b.to.width, b.to.height) == side);
            RC_ASSERT(b.to.width % 8 == 0 && b.to.height % 8 == 0);
            for (const std::uint32_t sample : b.samples) {
                const double aspect = double(sizes[sample].width) / sizes[sample].height;
                RC_ASSERT(aspect > last - 1e-5);
                last = aspect;
                seen.push_back(sample);
            }
        }
        std::ranges::sort(seen);
        RC_ASSERT(seen.size() == sizes.size());
        for (std::uint32_t i = 0; i < seen.size(); ++i) RC_ASSERT(seen[i] == i);
    }));
}

}  // namespace
