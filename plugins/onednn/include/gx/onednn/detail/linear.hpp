// linear: y = x W + b for the images of a lane.
#pragma once

#include <algorithm>  // min
#include <cstddef>    // size_t
#include <cstdint>    // int64_t

#include <gx/core/cold.hpp>                // GX_COLD
#include <gx/onednn/detail/gradients.hpp>  // LaneGradients
#include <gx/onednn/detail/memory.hpp>     // Memory
#include <gx/onednn/detail/numbers.hpp>    // load, store, Convert
#include <gx/onednn/detail/program.hpp>    // Step
#include <gx/onednn/detail/simd.hpp>       // Vector

namespace gx::onednn::detail {

/// One layer, with W as (inputs, outputs padded to blocks). `inputs` counts the floats of an input
/// image, padding included: padded inputs are zero, so their weights neither matter nor move.
class Linear {
public:
    std::int64_t inputs = 0;
    int outputs = 0;  ///< whole blocks
    const Buffer *x = nullptr, *y = nullptr;
    const Buffer* x_again = nullptr;      ///< x for the gradient of the weights
    Buffer *dy = nullptr, *dx = nullptr;  ///< dx: null if not needed
    const float *weight = nullptr, *bias = nullptr;
    GradientPlace weight_gradient{}, bias_gradient{};

    /// What products read: the parameters, or their copies in bf16.
    template <class E>
    [[nodiscard]] const E* weight_as() const {
        return as<E>(weight, weight_copy_);
    }
    template <class E>
    [[nodiscard]] const E* bias_as() const {
        return as<E>(bias, bias_copy_);
    }
    GX_COLD void compute_in_bf16() {
        weight_copy_ = Memory((inputs * outputs + 1) / 2);
        if (bias != nullptr) bias_copy_ = Memory((outputs + 1) / 2);
    }
    [[nodiscard]] std::int64_t copied_floats() const {
        return weight_copy_.size() + bias_copy_.size();
    }
    /// Rounds the copies from the parameters anew.
    void refresh() {
        if (weight_copy_.size() == 0) return;
        copy(weight, weight_copy_, inputs * outputs);
        if (bias != nullptr) copy(bias, bias_copy_, outputs);
    }

private:
    template <class E>
    [[nodiscard]] static const E* as(const float* parameter, const Memory& copy) {
        if constexpr (sizeof(E) == sizeof(float)) return parameter;
        else return parameter != nullptr ? reinterpret_cast<const E*>(copy.data()) : nullptr;
    }
    static void copy(const float* from, const Memory& to, std::int64_t count) {
        run_kernel<Convert>(Convert::Args{from, reinterpret_cast<Bf16*>(to.data()), count});
    }
    Memory weight_copy_{}, bias_copy_{};
};

template <class E>
struct LinearArgs {
    const E *x, *weight, *bias, *dy;
    E *y, *dx;
    float *dweight, *dbias;
    std::int64_t inputs;
    int outputs, images;
};

/// y[n, :] = b + sum over k of x[n, k] W[k, :].
/// Order: k from 0 up, one fused or rounded multiply-add after the other.
template <class E>
struct LinearForward {
    using number = E;
    template <int B, int rows>
    GX_ONEDNN_INLINE static void tile(const LinearArgs<E>& a, int n, int o) {
        using V = typename Vector<B>::type;
        V sum[rows], w{};
        if (a.bias != nullptr) load<B>(a.bias + o, w);
        for (int r = 0; r < rows; ++r) sum[r] = w;
        for (std::int64_t k = 0; k < a.inputs; ++k) {
            load<B>(a.weight + k * a.outputs + o, w);
            for (int r = 0; r < rows; ++r) sum[r] += w * widen(a.x[(n + r) * a.inputs + k]);
        }
        for (int r = 0; r < rows; ++r) store<B>(sum[r], a.y + std::int64_t{n + r} * a.outputs + o);
    }
    template <int B>
    GX_ONEDNN_INLINE static void run(const LinearArgs<E>& a) {
        for (int o = 0; o < a.outputs; o += B) {
            int n = 0;
            for (; n + 8 <= a.images; n += 8) tile<B, 8>(a, n, o);
            for (; n < a.images; ++n) tile<B, 1>(a, n, o);
        }
    }
};

/// dx[n, k] = sum over o of dy[n, o] W[k, o].
template <class E>
struct LinearGradientData {
    using number = E;
    template <int B, int rows>
    GX_ONEDNN_INLINE static void tile(const LinearArgs<E>& a, int n, std::int64_t k) {
        using V = typename Vector<B>::type;
        V sum[rows] = {}, w, g;
        for (int o = 0; o < a.outputs; o += B) {
            load<B>(a.weight + k * a.outputs + o, w);
            for (int r = 0; r < rows; ++r) {
                load<B>(a.dy + std::int64_t{n + r} * a.outputs + o, g);
                sum[r] += w * g;
            }
        }
        for (int r = 0; r < rows; ++r) {
            float total = 0;
            for (int c = 0; c < B; ++c) total += sum[r][c];
            a.dx[(n + r) * a.inputs + k] = narrow<E>(total);
        }
    }
    template <int B>
    GX_ONEDNN_INLINE static void run(const LinearArgs<E>& a) {
        int n = 0;
        for (; n + 8 <= a.images; n += 8)
            for (std::int64_t k = 0; k < a.inputs; ++k) tile<B, 8>(a, n, k);
        for (; n < a.images; ++n)
            for (std::int64_t k = 0; k < a.inputs; ++k) tile<B, 1>(a, n, k);
    }
};

/// dW[k, :] = sum over n of x[n, k] dy[n, :]; db = sum over n of dy[n, :].
template <class E>
struct LinearGradientWeights {
    using number = E;
    template <int B, int rows>
    GX_ONEDNN_INLINE static void tile(const LinearArgs<E>& a, std::int64_t k, int o) {
        using V = typename Vector<B>::type;
        V sum[rows] = {}, g;
        for (int n = 0; n < a.images; ++n) {
            load<B>(a.dy + std::int64_t{n} * a.outputs + o, g);
            for (int r = 0; r < rows; ++r) sum[r] += g * widen(a.x[n * a.inputs + k + r]);
        }
        for (int r = 0; r < rows; ++r)
            *reinterpret_cast<V*>(a.dweight + (k + r) * a.outputs + o) = sum[r];
    }
    template <int B>
    GX_ONEDNN_INLINE static void run(const LinearArgs<E>& a) {
        using V = typename Vector<B>::type;
        std::int64_t k = 0;
        for (; k + 8 <= a.inputs; k += 8)
            for (int o = 0; o < a.outputs; o += B) tile<B, 8>(a, k, o);
        for (; k < a.inputs; ++k)
            for (int o = 0; o < a.outputs; o += B) tile<B, 1>(a, k, o);
        if (a.dbias == nullptr) return;
        for (int o = 0; o < a.outputs; o += B) {
            V sum{}, g;
            for (int n = 0; n < a.images; ++n) {
                load<B>(a.dy + std::int64_t{n} * a.outputs + o, g);
                sum += g;
            }
            *reinterpret_cast<V*>(a.dbias + o) = sum;
        }
    }
};

class LinearForwardStep : public Step {
public:
    explicit LinearForwardStep(const Linear& l) : l_(l) {}
    void run(const Run&, const Place& at) override {
        with_number(l_.x->type, [&]<class E>(E) {
            LinearArgs<E> a{};
            a.x = l_.x->image_of<E>(at.first), a.y = l_.y->image_of<E>(at.first);
            a.weight = l_.weight_as<E>(), a.bias = l_.bias_as<E>();
            a.inputs = l_.inputs, a.outputs = l_.outputs, a.images = at.count;
            run_kernel<LinearForward<E>>(a);
        });
    }

private:
    const Linear& l_;
};

/// Writes the lane's own gradient of the weights; AddLanesStep adds the lanes later.
class LinearGradientStep : public Step {
public:
    LinearGradientStep(const Linear& l, LaneGradients& sums) : l_(l), sums_(sums) {}
    void run(const Run& run, const Place& at) override {
        with_number(l_.x->type, [&]<class E>(E) {
            LinearArgs<E> a{};
            a.x = l_.x_again->image_of<E>(at.first), a.dy = l_.dy->image_of<E>(at.first);
            a.weight = l_.weight_as<E>();
            a.inputs = l_.inputs, a.outputs = l_.outputs, a.images = at.count;
            a.dweight = sums_.of(run, at.lane, l_.weight_gradient);
            if (l_.bias != nullptr) a.dbias = sums_.of(run, at.lane, l_.bias_gradient);
            run_kernel<LinearGradientWeights<E>>(a);
            if (l_.dx == nullptr) return;
            a.dx = l_.dx->image_of<E>(at.first);
            run_kernel<LinearGradientData<E>>(a);
        });
    }

private:
    const Linear& l_;
    LaneGradients& sums_;
};

}  // namespace gx::onednn::detail
