// TileWeightGradient: by hand, beside the serial sum for any shape, bits of the tiles' own order.
#include <gx/onednn/detail/weight_gradient.hpp>

#include <algorithm>  // all_of
#include <cstddef>    // byte
#include <cstdint>    // int64_t
#include <cstring>    // memset
#include <new>        // align_val_t
#include <vector>     // tensors

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/core/rng.hpp>  // values

namespace {

using gx::bf16;
using gx::Window;
using gx::onednn::detail::AmxTiles;
using gx::onednn::detail::Bf16;
using gx::onednn::detail::Blocking;
using gx::onednn::detail::cpu_block;
using gx::onednn::detail::EmulatedTiles;
using gx::onednn::detail::Layout;
using gx::onednn::detail::TileWeightGradient;

/// The kernels that pack need AVX-512; tiles may be emulated.
bool packs() { return cpu_block() == 16; }

struct Shape {
    int images, height, width, in, out;
    Window window;
    [[nodiscard]] Layout x() const { return {{in, height, width}, 16, true}; }
    [[nodiscard]] Layout dy() const {
        const Window& w = window;
        return {{out, (height + 2 * w.pad_height - w.height) / w.stride + 1,
                 (width + 2 * w.pad_width - w.width) / w.stride + 1},
                16,
                true};
    }
    [[nodiscard]] std::size_t weights() const {
        return static_cast<std::size_t>(in * out * window.height * window.width);
    }
};
/// Channels last.
struct Tensors {
    std::vector<Bf16> x, dy;
};
template <class F>
Tensors tensors(const Shape& s, F value) {
    Tensors t;
    for (std::int64_t i = 0; i < s.images * s.x().floats(); ++i) t.x.push_back(value());
    for (std::int64_t i = 0; i < s.images * s.dy().floats(); ++i) t.dy.push_back(value());
    return t;
}
/// Integers of -3 to 3: every sum of their products is exact in fp32, in any order.
Tensors small_integers(const Shape& s, std::uint64_t seed) {
    const gx::Rng random(seed, "integers");
    std::uint64_t n = 0;
    return tensors(s, [&] {
        return bf16::encode(static_cast<float>(static_cast<int>(random.uniform(n++) * 7) - 3));
    });
}
Tensors normals(const Shape& s, std::uint64_t seed) {
    const gx::Rng random(seed, "normals");
    std::uint64_t n = 0;
    return tensors(s, [&] { return bf16::encode(random.normal(n++)); });
}

/// (k, r, s, c), as the definition says.
std::vector<float> serial(const Shape& s, const Tensors& t) {
    std::vector<float> dw;
    const auto in = s.x().shape, out = s.dy().shape;
    const auto at = [](const std::vector<Bf16>& v, gx::ImageShape shape, int n, int y, int x,
                       int c) {
        return static_cast<double>(bf16::decode(v[static_cast<std::size_t>(
            ((n * shape.height + y) * shape.width + x) * shape.channels + c)]));
    };
    for (int k = 0; k < s.out; ++k)
        for (int r = 0; r < s.window.height; ++r)
            for (int q = 0; q < s.window.width; ++q)
                for (int c = 0; c < s.in; ++c) {
                    double sum = 0;
                    for (int n = 0; n < s.images; ++n)
                        for (int y = 0; y < out.height; ++y)
                            for (int x = 0; x < out.width; ++x) {
                                const int row = y * s.window.stride + r - s.window.pad_height,
                                          col = x * s.window.stride + q - s.window.pad_width;
                                if (row < 0 || col < 0 || row >= in.height || col >= in.width)
                                    continue;
                                sum += at(t.dy, out, n, y, x, k) * at(t.x, in, n, row, col, c);
                            }
                    dw.push_back(static_cast<float>(sum));
                }
    return dw;
}
float* aligned(float* p) {
    return reinterpret_cast<float*>((reinterpret_cast<std::uintptr_t>(p) + 63) / 64 * 64);
}
/// In the order of serial(), from scratch that holds NaN before, with a guard behind each array.
template <class Tiles>
std::vector<float> by_tiles(const Shape& s, const Tensors& t, const Blocking& blocking = {},
                            const std::vector<float>& add_to = {}) {
    const TileWeightGradient gradient(s.x(), s.dy(), s.window, s.images, blocking);
    const auto bytes = static_cast<std::size_t>(gradient.scratch_bytes());
    constexpr std::size_t guard = 256;
    constexpr std::align_val_t line{64};
    auto* scratch = static_cast<std::byte*>(::operator new(bytes + guard, line));
    std::memset(scratch, 0xff, bytes + guard);
    const bool swapped = TileWeightGradient::rows_of_x(s.x(), s.dy(), s.window);
    const auto place = [&](std::size_t i) {  // of (k, r, s, c); swapped, there is one tap
        const std::size_t in = static_cast<std::size_t>(s.in),
                          out = static_cast<std::size_t>(s.out);
        return swapped ? i % in * out + i / in : i;
    };
    std::vector<float> memory(s.weights() + 96, -77.0f);
    float* const dw = aligned(memory.data()) + (s.images % 2 == 0 ? 0 : 4);  // either path
    for (std::size_t i = 0; i < add_to.size(); ++i) dw[place(i)] = add_to[i];
    gradient.run<Tiles>(t.x.data(), t.dy.data(), dw, !add_to.empty(), scratch);
    EXPECT_TRUE(std::all_of(scratch + bytes, scratch + bytes + guard, [](std::byte b) {
        return b == std::byte{0xff};
    })) << "wrote behind its scratch memory";
    const auto untouched = [](float v) { return v == -77.0f; };
    EXPECT_TRUE(std::all_of(memory.data(), dw, untouched)) << "wrote before the gradient";
    EXPECT_TRUE(std::all_of(dw + s.weights(), memory.data() + memory.size(), untouched))
        << "wrote behind the gradient";
    ::operator delete(scratch, line);
    std::vector<float> ordered;
    for (std::size_t i = 0; i < s.weights(); ++i) ordered.push_back(dw[place(i)]);
    return ordered;
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
Shape any_shape() {
    const auto below = [](int from, int to) { return *rc::gen::inRange(from, to); };
    Window w{.height = below(1, 6), .width = below(1, 6), .stride = below(1, 4)};
    w.pad_height = below(0, w.height), w.pad_width = below(0, w.width);
    return {.images = below(1, 5),
            .height = below(std::max(1, w.height - 2 * w.pad_height), 12),
            .width = below(std::max(1, w.width - 2 * w.pad_width), 12),
            .in = 32 * below(1, 4),
            .out = 32 * below(1, 4),
            .window = w};
}
Blocking any_blocking() {
    const auto kib = [] { return std::int64_t{1 << 10} * *rc::gen::inRange(1, 100); };
    return {
        .row_bytes = kib(), .column_bytes = kib(), .panel_pixels = 32 * *rc::gen::inRange(1, 8)};
}
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
