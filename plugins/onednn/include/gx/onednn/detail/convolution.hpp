// convolution: oneDNN's three primitives over one weight layout, planned for each chunk size.
#pragma once

#include <cstdint>   // int64_t
#include <memory>    // unique_ptr
#include <optional>  // layouts not chosen yet
#include <string>    // names of kernels
#include <vector>    // calls

#include <gx/core/cold.hpp>                // GX_COLD
#include <gx/onednn/detail/gradients.hpp>  // LaneGradients, Accumulate
#include <gx/onednn/detail/layout.hpp>     // Layout
#include <gx/onednn/detail/library.hpp>    // Call, Lanes
#include <gx/onednn/detail/program.hpp>    // Step

namespace gx::onednn::detail {

/// One convolution layer. The weights lie in the layout that the forward kernel wants; the
/// gradient is written in the same; the data gradient gets a copy if it wants another.
class Convolution {
public:
    using Desc = dnnl::memory::desc;
    struct Shape {
        Layout in{}, out{};
        Window window{};
        int groups = 1;
        bool bias = false;
        bool winograd = false;  ///< try it; direct where oneDNN has no such kernel
    };
    GX_COLD Convolution(Shape shape, int images, Lanes& lanes) : shape_(shape), lanes_(lanes) {
        weights_ =
            make_forward(images, any_weights(), dnnl::algorithm::convolution_direct).weights_desc();
        GX_EXPECT(weights_->data.format_kind == dnnl_blocked && weights_->data.extra.flags == 0,
                  "oneDNN chose weights that only its inference reads");
    }

    Convolution(const Convolution&) = delete;
    Convolution& operator=(const Convolution&) = delete;
    GX_COLD ~Convolution() = default;

    // ---- set by the planner ----
    const Buffer *x = nullptr, *y = nullptr;
    Buffer *dy = nullptr, *dx = nullptr;
    const float *weight = nullptr, *bias = nullptr;
    std::size_t weight_offset = 0, bias_offset = 0;
    LaneGradients* gradients = nullptr;

    [[nodiscard]] const Desc& weights() const { return *weights_; }
    [[nodiscard]] std::int64_t weight_floats() const {
        return static_cast<std::int64_t>(weights_->get_size() / sizeof(float));
    }
    /// Of element (o, i, h, w) of the graph's weight: o over all groups, i within one.
    [[nodiscard]] std::int64_t weight_index(int o, int i, int h, int w) const {
        if (shape_.groups == 1) return element_offset(weights_->data, {o, i, h, w, 0});
        const int per_group = shape_.out.shape.channels / shape_.groups;
        return element_offset(weights_->data, {o / per_group, o % per_group, i, h, w});
    }

    GX_COLD void plan_forward(int images) {
        slot(forward_, images, [&] { return forward_call(images); });
    }
    GX_COLD void plan_data(int images) {
        slot(data_, images, [&] { return data_call(images); });
    }
    GX_COLD void plan_weights(int images) {
        slot(weights_calls_, images, [&] { return weights_call(images); });
    }

    void run_forward(const Place& at) {
        auto& call = *forward_[static_cast<std::size_t>(at.count)];
        if (shape_.bias)
            return call(at.lane, {x->image(at.first), weight, y->image(at.first), bias});
        call(at.lane, {x->image(at.first), weight, y->image(at.first)});
    }
    void run_data(const Place& at) {
        const float* w = repacked_.size() > 0 ? repacked_.data() : weight;
        (*data_[static_cast<std::size_t>(at.count)])(at.lane,
                                                     {dy->image(at.first), w, dx->image(at.first)});
    }
    /// The first chunk of a lane writes the lane's gradient, the others are added to it in order.
    /// oneDNN's kernels may store whole cache lines, so a gradient that is not aligned to 64 bytes
    /// gets even the first one by way of `partial`.
    void run_weights(const Run& run, const Place& at) {
        Lane& lane = lanes_.list[static_cast<std::size_t>(at.lane)];
        float* mine = gradients->of(run, at.lane);
        float *dw = mine + weight_offset, *db = mine + bias_offset;
        const std::int64_t bias_floats = shape_.bias ? shape_.out.channels() : 0;
        const bool direct = at.opens && reinterpret_cast<std::uintptr_t>(mine) % 64 == 0;
        float* to = direct ? dw : lane.partial.data();
        float* to_bias =
            direct ? db : lane.partial.data() + round_up(static_cast<int>(weight_floats()), 16);
        auto& call = *weights_calls_[static_cast<std::size_t>(at.count)];
        if (shape_.bias) call(at.lane, {x->image(at.first), dy->image(at.first), to, to_bias});
        else call(at.lane, {x->image(at.first), dy->image(at.first), to});
        if (direct) return;
        if (at.opens) {
            std::copy(to, to + weight_floats(), dw);
            std::copy(to_bias, to_bias + bias_floats, db);
            return;
        }
        run_kernel<Accumulate>(Accumulate::Args{to, dw, weight_floats()});
        if (shape_.bias) run_kernel<Accumulate>(Accumulate::Args{to_bias, db, bias_floats});
    }

    /// Refreshes the copy for the data gradient; returns the number of copies made, 0 or 1.
    int repack() {
        if (repacked_.size() == 0) return 0;
        (*repack_)(0, {weight, repacked_.data()});
        return 1;
    }
    [[nodiscard]] const std::string& kernels() const { return kernels_; }

private:
    using Forward = dnnl::convolution_forward;
    using Data = dnnl::convolution_backward_data;
    using Weights = dnnl::convolution_backward_weights;
    using Algorithm = dnnl::algorithm;
    using Dims = dnnl::memory::dims;
    using Tag = dnnl::memory::format_tag;
    static constexpr auto f32 = dnnl::memory::data_type::f32;

    template <class Make>
    static void slot(std::vector<std::unique_ptr<Call>>& calls, int images, Make make) {
        const auto i = static_cast<std::size_t>(images);
        if (calls.size() <= i) calls.resize(i + 1);
        if (calls[i] == nullptr) calls[i] = make();
    }
    /// Whole blocks as true channels: their padding is ours, and zero. With groups, oneDNN pads.
    [[nodiscard]] int channels(const Layout& l) const {
        return shape_.groups == 1 ? l.channels() : l.shape.channels;
    }
    GX_COLD [[nodiscard]] Desc activations(const Layout& l, int images) const {
        const auto tag = l.plain() ? Tag::nchw : l.block == 16 ? Tag::nChw16c : Tag::nChw8c;
        return {{images, channels(l), l.shape.height, l.shape.width}, f32, tag};
    }
    GX_COLD [[nodiscard]] Desc any_weights() const {
        const Window& w = shape_.window;
        const int o = channels(shape_.out), i = channels(shape_.in), g = shape_.groups;
        if (g == 1) return {{o, i, w.height, w.width}, f32, Tag::any};
        return {{g, o / g, i / g, w.height, w.width}, f32, Tag::any};
    }
    [[nodiscard]] Desc bias_desc() const { return {{channels(shape_.out)}, f32, Tag::x}; }
    [[nodiscard]] Dims strides() const { return {shape_.window.stride, shape_.window.stride}; }
    [[nodiscard]] Dims padding() const {
        return {shape_.window.pad_height, shape_.window.pad_width};
    }

    GX_COLD [[nodiscard]] Forward::primitive_desc make_forward(int images, const Desc& w,
                                                               Algorithm a) const {
        const auto train = dnnl::prop_kind::forward_training;
        const Desc in = activations(shape_.in, images), out = activations(shape_.out, images);
        if (shape_.bias)
            return {
                Forward::desc(train, a, in, w, bias_desc(), out, strides(), padding(), padding()),
                user_scratch(), engine()};
        return {Forward::desc(train, a, in, w, out, strides(), padding(), padding()),
                user_scratch(), engine()};
    }
    GX_COLD [[nodiscard]] Data::primitive_desc make_data(int images, const Desc& w,
                                                         Algorithm a) const {
        const Desc in = activations(shape_.in, images), out = activations(shape_.out, images);
        return {Data::desc(a, in, w, out, strides(), padding(), padding()), user_scratch(),
                engine(), make_forward(images, w, Algorithm::convolution_direct)};
    }
    GX_COLD [[nodiscard]] Weights::primitive_desc make_weights(int images, Algorithm a) const {
        const Desc in = activations(shape_.in, images), out = activations(shape_.out, images);
        const auto hint = make_forward(images, weights(), Algorithm::convolution_direct);
        if (shape_.bias)
            return {
                Weights::desc(a, in, weights(), bias_desc(), out, strides(), padding(), padding()),
                user_scratch(), engine(), hint};
        return {Weights::desc(a, in, weights(), out, strides(), padding(), padding()),
                user_scratch(), engine(), hint};
    }
    /// Winograd where it is wanted and oneDNN has it in these layouts, else direct.
    template <class Make>
    GX_COLD [[nodiscard]] auto chosen(Make make) const {
        if (shape_.winograd) {
            try {
                return make(Algorithm::convolution_winograd);
            } catch (const dnnl::error&) {  // no such kernel for this shape
            }
        }
        return make(Algorithm::convolution_direct);
    }

    using Arguments = std::initializer_list<Call::Argument>;
    GX_COLD [[nodiscard]] std::unique_ptr<Call> call(const dnnl::primitive& primitive,
                                                     const dnnl::primitive_desc_base& pd,
                                                     Arguments arguments) const {
        return std::unique_ptr<Call>(new Call(primitive, pd.scratchpad_desc(), lanes_, arguments));
    }
    GX_COLD [[nodiscard]] std::unique_ptr<Call> forward_call(int images) {
        const auto pd = chosen([&](Algorithm a) { return make_forward(images, weights(), a); });
        note("forward", pd.impl_info_str());
        const Call::Argument src{DNNL_ARG_SRC, pd.src_desc()}, dst{DNNL_ARG_DST, pd.dst_desc()};
        const Call::Argument w{DNNL_ARG_WEIGHTS, weights()};
        if (shape_.bias) return call(Forward(pd), pd, {src, w, dst, {DNNL_ARG_BIAS, bias_desc()}});
        return call(Forward(pd), pd, {src, w, dst});
    }
    GX_COLD [[nodiscard]] std::unique_ptr<Call> data_call(int images) {
        const auto pd =
            chosen([&](Algorithm a) { return make_data(images, data_weights(images, a), a); });
        note("data", pd.impl_info_str());
        if (!data_weights_) choose_data_weights(pd.weights_desc());
        return call(Data(pd), pd,
                    {{DNNL_ARG_DIFF_DST, pd.diff_dst_desc()},
                     {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                     {DNNL_ARG_DIFF_SRC, pd.diff_src_desc()}});
    }
    /// The forward layout if a kernel accepts it, else what the kernel wanted the first time.
    GX_COLD [[nodiscard]] Desc data_weights(int images, Algorithm a) const {
        if (data_weights_) return *data_weights_;
        if (a == Algorithm::convolution_winograd) {
            static_cast<void>(make_data(images, weights(), a));  // throws when it does not
            return weights();
        }
        return any_weights();
    }
    GX_COLD void choose_data_weights(const Desc& wanted) {
        data_weights_ = wanted;
        if (wanted == weights()) return;
        repacked_ = Memory(static_cast<std::int64_t>(wanted.get_size() / sizeof(float)));
        const dnnl::reorder::primitive_desc pd(engine(), weights(), engine(), wanted,
                                               user_scratch());
        repack_ = call(dnnl::reorder(pd), pd, {{DNNL_ARG_FROM, weights()}, {DNNL_ARG_TO, wanted}});
        repack();
    }
    GX_COLD [[nodiscard]] std::unique_ptr<Call> weights_call(int images) {
        const auto pd = chosen([&](Algorithm a) { return make_weights(images, a); });
        note("weights", pd.impl_info_str());
        lanes_.reserve_partial(weight_floats() + 16 + shape_.out.channels());
        const Call::Argument src{DNNL_ARG_SRC, pd.src_desc()},
            out{DNNL_ARG_DIFF_DST, pd.diff_dst_desc()};
        const Call::Argument w{DNNL_ARG_DIFF_WEIGHTS, weights()};
        if (shape_.bias)
            return call(Weights(pd), pd, {src, out, w, {DNNL_ARG_DIFF_BIAS, bias_desc()}});
        return call(Weights(pd), pd, {src, out, w});
    }
    GX_COLD void note(const char* what, const char* kernel) {
        const std::string entry = std::string(what) + ": " + kernel;
        if (kernels_.find(entry) == std::string::npos)
            kernels_ += (kernels_.empty() ? "" : ", ") + entry;
    }

    Shape shape_;
    Lanes& lanes_;
    std::optional<Desc> weights_, data_weights_;
    std::vector<std::unique_ptr<Call>> forward_, data_, weights_calls_;
    Memory repacked_;
    std::unique_ptr<Call> repack_;
    std::string kernels_;
};

class ConvolutionStep : public Step {
public:
    explicit ConvolutionStep(Convolution& c) : c_(c) {}
    void prepare(int images) override { c_.plan_forward(images); }
    void run(const Run&, const Place& at) override { c_.run_forward(at); }

private:
    Convolution& c_;
};

class ConvolutionDataStep : public Step {
public:
    explicit ConvolutionDataStep(Convolution& c) : c_(c) {}
    void prepare(int images) override { c_.plan_data(images); }
    void run(const Run&, const Place& at) override { c_.run_data(at); }

private:
    Convolution& c_;
};

class ConvolutionWeightsStep : public Step {
public:
    explicit ConvolutionWeightsStep(Convolution& c) : c_(c) {}
    void prepare(int images) override { c_.plan_weights(images); }
    void run(const Run& run, const Place& at) override { c_.run_weights(run, at); }

private:
    Convolution& c_;
};

}  // namespace gx::onednn::detail
