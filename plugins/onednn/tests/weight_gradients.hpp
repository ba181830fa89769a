// weight_gradients: shapes, tensors and the serial sum that tests of weight gradients share.
#pragma once

#include <algorithm>  // all_of, max
#include <cstddef>    // byte
#include <cstdint>    // int64_t
#include <cstring>    // memset
#include <new>        // align_val_t
#include <vector>     // tensors

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <gx/core/rng.hpp>                             // values
#include <gx/onednn/detail/tiles/weight_gradient.hpp>  // Blocking, AmxTiles, EmulatedTiles

namespace weight_gradients {

using gx::bf16;
using gx::Window;
using gx::onednn::detail::AmxTiles;
using gx::onednn::detail::Bf16;
using gx::onednn::detail::Blocking;
using gx::onednn::detail::cpu_block;
using gx::onednn::detail::EmulatedTiles;
using gx::onednn::detail::Layout;

/// The kernels that pack need AVX-512; tiles may be emulated.
inline bool packs() { return cpu_block() == 16; }

struct Shape {
    int images, height, width, in, out;
    Window window;
    int block = 16;  ///< of x's channels
    [[nodiscard]] Layout x() const { return {{in, height, width}, block, true}; }
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
inline Tensors small_integers(const Shape& s, std::uint64_t seed) {
    const gx::Rng random(seed, "integers");
    std::uint64_t n = 0;
    return tensors(s, [&] {
        return bf16::encode(static_cast<float>(static_cast<int>(random.uniform(n++) * 7) - 3));
    });
}
inline Tensors normals(const Shape& s, std::uint64_t seed) {
    const gx::Rng random(seed, "normals");
    std::uint64_t n = 0;
    return tensors(s, [&] { return bf16::encode(random.normal(n++)); });
}

/// (k, r, s, c), as the definition says.
inline std::vector<float> serial(const Shape& s, const Tensors& t) {
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
inline float* aligned(float* p) {
    return reinterpret_cast<float*>((reinterpret_cast<std::uintptr_t>(p) + 63) / 64 * 64);
}

/// In the order of serial(), from scratch that holds NaN before, with a guard behind each array.
/// `place`: where number i of that order lies in the gradient.
template <class Tiles, class Gradient, class Place>
std::vector<float> run_guarded(const Gradient& gradient, const Shape& s, const Tensors& t,
                               const std::vector<float>& add_to, Place place) {
    const auto bytes = static_cast<std::size_t>(gradient.scratch_bytes());
    constexpr std::size_t guard = 256;
    constexpr std::align_val_t line{64};
    auto* scratch = static_cast<std::byte*>(::operator new(bytes + guard, line));
    std::memset(scratch, 0xff, bytes + guard);
    std::vector<float> memory(s.weights() + 96, -77.0f);
    float* const dw = aligned(memory.data()) + (s.images % 2 == 0 ? 0 : 4);  // either path
    for (std::size_t i = 0; i < add_to.size(); ++i) dw[place(i)] = add_to[i];
    gradient.template run<Tiles>(t.x.data(), t.dy.data(), dw, !add_to.empty(), scratch);
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

inline Shape any_shape() {
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
inline Blocking any_blocking() {
    const auto kib = [] { return std::int64_t{1 << 10} * *rc::gen::inRange(1, 100); };
    return {
        .row_bytes = kib(), .column_bytes = kib(), .panel_pixels = 32 * *rc::gen::inRange(1, 8)};
}

}  // namespace weight_gradients
