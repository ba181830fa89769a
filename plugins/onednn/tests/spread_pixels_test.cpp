// spread_pixels: by hand, and sides that leave pixels over.
#include <gx/onednn/detail/spread_pixels.hpp>

#include <cstddef>  // size_t
#include <vector>   // images

#include <gtest/gtest.h>

namespace {

using gx::onednn::detail::Bf16;
using gx::onednn::detail::Layout;
using gx::onednn::detail::spread_pixels;

/// A large image of `height` by `width`, of whose pixels a stride reads the small one's.
void expect_spread(int height, int width, int stride) {
    constexpr int channels = 16, images = 2;
    const Layout large{{channels, height, width}, 16, true},
        small{{channels, (height + stride - 1) / stride, (width + stride - 1) / stride}, 16, true};
    std::vector<Bf16> from(static_cast<std::size_t>(images * small.floats()));
    for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<Bf16>(i + 1);
    std::vector<Bf16> to(static_cast<std::size_t>(images * large.floats()), Bf16{7});
    spread_pixels(from.data(), small, stride, images, to.data(), large);
    std::size_t next = 0;
    for (int n = 0, i = 0; n < images; ++n)
        for (int y = 0; y < height; ++y)
            for (int x = 0; x < width; ++x)
                for (int c = 0; c < channels; ++c, ++i) {
                    const bool read = y % stride == 0 && x % stride == 0;
                    ASSERT_EQ(to[static_cast<std::size_t>(i)], read ? from[next] : Bf16{0})
                        << n << ' ' << y << ' ' << x << ' ' << c;
                    next += read;
                }
    EXPECT_EQ(next, from.size());
}
TEST(SpreadPixels, PutsZerosBetween) {
    expect_spread(4, 4, 2);
    expect_spread(6, 3, 3);
}
TEST(SpreadPixels, PutsZerosBehindTheLast) {
    expect_spread(5, 7, 2);
    expect_spread(8, 11, 3);
    expect_spread(1, 1, 2);
}

}  // namespace
