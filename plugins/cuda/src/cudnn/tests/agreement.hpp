// What tests of cuda::Device beside the reference device share: layers, networks, and how far apart
// a step on both may be.
#pragma once

#include <algorithm>         // max, min
#include <cmath>             // sqrt
#include <functional>        // layers
#include <initializer_list>  // counts of images
#include <limits>            // infinity
#include <string>            // names
#include <string_view>       // names
#include <utility>           // move
#include <vector>            // layers

#include <gtest/gtest.h>

#include <gx/model/sequence.hpp>        // concat
#include <gx/reference/batch_norm.hpp>  // channel_moments

#include "gpu_bounds.hpp"
#include "gpu_step.hpp"

namespace gx::cuda_tests {

using cuda_testing::CudnnGpu;
using cuda_testing::StreamProgress;

// ---- Layers ------------------------------------------------------------------------------------

struct TestedLayer {
    const char* name;
    ImageShape input;
    std::function<int(GraphBuilder&, int)> append;
};

inline Graph lower(const TestedLayer& layer) {
    GraphBuilder b(layer.name, layer.input, 5);
    int x = layer.append(b, 0);
    if (b.shape(x) != ImageShape{5, 1, 1}) x = b.linear(b.flatten(x, "flatten"), 5, true, "last");
    b.softmax_cross_entropy(x, 0.1, "loss");
    return std::move(b).finish();
}

inline int conv(GraphBuilder& b, int x, int channels, int groups = 1, bool bias = false,
                int stride = 1) {
    return b.conv2d(x, {channels, Window::square(3, stride, 1), groups, bias}, Label("conv") + x);
}
inline int norm(GraphBuilder& b, int x) { return b.batch_norm(x, {}, Label("norm") + x); }
inline int relu(GraphBuilder& b, int x) { return b.relu(x, Label("relu") + x); }

inline const std::vector<TestedLayer>& layers() {
    using B = GraphBuilder;
    static const std::vector<TestedLayer> all{
        {"linear", {9, 1, 1}, [](B& b, int x) { return b.linear(x, 5, true, "linear"); }},
        {"no bias", {40, 1, 1}, [](B& b, int x) { return b.linear(x, 5, false, "linear"); }},
        {"flatten of maps",
         {3, 4, 5},
         [](B& b, int x) { return relu(b, b.linear(b.flatten(x, "f"), 11, true, "one")); }},
        {"norm and dropout of flat maps",
         {3, 4, 5},
         [](B& b, int x) {
             x = b.dropout(norm(b, b.flatten(conv(b, x, 4), "f")), 0.3, "drop");
             return b.linear(x, 6, true, "one");
         }},
        {"biased stem", {3, 6, 5}, [](B& b, int x) { return conv(b, x, 6, 1, true, 2); }},
        {"stem in blocks of pixels",
         {3, 8, 6},
         [](B& b, int x) {
             x = b.conv2d(x, {8, Window::square(7, 2, 3)}, "stem");
             return conv(b, relu(b, norm(b, x)), 4);
         }},
        {"stem of four channels in blocks, without padding",
         {4, 6, 8},
         [](B& b, int x) { return b.conv2d(x, {5, {3, 4, 2, 0, 0}}, "stem"); }},
        {"stem of one channel in blocks",
         {1, 8, 8},
         [](B& b, int x) { return b.conv2d(x, {6, {5, 3, 2, 2, 1}}, "stem"); }},
        {"odd channels", {3, 6, 6}, [](B& b, int x) { return conv(b, conv(b, x, 6), 7); }},
        {"groups", {4, 6, 6}, [](B& b, int x) { return conv(b, conv(b, x, 8, 2, true), 8, 8); }},
        {"norm of images", {3, 5, 5}, [](B& b, int x) { return norm(b, x); }},
        {"norm and relu of images", {3, 5, 5}, [](B& b, int x) { return relu(b, norm(b, x)); }},
        {"norm, relu",
         {3, 6, 6},
         [](B& b, int x) { return conv(b, relu(b, norm(b, conv(b, x, 8))), 4); }},
        {"norms of sums that convolutions leave",
         {32, 6, 5},
         [](B& b, int x) {
             x = relu(b, norm(b, conv(b, x, 32)));
             const int y = norm(b, conv(b, x, 8, 1, false, 2));
             const int z = norm(b, b.conv2d(x, {8, Window::square(1, 2, 0)}, "1x1"));
             return conv(b, relu(b, b.add(y, z, "add")), 4);
         }},
        {"norms of norms behind a convolution with sums",
         {32, 4, 5},
         [](B& b, int x) {
             x = norm(b, norm(b, conv(b, x, 8)));
             x = norm(b, relu(b, norm(b, conv(b, b.conv2d(x, {32, {}}, "1x1"), 8))));
             return conv(b, x, 4);
         }},
        {"norm, add, relu",
         {3, 5, 5},
         [](B& b, int x) {
             x = relu(b, norm(b, conv(b, x, 6)));
             return conv(b, relu(b, b.add(x, norm(b, conv(b, x, 6)), "add")), 4);
         }},
        {"norm and what it reads",
         {3, 5, 5},
         [](B& b, int x) {
             x = conv(b, x, 6);
             return conv(b, relu(b, b.add(norm(b, x), x, "add")), 4);
         }},
        {"norm, add",
         {3, 5, 5},
         [](B& b, int x) {
             x = conv(b, x, 6);
             return b.add(norm(b, conv(b, x, 6)), x, "add");
         }},
        {"add of two norms",
         {3, 6, 6},
         [](B& b, int x) {
             x = relu(b, conv(b, x, 6));
             const int y = norm(b, conv(b, x, 8, 1, false, 2));
             const int z = norm(b, b.conv2d(x, {8, Window::square(1, 2, 0)}, "1x1"));
             return conv(b, relu(b, b.add(y, z, "add")), 4);
         }},
        {"a norm behind which layers run before it is added",
         {3, 5, 5},
         [](B& b, int x) {
             const int y = norm(b, conv(b, x, 6));
             const int z = conv(b, conv(b, x, 4), 6);
             return conv(b, relu(b, b.add(y, z, "add")), 4);
         }},
        {"a norm that is added and read",
         {3, 5, 5},
         [](B& b, int x) {
             x = norm(b, conv(b, x, 6));
             return conv(b, relu(b, b.add(norm(b, conv(b, x, 6)), x, "add")), 4);
         }},
        {"two norms of a dead end",
         {3, 5, 5},
         [](B& b, int x) {
             x = conv(b, x, 6);
             const int y = norm(b, conv(b, x, 4)), z = norm(b, conv(b, x, 4));
             relu(b, b.add(y, z, "add"));
             return x;
         }},
        {"images added",
         {3, 5, 5},
         [](B& b, int x) { return relu(b, b.add(norm(b, conv(b, x, 3)), x, "add")); }},
        {"three readers",
         {3, 5, 5},
         [](B& b, int x) {
             x = relu(b, norm(b, conv(b, x, 6)));
             const int y = conv(b, x, 6), z = b.conv2d(x, {6, {}}, "1x1");
             return b.add(b.add(x, y, "add0"), z, "add1");
         }},
        {"twice the same",
         {3, 5, 5},
         [](B& b, int x) {
             x = conv(b, x, 6);
             return relu(b, b.add(x, x, "add"));
         }},
        {"flat maps of two readers",
         {4, 1, 1},
         [](B& b, int x) {
             x = b.linear(x, 5, false, "one");
             return b.add(b.flatten(x, "f"), x, "add");
         }},
        {"largest of 3x3",
         {3, 7, 7},
         [](B& b, int x) { return b.max_pool(conv(b, x, 5), Window::square(3, 2, 1), "pool"); }},
        {"largest of images",
         {2, 6, 6},
         [](B& b, int x) { return conv(b, b.max_pool(x, Window::square(2, 2), "pool"), 4); }},
        {"mean of 3x3",
         {3, 7, 7},
         [](B& b, int x) { return b.avg_pool(conv(b, x, 5), Window::square(3, 2, 1), "pool"); }},
        {"means of 3x3 in eights, on each pixel",
         {3, 7, 7},
         [](B& b, int x) {
             x = b.avg_pool(conv(b, x, 16), {3, 3, 1, 1, 1, true}, "counted");
             return b.avg_pool(relu(b, x), Window::square(3, 1, 1), "inside");
         }},
        {"means of images, which are read twice",
         {2, 6, 5},
         [](B& b, int x) {
             const int y = b.avg_pool(x, {2, 3, 2, 1, 1, true}, "images");
             x = conv(b, y, 8);
             return b.add(b.avg_pool(x, {2, 3, 1, 1, 1}, "pool"),
                          b.avg_pool(x, {2, 3, 1, 1, 1, true}, "counted"), "add");
         }},
        {"mean of all",
         {3, 5, 5},
         [](B& b, int x) { return b.global_avg_pool(conv(b, x, 7), "pool"); }},
        {"dropout of maps",
         {3, 5, 5},
         [](B& b, int x) { return b.dropout(relu(b, conv(b, x, 6)), 0.4, "drop"); }},
        {"dropout of images",
         {3, 5, 5},
         [](B& b, int x) { return conv(b, b.dropout(x, 0.5, "drop"), 4); }},
        {"groups of 4 channels",
         {3, 6, 6},
         [](B& b, int x) {
             x = relu(b, norm(b, b.conv2d(x, {32, {}}, "1x1")));
             return relu(b, norm(b, conv(b, x, 32, 8, false, 2)));
         }},
        {"joined branches",
         {3, 5, 5},
         [](B& b, int x) {
             const int y = relu(b, norm(b, conv(b, x, 8))), z = b.conv2d(x, {16, {}}, "1x1");
             return conv(b, concat(b, y, z, "join"), 4);
         }},
        {"a list of joined branches",
         {3, 5, 5},
         [](B& b, int x) {
             x = relu(b, conv(b, x, 5));
             const int y = b.conv2d(x, {7, {1, 3, 1, 0, 1}}, "wide"),
                       z = b.conv2d(x, {6, {3, 1, 1, 1, 0}}, "tall");
             const int yz = concat(b, y, z, "one");
             x = concat(b, yz, concat(b, x, x, "two"), "three");
             return conv(b, relu(b, norm(b, x)), 4);
         }},
        {"joined with the images, and read twice",
         {3, 5, 5},
         [](B& b, int x) {
             const int y = concat(b, x, conv(b, x, 6), "one");
             return conv(b, concat(b, y, relu(b, y), "two"), 4);
         }},
        {"joined maps, flattened",
         {3, 5, 5},
         [](B& b, int x) {
             x = conv(b, x, 5);
             return concat(b, concat(b, x, b.max_pool(x, Window::square(3, 1, 1), "pool"), "one"),
                           norm(b, conv(b, x, 3)), "two");
         }},
        {"joined images and a dead end",
         {3, 5, 5},
         [](B& b, int x) {
             const int y = concat(b, x, b.max_pool(x, Window::square(3, 1, 1), "pool"), "one");
             x = conv(b, y, 6);
             relu(b, concat(b, concat(b, x, y, "two"), conv(b, x, 2), "three"));
             return x;
         }},
        {"a dead end",
         {3, 5, 5},
         [](B& b, int x) {
             x = conv(b, x, 6, 1, true);
             relu(b, norm(b, conv(b, x, 5)));
             return x;
         }},
    };
    return all;
}

inline const TestedLayer& layer(std::string_view name) {
    const auto at = std::ranges::find(layers(), name, &TestedLayer::name);
    if (at == layers().end()) throw Error("no tested layer '" + std::string(name) + "'");
    return *at;
}

struct Case {
    CudnnGpu gpu;
    ElementType element;
    bool tf32 = false;
};
inline constexpr Case cases[] = {
    {CudnnGpu::h100, ElementType::fp32}, {CudnnGpu::h100, ElementType::fp16},
    {CudnnGpu::h100, ElementType::bf16}, {CudnnGpu::v100, ElementType::fp32},
    {CudnnGpu::v100, ElementType::fp16}, {CudnnGpu::h100, ElementType::fp32, true}};

/// tf32 has as many digits as fp16, and rounds what products read, and not what is stored.
[[nodiscard]] inline ElementType rounded_as(const Case& c) {
    return c.tf32 ? ElementType::fp16 : c.element;
}

/// The double of cuDNN is of any GPU. On a GPU each element runs once, bf16 and tf32 where it has
/// them.
[[nodiscard]] inline bool can_run([[maybe_unused]] const Case& c) {
#if __has_include(<gx/cuda_testing/hooks.hpp>)
    return true;
#else
    int major = 0;
    EXPECT_EQ(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), cudaSuccess);
    return c.gpu == CudnnGpu::h100 && ((c.element != ElementType::bf16 && !c.tf32) || major >= 8);
#endif
}

inline void load(reference::Device& d, const std::vector<float>& parameters) {
    d.update([&](std::span<float> p) { std::ranges::copy(parameters, p.begin()); });
}
/// How much a step enlarges relative errors of its parameters and images, at least 1: batch norms
/// of few images do, as far as what they read is cancelled.
inline double growth_of(const Graph& g, DeviceOptions o, const std::vector<float>& parameters,
                        const Batch& batch) {
    constexpr double share = 0x1p-14;
    o.compute = ElementType::fp32, o.tf32 = false;
    reference::Device a(g, o), b(g, o);
    auto disturbed = parameters;
    const Rng noise(7, "noise");
    for (std::size_t i = 0; i < disturbed.size(); ++i)
        disturbed[i] *= 1 + float(share) * noise.normal(i);
    std::vector<float> images(batch.images.begin(), batch.images.end());
    for (std::size_t i = 0; i < images.size(); ++i)
        images[i] *= 1 + float(share) * noise.at(1).normal(i);
    load(a, disturbed), load(b, parameters);
    const Step x = step(a, g, {images, batch.labels, batch.count, batch.draw}, 1),
               y = step(b, g, batch, 1);
    return std::max({1.0, apart(x.gradients, y.gradients) / share,
                     apart(x.logits, y.logits) / share, apart(x.statistics, y.statistics) / share});
}

/// The largest inverse deviation of a batch norm in the last step, at least 1: what it multiplies
/// the rounding errors of a gradient by whose sum is 0, as that of a bias before it. Norms with a
/// channel of nearly equal values (variance below epsilon) do so one after the other, and leave
/// gradients near 0 to compare with: their product, if it is more.
inline double sharpest_norm(const Graph& g, const reference::Device& d, int count) {
    double most = 1, product = 1;
    for (const Op& op : g.ops) {
        if (op.kind != OpKind::batch_norm || count == 0) continue;
        const ImageShape& s = g.tensors[std::size_t(op.output)];
        const reference::ReadMaps x{d.activation(op.inputs[0]).data(), count, s};
        double least = std::numeric_limits<double>::infinity();
        for (int c = 0; c < s.channels; ++c)
            least = std::min(least, reference::channel_moments(x, c).variance);
        most = std::max(most, 1 / std::sqrt(least + op.rate));
        if (least < op.rate) product /= std::sqrt(least + op.rate);
    }
    return std::max(most, product);
}

/// Some steps from the same parameters on both devices.
inline void expect_agreement(const Graph& g, const Case& c, std::initializer_list<int> counts,
                             StreamProgress progress = StreamProgress::late) {
    if (!can_run(c)) return;
    start(c.gpu, progress);
    const DeviceOptions o{
        .batch = std::max(counts), .seed = 3, .rank = 1, .compute = c.element, .tf32 = c.tf32};
    GpuRun fast(g, o);
    reference::Device slow(g, o);
    const auto parameters = random_parameters(g, 9);
    fast.load(parameters);
    load(slow, parameters);
    for (const int count : counts) {
        SCOPED_TRACE(std::string(g.name.view()) + " in " +
                     std::string(c.tf32 ? tf32::name : to_string(c.element)) +
                     (c.gpu == CudnnGpu::v100 ? " on a V100, " : ", ") + std::to_string(count) +
                     " images");
        const Images data(g, count, 21);
        const Step a = fast.step(data.batch(4), 0.25f), b = step(slow, g, data.batch(4), 0.25f);
        const double limit =
            step_bound(g, count, rounded_as(c)) *
            std::max(growth_of(g, o, parameters, data.batch(4)), sharpest_norm(g, slow, count));
        EXPECT_LE(apart(std::vector{a.report.loss_sum}, std::vector{b.report.loss_sum}), limit);
        EXPECT_LE(apart(a.logits, b.logits), limit);
        EXPECT_LE(apart(a.gradients, b.gradients), limit);
        EXPECT_LE(apart(a.statistics, b.statistics), limit);
        EXPECT_EQ(a.report.correct, b.report.correct);
        EXPECT_EQ(a.report.top5, b.report.top5);
        EXPECT_TRUE(a.report.finite);
    }
    const Images data(g, std::max(counts), 8);
    const ForwardReport a = fast.forward(data.batch(5), Mode::evaluate),
                        b = slow.forward(data.batch(5), Mode::evaluate);
    EXPECT_LE(std::abs(a.loss_sum / b.loss_sum - 1),
              step_bound(g, std::max(counts), rounded_as(c)) *
                  growth_of(g, o, parameters, data.batch(5)));
    EXPECT_EQ(fast.device().first_non_finite(), std::nullopt);
    EXPECT_EQ(cuda_testing::cudnn_counters().nondeterministic_executions, 0);
    if (!c.tf32) {
        EXPECT_EQ(cuda_testing::cudnn_counters().tf32_executions, 0);
    }
    EXPECT_EQ(cuda_testing::first_misuse(), "");
}

}  // namespace gx::cuda_tests
