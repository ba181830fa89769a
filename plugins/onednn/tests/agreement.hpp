// agreement: runs one graph on onednn::Device and on reference::Device and measures how far apart.
#pragma once

#include <gx/onednn/device.hpp>

#include <oneapi/dnnl/dnnl_version.h>  // DNNL_VERSION_MAJOR

#include <algorithm>  // max
#include <cmath>      // sqrt
#include <vector>     // data

#include <gx/core/rng.hpp>            // Rng
#include <gx/model/graph.hpp>         // Graph
#include <gx/model/init.hpp>          // initial_parameters
#include <gx/model/layers.hpp>        // Network
#include <gx/onednn/detail/simd.hpp>  // cpu_block
#include <gx/reference/device.hpp>    // the oracle

namespace agreement {

/// Whether oneDNN has kernels by Winograd for this CPU: they need AVX-512, and 3.0 took them out.
inline bool has_winograd() {
    return gx::onednn::detail::cpu_block() == 16 && DNNL_VERSION_MAJOR == 2;
}

/// Its data gradients read copies of weights that are made in passing, in one part or in several.
struct LargeWeights : gx::Network<gx::ImageShape{3, 4, 4}, 4, gx::Conv<128, 3, 1, 1>, gx::BatchNorm,
                                  gx::ReLU, gx::Conv<128, 3, 1, 1>, gx::BatchNorm, gx::ReLU,
                                  gx::Conv<160, 3, 1, 1>, gx::BatchNorm, gx::ReLU, gx::Conv<640, 1>,
                                  gx::BatchNorm, gx::ReLU, gx::GlobalAvgPool, gx::Classifier> {
    static constexpr std::string_view name = "LargeWeights";
};

/// Residual blocks of two convolutions in a row; the first has no residual, or a convolution as it.
inline gx::Graph residual_blocks(int blocks, bool projects) {
    using gx::Window;
    gx::GraphBuilder b("blocks", {16, 8, 8}, 5);
    int x = 0;
    for (int i = 0; i < blocks; ++i) {
        int y = b.conv2d(x, {16, Window::square(3, 1, 1)}, "a");
        y = b.relu(b.batch_norm(y, {}, "a.norm"), "a.relu");
        y = b.batch_norm(b.conv2d(y, {16, Window::square(3, 1, 1)}, "b"), {}, "b.norm");
        if (i == 0 && projects)
            x = b.batch_norm(b.conv2d(x, {16, Window::square(1, 1, 0)}, "c"), {}, "c.norm");
        x = b.relu(i == 0 && !projects ? y : b.add(y, x, "add"), "b.relu");
    }
    b.softmax_cross_entropy(b.linear(b.flatten(x, "f"), 5, true, "l"), 0, "loss");
    return std::move(b).finish();
}

/// Random images and labels for a graph.
struct Data {
    std::vector<float> images;
    std::vector<std::int32_t> labels;
    Data(const gx::Graph& g, int count, std::uint64_t seed) {
        const gx::Rng x(seed, "images"), y(seed, "labels");
        images.resize(static_cast<std::size_t>(count) *
                      static_cast<std::size_t>(g.input.elements()));
        for (std::size_t i = 0; i < images.size(); ++i) images[i] = x.normal(i);
        for (int n = 0; n < count; ++n)
            labels.push_back(static_cast<std::int32_t>(
                y.below(static_cast<std::uint64_t>(n), static_cast<std::uint64_t>(g.classes))));
    }
    [[nodiscard]] gx::Batch batch(std::uint64_t draw = 0) const {
        return {images, labels, static_cast<int>(labels.size()), draw};
    }
};

/// He's weights, and gammas and betas that are neither 0 nor 1, so that no branch is dead.
inline std::vector<float> parameters(const gx::Graph& g, std::uint64_t seed) {
    std::vector<float> all(static_cast<std::size_t>(g.parameter_elements()));
    gx::initial_parameters(g, seed, all);
    const gx::Rng r(seed, "affine");
    for (const gx::Parameter& p : g.parameters)
        for (std::int64_t i = p.offset;
             p.role != gx::ParameterRole::weight && i < p.offset + p.count; ++i) {
            const auto k = static_cast<std::size_t>(i);
            all[k] = (p.role == gx::ParameterRole::gamma ? 1.0f : 0.0f) + 0.3f * r.normal(k);
        }
    return all;
}

template <class D>
void load(D& device, const std::vector<float>& canonical) {
    device.update([&](std::span<float> mine) { device.from_canonical(canonical, mine); });
}
template <class D>
std::vector<float> canonical(const D& device, std::span<const float> mine, const gx::Graph& g) {
    std::vector<float> all(static_cast<std::size_t>(g.parameter_elements()));
    device.to_canonical(mine, all);
    return all;
}

/// |a - b| / |b| in the Euclidean norm; 0 for two nulls.
template <class A, class B>
double apart(const A& a, const B& b) {
    double difference = 0, size = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        const auto x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
        difference += (x - y) * (x - y);
        size += y * y;
    }
    return difference == 0 ? 0 : std::sqrt(difference / std::max(size, 1e-300));
}

/// Whether a gradient is zero where the device's layout has no element of the graph's parameters.
inline bool padding_is_zero(const gx::onednn::Device& device, const std::vector<float>& mine,
                            const gx::Graph& g) {
    std::vector<float> without(mine.size(), -1.0f);
    device.from_canonical(canonical(device, mine, g), without);
    return mine == without;
}

/// Results of one step of each device, and their distance.
struct Apart {
    double loss = 0, logits = 0, gradients = 0, statistics = 0;
    bool same_hits = true;
    bool padding_is_zero = true;  ///< of the gradient, where the device's layout has any
    [[nodiscard]] double most() const { return std::max({loss, logits, gradients, statistics}); }
};

/// How far apart two devices may be, as a share of the vector's length. Rounding errors of a sum of
/// n products behave as independent ones, so they grow as sqrt(n) u, and exceed 8 times that with a
/// chance below 1e-13 (Higham and Mary 2019, "A new approach to probabilistic rounding error
/// analysis", theorem 2.4). An operation adds such errors once forward (fan_in terms), once to the
/// data gradient (fan_in) and once to its parameters' gradient (one term for each pixel of the
/// batch); independent errors add as squares. F(4x4, 3x3) may lose three bits more: its transforms
/// multiply by up to 8 and add results of both signs. `growth`: what later steps enlarge.
inline double bound(const gx::Graph& g, int count, double growth = 1) {
    constexpr double u = 0x1p-24, confidence = 8, winograd = 8;
    double squares = 0;
    for (const gx::Op& op : g.ops) {
        const gx::ImageShape out = g.tensors[static_cast<std::size_t>(op.output)];
        double fan_in = 1;
        if (op.parameter_count > 0)
            fan_in = g.parameters[static_cast<std::size_t>(op.first_parameter)].fan_in;
        const double factor = op.kind == gx::OpKind::conv2d ? winograd * winograd : 1;
        squares += factor * 2 * fan_in + static_cast<double>(count) * out.height * out.width;
    }
    return growth * confidence * u * std::sqrt(squares);
}

/// One training step on both, from the same parameters.
inline Apart step(const gx::Graph& g, gx::onednn::Device& fast, gx::reference::Device& slow,
                  const Data& data, float scale = 0.25f) {
    const auto a = fast.forward(data.batch(3), gx::Mode::train);
    const auto b = slow.forward(data.batch(3), gx::Mode::train);
    const auto logits = fast.logits();
    std::vector<float> ga(fast.parameters().size(), -1.0f), gb(slow.parameters().size(), -1.0f);
    fast.backward(scale, ga, [](std::size_t) {});
    slow.backward(scale, gb, [](std::size_t) {});
    Apart r;
    r.loss = apart(std::vector{a.loss_sum}, std::vector{b.loss_sum});
    r.same_hits = a.correct == b.correct && a.top5 == b.top5;
    r.logits = apart(logits, slow.activation(g.ops.back().inputs[0]));
    r.gradients = apart(canonical(fast, ga, g), canonical(slow, gb, g));
    r.padding_is_zero = padding_is_zero(fast, ga, g);
    r.statistics = apart(fast.statistics(), slow.statistics());
    return r;
}

}  // namespace agreement
