// GpuStep: a step of cuda::Device on the doubles, beside the reference device's.
#pragma once

#include <gx/cuda/device.hpp>

#include <algorithm>  // max
#include <cmath>      // sqrt
#include <vector>     // data

#include <gx/core/rng.hpp>              // Rng
#include <gx/cuda_testing/cudnn.hpp>    // CudnnGpu
#include <gx/cuda_testing/runtime.hpp>  // reset
#include <gx/memory/buffer.hpp>         // Buffer
#include <gx/model/backward_needs.hpp>  // gradient_tensors
#include <gx/model/init.hpp>            // initial_parameters
#include <gx/reference/device.hpp>      // the answer

namespace gx::cuda_tests {

/// Random images and labels for a graph.
struct Images {
    Images(const Graph& g, int count, std::uint64_t seed) {
        const Rng x(seed, "images"), y(seed, "labels");
        images.resize(std::size_t(count) * std::size_t(g.input.elements()));
        for (std::size_t i = 0; i < images.size(); ++i) images[i] = x.normal(i);
        for (int n = 0; n < count; ++n)
            labels.push_back(std::int32_t(y.below(std::uint64_t(n), std::uint64_t(g.classes))));
    }
    [[nodiscard]] Batch batch(std::uint64_t draw = 0) const {
        return {images, labels, int(labels.size()), draw};
    }
    std::vector<float> images{};
    std::vector<std::int32_t> labels{};
};

/// He's weights, and gammas, betas and biases that are neither 0 nor 1.
inline std::vector<float> random_parameters(const Graph& g, std::uint64_t seed) {
    std::vector<float> all(std::size_t(g.parameter_elements()));
    initial_parameters(g, seed, all);
    const Rng r(seed, "affine");
    for (const Parameter& p : g.parameters) {
        if (p.role == ParameterRole::weight) continue;
        for (std::int64_t i = p.offset; i < p.offset + p.count; ++i)
            all[std::size_t(i)] =
                (p.role == ParameterRole::gamma ? 1.0f : 0.0f) + 0.3f * r.normal(std::uint64_t(i));
    }
    return all;
}

inline void start(cuda_testing::CudnnGpu gpu = cuda_testing::CudnnGpu::h100,
                  cuda_testing::StreamProgress progress = cuda_testing::StreamProgress::late,
                  std::uint64_t seed = 1) {
    cuda_testing::reset({.seed = seed, .progress = progress, .check_at_exit = false});
    cuda_testing::reset_cudnn({.gpu = gpu, .seed = seed});
}

/// What a step gives, in the canonical layout.
struct Step {
    ForwardReport report{};
    std::vector<double> logits{};
    std::vector<float> gradients{}, statistics{};
};

/// A device with a gradient, a scale and a report in its memory.
class GpuRun {
public:
    using M = cuda::GpuMemory;
    GpuRun(const Graph& g, const DeviceOptions& o)
        : graph_(g),
          device_(gpu_, g, o),
          gradients_(&gpu_.memory(), std::ssize(mine()), "gradients"),
          scale_(&gpu_.memory(), 1, "scale"),
          report_(&gpu_.memory(), 1, "report") {}

    GpuRun(const GpuRun&) = delete;
    GpuRun& operator=(const GpuRun&) = delete;
    ~GpuRun() { EXPECT_TRUE(queue().wait(queue().record()).complete()); }

    void load(const std::vector<float>& canonical) {
        device_.update([&](auto mine) { device_.from_canonical(canonical, mine); });
    }
    void queue_forward(const Batch& batch, Mode mode) {
        device_.load(batch);
        device_.forward(mode, report_.view<M>());
    }
    ForwardReport forward(const Batch& batch, Mode mode) {
        queue_forward(batch, mode);
        return get(ViewIn<const ForwardReport, M>(report_.view<M>())).at(0);
    }
    Step step(const Batch& batch, float scale) {
        Step s;
        s.report = forward(batch, Mode::train);
        for (const float x : device_.logits()) s.logits.push_back(double{x});
        backward(scale);
        s.gradients = canonical(gradients_.view<M>());
        s.statistics = get(ViewIn<const float, M>(device_.statistics()));
        return s;
    }
    /// The watermarks, in order.
    std::vector<std::size_t> backward(float scale) {
        const std::vector<float> bad(gradients_.size(), std::nanf(""));
        queue().copy_in(std::span(bad), gradients_.view<M>(), {"fill"});
        queue().copy_in(std::span<const float>(&scale, 1), scale_.view<M>(), {"scale"});
        std::vector<std::size_t> marks;
        device_.backward({scale_.view<M>()}, gradients_.view<M>(),
                         [&](std::size_t watermark, Event) { marks.push_back(watermark); });
        return marks;
    }
    [[nodiscard]] std::vector<float> canonical(ViewIn<const float, M> mine) {
        std::vector<float> all(std::size_t(graph_.parameter_elements()));
        device_.to_canonical(mine, all);
        return all;
    }
    template <class T>
    [[nodiscard]] std::vector<T> get(ViewIn<const T, M> from) {
        std::vector<T> to(from.size());
        queue().copy_out(from, std::span(to), {"get"});
        EXPECT_TRUE(queue().wait(queue().record()).complete());
        return to;
    }
    [[nodiscard]] cuda::Device& device() { return device_; }
    [[nodiscard]] cuda::Queue& queue() { return device_.queue(); }
    /// Of the device, with padding.
    [[nodiscard]] std::vector<float> raw_gradients() {
        return get(ViewIn<const float, M>(gradients_.view<M>()));
    }

private:
    [[nodiscard]] std::vector<float> mine() const {
        return std::vector<float>(device_.parameters().size());
    }
    const Graph& graph_;
    cuda::DeviceContext gpu_{0};
    cuda::Device device_;
    Buffer<float> gradients_, scale_;
    Buffer<ForwardReport> report_;
};

/// The reference device's step.
inline Step step(reference::Device& d, const Graph& g, const Batch& batch, float scale) {
    Step s;
    s.report = d.forward(batch, Mode::train);
    const auto logits = d.activation(g.ops.back().inputs[0]);
    s.logits.assign(logits.begin(), logits.end());
    s.gradients.assign(d.parameters().size(), 0.0f);
    d.backward(scale, s.gradients, [](std::size_t) {});
    s.statistics.assign(d.statistics().begin(), d.statistics().end());
    return s;
}

/// |a - b| / |b| in the Euclidean norm; 0 for two nulls. Where both overflow they agree; where one
/// does, NaN or infinity.
template <class A, class B>
double apart(const A& a, const B& b) {
    double difference = 0, size = 0;
    EXPECT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
        const auto x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
        if (!std::isfinite(x) && !std::isfinite(y)) continue;
        difference += (x - y) * (x - y);
        size += y * y;
    }
    return difference == 0 ? 0 : std::sqrt(difference / std::max(size, 1e-300));
}

}  // namespace gx::cuda_tests
