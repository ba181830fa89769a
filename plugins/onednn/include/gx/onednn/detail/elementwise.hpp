// elementwise: ReLU, add, dropout and the packing of plain images, over contiguous chunks.
#pragma once

#include <cstdint>  // int64_t

#include <gx/core/rng.hpp>               // Rng
#include <gx/onednn/detail/layout.hpp>   // Layout
#include <gx/onednn/detail/program.hpp>  // Step

namespace gx::onednn::detail {

enum class Elementwise : unsigned char {
    relu,       ///< out = a made at least 0; NaN stays NaN
    relu_mask,  ///< out = a where b > 0, else 0
    add,        ///< out = a + b
    copy        ///< out = a
};

/// out = f(a, b), element by element; out may be a or b.
struct ElementwiseKernel {
    struct Args {
        const float *a, *b;
        float* out;
        std::int64_t floats;
        Elementwise what;
    };
    template <int B, Elementwise what>
    GX_ONEDNN_INLINE static void rows(const Args& e) {
        using V = typename Vector<B>::type;
        std::int64_t i = 0;
        for (; i + B <= e.floats; i += B) {
            V v = *reinterpret_cast<const V*>(e.a + i);
            if constexpr (what == Elementwise::relu) v = v < V{} ? V{} : v;
            if constexpr (what == Elementwise::relu_mask)
                v = *reinterpret_cast<const V*>(e.b + i) > V{} ? v : V{};
            if constexpr (what == Elementwise::add) v += *reinterpret_cast<const V*>(e.b + i);
            *reinterpret_cast<V*>(e.out + i) = v;
        }
        for (; i < e.floats; ++i) {
            float v = e.a[i];
            if constexpr (what == Elementwise::relu) v = v < 0 ? 0 : v;
            if constexpr (what == Elementwise::relu_mask) v = e.b[i] > 0 ? v : 0;
            if constexpr (what == Elementwise::add) v += e.b[i];
            e.out[i] = v;
        }
    }
    template <int B>
    GX_ONEDNN_INLINE static void run(const Args& e) {
        if (e.what == Elementwise::relu) return rows<B, Elementwise::relu>(e);
        if (e.what == Elementwise::relu_mask) return rows<B, Elementwise::relu_mask>(e);
        if (e.what == Elementwise::add) return rows<B, Elementwise::add>(e);
        rows<B, Elementwise::copy>(e);
    }
};

class ElementwiseStep : public Step {
public:
    ElementwiseStep(Elementwise what, const Buffer& a, const Buffer* b, Buffer& out)
        : what_(what), a_(a), b_(b), out_(out) {}
    void run(const Run&, const Place& at) override {
        run_kernel<ElementwiseKernel>(ElementwiseKernel::Args{
            a_.image(at.first), b_ != nullptr ? b_->image(at.first) : nullptr, out_.image(at.first),
            a_.image_floats * at.count, what_});
    }

private:
    Elementwise what_;
    const Buffer& a_;
    const Buffer* b_;
    Buffer& out_;
};

/// Converts plain images to the blocked layout, if the first layer cannot read plain ones.
class PackStep : public Step {
public:
    PackStep(const Buffer& plain, Buffer& blocked, Layout layout)
        : plain_(plain), blocked_(blocked), layout_(layout) {}
    void begin(Run& run) override { ++*run.layout_changes; }
    void run(const Run&, const Place& at) override {
        for (int n = at.first; n < at.first + at.count; ++n) {
            const float* from = plain_.image(n);
            float* to = blocked_.image(n);
            std::fill(to, to + layout_.floats(), 0.0f);
            for (std::int64_t i = 0; i < layout_.shape.elements(); ++i)
                to[layout_.index(i)] = from[i];
        }
    }

private:
    const Buffer& plain_;
    Buffer& blocked_;
    Layout layout_;
};

/// Drops elements in training, with the numbers that every device draws: element i of image n of
/// a batch is kept when uniform(n * elements + i) >= rate, and multiplied by 1 / (1 - rate).
class DropoutStep : public Step {
public:
    DropoutStep(const Buffer& in, Buffer& out, Buffer& factors, Layout layout, double rate, Rng rng)
        : in_(in), out_(out), factors_(factors), layout_(layout), rate_(rate), rng_(rng) {}
    void run(const Run& run, const Place& at) override {
        const auto keep = static_cast<float>(1.0 / (1.0 - rate_));
        const Rng draw = rng_.at(run.batch.draw);
        const std::int64_t elements = layout_.shape.elements();
        for (int n = at.first; n < at.first + at.count; ++n) {
            const float* in = in_.image(n);
            float *out = out_.image(n), *factors = factors_.image(n);
            if (run.mode == Mode::evaluate) {
                if (in != out) std::copy(in, in + layout_.floats(), out);
                continue;
            }
            std::fill(factors, factors + layout_.floats(), 0.0f);
            for (std::int64_t i = 0; i < elements; ++i) {
                const auto number =
                    static_cast<std::uint64_t>(n) * static_cast<std::uint64_t>(elements) +
                    static_cast<std::uint64_t>(i);
                if (static_cast<double>(draw.uniform(number)) >= rate_)
                    factors[layout_.index(i)] = keep;
            }
            for (std::int64_t i = 0; i < layout_.floats(); ++i) out[i] = in[i] * factors[i];
        }
    }

private:
    const Buffer& in_;
    Buffer &out_, &factors_;
    Layout layout_;
    double rate_;
    Rng rng_;
};

class DropoutGradientStep : public Step {
public:
    DropoutGradientStep(Buffer& g, const Buffer& factors) : g_(g), factors_(factors) {}
    void run(const Run&, const Place& at) override {
        float* g = g_.image(at.first);
        const float* factors = factors_.image(at.first);
        for (std::int64_t i = 0; i < g_.image_floats * at.count; ++i) g[i] *= factors[i];
    }

private:
    Buffer& g_;
    const Buffer& factors_;
};

}  // namespace gx::onednn::detail
