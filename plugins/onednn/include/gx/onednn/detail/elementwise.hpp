// elementwise: ReLU, add, dropout and the packing of plain images, over contiguous chunks.
#pragma once

#include <algorithm>  // copy, fill
#include <atomic>     // counts of lanes
#include <cstdint>    // int64_t
#include <span>       // numbers that are rounded

#include <gx/core/rng.hpp>               // Rng
#include <gx/onednn/detail/layout.hpp>   // Layout
#include <gx/onednn/detail/numbers.hpp>  // load, store, Convert, round_to_fp16
#include <gx/onednn/detail/program.hpp>  // Step

namespace gx::onednn::detail {

enum class Elementwise : unsigned char {
    relu,       ///< out = a made at least 0; NaN stays NaN
    relu_mask,  ///< out = a where b > 0, else 0
    add,        ///< out = a + b
    copy        ///< out = a
};

/// out = f(a, b), element by element; out may be a or b.
template <class E>
struct ElementwiseKernel {
    using number = E;
    struct Args {
        const E *a, *b;
        E* out;
        std::int64_t floats;
        Elementwise what;
    };
    template <int B, Elementwise what>
    GX_ONEDNN_INLINE static void rows(const Args& e) {
        using V = typename Vector<B>::type;
        constexpr bool two = what == Elementwise::relu_mask || what == Elementwise::add;
        std::int64_t i = 0;
        V v, b;
        for (; i + B <= e.floats; i += B) {
            load<B>(e.a + i, v);
            if constexpr (two) load<B>(e.b + i, b);
            if constexpr (what == Elementwise::relu) v = v < V{} ? V{} : v;
            if constexpr (what == Elementwise::relu_mask) v = b > V{} ? v : V{};
            if constexpr (what == Elementwise::add) v += b;
            store<B>(v, e.out + i);
        }
        for (; i < e.floats; ++i) {
            float one = widen(e.a[i]);
            if constexpr (what == Elementwise::relu) one = one < 0 ? 0 : one;
            if constexpr (what == Elementwise::relu_mask) one = widen(e.b[i]) > 0 ? one : 0;
            if constexpr (what == Elementwise::add) one += widen(e.b[i]);
            e.out[i] = narrow<E>(one);
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
        with_number(a_.type, [&]<class E>(E) {
            run_kernel<ElementwiseKernel<E>>(typename ElementwiseKernel<E>::Args{
                a_.image_of<E>(at.first), b_ != nullptr ? b_->image_of<E>(at.first) : nullptr,
                out_.image_of<E>(at.first), a_.image_floats * at.count, what_});
        });
    }

private:
    Elementwise what_;
    const Buffer& a_;
    const Buffer* b_;
    Buffer& out_;
};

/// Rounds what the steps before stored to fp16, where the device emulates it in fp32.
class RoundStep : public Step {
public:
    /// `gradients`: count them.
    RoundStep(Buffer& values, bool gradients) : values_(values), gradients_(gradients) {}
    void run(const Run& run, const Place& at) override {
        const std::span numbers(values_.image(at.first),
                                static_cast<std::size_t>(values_.image_floats * at.count));
        if (!gradients_) return round_to_fp16(numbers, nullptr);
        Stored stored;
        round_to_fp16(numbers, &stored);
        using Count = std::atomic_ref<std::int64_t>;  // lanes run at once
        Count(run.counters->gradients_stored).fetch_add(stored.all, std::memory_order_relaxed);
        Count(run.counters->gradients_flushed).fetch_add(stored.flushed, std::memory_order_relaxed);
    }

private:
    Buffer& values_;
    bool gradients_;
};

/// Brings plain images in fp32 into the layout and the type that the first layer reads.
class PackStep : public Step {
public:
    PackStep(const Buffer& plain, Buffer& packed, Layout layout)
        : plain_(plain), packed_(packed), layout_(layout) {}
    void begin(Run& run) override {
        if (moves()) ++run.counters->activation_reorders_in_step;
    }
    void run(const Run&, const Place& at) override {
        if (!moves() && packed_.type == ElementType::bf16)  // the type changes alone
            return run_kernel<Convert>(Convert::Args{plain_.image(at.first),
                                                     packed_.image_of<Bf16>(at.first),
                                                     plain_.image_floats * at.count});
        const std::int64_t step = layout_.grid(1).pixel_stride;
        with_number(packed_.type, [&]<class E>(E) {
            for (int n = at.first; n < at.first + at.count; ++n) {
                const float* from = plain_.image(n);
                E* to = packed_.image_of<E>(n);
                std::fill(to, to + layout_.floats(), E{});
                const std::int64_t pixels = layout_.pixels();
                for (int c = 0; c < layout_.shape.channels; ++c, from += pixels) {
                    E* channel = to + layout_.index(c * pixels);
                    for (std::int64_t p = 0; p < pixels; ++p)
                        channel[p * step] = narrow<E>(from[p]);
                }
            }
        });
    }

private:
    [[nodiscard]] bool moves() const { return !layout_.plain(); }
    const Buffer& plain_;
    Buffer& packed_;
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
        with_number(in_.type, [&]<class E>(E) { drop<E>(run, at, keep, draw); });
    }

private:
    template <class E>
    void drop(const Run& run, const Place& at, float keep, const Rng& draw) {
        const std::int64_t elements = layout_.shape.elements();
        for (int n = at.first; n < at.first + at.count; ++n) {
            const E* in = in_.image_of<E>(n);
            E* out = out_.image_of<E>(n);
            float* factors = factors_.image(n);
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
            for (std::int64_t i = 0; i < layout_.floats(); ++i)
                out[i] = narrow<E>(widen(in[i]) * factors[i]);
        }
    }
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
        const float* factors = factors_.image(at.first);
        with_number(g_.type, [&]<class E>(E) {
            E* g = g_.image_of<E>(at.first);
            for (std::int64_t i = 0; i < g_.image_floats * at.count; ++i)
                g[i] = narrow<E>(widen(g[i]) * factors[i]);
        });
    }

private:
    Buffer& g_;
    const Buffer& factors_;
};

}  // namespace gx::onednn::detail
