// finite_differences: gradients of reference::Device against slopes of its own loss.
#pragma once

#include <algorithm>  // max, clamp
#include <cmath>      // fabs
#include <cstdint>    // int32_t
#include <string>     // what disagrees
#include <vector>     // data

#include <gx/reference/device.hpp>   // Device
#include <gx/reference/pooling.hpp>  // largest

namespace gx::reference::testing {

// A slope by central differences, D(h) = (L(x + h) - L(x - h)) / 2h, errs in two ways:
//
//   truncation  h^2 / 6 * L''', to the first order; D(2h) errs four times as much, so a third of
//               |D(2h) - D(h)| estimates it. We allow all of that difference.
//   rounding    the error of L over h. L is a sum of at most 2^3 losses of at most 2^3 nats, and no
//               value on the way to it passes 2^6; a rounding moves it by 2^-53 * 2^6 at most, and
//               2^8 of them lie on the longest path: 2^-39 a loss. Over h = 2^-17 that is 2^-22.
//
// h = 2^-17 makes both small. Parameters and images are multiples of 2^-8 below 8, so x + 2h is
// exact in the 24 digits of a float: the device is asked by its ordinary interface, and needs no
// door for doubles. The allowance is 2^-22 + |D(2h) - D(h)|, and a case in which the second part is
// no small share of the gradient (2^-12 of it, or of 1) counts as failed: there is a kink nearby.
//
// Kinks of relu and max_pool: a change of 2h in one number moves an activation by at most 2^7 * 2h
// = 2^-9 in these networks, so data are drawn anew until every relu input is further from 0, and
// every winner of a pooling further from its window's next, than 2^-9.
inline constexpr float step = 0x1p-17f;
inline constexpr double rounding = 0x1p-22;
inline constexpr double kink_margin = 0x1p-9;

/// A network with its numbers, and a batch.
struct Case {
    Graph graph;
    DeviceOptions options;
    std::vector<float> parameters{}, images{};
    std::vector<std::int32_t> labels{};
    std::uint64_t draw = 7;

    [[nodiscard]] Batch batch() const {
        return {images, labels, static_cast<int>(labels.size()), draw};
    }
    [[nodiscard]] Device device() const {
        Device device(graph, options);
        device.update([&](std::span<float> p) { std::ranges::copy(parameters, p.begin()); });
        return device;
    }
    [[nodiscard]] double loss() const {
        Device d = device();
        return d.forward(batch(), Mode::train).loss_sum;
    }
};

/// A normal number as a multiple of 2^-8, at most 4 in magnitude.
[[nodiscard]] inline float dyadic(const Rng& rng, std::uint64_t counter, float deviation) {
    return std::clamp(std::round(rng.normal(counter) * deviation * 0x1p8f) * 0x1p-8f, -4.0f, 4.0f);
}

[[nodiscard]] inline Case draw_case(const Graph& graph, int count, std::uint64_t seed) {
    Case c{.graph = graph, .options = {.batch = count, .seed = seed, .rank = 1}};
    const Rng rng(seed, "finite differences");
    for (const Parameter& p : graph.parameters)
        for (std::int64_t i = 0; i < p.count; ++i) {
            const bool weight = p.role == ParameterRole::weight;
            const float spread = weight ? 1 / std::sqrt(float(p.fan_in)) : 0.25f;
            const float centre = p.role == ParameterRole::gamma ? 1.0f : 0.0f;
            c.parameters.push_back(centre + dyadic(rng.at(0), c.parameters.size(), spread));
        }
    for (std::int64_t i = 0; i < count * graph.input.elements(); ++i)
        c.images.push_back(dyadic(rng.at(1), c.images.size(), 1.0f));
    for (int n = 0; n < count; ++n)
        c.labels.push_back(std::int32_t(rng.at(2).below(n, graph.classes)));
    return c;
}

/// The distance from the nearest kink of a relu or a max_pool, after a forward.
[[nodiscard]] inline double distance_from_kinks(const Graph& graph, const Device& d, int count) {
    double nearest = 1;
    for (const Op& op : graph.ops) {
        if (op.kind != OpKind::relu && op.kind != OpKind::max_pool) continue;
        const ImageShape in = graph.tensors[std::size_t(op.inputs[0])];
        const ReadMaps x{d.activation(op.inputs[0]).data(), count, in};
        if (op.kind == OpKind::relu)
            for (std::size_t i = 0; i < x.elements(); ++i)
                nearest = std::min(nearest, std::fabs(x.data[i]));
        else
            for_each_element(count, graph.tensors[std::size_t(op.output)],
                             [&](int n, int c, int i, int j) {
                                 const Largest best = largest(op.window, x, n, c, i, j);
                                 for_each_inside(op.window, x, i, j, [&](int row, int column) {
                                     if (row == best.row && column == best.column) return;
                                     nearest = std::min(nearest, best.value - x(n, c, row, column));
                                 });
                             });
    }
    return nearest;
}

/// The first case, over seeds, that lies away from kinks.
[[nodiscard]] inline Case smooth_case(const Graph& graph, int count) {
    for (std::uint64_t seed = 1; seed < 1000; ++seed) {
        Case c = draw_case(graph, count, seed);
        Device d = c.device();
        (void)d.forward(c.batch(), Mode::train);
        if (distance_from_kinks(graph, d, count) > kink_margin) return c;
    }
    GX_EXPECT(false, "no data away from kinks in 1,000 draws: use a smaller network");
    return {};
}

/// What a check found: how many numbers were compared, and the first that disagrees.
struct Findings {
    int compared = 0;
    double largest_error = 0;  ///< |gradient - slope|
    std::string trouble;       ///< empty when all agree

    void compare(Case& c, float& x, double gradient, const std::string& name) {
        const float kept = x;
        const auto slope = [&](float h) {
            x = kept + h;
            const double above = c.loss();
            x = kept - h;
            const double below = c.loss();
            x = kept;
            return (above - below) / (2.0 * double{h});
        };
        const double near = slope(step), far = slope(2 * step);
        const double truncation = std::fabs(far - near), error = std::fabs(gradient - near);
        ++compared;
        largest_error = std::max(largest_error, error);
        const bool smooth = truncation <= 0x1p-12 * std::max(1.0, std::fabs(gradient));
        if (trouble.empty() && !(smooth && error <= rounding + truncation))
            trouble = name + ": gradient " + std::to_string(gradient) + ", slope " +
                      std::to_string(near) + ", at twice the step " + std::to_string(far);
    }
};

/// Compares every parameter's and every input's gradient; `distortion` multiplies the gradients, to
/// see that the check notices.
[[nodiscard]] inline Findings check_gradients(Case c, double distortion = 1) {
    Device d = c.device();
    (void)d.forward(c.batch(), Mode::train);
    std::vector<float> gradients(c.parameters.size());
    d.backward(1, gradients, [](std::size_t) {});
    Findings findings;
    for (const Parameter& p : c.graph.parameters)
        for (std::int64_t i = p.offset; i < p.offset + p.count; ++i) {
            const auto k = static_cast<std::size_t>(i);
            findings.compare(c, c.parameters[k], distortion * d.parameter_gradient()[k],
                             std::string(p.name.view()) + " " + std::to_string(i - p.offset));
        }
    for (std::size_t k = 0; k < c.images.size(); ++k)
        findings.compare(c, c.images[k], distortion * d.activation_gradient(0)[k],
                         "image element " + std::to_string(k));
    return findings;
}

}  // namespace gx::reference::testing
