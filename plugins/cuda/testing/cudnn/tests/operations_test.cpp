// What each operation of cuDNN's double computes, against sums in double.
#include "execution.hpp"

#include <rapidcheck.h>

#include <cmath>
#include <numbers>

namespace {

using namespace cudnn_test;

class Operations : public ::testing::Test {
protected:
    void SetUp() override { start(); }
};

std::size_t at4(const Dims& d, std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t e) {
    return static_cast<std::size_t>(((a * d[1] + b) * d[2] + c) * d[3] + e);
}

// ---- Convolutions -----------------------------------------------------------------------------

struct Shapes {
    Dims x, w, y;
    ConvolutionSpec spec{};
};
Shapes shapes_of(std::int64_t n, std::int64_t groups, std::int64_t c, std::int64_t k, Dims size,
                 Dims window, const ConvolutionSpec& spec) {
    Dims out(2);
    for (std::size_t i = 0; i < 2; ++i)
        out[i] =
            (size[i] + 2 * spec.pad[i] - spec.dilation[i] * (window[i] - 1) - 1) / spec.stride[i] +
            1;
    return {{n, groups * c, size[0], size[1]},
            {groups * k, c, window[0], window[1]},
            {n, groups * k, out[0], out[1]},
            spec};
}

/// The definition, each product once: result and the sum of magnitudes, in double.
struct Sums {
    std::vector<double> value, magnitude;
    std::int64_t terms = 0;  ///< most of one sum
};
Sums convolve(Conv kind, const Shapes& s, const Values& x, const Values& w, const Values& y) {
    const Dims& to = kind == Conv::forward ? s.y : kind == Conv::data ? s.x : s.w;
    Sums sums{std::vector<double>(count_of(to)), std::vector<double>(count_of(to))};
    std::vector<std::int64_t> terms(count_of(to));
    const std::int64_t groups = s.x[1] / s.w[1], per_group = s.w[0] / groups;
    for (std::int64_t n = 0; n < s.x[0]; ++n)
        for (std::int64_t k = 0; k < s.w[0]; ++k)
            for (std::int64_t p = 0; p < s.y[2]; ++p)
                for (std::int64_t q = 0; q < s.y[3]; ++q)
                    for (std::int64_t c = 0; c < s.w[1]; ++c)
                        for (std::int64_t r = 0; r < s.w[2]; ++r)
                            for (std::int64_t t = 0; t < s.w[3]; ++t) {
                                const std::int64_t i =
                                    p * s.spec.stride[0] - s.spec.pad[0] + r * s.spec.dilation[0];
                                const std::int64_t j =
                                    q * s.spec.stride[1] - s.spec.pad[1] + t * s.spec.dilation[1];
                                if (i < 0 || j < 0 || i >= s.x[2] || j >= s.x[3]) continue;
                                const std::size_t ix =
                                                      at4(s.x, n, k / per_group * s.w[1] + c, i, j),
                                                  iw = at4(s.w, k, c, r, t),
                                                  iy = at4(s.y, n, k, p, q);
                                const auto [o, product] =
                                    kind == Conv::forward ? std::pair(iy, double{x[ix]} * w[iw])
                                    : kind == Conv::data  ? std::pair(ix, double{w[iw]} * y[iy])
                                                          : std::pair(iw, double{x[ix]} * y[iy]);
                                sums.value[o] += product;
                                sums.magnitude[o] += std::abs(product);
                                sums.terms = std::max(sums.terms, ++terms[o]);
                            }
    return sums;
}

constexpr Conv kinds[] = {Conv::forward, Conv::data, Conv::filter};

Values run_convolution(Conv kind, const Shapes& s, cudnnDataType_t t, bool planar, const Values& x,
                       const Values& w, const Values& y, int note = -1) {
    const auto spec = [&](std::int64_t uid, const Dims& d) {
        const Dims rows{d[1] * d[2] * d[3], d[2] * d[3], d[3], 1};
        return TensorSpec{.uid = uid, .dims = d, .type = t, .strides = planar ? rows : Dims{}};
    };
    Execution e;
    e.avoids_tensor_cores = t == fp32;
    e.put(spec(1, s.x), kind == Conv::data ? Values{} : x);
    e.put(spec(2, s.w), kind == Conv::filter ? Values{} : w);
    e.put(spec(3, s.y), kind == Conv::forward ? Values{} : y);
    Graph g;
    const Descriptor &xt = g.tensor(spec(0, s.x)), &wt = g.tensor(spec(0, s.w)),
                     &yt = g.tensor(spec(0, s.y));
    g.conv(kind, xt, wt, yt, s.spec);
    const Descriptor p = e.plan_of(g, note);
    e.execute(p);
    return e.get(kind == Conv::forward ? 3 : kind == Conv::data ? 1 : 2);
}

TEST_F(Operations, ConvolvesByHand) {
    // x (1, 1, 3, 3) = 1 ... 9, w = (1, 2; 3, 4): cross-correlation, and the flipped convolution.
    const Shapes s = shapes_of(1, 1, 1, 1, {3, 3}, {2, 2}, {});
    const Values x{1, 2, 3, 4, 5, 6, 7, 8, 9}, w{1, 2, 3, 4};
    EXPECT_EQ(run_convolution(Conv::forward, s, fp32, false, x, w, {}), (Values{37, 47, 67, 77}));
    Shapes flipped = s;
    flipped.spec.mode = CUDNN_CONVOLUTION;
    EXPECT_EQ(run_convolution(Conv::forward, flipped, fp32, false, x, w, {}),
              (Values{23, 33, 53, 63}));
}

TEST_F(Operations, ConvolvesAnyShapeExactlyOnIntegers) {
    EXPECT_TRUE(rc::check([] {
        const auto draw = [](int from, int to) {
            return std::int64_t{*rc::gen::inRange(from, to)};
        };
        const ConvolutionSpec spec{.pad = {draw(0, 3), draw(0, 3)},
                                   .stride = {draw(1, 4), draw(1, 4)},
                                   .dilation = {draw(1, 3), draw(1, 3)}};
        const Dims window{draw(1, 4), draw(1, 4)};
        const Dims size{draw(1, 5) + spec.dilation[0] * (window[0] - 1),
                        draw(1, 5) + spec.dilation[1] * (window[1] - 1)};
        const Shapes s =
            shapes_of(draw(1, 3), draw(1, 3), draw(1, 4), draw(1, 4), size, window, spec);
        const auto t = *rc::gen::element(fp32, fp16, bf16);
        const bool planar = *rc::gen::arbitrary<bool>();
        const Values x = small_integers(s.x, 1), w = small_integers(s.w, 2),
                     y = small_integers(s.y, 3);
        start();
        for (const Conv kind : kinds) {
            const Sums sums = convolve(kind, s, x, w, y);
            const Values got = run_convolution(kind, s, t, planar, x, w, y);
            for (std::size_t i = 0; i < got.size(); ++i) {
                const auto v = static_cast<float>(sums.value[i]);  // exact: below 2^24
                RC_ASSERT(got[i] == (t == fp16   ? gx::fp16::decode(gx::fp16::encode(v))
                                     : t == bf16 ? gx::bf16::decode(gx::bf16::encode(v))
                                                 : v));
            }
        }
    }));
}

// |computed - exact| <= n u sum |products| to first order: n - 1 additions and one product
// each, u = 2^-24; Higham 2002, section 3.1. n u / (1 - n u) is below 1.001 n u here.
TEST_F(Operations, ConvolvesWithinTheBoundOfSums) {
    const Shapes s = shapes_of(2, 1, 8, 4, {9, 7}, {3, 3}, {.pad = {1, 1}, .stride = {2, 1}});
    const Values x = reals(s.x, 4), w = reals(s.w, 5), y = reals(s.y, 6);
    for (const Conv kind : kinds)
        for (const int note : {-1, int{CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}}) {
            const Sums sums = convolve(kind, s, x, w, y);
            const Values got = run_convolution(kind, s, fp32, false, x, w, y, note);
            for (std::size_t i = 0; i < got.size(); ++i)
                EXPECT_NEAR(got[i], sums.value[i],
                            1.001 * static_cast<double>(sums.terms) * 0x1p-24 * sums.magnitude[i]);
        }
}

TEST_F(Operations, EnginesDifferAsTheirNotesSay) {
    const Shapes s = shapes_of(1, 1, 64, 2, {5, 5}, {3, 3}, {});
    const Values x = reals(s.x, 7), w = reals(s.w, 8);
    const auto run = [&](cudnnDataType_t t, int note) {
        return run_convolution(Conv::forward, s, t, false, x, w, {}, note);
    };
    const Values exact = run(fp32, -1);
    EXPECT_EQ(exact, run(fp32, -1));
    EXPECT_NE(exact, run(fp32, CUDNN_NUMERICAL_NOTE_TENSOR_CORE)) << "TF32";
    EXPECT_NE(run(fp32, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC),
              run(fp32, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC));
    EXPECT_NE(run(fp16, -1), run(fp16, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION));
    start();  // TF32 keeps 11 bits: 1 + 2^-11 is a tie, away from 1
    const Shapes one = shapes_of(1, 1, 1, 1, {1, 1}, {1, 1}, {});
    EXPECT_EQ(run_convolution(Conv::forward, one, fp32, false, {1 + 0x1p-11f}, {1}, {},
                              CUDNN_NUMERICAL_NOTE_TENSOR_CORE),
              (Values{1 + 0x1p-10f}));
}

// ---- Pointwise --------------------------------------------------------------------------------

Values run_pointwise(cudnnPointwiseMode_t mode, const Values& x, const Values& b, bool nan = true) {
    const auto n = static_cast<std::int64_t>(x.size());
    Execution e;
    e.put({.uid = 1, .dims = {1, n, 1, 1}}, x);
    Graph g;
    const Descriptor& xt = g.tensor({1, n, 1, 1}, fp32);
    const auto nb = static_cast<std::int64_t>(b.size());
    if (!b.empty()) e.put({.uid = 2, .dims = {1, nb, 1, 1}}, b);
    const Descriptor* const bt = b.empty() ? nullptr : &g.tensor({1, nb, 1, 1}, fp32);
    e.put({.uid = b.empty() ? 2 : 3, .dims = {1, n, 1, 1}});
    const Descriptor& yt = g.tensor({1, n, 1, 1}, fp32);
    if (mode >= CUDNN_POINTWISE_RELU_BWD && mode < CUDNN_POINTWISE_CMP_EQ)
        g.pointwise_backward(mode, *bt, xt, yt);
    else g.pointwise(mode, xt, bt, yt, nan);
    e.run(g);
    return e.get(b.empty() ? 2 : 3);
}

TEST_F(Operations, ComputesPointwise) {
    const Values x{-2, -1, 0, 1, 2, 3}, b{5, 7, 1, -2, 4, 2};
    EXPECT_EQ(run_pointwise(CUDNN_POINTWISE_ADD, x, b), (Values{3, 6, 1, -1, 6, 5}));
    EXPECT_EQ(run_pointwise(CUDNN_POINTWISE_SUB, x, b), (Values{-7, -8, -1, 3, -2, 1}));
    EXPECT_EQ(run_pointwise(CUDNN_POINTWISE_MUL, x, b), (Values{-10, -7, 0, -2, 8, 6}));
    EXPECT_EQ(run_pointwise(CUDNN_POINTWISE_MUL, x, {2}), (Values{-4, -2, 0, 2, 4, 6}))
        << "broadcast";
    EXPECT_EQ(run_pointwise(CUDNN_POINTWISE_IDENTITY, x, {}), x);
    EXPECT_EQ(run_pointwise(CUDNN_POINTWISE_RELU_FWD, x, {}), (Values{0, 0, 0, 1, 2, 3}));
    EXPECT_EQ(run_pointwise(CUDNN_POINTWISE_RELU_BWD, x, b), (Values{0, 0, 0, -2, 4, 2}));
}
TEST_F(Operations, ComputesFunctionsOfNumbers) {
    const Values x{0.25f, 0.5f, 1, 2, 4, 16}, b{2, -3, 0.5f, 4, 1, 0.25f};
    const auto check = [&](cudnnPointwiseMode_t mode, float (*f)(float, float), bool binary) {
        const Values y = run_pointwise(mode, x, binary ? b : Values{});
        for (std::size_t i = 0; i < x.size(); ++i)
            EXPECT_FLOAT_EQ(y[i], f(x[i], b[i])) << "mode " << mode << " of " << x[i];
    };
    check(CUDNN_POINTWISE_ADD_SQUARE, [](float a, float c) { return a + c * c; }, true);
    check(CUDNN_POINTWISE_DIV, [](float a, float c) { return a / c; }, true);
    check(CUDNN_POINTWISE_MAX, [](float a, float c) { return std::fmax(a, c); }, true);
    check(CUDNN_POINTWISE_MIN, [](float a, float c) { return std::fmin(a, c); }, true);
    check(CUDNN_POINTWISE_POW, [](float a, float c) { return std::pow(a, c); }, true);
    check(CUDNN_POINTWISE_ABS, [](float a, float) { return a; }, false);
    check(CUDNN_POINTWISE_NEG, [](float a, float) { return -a; }, false);
    check(CUDNN_POINTWISE_EXP, [](float a, float) { return std::exp(a); }, false);
    check(CUDNN_POINTWISE_LOG, [](float a, float) { return std::log(a); }, false);
    check(CUDNN_POINTWISE_SQRT, [](float a, float) { return std::sqrt(a); }, false);
    check(CUDNN_POINTWISE_RSQRT, [](float a, float) { return 1 / std::sqrt(a); }, false);
    check(CUDNN_POINTWISE_RECIPROCAL, [](float a, float) { return 1 / a; }, false);
    check(CUDNN_POINTWISE_ERF, [](float a, float) { return std::erf(a); }, false);
}
TEST_F(Operations, ReluKeepsNanWhereItIsTold) {
    const Values x{NAN, 1};
    EXPECT_TRUE(std::isnan(run_pointwise(CUDNN_POINTWISE_RELU_FWD, x, {}, true)[0]));
    EXPECT_EQ(run_pointwise(CUDNN_POINTWISE_RELU_FWD, x, {}, false)[0], 0);
}
// Each function is within 4 ulp in glibc ("Errors in Math Functions"); a few operations around it.
TEST_F(Operations, ComputesSmoothActivations) {
    const Values x = reals({1, 40, 1, 1}, 9), dy = reals({1, 40, 1, 1}, 10);
    const auto near = [](const Values& got, const std::function<double(std::size_t)>& exact) {
        for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], exact(i), 16 * 0x1p-24);
    };
    const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
    const auto phi = [](double v) { return 0.5 * (1 + std::erf(v / std::numbers::sqrt2)); };
    near(run_pointwise(CUDNN_POINTWISE_TANH_FWD, x, {}),
         [&](auto i) { return std::tanh(double{x[i]}); });
    near(run_pointwise(CUDNN_POINTWISE_SIGMOID_FWD, x, {}), [&](auto i) { return sigmoid(x[i]); });
    near(run_pointwise(CUDNN_POINTWISE_GELU_FWD, x, {}), [&](auto i) { return x[i] * phi(x[i]); });
    near(run_pointwise(CUDNN_POINTWISE_SIGMOID_BWD, x, dy),
         [&](auto i) { return dy[i] * sigmoid(x[i]) * (1 - sigmoid(x[i])); });
    near(run_pointwise(CUDNN_POINTWISE_TANH_BWD, x, dy),
         [&](auto i) { return dy[i] * (1 - std::pow(std::tanh(double{x[i]}), 2)); });
    near(run_pointwise(CUDNN_POINTWISE_GELU_BWD, x, dy), [&](auto i) {
        const double v = x[i], density = std::exp(-v * v / 2) / std::sqrt(2 * std::numbers::pi);
        return dy[i] * (phi(v) + v * density);
    });
}
/// x of fp32 as a tensor of int8.
Values as_int8(const Values& x) {
    const Dims dims{1, std::ssize(x), 1, 1};
    Execution e;
    e.put({.uid = 1, .dims = dims}, x);
    e.put({.uid = 2, .dims = dims, .type = int8});
    Graph g;
    const Descriptor &xt = g.tensor(dims, fp32), &yt = g.tensor(dims, int8);
    g.pointwise(CUDNN_POINTWISE_IDENTITY, xt, nullptr, yt);
    e.run(g);
    return e.get(2);
}
TEST_F(Operations, RoundsAndSaturatesIntegers) {
    EXPECT_EQ(as_int8({300, -300, 1e30f, -1.5f, 2.5f, 127.5f, NAN}),
              (Values{127, -128, 127, -2, 2, 127, 0}));
}
TEST_F(Operations, TakesAScalarOfItsTensorsType) {
    const Dims dims{1, 4, 1, 1};
    const auto doubled = [&](cudnnDataType_t type, auto two) {
        Execution e;
        e.put({.uid = 1, .dims = dims, .type = fp16}, {1, 2, 3, 4});
        e.put({.uid = 3, .dims = dims, .type = fp16});
        Graph g;
        const Descriptor& x = g.tensor(dims, fp16);
        const Descriptor& b = g.tensor({.dims = {1, 1, 1, 1}, .type = type, .by_value = true});
        const Descriptor& y = g.tensor(dims, fp16);
        g.pointwise(CUDNN_POINTWISE_MUL, x, &b, y);
        const Descriptor p = e.plan_of(g),
                         pack = e.pack_of({1, 2, 3}, {e.device(1), &two, e.device(3)}, nullptr);
        ok(cudnnBackendExecute(e.handle, p.handle(), pack.handle()));
        return e.get(3);
    };
    const Values twice{2, 4, 6, 8};
    EXPECT_EQ(doubled(fp32, 2.0f), twice);
    EXPECT_EQ(doubled(fp16, gx::fp16::encode(2)), twice);
    EXPECT_EQ(doubled(bf16, gx::bf16::encode(2)), twice);
    EXPECT_EQ(doubled(CUDNN_DATA_DOUBLE, 2.0), twice);
    EXPECT_EQ(doubled(CUDNN_DATA_INT32, std::int32_t{2}), twice);
    EXPECT_EQ(doubled(CUDNN_DATA_INT64, std::int64_t{2}), twice);
}
TEST_F(Operations, RoundsWhatIsStoredAndNotWhatIsVirtual) {
    // 1 + 2^-11 is no fp16: stored between the two additions it would be 1, and the sum 1.
    Execution e;
    const Dims one{1, 1, 1, 1};
    for (const std::int64_t uid : {1, 2})
        e.put({.uid = uid, .dims = one, .type = fp16}, {uid == 1 ? 1.0f : 0x1p-11f});
    e.put({.uid = 4, .dims = one, .type = fp16});
    Graph g;
    const Descriptor &a = g.tensor(one, fp16), &b = g.tensor(one, fp16),
                     &s = g.tensor(one, fp32, true), &y = g.tensor(one, fp16);
    g.pointwise(CUDNN_POINTWISE_ADD, a, &b, s);
    g.pointwise(CUDNN_POINTWISE_ADD, s, &b, y);
    e.run(g);
    EXPECT_EQ(e.get(4), (Values{1 + 0x1p-10f}));
}

// ---- Products, reductions ---------------------------------------------------------------------

TEST_F(Operations, MultipliesMatricesInAnyLayout) {
    const Values a{1, 2, 3, 4, 5, 6}, b{1, 0, 2, -1, 3, 1};  // (2, 3) and (3, 2)
    for (const bool transposed : {false, true}) {
        start();
        const Dims strides = transposed ? Dims{6, 1, 3} : Dims{6, 2, 1};
        Execution e;
        e.put({.uid = 1, .dims = {1, 2, 3}, .type = fp16}, a);
        e.put({.uid = 2, .dims = {1, 3, 2}, .type = fp16, .strides = strides}, b);
        e.put({.uid = 3, .dims = {1, 2, 2}, .type = fp16});
        Graph g;
        const Descriptor &at = g.tensor({1, 2, 3}, fp16),
                         &bt = g.tensor({.dims = {1, 3, 2}, .type = fp16, .strides = strides}),
                         &ct = g.tensor({1, 2, 2}, fp16);
        g.matmul(at, bt, ct);
        e.run(g);
        EXPECT_EQ(e.get(3), (Values{14, 1, 32, 1}));
    }
}
TEST_F(Operations, ReducesToChannels) {
    const Dims x{2, 3, 2, 2};
    const Values v = small_integers(x, 11);
    for (const auto op : {CUDNN_REDUCE_TENSOR_ADD, CUDNN_REDUCE_TENSOR_MAX}) {
        start();
        Execution e;
        e.put({.uid = 1, .dims = x, .type = fp16}, v);
        e.put({.uid = 2, .dims = {1, 3, 1, 1}});
        Graph g;
        const Descriptor &xt = g.tensor(x, fp16), &yt = g.tensor({1, 3, 1, 1}, fp32);
        g.reduce(xt, yt, op);
        e.run(g);
        Values expected(3, op == CUDNN_REDUCE_TENSOR_ADD ? 0.0f : -9.0f);
        for (std::size_t i = 0; i < v.size(); ++i) {
            float& to = expected[i / 4 % 3];
            to = op == CUDNN_REDUCE_TENSOR_ADD ? to + v[i] : std::max(to, v[i]);
        }
        EXPECT_EQ(e.get(2), expected);
    }
}

// ---- Pooling ----------------------------------------------------------------------------------

TEST_F(Operations, PoolsTheLargestAndItsIndex) {
    // (1, 1, 3, 3) in four windows of 2 x 2, stride 1.
    const Dims x{1, 1, 3, 3}, y{1, 1, 2, 2};
    const WindowSpec w{.window = {2, 2}, .stride = {1, 1}};
    Execution e;
    e.put({.uid = 1, .dims = x}, {1, 5, 2, 5, 0, 3, -1, -2, 4});
    e.put({.uid = 2, .dims = y});
    e.put({.uid = 3, .dims = y, .type = int8});
    Graph g;
    const Descriptor &xt = g.tensor(x, fp32), &yt = g.tensor(y, fp32), &it = g.tensor(y, int8);
    g.pool(w, xt, yt, &it);
    e.run(g);
    EXPECT_EQ(e.get(2), (Values{5, 5, 5, 4}));
    EXPECT_EQ(e.get(3), (Values{1, 0, 0, 3})) << "the first of equal ones";

    Execution b;
    b.put({.uid = 1, .dims = y}, {1, 10, 100, 1000});
    b.put({.uid = 2, .dims = x});
    b.put({.uid = 3, .dims = y, .type = int8}, {1, 0, 0, 3});
    Graph back;
    const Descriptor &dy = back.tensor(y, fp32), &dx = back.tensor(x, fp32),
                     &di = back.tensor(y, int8);
    back.pool_backward(w, dy, dx, &di);
    b.run(back);
    EXPECT_EQ(b.get(2), (Values{0, 11, 0, 100, 0, 0, 0, 0, 1000}));
}
TEST_F(Operations, AveragesWithAndWithoutPadding) {
    const Dims x{1, 1, 2, 2}, y{1, 1, 1, 1};
    for (const auto mode :
         {CUDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING, CUDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING}) {
        start();
        const WindowSpec w{.mode = mode, .window = {3, 3}, .stride = {2, 2}, .pad = {1, 1}};
        Execution e;
        e.put({.uid = 1, .dims = x}, {3, 6, 9, 18});
        e.put({.uid = 2, .dims = y});
        Graph g;
        const Descriptor &xt = g.tensor(x, fp32), &yt = g.tensor(y, fp32);
        g.pool(w, xt, yt);
        e.run(g);
        EXPECT_EQ(e.get(2), (Values{mode == CUDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING ? 9.0f : 4.0f}));
        Execution b;
        b.put({.uid = 1, .dims = y}, {36});
        b.put({.uid = 2, .dims = x});
        Graph back;
        const Descriptor &dy = back.tensor(y, fp32), &dx = back.tensor(x, fp32);
        back.pool_backward(w, dy, dx);
        b.run(back);
        EXPECT_EQ(b.get(2),
                  Values(4, mode == CUDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING ? 9.0f : 4.0f));
    }
}
TEST_F(Operations, LargestOfNan) {
    for (const bool propagates : {true, false}) {
        start();
        Execution e;
        e.put({.uid = 1, .dims = {1, 1, 2, 2}}, {1, NAN, 3, 2});
        e.put({.uid = 2, .dims = {1, 1, 1, 1}});
        Graph g;
        const Descriptor &xt = g.tensor({1, 1, 2, 2}, fp32), &yt = g.tensor({1, 1, 1, 1}, fp32);
        g.pool({.propagates_nan = propagates}, xt, yt);
        e.run(g);
        const float got = e.get(2)[0];
        EXPECT_TRUE(propagates ? std::isnan(got) : got == 3) << got;
    }
}

// ---- Batch norm -------------------------------------------------------------------------------

/// Mean and biased variance of a channel, in double.
std::pair<double, double> moments(const Dims& d, const Values& x, std::int64_t c) {
    double sum = 0, squares = 0;
    const double count = static_cast<double>(d[0] * d[2] * d[3]);
    const auto each = [&](const std::function<void(double)>& visit) {
        for (std::int64_t n = 0; n < d[0]; ++n)
            for (std::int64_t i = 0; i < d[2]; ++i)
                for (std::int64_t j = 0; j < d[3]; ++j) visit(x[at4(d, n, c, i, j)]);
    };
    each([&](double v) { sum += v; });
    each([&](double v) { squares += (v - sum / count) * (v - sum / count); });
    return {sum / count, squares / count};
}

// Values of order 1 and 40 of them a channel: some 100 roundings of at most 2^-24 of order 1.
TEST_F(Operations, NormalizesForwardAndBackward) {
    const Dims d{2, 3, 4, 5}, c{1, 3, 1, 1}, one{1, 1, 1, 1};
    const Values x = reals(d, 12), dy = reals(d, 13), scale{1, 2, -1}, bias{0, 1, 3},
                 mean0{1, 1, 1}, var0{2, 2, 2};
    Execution e;
    e.put({.uid = 1, .dims = d}, x);
    e.put({.uid = 2, .dims = d});
    for (const std::int64_t uid : {3, 4, 9, 10}) e.put({.uid = uid, .dims = c});
    e.put({.uid = 5, .dims = c}, scale);
    e.put({.uid = 6, .dims = c}, bias);
    e.put({.uid = 7, .dims = c}, mean0);
    e.put({.uid = 8, .dims = c}, var0);
    Graph g;
    const Descriptor &xt = g.tensor(d, fp32), &yt = g.tensor(d, fp32);
    std::vector<const Descriptor*> t;
    for (int i = 3; i <= 10; ++i) t.push_back(&g.tensor(c, fp32));
    const Descriptor &epsilon = g.tensor({.dims = one, .strides = one, .by_value = true}),
                     &factor = g.tensor({.dims = one, .strides = one, .by_value = true});
    Descriptor o(CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR);
    o.choice(CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_TYPE_NORM_MODE, CUDNN_BATCH_NORM)
        .choice(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_TYPE_NORM_FWD_PHASE,
                CUDNN_NORM_FWD_TRAINING)
        .part(CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, xt)
        .part(CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, yt)
        .part(CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, *t[0])
        .part(CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, *t[1])
        .part(CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, *t[2])
        .part(CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, *t[3])
        .part(CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC, *t[4])
        .part(CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC, *t[5])
        .part(CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC, *t[6])
        .part(CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC, *t[7])
        .part(CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, epsilon)
        .part(CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC, factor);
    g.operation(std::move(o));
    e.run(g, {{11, 1e-5f}, {12, 0.25f}});
    const Values y = e.get(2), mean = e.get(3), inverse = e.get(4), running_mean = e.get(9),
                 running_var = e.get(10);
    for (std::int64_t k = 0; k < 3; ++k) {
        const auto i = static_cast<std::size_t>(k);
        const auto [m, v] = moments(d, x, k);
        const double inv = 1 / std::sqrt(v + 1e-5f);
        EXPECT_NEAR(mean[i], m, 1e-5);
        EXPECT_NEAR(inverse[i], inv, 1e-5);
        EXPECT_NEAR(running_mean[i], 0.75 + 0.25 * m, 1e-5);
        EXPECT_NEAR(running_var[i], 1.5 + 0.25 * v * 40 / 39, 1e-5);
        for (std::int64_t n = 0; n < 2; ++n) {
            const std::size_t at = at4(d, n, k, 2, 3);
            EXPECT_NEAR(y[at], scale[i] * (x[at] - m) * inv + bias[i], 1e-5);
        }
    }

    Execution b;
    b.put({.uid = 1, .dims = d}, x);
    b.put({.uid = 2, .dims = d}, dy);
    b.put({.uid = 3, .dims = d});
    b.put({.uid = 4, .dims = c}, mean);
    b.put({.uid = 5, .dims = c}, inverse);
    b.put({.uid = 6, .dims = c}, scale);
    for (const std::int64_t uid : {7, 8}) b.put({.uid = uid, .dims = c});
    Graph back;
    const Descriptor &bx = back.tensor(d, fp32), &bdy = back.tensor(d, fp32),
                     &bdx = back.tensor(d, fp32);
    std::vector<const Descriptor*> s;
    for (int i = 4; i <= 8; ++i) s.push_back(&back.tensor(c, fp32));
    Descriptor q(CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR);
    q.choice(CUDNN_ATTR_OPERATION_NORM_BWD_MODE, CUDNN_TYPE_NORM_MODE, CUDNN_BATCH_NORM)
        .part(CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, bx)
        .part(CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC, bdy)
        .part(CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, bdx)
        .part(CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC, *s[0])
        .part(CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, *s[1])
        .part(CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, *s[2])
        .part(CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, *s[3])
        .part(CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, *s[4]);
    back.operation(std::move(q));
    b.run(back);
    const Values dx = b.get(3), dscale = b.get(7), dbias = b.get(8);
    for (std::int64_t k = 0; k < 3; ++k) {
        const auto i = static_cast<std::size_t>(k);
        const auto [m, v] = moments(d, x, k);
        const double inv = 1 / std::sqrt(v + 1e-5f);
        double sum = 0, projection = 0;
        for (std::int64_t n = 0; n < 2; ++n)
            for (std::int64_t p = 0; p < 20; ++p) {
                const std::size_t at = at4(d, n, k, p / 5, p % 5);
                sum += dy[at];
                projection += dy[at] * (x[at] - m) * inv;
            }
        EXPECT_NEAR(dbias[i], sum, 1e-5);
        EXPECT_NEAR(dscale[i], projection, 1e-4);
        const std::size_t at = at4(d, 1, k, 3, 1);
        EXPECT_NEAR(dx[at],
                    scale[i] * inv * (dy[at] - sum / 40 - (x[at] - m) * inv * projection / 40),
                    1e-5);
    }
}

TEST_F(Operations, SumsStatisticsBehindAConvolution) {
    const Dims d{2, 4, 3, 3}, w{4, 4, 1, 1}, c{1, 4, 1, 1};
    Values identity(16);
    for (std::size_t i = 0; i < 4; ++i) identity[i * 5] = 1;
    const Values x = small_integers(d, 14);
    Execution e;
    e.put({.uid = 1, .dims = d, .type = fp16}, x);
    e.put({.uid = 2, .dims = w, .type = fp16}, identity);
    e.put({.uid = 3, .dims = d, .type = fp16});
    for (const std::int64_t uid : {4, 5}) e.put({.uid = uid, .dims = c});
    Graph g;
    const Descriptor &xt = g.tensor(d, fp16), &wt = g.tensor(w, fp16), &yt = g.tensor(d, fp16),
                     &s = g.tensor(c, fp32), &q = g.tensor(c, fp32);
    g.conv(Conv::forward, xt, wt, yt);
    g.statistics(yt, s, q);
    e.run(g);
    EXPECT_EQ(e.get(3), x);
    Values sums(4), squares(4);
    for (std::size_t i = 0; i < x.size(); ++i)
        sums[i / 9 % 4] += x[i], squares[i / 9 % 4] += x[i] * x[i];
    EXPECT_EQ(e.get(4), sums);
    EXPECT_EQ(e.get(5), squares);
}
/// Two channels of 4 numbers with the means 2 and -1 and the variances 4 and 0.25.
TEST_F(Operations, FinalizesStatistics) {
    const Dims c{1, 2, 1, 1}, one{1, 1, 1, 1};
    Execution e;
    e.put({.uid = 1, .dims = c}, {8, -4});     // sums
    e.put({.uid = 2, .dims = c}, {32, 5});     // of squares
    e.put({.uid = 3, .dims = c}, {1, 2});      // scale
    e.put({.uid = 4, .dims = c}, {0.5f, -1});  // bias
    for (std::int64_t uid = 5; uid <= 8; ++uid) e.put({.uid = uid, .dims = c});
    Graph g;
    Descriptor o(CUDNN_BACKEND_OPERATION_BN_FINALIZE_STATISTICS_DESCRIPTOR);
    o.choice(CUDNN_ATTR_OPERATION_BN_FINALIZE_STATS_MODE, CUDNN_TYPE_BN_FINALIZE_STATS_MODE,
             CUDNN_BN_FINALIZE_STATISTICS_TRAINING)
        .data_type(CUDNN_ATTR_OPERATION_BN_FINALIZE_MATH_PREC, fp32);
    for (const auto a :
         {CUDNN_ATTR_OPERATION_BN_FINALIZE_Y_SUM_DESC,
          CUDNN_ATTR_OPERATION_BN_FINALIZE_Y_SQ_SUM_DESC,
          CUDNN_ATTR_OPERATION_BN_FINALIZE_SCALE_DESC, CUDNN_ATTR_OPERATION_BN_FINALIZE_BIAS_DESC,
          CUDNN_ATTR_OPERATION_BN_FINALIZE_SAVED_MEAN_DESC,
          CUDNN_ATTR_OPERATION_BN_FINALIZE_SAVED_INV_STD_DESC,
          CUDNN_ATTR_OPERATION_BN_FINALIZE_EQ_SCALE_DESC,
          CUDNN_ATTR_OPERATION_BN_FINALIZE_EQ_BIAS_DESC})
        o.part(a, g.tensor(c, fp32));
    for (const auto a : {CUDNN_ATTR_OPERATION_BN_FINALIZE_ACCUM_COUNT_DESC,
                         CUDNN_ATTR_OPERATION_BN_FINALIZE_EPSILON_DESC})
        o.part(a, g.tensor({.dims = one, .by_value = true}));
    g.operation(std::move(o));
    e.run(g, {{9, 4.0f}, {10, 0.0f}});
    EXPECT_EQ(e.get(5), (Values{2, -1}));
    EXPECT_EQ(e.get(6), (Values{0.5f, 2}));
    EXPECT_EQ(e.get(7), (Values{0.5f, 4}));
    EXPECT_EQ(e.get(8), (Values{-0.5f, 3}));
}

}  // namespace
