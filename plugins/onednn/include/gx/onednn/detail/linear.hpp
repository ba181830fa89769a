// linear: y = x W + b for the images of a lane, with W as (inputs, outputs padded to blocks).
#pragma once

#include <algorithm>  // min
#include <cstdint>    // int64_t

#include <gx/onednn/detail/gradients.hpp>  // LaneGradients
#include <gx/onednn/detail/program.hpp>    // Step
#include <gx/onednn/detail/simd.hpp>       // Vector

namespace gx::onednn::detail {

/// One layer. `inputs` counts the floats of an input image, padding included: padded inputs are
/// zero, so their weights neither matter nor move.
struct Linear {
    std::int64_t inputs = 0;
    int outputs = 0;  ///< whole blocks
    const Buffer *x = nullptr, *y = nullptr;
    Buffer *dy = nullptr, *dx = nullptr;  ///< dx: null if not needed
    const float *weight = nullptr, *bias = nullptr;
    std::size_t weight_offset = 0, bias_offset = 0;
};

struct LinearArgs {
    const float *x, *weight, *bias, *dy;
    float *y, *dx, *dweight, *dbias;
    std::int64_t inputs;
    int outputs, images;
};

/// y[n, :] = b + sum over k of x[n, k] W[k, :].
/// Order: k from 0 up, one fused or rounded multiply-add after the other.
struct LinearForward {
    template <int B, int rows>
    GX_ONEDNN_INLINE static void tile(const LinearArgs& a, int n, int o) {
        using V = typename Vector<B>::type;
        V sum[rows];
        for (int r = 0; r < rows; ++r)
            sum[r] = a.bias != nullptr ? *reinterpret_cast<const V*>(a.bias + o) : V{};
        for (std::int64_t k = 0; k < a.inputs; ++k) {
            const V w = *reinterpret_cast<const V*>(a.weight + k * a.outputs + o);
            for (int r = 0; r < rows; ++r) sum[r] += w * a.x[(n + r) * a.inputs + k];
        }
        for (int r = 0; r < rows; ++r)
            *reinterpret_cast<V*>(a.y + std::int64_t{n + r} * a.outputs + o) = sum[r];
    }
    template <int B>
    GX_ONEDNN_INLINE static void run(const LinearArgs& a) {
        for (int o = 0; o < a.outputs; o += B) {
            int n = 0;
            for (; n + 8 <= a.images; n += 8) tile<B, 8>(a, n, o);
            for (; n < a.images; ++n) tile<B, 1>(a, n, o);
        }
    }
};

/// dx[n, k] = sum over o of dy[n, o] W[k, o].
struct LinearGradientData {
    template <int B, int rows>
    GX_ONEDNN_INLINE static void tile(const LinearArgs& a, int n, std::int64_t k) {
        using V = typename Vector<B>::type;
        V sum[rows] = {};
        for (int o = 0; o < a.outputs; o += B) {
            const V w = *reinterpret_cast<const V*>(a.weight + k * a.outputs + o);
            for (int r = 0; r < rows; ++r)
                sum[r] +=
                    w * *reinterpret_cast<const V*>(a.dy + std::int64_t{n + r} * a.outputs + o);
        }
        for (int r = 0; r < rows; ++r) {
            float total = 0;
            for (int c = 0; c < B; ++c) total += sum[r][c];
            a.dx[(n + r) * a.inputs + k] = total;
        }
    }
    template <int B>
    GX_ONEDNN_INLINE static void run(const LinearArgs& a) {
        int n = 0;
        for (; n + 8 <= a.images; n += 8)
            for (std::int64_t k = 0; k < a.inputs; ++k) tile<B, 8>(a, n, k);
        for (; n < a.images; ++n)
            for (std::int64_t k = 0; k < a.inputs; ++k) tile<B, 1>(a, n, k);
    }
};

/// dW[k, :] = sum over n of x[n, k] dy[n, :]; db = sum over n of dy[n, :].
struct LinearGradientWeights {
    template <int B, int rows>
    GX_ONEDNN_INLINE static void tile(const LinearArgs& a, std::int64_t k, int o) {
        using V = typename Vector<B>::type;
        V sum[rows] = {};
        for (int n = 0; n < a.images; ++n) {
            const V g = *reinterpret_cast<const V*>(a.dy + std::int64_t{n} * a.outputs + o);
            for (int r = 0; r < rows; ++r) sum[r] += g * a.x[n * a.inputs + k + r];
        }
        for (int r = 0; r < rows; ++r)
            *reinterpret_cast<V*>(a.dweight + (k + r) * a.outputs + o) = sum[r];
    }
    template <int B>
    GX_ONEDNN_INLINE static void run(const LinearArgs& a) {
        using V = typename Vector<B>::type;
        std::int64_t k = 0;
        for (; k + 8 <= a.inputs; k += 8)
            for (int o = 0; o < a.outputs; o += B) tile<B, 8>(a, k, o);
        for (; k < a.inputs; ++k)
            for (int o = 0; o < a.outputs; o += B) tile<B, 1>(a, k, o);
        if (a.dbias == nullptr) return;
        for (int o = 0; o < a.outputs; o += B) {
            V sum{};
            for (int n = 0; n < a.images; ++n)
                sum += *reinterpret_cast<const V*>(a.dy + std::int64_t{n} * a.outputs + o);
            *reinterpret_cast<V*>(a.dbias + o) = sum;
        }
    }
};

class LinearForwardStep : public Step {
public:
    explicit LinearForwardStep(const Linear& l) : l_(l) {}
    void run(const Run&, const Place& at) override {
        LinearArgs a{};
        a.x = l_.x->image(at.first), a.weight = l_.weight, a.bias = l_.bias,
        a.y = l_.y->image(at.first);
        a.inputs = l_.inputs, a.outputs = l_.outputs, a.images = at.count;
        run_kernel<LinearForward>(a);
    }

private:
    const Linear& l_;
};

/// Writes the lane's own gradient of the weights; AddLanesStep adds the lanes later.
class LinearGradientStep : public Step {
public:
    LinearGradientStep(const Linear& l, LaneGradients& sums) : l_(l), sums_(sums) {}
    void run(const Run& run, const Place& at) override {
        LinearArgs a{};
        a.x = l_.x->image(at.first), a.weight = l_.weight, a.dy = l_.dy->image(at.first);
        a.inputs = l_.inputs, a.outputs = l_.outputs, a.images = at.count;
        float* gradients = sums_.of(run, at.lane);
        a.dweight = gradients + l_.weight_offset;
        if (l_.bias != nullptr) a.dbias = gradients + l_.bias_offset;
        run_kernel<LinearGradientWeights>(a);
        if (l_.dx == nullptr) return;
        a.dx = l_.dx->image(at.first);
        run_kernel<LinearGradientData>(a);
    }

private:
    const Linear& l_;
    LaneGradients& sums_;
};

}  // namespace gx::onednn::detail
