// reference::Device in fp16 and bf16: which tensors are in the element, how they are rounded, how
// far the gradients are from exact ones; and mutants that these tests must reject.
#include <gx/reference/device.hpp>

#include <algorithm>  // copy
#include <cmath>      // exp, ilogb, rint
#include <string>     // what is wrong
#include <vector>     // data

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/core/rng.hpp>           // Rng
#include <gx/model/mlp.hpp>          // Mlp
#include <model/random_network.hpp>  // random_network

namespace {

using gx::Batch;
using gx::bf16;
using gx::ElementType;
using gx::fp16;
using gx::fp32;
using gx::Graph;
using gx::Mode;
using gx::OpKind;
using gx::reference::Device;
using Floats = std::vector<float>;
using Labels = std::vector<std::int32_t>;
using Doubles = std::vector<double>;

// ---- What the type promises ---------------------------------------------------------
static_assert(gx::computes_in<Device, fp32> && gx::computes_in<Device, fp16> &&
              gx::computes_in<Device, bf16>);
static_assert(gx::element_type<bf16> == ElementType::bf16);

// ---- Rounding, apart from gx's ------------------------------------------------------
template <class E>
constexpr int digits = std::is_same_v<E, fp16> ? 11 : 8;
template <class E>
constexpr int least_exponent = std::is_same_v<E, fp16> ? -14 : -126;
template <class E>
constexpr double largest = std::is_same_v<E, fp16> ? 65504.0 : 0x1.fep127;

/// By the definition: a multiple of the unit in the last place; ties to even.
template <class E>
double rounded(double x) {
    if (x == 0 || !std::isfinite(x)) return x;
    const int exponent = std::max(std::ilogb(x), least_exponent<E>);
    const double unit = std::ldexp(1.0, exponent - digits<E> + 1);
    const double y = std::rint(x / unit) * unit;
    return std::fabs(y) > largest<E> ? std::copysign(HUGE_VAL, x) : y;
}
template <class E>
bool in_element(double x) {
    return std::isnan(x) || rounded<E>(x) == x;
}

/// Which parameters and gradients of parameters are in the element: not those of batch norms.
bool stored_in_element(gx::ParameterRole role) {
    return role != gx::ParameterRole::gamma && role != gx::ParameterRole::beta;
}

// ---- A network with numbers, and a step of it -----------------------------------------
struct Numbers {
    Graph graph;
    int batch = 0;
    Floats parameters{}, images{};
    Labels labels{};

    [[nodiscard]] Batch first(int count) const {
        const auto n = std::size_t(count);
        return {std::span(images).first(n * std::size_t(graph.input.elements())),
                std::span(labels).first(n), count, 7};
    }
    [[nodiscard]] Batch all() const { return first(batch); }
};
/// Numbers with all the digits of a float.
Numbers draw(const Graph& graph, int batch, std::uint64_t seed) {
    Numbers c{.graph = graph, .batch = batch};
    const gx::Rng rng(seed, "elements");
    for (const gx::Parameter& p : graph.parameters)
        for (std::int64_t i = 0; i < p.count; ++i) {
            const bool weight = p.role == gx::ParameterRole::weight;
            const float spread = weight ? 1 / std::sqrt(float(p.fan_in)) : 0.25f;
            const float centre = p.role == gx::ParameterRole::gamma ? 1.0f : 0.0f;
            c.parameters.push_back(centre + spread * rng.at(0).normal(c.parameters.size()));
        }
    for (std::int64_t i = 0; i < batch * graph.input.elements(); ++i)
        c.images.push_back(rng.at(1).normal(c.images.size()));
    for (int n = 0; n < batch; ++n)
        c.labels.push_back(std::int32_t(rng.at(2).below(std::uint64_t(n), graph.classes)));
    return c;
}
template <class D = Device>
D device(const Numbers& c, ElementType compute) {
    return D(c.graph, {.batch = c.batch, .seed = 3, .rank = 1, .compute = compute});
}
void set(auto& d, const Floats& values) {
    d.update([&](std::span<float> p) { std::ranges::copy(values, p.begin()); });
}
Floats train_step(auto& d, const Batch& batch, float scale) {
    (void)d.forward(batch, Mode::train);
    Floats gradients(d.parameters().size(), 99.0f);
    d.backward(scale, gradients, [](std::size_t) {});
    return gradients;
}

// ---- Checks, so that mutants can fail them ---------------------------------------------

/// After a forward and a backward: the first tensor that is not in its element, or nothing.
template <class E>
std::string wrong_role(const Graph& graph, const auto& d, const Floats& gradients) {
    const auto all_in = [](auto values) {
        return std::ranges::all_of(values, [](double x) { return in_element<E>(x); });
    };
    for (const gx::Op& op : graph.ops) {
        const std::string name(op.name.view());
        if (op.kind == OpKind::softmax_cross_entropy) continue;
        if (!all_in(d.activation(op.output))) return "activation of " + name;
        if (!all_in(d.activation_gradient(op.output))) return "activation gradient of " + name;
    }
    const auto copy = d.working_copy();
    for (const gx::Parameter& p : graph.parameters) {
        const std::string name(p.name.view());
        const bool in_e = stored_in_element(p.role);
        for (auto k = std::size_t(p.offset); k < std::size_t(p.offset + p.count); ++k) {
            const double master = d.parameters()[k];
            if (copy[k] != (in_e ? rounded<E>(master) : master)) return "working copy of " + name;
            if (in_e && !in_element<E>(gradients[k])) return "gradient of " + name;
        }
    }
    return "";
}

/// 256 updates of one parameter by an eighth of its unit in the last place, from 1 on.
struct Climb {
    float master = 0;
    double copy = 0;
    int changes = 0;  ///< of the copy
};
template <class E>
constexpr float eighth = static_cast<float>(1.0 / (1 << (digits<E> - 1)) / 8);
template <class E, class D = Device>
Climb climb() {
    gx::GraphBuilder b("tiny", {2, 1, 1}, 2);
    b.softmax_cross_entropy(b.linear(b.input(), 2, false, "fc"), 0, "loss");
    const Numbers c{.graph = std::move(b).finish(), .batch = 1};
    D d = device<D>(c, gx::element_type<E>);
    set(d, {1, 1, 1, 1});
    Climb end{.copy = d.working_copy()[0]};
    for (int step = 0; step < 256; ++step) {
        d.update([](std::span<float> p) { p[0] += eighth<E>; });
        const double now = d.working_copy()[0];
        end = {d.parameters()[0], now, end.changes + (now != end.copy)};
    }
    return end;
}

// ---- A step of an MLP in bf16, worked by hand ------------------------------------------
//
// bf16 has 8 digits: units of 2^-7 from 1 on, 2^-8 below it, 2^-9 below 1/2.
//
// Images: one A and three B, all of label 0.
//     A = (1 + 2^-8 + 2^-10, 130/128)     in bf16 (129/128, 130/128)
//     B = (2^-8, 129 * 2^-15)             as it is
// First layer, W1 = ((1 + 2^-8 + 2^-12, 0), (0, 1)), in bf16 ((129/128, 0), (0, 1)); no bias.
//     A: 129/128 * 129/128 = 16641/16384 = 130.008/128, stored as 130/128; and 130/128
//     B: 129/128 * 2^-8 = 129 * 2^-15, exact; and 129 * 2^-15
// Second layer, W2 = ((1, 1/2), (1/2, 1)): both logits of every image are equal, so softmax is
// (1/2, 1/2), and the gradient of the logits is (-1/2, 1/2).
//     B: 3/2 * 129 * 2^-15 = 193.5 * 2^-15, a tie, stored as 194 * 2^-15
//     dW2[0][j] = -1/2 (130 * 2^-7 + 3 * 129 * 2^-15) = -33667 * 2^-16 = -131.51 * 2^-8
//                 stored as -132 * 2^-8. One image at a time, each sum rounded, it would be -133.
//     dh        = (-1/2 + 1/4, -1/4 + 1/2) = (-1/4, 1/4)
//     dW1[0][0] = -1/4 (129 * 2^-7 + 3 * 2^-8) = -261 * 2^-10 = -130.5 * 2^-9, a tie: -130 * 2^-9
//     dW1[0][1] = -1/4 (130 * 2^-7 + 3 * 129 * 2^-15) = -131.51 * 2^-9: -132 * 2^-9
//     dx of A   = (129/128 * -1/4, 1 * 1/4)
// The second rows have the opposite signs. Then W1[0][0] moves by 2^-4 of its gradient. The master
// weight moves, in units of 2^-15, from 32768 + 136 by 4 * 130 to 33424 = 130.56 * 2^8, and the
// copy to 131/128.
TEST(ElementsOfTheReferenceDevice, AStepWorkedByHand) {
    gx::GraphBuilder b("hand", {2, 1, 1}, 2);
    const int h = b.linear(b.input(), 2, false, "fc1");
    const int r = b.relu(h, "relu");
    const int y = b.linear(r, 2, false, "fc2");
    b.softmax_cross_entropy(y, 0, "loss");
    const float master = 1 + 0x1p-8f + 0x1p-12f, small = 129 * 0x1p-15f;
    const Numbers c{.graph = std::move(b).finish(),
                    .batch = 4,
                    .parameters = {master, 0, 0, 1, 1, 0.5f, 0.5f, 1},
                    .images = {1 + 0x1p-8f + 0x1p-10f, 130 / 128.0f, 0x1p-8f, small, 0x1p-8f, small,
                               0x1p-8f, small},
                    .labels = {0, 0, 0, 0}};
    Device d = device(c, ElementType::bf16);
    set(d, c.parameters);
    EXPECT_EQ(d.parameters()[0], master);
    EXPECT_EQ(d.working_copy()[0], 129 / 128.0);

    const Floats gradients = train_step(d, c.all(), 1);
    const auto starts_with = [](auto found, const Doubles& wanted) {
        for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(found[i], wanted[i]) << i;
    };
    starts_with(d.activation(0), {129 / 128.0, 130 / 128.0, 0x1p-8, small});
    starts_with(d.activation(h), {130 / 128.0, 130 / 128.0, small, small, small, small});
    starts_with(d.activation(y), {195 / 128.0, 195 / 128.0, 194 * 0x1p-15, 194 * 0x1p-15});
    starts_with(d.activation_gradient(y), {-0.5, 0.5, -0.5, 0.5, -0.5, 0.5, -0.5, 0.5});
    starts_with(d.activation_gradient(r), {-0.25, 0.25, -0.25, 0.25});
    starts_with(d.activation_gradient(0), {-129 / 512.0, 0.25});
    const double w1 = 130 * 0x1p-9, w2 = 132 * 0x1p-9, w3 = 132 * 0x1p-8;
    starts_with(gradients, {-w1, -w2, w1, w2, -w3, -w3, w3, w3});

    d.update([&](std::span<float> p) { p[0] -= 0x1p-4f * gradients[0]; });
    EXPECT_EQ(d.parameters()[0], 33424 * 0x1p-15f);
    EXPECT_EQ(d.working_copy()[0], 131 / 128.0);
}

// Logits l1 + l2 of one number x = 1, by weights (1, -2^-9) and (-2^-9, 1): both are 1 - 2^-9, a
// tie that goes to 1, so their gradient is (-1/2, 1/2). Into the gradient of x goes first that of
// l2, 1/2 + 2^-10, stored as 1/2; then that of l1, -1/2 - 2^-10: -2^-10. Rounded once it were 0.
TEST(ElementsOfTheReferenceDevice, AGradientIsRoundedAfterEachOperationThatAddsToIt) {
    gx::GraphBuilder b("twice", {1, 1, 1}, 2);
    const int l1 = b.linear(b.input(), 2, false, "l1"), l2 = b.linear(b.input(), 2, false, "l2");
    b.softmax_cross_entropy(b.add(l1, l2, "add"), 0, "loss");
    const Numbers c{.graph = std::move(b).finish(),
                    .batch = 1,
                    .parameters = {1, -0x1p-9f, -0x1p-9f, 1},
                    .images = {1},
                    .labels = {0}};
    Device d = device(c, ElementType::bf16);
    set(d, c.parameters);
    EXPECT_EQ(train_step(d, c.all(), 1), (Floats{-0.5f, 0.5f, -0.5f, 0.5f}));
    EXPECT_EQ(d.activation_gradient(0)[0], -0x1p-10);
}

// ---- Master weights ---------------------------------------------------------------------

// In bf16 these are 256 updates of 2^-10. To the nearest, 1 + 2^-10 is 1: alone, the copy would
// stand still for ever. The master reaches 1 + 1/4, over 32 units, and the copy follows.
template <class E>
void expect_master_weights_keep_small_updates() {
    const Climb end = climb<E>();
    EXPECT_EQ(rounded<E>(1.0 + double{eighth<E>}), 1.0) << "else an update is not small";
    EXPECT_EQ(end.master, 1 + 256 * eighth<E>);
    EXPECT_EQ(end.copy, 1.0 + 256 * double{eighth<E>});
    EXPECT_EQ(end.changes, 32);
}
TEST(ElementsOfTheReferenceDevice, MasterWeightsKeepUpdatesFarBelowTheResolution) {
    expect_master_weights_keep_small_updates<bf16>();
    expect_master_weights_keep_small_updates<fp16>();
    EXPECT_EQ(climb<bf16>().copy, 1.25);
}

// ---- Properties, for any network ----------------------------------------------------------
template <class E, class D = Device>
std::string wrong_role_of(const Numbers& c, int count, float scale) {
    D d = device<D>(c, gx::element_type<E>);
    set(d, c.parameters);
    std::string wrong = wrong_role<E>(c.graph, d, train_step(d, c.first(count), scale));
    if (!wrong.empty()) return wrong;
    d.update([](std::span<float> p) {
        for (float& x : p) x *= 1.01f;
    });
    return wrong_role<E>(c.graph, d, train_step(d, c.all(), scale));
}
RC_GTEST_PROP(ElementsOfTheReferenceDevice, AreThoseOfTheirRoles, (std::uint64_t seed)) {
    const Numbers c = draw(gx::testing_support::random_network(), 3, seed);
    const float scale = std::ldexp(1.0f, gx::testing_support::any_of(-8, 16));
    RC_ASSERT(wrong_role_of<bf16>(c, 2, scale) == "");
    RC_ASSERT(wrong_role_of<fp16>(c, 2, scale) == "");
}

/// What stays in fp32 has digits that no element has.
TEST(ElementsOfTheReferenceDevice, LeaveBatchNormsAndTheLossInWiderFormats) {
    gx::GraphBuilder b("norm", {2, 4, 4}, 3);
    int x = b.conv2d(b.input(), {.channels = 3, .window = gx::Window::square(3)}, "conv");
    x = b.relu(b.batch_norm(x, {}, "bn"), "relu");
    x = b.linear(b.flatten(x, "flat"), 3, true, "fc");
    const int loss = b.softmax_cross_entropy(x, 0.1, "loss");
    const Numbers c = draw(std::move(b).finish(), 4, 1);
    Device d = device(c, ElementType::bf16);
    set(d, c.parameters);
    const Floats gradients = train_step(d, c.all(), 1);
    const auto some_beyond = [](auto values) {
        return std::ranges::any_of(values, [](double v) { return !in_element<fp16>(v); });
    };
    EXPECT_TRUE(some_beyond(d.parameters()));
    EXPECT_TRUE(some_beyond(d.statistics()));
    EXPECT_TRUE(some_beyond(d.activation(loss)));
    for (const gx::Parameter& p : c.graph.parameters)
        EXPECT_EQ(
            some_beyond(std::span(gradients).subspan(std::size_t(p.offset), std::size_t(p.count))),
            !stored_in_element(p.role))
            << p.name.view();
}

/// A loss times 2^k has every gradient times 2^k, until it underflows: fp16 keeps with a scale what
/// it loses without one.
TEST(ElementsOfTheReferenceDevice, TheScaleComesBeforeTheFirstRounding) {
    const Numbers c = draw(gx::graph<gx::Mlp<5>>({.input = {1, 2, 3}, .classes = 3}), 3, 5);
    const auto gradients_at = [&](ElementType compute, float scale) {
        Device d = device(c, compute);
        set(d, c.parameters);
        return train_step(d, c.all(), scale);
    };
    const Floats one = gradients_at(ElementType::bf16, 1),
                 far = gradients_at(ElementType::bf16, 0x1p-30f);
    for (std::size_t i = 0; i < one.size(); ++i) EXPECT_EQ(far[i], one[i] * 0x1p-30f);
    const auto zeros = [](const Floats& v) { return std::ranges::count(v, 0.0f); };
    const Floats half = gradients_at(ElementType::fp16, 1),
                 lost = gradients_at(ElementType::fp16, 0x1p-30f);
    EXPECT_LT(zeros(half), std::ssize(half));
    EXPECT_EQ(zeros(lost), std::ssize(lost));
}

// ---- An oracle that shares no line with the device -----------------------------------------

/// A step of an MLP with one hidden layer: plain vectors, each store rounded by `rounded`.
struct Mlp1 {
    Doubles h, y, dy, dh, gradients;
    double loss = 0;
};
template <class E>
Mlp1 plain_step(const Numbers& c, int in, int hidden, int out, double scale) {
    const auto to_e = [](double x) { return rounded<E>(x); };
    std::size_t at = 0;
    const auto take = [&](int count) {
        Doubles v;
        for (int i = 0; i < count; ++i) v.push_back(to_e(c.parameters[at++]));
        return v;
    };
    const Doubles w1 = take(hidden * in), b1 = take(hidden), w2 = take(out * hidden),
                  b2 = take(out);
    Doubles g1(w1.size()), gb1(b1.size()), g2(w2.size()), gb2(b2.size());
    Mlp1 s;
    for (int n = 0; n < c.batch; ++n) {
        Doubles x, h, y, dy, dh(std::size_t(hidden), 0.0);
        for (int i = 0; i < in; ++i) x.push_back(to_e(c.images[std::size_t(n * in + i)]));
        const auto product = [&](const Doubles& w, const Doubles& b, const Doubles& v, int o) {
            double sum = b[std::size_t(o)];
            for (std::size_t i = 0; i < v.size(); ++i)
                sum += w[std::size_t(o) * v.size() + i] * v[i];
            return to_e(sum);
        };
        for (int o = 0; o < hidden; ++o) h.push_back(std::max(0.0, product(w1, b1, x, o)));
        for (int o = 0; o < out; ++o) y.push_back(product(w2, b2, h, o));
        double top = y[0], sum = 0;
        for (const double v : y) top = std::max(top, v);
        for (const double v : y) sum += std::exp(v - top);
        const double log_sum = top + std::log(sum);
        const int label = c.labels[std::size_t(n)];
        s.loss += log_sum - y[std::size_t(label)];
        for (int o = 0; o < out; ++o)
            dy.push_back(
                to_e((std::exp(y[std::size_t(o)] - log_sum) - (o == label ? 1 : 0)) * scale));
        for (int o = 0; o < out; ++o)
            for (int i = 0; i < hidden; ++i) {
                const auto k = std::size_t(o * hidden + i);
                dh[std::size_t(i)] += w2[k] * dy[std::size_t(o)];
                g2[k] += h[std::size_t(i)] * dy[std::size_t(o)];
            }
        for (int o = 0; o < out; ++o) gb2[std::size_t(o)] += dy[std::size_t(o)];
        for (int o = 0; o < hidden; ++o) {
            double& d = dh[std::size_t(o)];
            d = to_e(d);
            const double through = h[std::size_t(o)] > 0 ? d : 0.0;
            gb1[std::size_t(o)] += through;
            for (int i = 0; i < in; ++i) g1[std::size_t(o * in + i)] += x[std::size_t(i)] * through;
        }
        for (const auto& [all, mine] : {std::pair{&s.h, &h}, std::pair{&s.y, &y},
                                        std::pair{&s.dy, &dy}, std::pair{&s.dh, &dh}})
            all->insert(all->end(), mine->begin(), mine->end());
    }
    for (const Doubles* g : {&g1, &gb1, &g2, &gb2})
        for (const double v : *g) s.gradients.push_back(to_e(v));
    return s;
}
constexpr int in = 6, hidden = 5, out = 3, images = 4;
Numbers small_mlp(std::uint64_t seed) {
    return draw(gx::graph<gx::Mlp<hidden>>({.input = {1, 2, 3}, .classes = out}), images, seed);
}
constexpr int relu_tensor = 3, logits_tensor = 4;  // input, flatten, fc1, relu1, fc2, loss
template <class E, class D = Device>
bool equals_the_plain_step(std::uint64_t seed) {
    const Numbers c = small_mlp(seed);
    const Mlp1 plain = plain_step<E>(c, in, hidden, out, 64);
    D d = device<D>(c, gx::element_type<E>);
    set(d, c.parameters);
    const Floats gradients = train_step(d, c.all(), 64);
    return std::ranges::equal(d.activation(relu_tensor), plain.h) &&
           std::ranges::equal(d.activation(logits_tensor), plain.y) &&
           std::ranges::equal(d.activation_gradient(logits_tensor), plain.dy) &&
           std::ranges::equal(d.activation_gradient(relu_tensor), plain.dh) &&
           std::ranges::equal(gradients, plain.gradients);
}
RC_GTEST_PROP(ElementsOfTheReferenceDevice, GiveTheBitsOfAPlainStep, (std::uint64_t seed)) {
    RC_ASSERT(equals_the_plain_step<bf16>(seed));
    RC_ASSERT(equals_the_plain_step<fp16>(seed));
}

// ---- The distance from the exact gradients, bounded ----------------------------------------
//
// Running error analysis of the step above: `value` is exact, and what a device in E has lies
// within `error` of it. A store adds half a unit in the last place of a number that is at most
// |value| + error, which is at most 2^-digits of it, or half of E's least number. Then
//
//     a + b      ea + eb
//     a * b      |a| eb + |b| ea + ea eb
//     relu       ea, as it moves no two numbers apart
//     its slope  the slope may differ where |x| <= ex; then the gradient differs by |d| + ed
//     softmax    with all logits within e of exact ones: p (exp(2 e) - 1), because numerator and
//                denominator each change by a factor of at most exp(e)
//
// Roundings of double are below 2^-40 of each, and covered by that.
struct Near {
    double value = 0, error = 0;

    friend Near operator+(Near a, Near b) { return {a.value + b.value, a.error + b.error}; }
    friend Near operator*(Near a, Near b) {
        return {a.value * b.value,
                std::fabs(a.value) * b.error + std::fabs(b.value) * a.error + a.error * b.error};
    }
    template <class E>
    [[nodiscard]] Near stored() const {
        const double least = std::ldexp(1.0, least_exponent<E> - digits<E> + 1);
        const double unit = std::ldexp(1.0, -digits<E>) + 0x1p-40;
        return {value, error + unit * (std::fabs(value) + error) + least / 2};
    }
};
template <class E>
std::vector<Near> bounded_step(const Numbers& c, double scale) {
    std::vector<Near> p, g(c.parameters.size());
    for (const float v : c.parameters) p.push_back(Near{v}.stored<E>());
    const auto w1 = [&](int o, int i) { return std::size_t(o * in + i); };
    const auto b1 = [&](int o) { return std::size_t(hidden * in + o); };
    const auto w2 = [&](int o, int i) { return std::size_t(hidden * (in + 1) + o * hidden + i); };
    const auto b2 = [&](int o) { return std::size_t(hidden * (in + 1) + out * hidden + o); };
    for (int n = 0; n < c.batch; ++n) {
        std::vector<Near> x, z, h, y, dh(hidden);
        for (int i = 0; i < in; ++i)
            x.push_back(Near{c.images[std::size_t(n * in + i)]}.stored<E>());
        for (int o = 0; o < hidden; ++o) {
            Near sum = p[b1(o)];
            for (int i = 0; i < in; ++i) sum = sum + p[w1(o, i)] * x[std::size_t(i)];
            z.push_back(sum.stored<E>());
            h.push_back({std::max(0.0, z.back().value), z.back().error});
        }
        double most = 0, all = 0;
        for (int o = 0; o < out; ++o) {
            Near sum = p[b2(o)];
            for (int i = 0; i < hidden; ++i) sum = sum + p[w2(o, i)] * h[std::size_t(i)];
            y.push_back(sum.stored<E>());
            most = std::max(most, y.back().error);
            all += std::exp(y.back().value);
        }
        for (int o = 0; o < out; ++o) {
            const double share = std::exp(y[std::size_t(o)].value) / all;
            Near d{share - (o == c.labels[std::size_t(n)] ? 1 : 0), share * std::expm1(2 * most)};
            d = (d * Near{scale}).stored<E>();
            g[b2(o)] = g[b2(o)] + d;
            for (int i = 0; i < hidden; ++i) {
                g[w2(o, i)] = g[w2(o, i)] + d * h[std::size_t(i)];
                dh[std::size_t(i)] = dh[std::size_t(i)] + d * p[w2(o, i)];
            }
        }
        for (int o = 0; o < hidden; ++o) {
            Near d = dh[std::size_t(o)].stored<E>();
            const Near at = z[std::size_t(o)];
            if (std::fabs(at.value) <= at.error)
                d = {at.value > 0 ? d.value : 0.0, std::fabs(d.value) + d.error};
            else if (at.value < 0) d = {};
            g[b1(o)] = g[b1(o)] + d;
            for (int i = 0; i < in; ++i) g[w1(o, i)] = g[w1(o, i)] + d * x[std::size_t(i)];
        }
    }
    for (Near& v : g) v = v.template stored<E>();
    return g;
}
struct Distance {
    double most = 0;  ///< error of a gradient over its bound
    double bound = 0, size = 0;
};
/// The distance of gradients in E from exact ones, against the bound for Bound.
template <class E, class Bound = E>
Distance distance(std::uint64_t seed) {
    constexpr float scale = 64;
    const Numbers c = small_mlp(seed);
    Device d = device(c, gx::element_type<E>), exact = device(c, ElementType::fp32);
    set(d, c.parameters);
    set(exact, c.parameters);
    const Floats mine = train_step(d, c.all(), scale);
    (void)train_step(exact, c.all(), scale);
    const auto bound = bounded_step<Bound>(c, scale);
    Distance found;
    for (std::size_t k = 0; k < mine.size(); ++k) {
        const double truth = scale * exact.parameter_gradient()[k];
        EXPECT_NEAR(bound[k].value, truth, 1e-9) << "the analysis is of another function";
        found.most = std::max(found.most, std::fabs(mine[k] - truth) / bound[k].error);
        found.bound += bound[k].error;
        found.size += std::fabs(truth);
    }
    return found;
}
TEST(ElementsOfTheReferenceDevice, GradientsAreWithinADerivedBound) {
    double bound = 0, size = 0, bound_half = 0;
    int beyond = 0;
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        const Distance d = distance<bf16>(seed), half = distance<fp16>(seed);
        EXPECT_LE(d.most, 1) << seed;
        EXPECT_LE(half.most, 1) << seed;
        bound += d.bound;
        size += d.size;
        bound_half += half.bound;
        beyond += distance<bf16, fp16>(seed).most > 1;
    }
    EXPECT_LT(bound, 0.25 * size) << "a bound that says something";
    EXPECT_LT(bound_half, 0.03 * size);
    EXPECT_GT(beyond, 10) << "bf16 is told from fp16";
}

// ---- Mutants -----------------------------------------------------------------------------------

/// Computes on weights in bf16, and leaves activations and gradients as they are.
struct KeepsActivations : Device {
    KeepsActivations(const Graph& graph, gx::DeviceOptions o)
        : Device(graph, {.batch = o.batch, .seed = o.seed, .rank = o.rank}),
          master(Device::parameters().size()) {}
    void update(gx::FunctionRef<void(std::span<float>)> change) {
        change(master);
        Device::update([&](std::span<float> p) {
            for (std::size_t i = 0; i < p.size(); ++i) p[i] = float(rounded<bf16>(master[i]));
        });
    }
    [[nodiscard]] std::span<const float> parameters() const { return master; }
    Floats master;
};
/// Has no master weights: the optimizer changes the copy.
struct RoundsTheMaster : Device {
    using Device::Device;
    void update(gx::FunctionRef<void(std::span<float>)> change) {
        Device::update([&](std::span<float> p) {
            change(p);
            for (float& x : p) x = float(rounded<bf16>(x));
        });
    }
};
/// Computes on the weights of the update before.
struct StaleCopy : Device {
    StaleCopy(const Graph& graph, gx::DeviceOptions o)
        : Device(graph, o), master(Device::parameters().size()) {}
    void update(gx::FunctionRef<void(std::span<float>)> change) {
        Device::update([&](std::span<float> p) { std::ranges::copy(master, p.begin()); });
        change(master);
    }
    [[nodiscard]] std::span<const float> parameters() const { return master; }
    Floats master;
};
TEST(MutantsOfTheReferenceDevice, AreRejected) {
    const Numbers c = small_mlp(1);
    EXPECT_EQ((wrong_role_of<bf16>(c, 2, 1)), "");
    EXPECT_EQ((wrong_role_of<bf16, KeepsActivations>(c, 2, 1)), "activation of input");
    EXPECT_EQ((wrong_role_of<bf16, StaleCopy>(c, 2, 1)), "working copy of fc1.weight");
    EXPECT_TRUE((equals_the_plain_step<bf16>(1)));
    EXPECT_FALSE((equals_the_plain_step<bf16, KeepsActivations>(1)));
    EXPECT_FALSE((equals_the_plain_step<bf16, StaleCopy>(1)));
    EXPECT_EQ((climb<bf16, RoundsTheMaster>().copy), 1.0) << "it stands still";
}

}  // namespace
