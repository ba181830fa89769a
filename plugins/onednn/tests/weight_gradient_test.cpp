// TileWeightGradient: by hand, beside the serial sum for any shape, bits of the tiles' own order.
#include <gx/onednn/detail/tiles/weight_gradient.hpp>

#include <cstddef>  // size_t
#include <cstdint>  // uint64_t
#include <vector>   // tensors

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "weight_gradients.hpp"

namespace {

using namespace weight_gradients;
using gx::onednn::detail::TileWeightGradient;

template <class Tiles>
std::vector<float> by_tiles(const Shape& s, const Tensors& t, const Blocking& blocking = {},
                            const std::vector<float>& add_to = {}) {
    const bool swapped = TileWeightGradient::rows_of_x(s.x(), s.dy(), s.window);
    const auto place = [&](std::size_t i) {  // swapped, there is one tap
        const std::size_t in = static_cast<std::size_t>(s.in),
                          out = static_cast<std::size_t>(s.out);
        return swapped ? i % in * out + i / in : i;
    };
    return run_guarded<Tiles>(TileWeightGradient(s.x(), s.dy(), s.window, s.images, blocking), s, t,
                              add_to, place);
}
std::vector<float> by_best_tiles(const Shape& s, const Tensors& t, const Blocking& blocking = {}) {
    return AmxTiles::allowed() ? by_tiles<AmxTiles>(s, t, blocking)
                               : by_tiles<EmulatedTiles>(s, t, blocking);
}

// ---- A case worked by hand ----------------------------------------------------------
TEST(TileWeightGradient, SumsTheProductsOfTwoPixels) {
    if (!packs()) GTEST_SKIP() << "this CPU has no AVX-512";
    const Shape s{.images = 1, .height = 1, .width = 2, .in = 32, .out = 32, .window = {}};
    Tensors t = tensors(s, [] { return Bf16{0}; });
    t.x[5] = bf16::encode(2), t.x[32 + 5] = bf16::encode(3);     // channel 5 of both pixels
    t.dy[9] = bf16::encode(7), t.dy[32 + 9] = bf16::encode(11);  // channel 9
    std::vector<float> expected(32 * 32, 0.0f);
    expected[9 * 32 + 5] = 2 * 7 + 3 * 11;
    EXPECT_EQ(by_tiles<EmulatedTiles>(s, t), expected);
    EXPECT_EQ(by_best_tiles(s, t), expected);
}
TEST(TileWeightGradient, ReadsNeighboursByTaps) {
    if (!packs()) GTEST_SKIP() << "this CPU has no AVX-512";
    const Shape s{.images = 1,
                  .height = 1,
                  .width = 3,
                  .in = 32,
                  .out = 32,
                  .window = {.height = 1, .width = 3, .pad_width = 1}};
    Tensors t = tensors(s, [] { return Bf16{0}; });
    for (std::size_t p = 0; p < 3; ++p) {
        t.x[32 * p] = bf16::encode(static_cast<float>(p + 1));               // 1 2 3
        t.dy[32 * p] = bf16::encode(static_cast<float>(p == 0 ? 10 : 100));  // 10 100 100
    }
    const std::vector<float> dw = by_best_tiles(s, t);
    EXPECT_EQ(dw[0], 0 * 10 + 1 * 100 + 2 * 100);
    EXPECT_EQ(dw[32], 1 * 10 + 2 * 100 + 3 * 100);
    EXPECT_EQ(dw[64], 2 * 10 + 3 * 100 + 0 * 100);
}
TEST(TileWeightGradient, RefusesWhatFillsNoPairOfTiles) {
    const auto runs = [](int in, int out, bool last) {
        return TileWeightGradient::runs({{in, 4, 4}, 16, last}, {{out, 4, 4}, 16, last});
    };
    EXPECT_TRUE(runs(32, 64, true));
    EXPECT_FALSE(runs(32, 64, false));
    EXPECT_FALSE(runs(48, 64, true));
    EXPECT_FALSE(runs(64, 16, true));
}

// ---- A property, for any shape ------------------------------------------------------
RC_GTEST_PROP(TileWeightGradient, EqualsTheSerialSum, (std::uint64_t seed)) {
    if (!packs()) return;
    const Shape s = any_shape();
    const Tensors t = small_integers(s, seed);
    RC_ASSERT(by_best_tiles(s, t, any_blocking()) == serial(s, t));
}
RC_GTEST_PROP(TileWeightGradient, AddsToWhatIsThere, (std::uint64_t seed)) {
    if (!packs()) return;
    const Shape s = any_shape();
    const Tensors one = small_integers(s, seed), two = small_integers(s, ~seed);
    const auto blocking = any_blocking();
    const auto first = by_best_tiles(s, one, blocking);
    auto sum = first;
    const auto second = serial(s, two);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += second[i];
    RC_ASSERT((AmxTiles::allowed() ? by_tiles<AmxTiles>(s, two, blocking, first)
                                   : by_tiles<EmulatedTiles>(s, two, blocking, first)) == sum);
}

// ---- Order ---------------------------------------------------------------------------
RC_GTEST_PROP(TileWeightGradient, AmxAddsInTheOrderThatIsStated, (std::uint64_t seed)) {
    if (!packs() || !AmxTiles::allowed()) return;
    const Shape s = any_shape();
    const Tensors t = normals(s, seed);
    const auto blocking = any_blocking();
    RC_ASSERT(by_tiles<AmxTiles>(s, t, blocking) == by_tiles<EmulatedTiles>(s, t, blocking));
}
TEST(TileWeightGradient, BlockingChangesNoBits) {
    if (!packs()) GTEST_SKIP() << "this CPU has no AVX-512";
    const Shape s{.images = 3,
                  .height = 9,
                  .width = 10,
                  .in = 64,
                  .out = 96,
                  .window = Window::square(3, 1, 1)};
    const Tensors t = normals(s, 5);
    const auto whole = by_best_tiles(s, t);
    EXPECT_EQ(by_best_tiles(s, t, {.row_bytes = 4096, .column_bytes = 4096, .panel_pixels = 32}),
              whole);
    EXPECT_EQ(by_best_tiles(s, t, {.row_bytes = 65536, .column_bytes = 1, .panel_pixels = 96}),
              whole);
}
TEST(EmulatedTiles, AddEvenAndOddElementsApart) {
    std::vector<Bf16> a(512, Bf16{0}), b(512, Bf16{0});
    a[0] = bf16::encode(0x1p24f), b[0] = bf16::encode(1);  // even: 2^24, then 1, which is lost
    a[2] = bf16::encode(1), b[32] = bf16::encode(1);
    a[1] = bf16::encode(1), b[1] = bf16::encode(1);  // odd: 2
    a[3] = bf16::encode(1), b[33] = bf16::encode(1);
    std::vector<float> c(256, 0.0f);
    EmulatedTiles::load<1>(a.data()), EmulatedTiles::load<2>(b.data()), EmulatedTiles::zero<0>();
    EmulatedTiles::multiply_add<0, 1, 2>();
    EmulatedTiles::store<0>(c.data());
    EXPECT_EQ(c[0], 0x1p24f + 2);
}

}  // namespace
