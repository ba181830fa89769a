#include <gx/onednn/detail/norm_kernels.hpp>

#include <cmath>    // NAN
#include <cstddef>  // size_t
#include <vector>   // images, sums

#include <gtest/gtest.h>

#include <gx/onednn/detail/cpu_bf16.hpp>  // cpu_bf16

namespace {

using namespace gx::onednn::detail;

/// Small numbers, other ones for each seed, so that every sum is exact in any order.
template <class E>
std::vector<E> numbers(std::int64_t count, int seed) {
    std::vector<E> all;
    for (std::int64_t i = 0; i < count; ++i)
        all.push_back(narrow<E>(static_cast<float>((i * 7 + seed * 5 + i / 11) % 9 - 4)));
    return all;
}

/// The four kernels on images of one shape beside plain loops.
template <class E>
struct Passes {
    Layout layout;
    int images;
    std::int64_t count = layout.floats() * images, channels = layout.channels();
    Grid grid = layout.grid(images);
    std::vector<E> x = numbers<E>(count, 1), g1 = numbers<E>(count, 2), g2 = numbers<E>(count, 3),
                   y = numbers<E>(count, 4);
    std::vector<float> scale = numbers<float>(channels, 5), shift = numbers<float>(channels, 6),
                       mean = numbers<float>(channels, 7), of_x = numbers<float>(channels, 8);

    /// Calls f(channel, place) for all numbers of all images.
    template <class F>
    void each(F f) const {
        for (int n = 0; n < images; ++n)
            for (std::int64_t i = 0; i < layout.floats(); ++i)
                f(static_cast<std::size_t>(i / layout.pixels()),
                  static_cast<std::size_t>(n * layout.floats() + layout.index(i)));
    }
    [[nodiscard]] float affine(std::size_t c, std::size_t i) const {
        return widen(x[i]) * scale[c] + shift[c];
    }
    void sums() const {
        std::vector<double> sum(mean.size(), 1), squares(mean.size(), 2), s = sum, q = squares;
        run_kernel<NormSums<E>>(
            typename NormSums<E>::Args{x.data(), grid, mean.data(), sum.data(), squares.data()});
        each([&](std::size_t c, std::size_t i) {
            const double d = static_cast<double>(widen(x[i]) - mean[c]);
            s[c] += d, q[c] += d * d;
        });
        EXPECT_EQ(sum, s);
        EXPECT_EQ(squares, q);
    }
    void apply(bool residual, bool relu) const {
        std::vector<E> out(x.size()), expected(x.size());
        run_kernel<NormApply<E>>(
            typename NormApply<E>::Args{x.data(), residual ? y.data() : nullptr, out.data(), grid,
                                        scale.data(), shift.data(), relu});
        each([&](std::size_t c, std::size_t i) {
            const float v = affine(c, i) + (residual ? widen(y[i]) : 0.0f);
            expected[i] = narrow<E>(relu && v < 0 ? 0.0f : v);
        });
        EXPECT_EQ(out, expected);
    }
    void gradient_sums(Mask mask, bool two) const {
        std::vector<double> sum(mean.size(), 1), products(mean.size(), 2), s = sum, q = products;
        std::vector<E> g = g1, kept = g1;
        run_kernel<NormGradientSums<E>>(typename NormGradientSums<E>::Args{
            g.data(), two ? g2.data() : nullptr, g.data(), x.data(), y.data(), grid, scale.data(),
            shift.data(), mean.data(), sum.data(), products.data(), mask});
        each([&](std::size_t c, std::size_t i) {
            const bool passes =
                mask == Mask::none || (mask == Mask::from_input ? affine(c, i) : widen(y[i])) > 0;
            const float v = passes ? widen(g1[i]) + (two ? widen(g2[i]) : 0.0f) : 0.0f;
            if (keeps_masked_sum(mask, two)) kept[i] = narrow<E>(v);
            s[c] += static_cast<double>(v);
            q[c] += static_cast<double>(v * (widen(x[i]) - mean[c]));
        });
        EXPECT_EQ(sum, s);
        EXPECT_EQ(products, q);
        EXPECT_EQ(g, kept);
    }
    void gradient_apply(bool mask) const {
        std::vector<E> dx = g1, expected(x.size());
        run_kernel<NormGradientApply<E>>(typename NormGradientApply<E>::Args{
            dx.data(), x.data(), dx.data(), grid, scale.data(), shift.data(), scale.data(),
            of_x.data(), mean.data(), mask});
        each([&](std::size_t c, std::size_t i) {
            const float g = !mask || affine(c, i) > 0 ? widen(g1[i]) : 0.0f;
            expected[i] = narrow<E>(g * scale[c] + (widen(x[i]) * of_x[c] + mean[c]));
        });
        EXPECT_EQ(dx, expected);
    }
    void all() const {
        SCOPED_TRACE(testing::Message()
                     << layout.shape.channels << " channels, " << layout.pixels() << " pixels"
                     << (layout.channels_last ? ", channels last" : ", blocked"));
        sums();
        for (const bool b : {false, true}) {
            apply(b, false), apply(b, true), gradient_apply(b);
            for (const Mask m : {Mask::none, Mask::from_input, Mask::from_output})
                gradient_sums(m, b);
        }
    }
};

// Blocks that fill no pair, more channels than are summed at once, and pixels that fill no four.
template <class E>
void compare(bool channels_last) {
    const int block = cpu_block();
    for (const int channels : {16, 32, 48, 80, 1040, 2064})
        for (const int pixels : {1, 3, 4, 9, 14})
            Passes<E>{{{channels, 1, pixels}, block, channels_last}, 2}.all();
}

TEST(NormKernels, GiveWhatPlainLoopsGive) { compare<float>(false); }

TEST(NormKernels, GiveWhatPlainLoopsGiveInBf16) {
    if (cpu_bf16().unit == Bf16Unit::none) GTEST_SKIP() << "this CPU has no instructions for bf16";
    compare<Bf16>(false);
    compare<Bf16>(true);
}

// A sum of 1 and many halves of an ulp: the order in which they are added decides what is lost.
TEST(NormKernels, AddFourPixelsAtOnceWhereChannelsComeLast) {
    if (cpu_bf16().unit == Bf16Unit::none) GTEST_SKIP() << "this CPU has no instructions for bf16";
    const Layout layout{{32, 1, 8}, cpu_block(), true};
    const float tiny = 0x1p-24f;
    const std::vector<float> pixels{1, tiny, tiny, tiny, tiny, tiny, tiny, tiny};
    std::vector<Bf16> x;
    for (const float p : pixels) x.insert(x.end(), 32, narrow<Bf16>(p));
    const std::vector<float> zero(32);
    std::vector<double> sum(32), squares(32);
    run_kernel<NormSums<Bf16>>(
        NormSums<Bf16>::Args{x.data(), layout.grid(1), zero.data(), sum.data(), squares.data()});
    const float first = (1 + tiny) + (tiny + tiny), second = (tiny + tiny) + (tiny + tiny);
    EXPECT_EQ(sum, std::vector<double>(32, static_cast<double>(first + second)));
}

TEST(NormKernels, PassNotANumberThroughAReLU) {
    const Layout layout{{16, 1, 1}, cpu_block(), false};
    const std::vector<float> x(16, NAN), one(16, 1.0f);
    std::vector<float> y(16);
    run_kernel<NormApply<float>>(NormApply<float>::Args{x.data(), nullptr, y.data(), layout.grid(1),
                                                        one.data(), one.data(), true});
    for (const float v : y) EXPECT_TRUE(std::isnan(v));
}

}  // namespace
