// convolution: oneDNN's three primitives over one weight layout, planned for each chunk size.
#pragma once

#include <algorithm>         // copy, copy_n, fill
#include <cstdint>           // int64_t
#include <initializer_list>  // initializer_list
#include <limits>            // no tiles are enough
#include <string>            // names of kernels
#include <type_traits>       // remove_reference_t
#include <utility>           // move, swap

#include <gx/core/cold.hpp>                                  // GX_COLD
#include <gx/core/trivial_vector.hpp>                        // offsets
#include <gx/onednn/detail/library/blocked_strides.hpp>      // element_offset
#include <gx/onednn/detail/cpu_bf16.hpp>                     // cpu_bf16
#include <gx/onednn/detail/library/desc.hpp>                 // Desc, plan_convolution
#include <gx/onednn/detail/tiles/few_channels_gradient.hpp>  // FewChannelsWeightGradient
#include <gx/onednn/detail/gradients.hpp>                    // LaneGradients, Accumulate
#include <gx/onednn/detail/layout.hpp>                       // Layout
#include <gx/onednn/detail/library.hpp>                      // Call, Lanes, Plan
#include <gx/onednn/detail/numbers.hpp>                      // Convert
#include <gx/onednn/detail/owned_list.hpp>                   // OwnedList
#include <gx/onednn/detail/passing_copy.hpp>                 // PassingCopy
#include <gx/onednn/detail/program.hpp>                      // Step
#include <gx/onednn/detail/spread_pixels.hpp>                // spread_pixels
#include <gx/onednn/detail/tiles/weight_copies.hpp>          // CopyWeights
#include <gx/onednn/detail/tiles/weight_gradient.hpp>        // TileWeightGradient

namespace gx::onednn::detail {

/// How many groups of `in` by `out` channels run as one; 1: none. So a group fills whole blocks,
/// for which oneDNN has fast kernels. The weights between groups that were joined are zeros. Groups
/// of one channel stay: oneDNN has kernels for them.
[[nodiscard]] constexpr int joined_groups(int groups, int in, int out, int block) {
    if (in * out == 1) return 1;
    for (int joined = 1; joined <= block; ++joined)
        if (groups % joined == 0 && joined * in % block == 0 && joined * out % block == 0)
            return joined;
    return 1;
}

/// Tiles from which on Winograd's F(4x4, 3x3) is faster than a direct kernel. They are of 4x4
/// outputs, for `products` input by output channels. A call transforms the weights anew, which
/// takes the same share of the products whatever the shape; few channels do not pay for
/// transforming the tiles.
/// Source: oneDNN 2.6.3, 7x7 to 56x56. Zen 4, 64 to 512 channels: even at 28 to 32 tiles, where it
///         is 1.3 times as fast at 48 and 1.7 times at 128; gradients of weights even at 16, 2
///         times as fast at 64. Xeon with AMX, one core: 16 by 16 channels 0.5 to 0.9 times as
///         fast in 64 to 4096 tiles, 16 by 32 0.7 to 1.1 times; 32 by 32 even at 128, gradients of
///         weights at 256 to 512, 1.25 times as fast at 512; from 48 by 48 on even at 40 to 55,
///         1.1 to 1.7 times as fast at 64; gradients of weights of 512 channels even at 24, 1.15
///         times as fast at 32, which isn't worth their 84 MB of scratch memory.
[[nodiscard]] constexpr int least_winograd_tiles(bool weights, int products, bool intel) {
    if (!intel) return weights ? 16 : 32;
    if (products < 32 * 32) return std::numeric_limits<int>::max();
    if (products == 32 * 32) return weights ? 512 : 128;
    return 48;
}

/// Bytes of scratch memory above which Winograd's gradient of the weights runs in parts. It is then
/// worked out for some of the output channels at a time: half of them, a quarter, ..., 64 at least.
/// The transformed weights of a call, 4 times as many as the weights, then stay in the cache, so
/// that it takes no longer than one call for all.
/// Source: oneDNN 2.6.3, two cores of Zen 4, 512 channels, 8 images of 7x7: 12.2 ms and 88.6 MB at
///         once, 11.2 ms and 49.7 MB by 256, 11.9 ms and 30.2 MB by 128, 11.4 ms and 10.2 MB by 64;
///         direct kernels 21 ms.
inline constexpr std::size_t most_winograd_scratch_bytes = std::size_t{16} << 20;
inline constexpr int least_winograd_outputs = 64;

[[nodiscard]] inline bool cpu_is_intel() {
#if defined(__x86_64__)
    return __builtin_cpu_is("intel") != 0;
#else
    return false;
#endif
}

/// One convolution layer. In fp32 the weights lie in the layout that the forward kernel wants; the
/// gradient is written in the same; the data gradient gets a copy if it wants another. In bf16 the
/// weights and their gradient are fp32, in the layout that the gradient's kernel wants; the
/// forward pass and the data gradient read copies in bf16, one if they want the same layout.
class Convolution {
public:
    struct Shape {
        Layout in{}, out{};
        Window window{};
        int groups = 1;
        bool bias = false;
        bool winograd = false;  ///< where oneDNN has such a kernel and it is the faster one
        ElementType type = ElementType::fp32;
    };
    using Pass = detail::Pass;

    GX_COLD Convolution(Shape shape, int images, Lanes& lanes)
        : shape_(shape),
          lanes_(lanes),
          group_in_(shape.in.shape.channels / shape.groups),
          group_out_(shape.out.shape.channels / shape.groups),
          joined_(joined_groups(shape.groups, group_in_, group_out_, cpu_block())) {
        shape_.groups /= joined_;
        weights_ = forward_.desc = any_weights(shape.type);
        const Plan plan = expect_planned(make(Pass::forward, images, dnnl_convolution_direct));
        forward_.desc = desc_of(plan, dnnl_query_weights_md);
        GX_EXPECT(forward_.desc.strides().rank > 0,
                  "oneDNN chose weights that only its inference reads");
        weights_ = forward_.desc;
        shape_.winograd = shape.winograd &&
                          make(Pass::forward, images, dnnl_convolution_winograd).get() != nullptr;
        if (in_bf16()) choose_master_weights(images);
        if (joined_ > 1) find_zeros();
    }
    Convolution(const Convolution&) = delete;
    Convolution& operator=(const Convolution&) = delete;
    GX_COLD ~Convolution() = default;

    // ---- set by the planner ----
    const Buffer *x = nullptr, *y = nullptr;
    const Buffer* x_again = nullptr;  ///< x for the gradient of the weights
    Buffer *dy = nullptr, *dx = nullptr;
    const float *weight = nullptr, *bias = nullptr;
    GradientPlace weight_gradient{}, bias_gradient{};
    LaneGradients* gradients = nullptr;
    bool copies_in_passing = false;  ///< a CopyWeightsStep makes the data gradient's copy

    /// Of copies of the weights and the bias.
    [[nodiscard]] std::int64_t copied_floats() const {
        return forward_.values.size() + data_.values.size() + bias_copy_.size();
    }
    [[nodiscard]] std::int64_t weight_floats() const { return weights_.floats(); }
    /// Of element (o, i, h, w) of the graph's weight: o over all groups, i within one.
    [[nodiscard]] std::int64_t weight_index(int o, int i, int h, int w) const {
        return joined_index(o, o / group_out_ % joined_ * group_in_ + i, h, w);
    }

    /// Plans a pass over chunks of `images` images, once.
    GX_COLD void plan(Pass pass, int images) {
        if (pass == Pass::weights && by_tiles_) return plan_by_tiles(images);
        OwnedList<Call>& calls = calls_[static_cast<int>(pass)];
        if (calls.has(images)) return;
        Plan plan;
        const bool winograd = plan_winograd(pass, images, plan);
        const int parts = winograd && pass == Pass::weights ? plan_parts(images, plan) : 1;
        if (!winograd) plan = expect_planned(make(pass, images, dnnl_convolution_direct));
        note(pass, plan);
        if (pass == Pass::data) {
            if (skips_pixels()) lanes_.reserve_partial(images * pixels_read().floats() / 2);
            if (!winograd && !chose_data_weights_) choose_data_weights(plan);
            if (copies_at_once()) plan_copies();
            if (data_by_winograd_.size() <= static_cast<std::size_t>(images))
                data_by_winograd_.resize(static_cast<std::size_t>(images) + 1, false);
            data_by_winograd_[static_cast<std::size_t>(images)] = winograd;
        }
        if (pass == Pass::weights) {
            if (parts_.size() <= static_cast<std::size_t>(images))
                parts_.resize(static_cast<std::size_t>(images) + 1, 1);
            parts_[static_cast<std::size_t>(images)] = parts;
            lanes_.reserve_partial(weight_floats() / parts + 16 + shape_.out.channels() +
                                   (parts > 1 ? images * shape_.out.floats() / parts : 0));
        }
        calls.widen(images + 1);
        calls.put(images, new_call(pass, plan));
    }

    void run_forward(const Place& at) {
        Call& call = planned(Pass::forward, at);
        const void* w = forward_.values_or(weight);
        if (shape_.bias)
            return call(at.lane, {x->address(at.first), w, y->address(at.first),
                                  in_bf16() ? bias_copy_.data() : bias});
        call(at.lane, {x->address(at.first), w, y->address(at.first)});
    }
    void run_data(const Place& at) {
        const bool winograd = data_by_winograd_[static_cast<std::size_t>(at.count)];
        const void* w = winograd             ? weight
                        : passing_.planned() ? passing_.data()
                                             : data_.values_or(forward_.values_or(weight));
        Call& call = planned(Pass::data, at);
        if (!skips_pixels())
            return call(at.lane, {dy->address(at.first), w, dx->address(at.first)});
        float* small = lanes_.list[at.lane].partial.data();
        call(at.lane, {dy->address(at.first), w, small});
        spread_pixels(reinterpret_cast<const Bf16*>(small), pixels_read(), shape_.window.stride,
                      at.count, dx->image_of<Bf16>(at.first), shape_.in);
    }
    /// The first chunk of a lane writes the lane's gradient, the others are added to it in order.
    /// oneDNN's kernels may store whole cache lines, so a gradient that is not aligned to 64 bytes
    /// gets even the first one by way of `partial`. With a stride, those for AMX multiply zeros by
    /// scratch memory that they did not write, where NaN may lie: oneDNN 2.6.3, narrow images.
    void run_weights(const Run& run, const Place& at) {
        Lane& lane = lanes_.list[at.lane];
        float* dw = gradients->of(run, at.lane, weight_gradient);
        if (at.opens)  // a plain layout fills no whole block
            std::fill(dw + weight_floats(),
                      dw + round_up(static_cast<int>(weight_floats()), cpu_block()), 0.0f);
        if (by_tiles_) return run_tiles(at, dw, lane);
        if (parts_[static_cast<std::size_t>(at.count)] > 1) return run_parts(run, at, dw);
        float* db = gradients->of(run, at.lane, bias_gradient);
        const std::int64_t bias_floats = shape_.bias ? shape_.out.channels() : 0;
        const bool direct = at.opens && LaneGradients::aligned(run, at.lane);
        float* to = direct ? dw : lane.partial.data();
        float* to_bias =
            direct ? db : lane.partial.data() + round_up(static_cast<int>(weight_floats()), 16);
        Call& call = planned(Pass::weights, at);
        if (in_bf16() && shape_.window.stride > 1) call.clear_scratch(at.lane);
        if (shape_.bias)
            call(at.lane, {x_again->address(at.first), dy->address(at.first), to, to_bias});
        else call(at.lane, {x_again->address(at.first), dy->address(at.first), to});
        for (const std::int64_t zero : zeros_) to[zero] = 0;
        if (shape_.bias)  // what oneDNN has no channel for
            std::fill(to_bias + channels(shape_.out), to_bias + bias_floats, 0.0f);
        if (direct) return;
        if (at.opens) {
            std::copy(to, to + weight_floats(), dw);
            std::copy(to_bias, to_bias + bias_floats, db);
            return;
        }
        run_kernel<Accumulate>(Accumulate::Args{to, dw, weight_floats()});
        if (shape_.bias) run_kernel<Accumulate>(Accumulate::Args{to_bias, db, bias_floats});
    }

    /// Makes the copies of the weights anew, as `lane`; returns their number.
    int refresh(int lane) {
        if (copies_.from != nullptr) return refresh_pairs();
        if (bias_copy_.size() > 0)
            run_kernel<Convert>(Convert::Args{bias, reinterpret_cast<Bf16*>(bias_copy_.data()),
                                              shape_.out.channels()});
        return forward_.refresh(weight, lane) + data_.refresh(weight, lane);
    }
    /// The share of `lane` of the data gradient's copy.
    void copy_in_passing(int lane) { passing_.make(weight, lane); }
    /// Whether one pass of ours makes all copies after an update.
    [[nodiscard]] bool copies_at_once() const { return by_tiles_ && !few_channels_; }
    [[nodiscard]] bool has_passing_copy() const { return passing_.planned(); }
    [[nodiscard]] const std::string& kernels() const { return kernels_; }

private:
    /// The weights in the layout and type of a kernel: where these are the parameters' own, none.
    struct Copy {
        Desc desc{};
        Memory values{};
        OwnedList<Call> reorder{};  // one, or none

        GX_COLD void allocate(const Desc& from, Lanes& lanes) {
            values = Memory(desc.floats());
            using Arguments = std::initializer_list<Call::Argument>;
            reorder.add(plan_reorder(from, desc), lanes,
                        Arguments{{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, desc}});
        }
        [[nodiscard]] const void* values_or(const void* other) const {
            return values.size() > 0 ? values.data() : other;
        }
        int refresh(const float* from, int lane) {
            if (values.size() == 0) return 0;
            reorder[0](lane, {from, values.data()});
            return 1;
        }
    };

    /// The parameters lie as the kernel of their gradient writes it, and the forward pass reads a
    /// copy.
    GX_COLD void choose_master_weights(int images) {
        few_channels_ = !TileWeightGradient::runs(shape_.in, shape_.out) &&
                        FewChannelsWeightGradient::runs(shape_.in, shape_.out, shape_.window);
        by_tiles_ = shape_.groups * joined_ == 1 && !shape_.bias &&
                    cpu_bf16().unit == Bf16Unit::tiles && AmxTiles::allowed() &&
                    (few_channels_ || TileWeightGradient::runs(shape_.in, shape_.out));
        if (by_tiles_) {
            const bool rows_of_x = !few_channels_ && TileWeightGradient::rows_of_x(
                                                         shape_.in, shape_.out, shape_.window);
            weights_ = Desc({shape_.out.channels(), shape_.in.channels(), shape_.window.height,
                             shape_.window.width},
                            rows_of_x ? dnnl_ihwo : dnnl_ohwi, ElementType::fp32);
        } else {
            weights_ = any_weights(ElementType::fp32);
            weights_ = desc_of(expect_planned(make(Pass::weights, images, dnnl_convolution_direct)),
                               dnnl_query_diff_weights_md);
        }
        forward_.allocate(weights_, lanes_);
        if (shape_.bias) bias_copy_ = Memory((shape_.out.channels() + 1) / 2);
    }
    /// Both copies by one kernel of ours, where it knows their layouts: oneDNN's takes twice as
    /// long.
    GX_COLD void plan_copies() {
        copies_ = {.from = weight,
                   .rows = shape_.out.channels(),
                   .taps = shape_.window.height * shape_.window.width,
                   .columns = shape_.in.channels(),
                   .width = shape_.window.width,
                   .rows_of_x = TileWeightGradient::rows_of_x(shape_.in, shape_.out, shape_.window),
                   .layouts = {PairedLayout::of(forward_.desc.strides()), {}},
                   .to = {reinterpret_cast<Bf16*>(forward_.values.data()), nullptr}};
        if (copies_.rows_of_x) std::swap(copies_.rows, copies_.columns);
        bool known = copies_.layouts[0].block > 0;
        if (data_.values.size() > 0) {
            copies_.layouts[1] = PairedLayout::of(data_.desc.strides());
            copies_.to[1] = reinterpret_cast<Bf16*>(data_.values.data());
            known = known && copies_.layouts[1].block > 0;
        }
        if (!known) copies_ = {};
    }
    int refresh_pairs() {
        run_kernel<CopyWeights>(copies_);
        return copies_.to[1] != nullptr ? 2 : 1;
    }
    GX_COLD void plan_by_tiles(int images) {
        const auto plan = [&](auto& list) {
            using Gradient = std::remove_reference_t<decltype(list[0])>;
            if (list.has(images)) return;
            list.widen(images + 1);
            list.put(images, new Gradient(shape_.in, shape_.out, shape_.window, images));
            lanes_.reserve_scratch(static_cast<std::size_t>(list[images].scratch_bytes()));
        };
        few_channels_ ? plan(by_few_channels_) : plan(tiles_);
        note(Pass::weights, "gx:amx_bf16");
        if (copies_at_once()) plan_copies();
    }
    /// Whether it reads every other pixel alone. The gradient of these is then that of a
    /// convolution without stride, which is spread out: oneDNN's kernels for AMX take twice as long
    /// with one.
    [[nodiscard]] bool skips_pixels() const {
        return in_bf16() && shape_.in.channels_last && shape_.window.stride > 1 &&
               shape_.window == Window::square(1, shape_.window.stride, 0);
    }
    /// Of an image those that it reads.
    [[nodiscard]] Layout pixels_read() const {
        Layout l = shape_.in;
        l.shape.height = shape_.out.shape.height, l.shape.width = shape_.out.shape.width;
        return l;
    }
    void run_tiles(const Place& at, float* dw, const Lane& lane) {
        const auto run = [&](const auto& gradient) {
            gradient.template run<AmxTiles>(
                x_again->image_of<Bf16>(at.first), dy->image_of<Bf16>(at.first), dw, !at.opens,
                lane.scratch(static_cast<std::size_t>(gradient.scratch_bytes())));
        };
        few_channels_ ? run(by_few_channels_[at.count]) : run(tiles_[at.count]);
    }
    /// run_weights() by parts of the output channels. They lie one after the other in the gradient
    /// of the weights and in each image.
    void run_parts(const Run& run, const Place& at, float* dw) {
        const int parts = parts_[static_cast<std::size_t>(at.count)];
        const std::int64_t weights = weight_floats() / parts, outputs = shape_.out.floats() / parts;
        float* const partial = lanes_.list[at.lane].partial.data();
        float* const dy_part = partial + round_up(static_cast<int>(weights), 16);
        Call& call = planned(Pass::weights, at);
        for (int part = 0; part < parts; ++part, dw += weights) {
            for (int n = 0; n < at.count; ++n)
                std::copy_n(dy->image(at.first + n) + part * outputs, outputs,
                            dy_part + n * outputs);
            const bool direct = at.opens && LaneGradients::aligned(run, at.lane);
            call(at.lane, {x_again->address(at.first), dy_part, direct ? dw : partial});
            if (direct) continue;
            if (at.opens) std::copy_n(partial, weights, dw);
            else run_kernel<Accumulate>(Accumulate::Args{partial, dw, weights});
        }
    }
    [[nodiscard]] bool in_bf16() const { return shape_.type == ElementType::bf16; }
    [[nodiscard]] Call& planned(Pass pass, const Place& at) {
        return calls_[static_cast<int>(pass)][at.count];
    }
    /// Of output o over all groups and input i within the groups that it is joined with.
    [[nodiscard]] std::int64_t joined_index(int o, int i, int h, int w) const {
        if (shape_.groups == 1) return element_offset(weights_.strides(), {o, i, h, w, 0});
        const int outputs = joined_ * group_out_;
        return element_offset(weights_.strides(), {o / outputs, o % outputs, i, h, w});
    }
    /// Weights between groups that were joined: their gradient is no part of the network's.
    GX_COLD void find_zeros() {
        for (int o = 0; o < shape_.out.shape.channels; ++o)
            for (int i = 0; i < joined_ * group_in_; ++i) {
                if (i / group_in_ == o / group_out_ % joined_) continue;
                for (int h = 0; h < shape_.window.height; ++h)
                    for (int w = 0; w < shape_.window.width; ++w)
                        zeros_.push_back(joined_index(o, i, h, w));
            }
    }
    /// Whole blocks as true channels: their padding is ours, and zero. With groups, oneDNN pads.
    [[nodiscard]] int channels(const Layout& l) const {
        return shape_.groups == 1 ? l.channels() : l.shape.channels;
    }
    /// Of some of the channels, where `parts` is not 1.
    GX_COLD [[nodiscard]] Desc activations(const Layout& l, int images, int parts = 1) const {
        const auto tag = l.plain()         ? dnnl_nchw
                         : l.channels_last ? dnnl_nhwc
                         : l.block == 16   ? dnnl_nChw16c
                                           : dnnl_nChw8c;
        return Desc({images, channels(l) / parts, l.shape.height, l.shape.width}, tag, shape_.type);
    }
    GX_COLD [[nodiscard]] Desc any_weights(ElementType type) const {
        const Window& w = shape_.window;
        const int o = channels(shape_.out), i = channels(shape_.in), g = shape_.groups;
        if (g == 1) return Desc({o, i, w.height, w.width}, dnnl_format_tag_any, type);
        return Desc({g, o / g, i / g, w.height, w.width}, dnnl_format_tag_any, type);
    }
    /// Of a pass: the bias is as the weights are, its gradient fp32.
    GX_COLD [[nodiscard]] Desc of_bias(Pass pass) const {
        return Desc({channels(shape_.out)}, dnnl_x,
                    pass == Pass::forward ? shape_.type : ElementType::fp32);
    }

    /// The kernel for a pass, or none if oneDNN has none for this shape.
    GX_COLD [[nodiscard]] Plan make(Pass pass, int images, dnnl_alg_kind_t algorithm) const {
        return make(pass, images, algorithm,
                    pass == Pass::data      ? data_weights(algorithm)
                    : pass == Pass::forward ? forward_.desc
                                            : weights_);
    }
    GX_COLD [[nodiscard]] Plan make(Pass pass, int images, dnnl_alg_kind_t algorithm, const Desc& w,
                                    bool of_pixels_read = false, int parts = 1) const {
        const Window& window = shape_.window;
        of_pixels_read = of_pixels_read || (pass == Pass::data && skips_pixels());
        const int stride = of_pixels_read ? 1 : window.stride;
        const Desc in = activations(of_pixels_read ? pixels_read() : shape_.in, images),
                   out = activations(shape_.out, images, parts);
        const Desc bias_desc = of_bias(pass);
        Plan hint;
        if (pass != Pass::forward) {
            hint = make(Pass::forward, images, dnnl_convolution_direct,
                        in_bf16() ? forward_.desc : w, of_pixels_read, parts);
            if (hint.get() == nullptr) return {};
        }
        return plan_convolution(
            pass, algorithm, {in, w, shape_.bias ? &bias_desc : nullptr, out},
            {.strides = {stride, stride}, .padding = {window.pad_height, window.pad_width}}, hint);
    }
    GX_COLD [[nodiscard]] static Plan expect_planned(Plan plan) {
        expect(plan.get() != nullptr ? dnnl_success : dnnl_unimplemented,
               "create a primitive descriptor for a convolution");
        return plan;
    }
    /// Plans Winograd if it is wanted and can serve; returns whether. It can where it is fast for
    /// so few images, and there is a kernel of it in these layouts. On one CPU the choice depends
    /// on shapes alone, so that it is the same in all ranks and in each run.
    GX_COLD [[nodiscard]] bool plan_winograd(Pass pass, int images, Plan& plan) const {
        const ImageShape& out = shape_.out.shape;
        const int tiles = images * ((out.height + 3) / 4) * ((out.width + 3) / 4);
        const int products = channels(shape_.in) * channels(shape_.out);
        const int least = least_winograd_tiles(pass == Pass::weights, products, cpu_is_intel());
        if (!shape_.winograd || tiles < least) return false;
        plan = make(pass, images, dnnl_convolution_winograd);
        return plan.get() != nullptr;
    }
    /// In how many parts of the output channels `plan`, a gradient of the weights by Winograd, is
    /// worked out; it becomes that of one part.
    GX_COLD [[nodiscard]] int plan_parts(int images, Plan& plan) const {
        const auto scratch_bytes = [&] { return desc_of(plan, dnnl_query_scratchpad_md).bytes(); };
        int parts = 1;
        while (scratch_bytes() > most_winograd_scratch_bytes) {
            const int outputs = channels(shape_.out) / (2 * parts);
            if (outputs < least_winograd_outputs || outputs % shape_.out.block != 0 ||
                outputs * 2 * parts != channels(shape_.out))
                break;
            const Desc w = weights_of_part(2 * parts);
            if (w.get() == nullptr) break;
            Plan half = make(Pass::weights, images, dnnl_convolution_winograd, w, false, 2 * parts);
            if (half.get() == nullptr) break;
            plan = std::move(half), parts *= 2;
        }
        return parts;
    }
    /// Of the first of equal parts of the output channels, or none unless each part's weights lie
    /// together.
    GX_COLD [[nodiscard]] Desc weights_of_part(int parts) const {
        const int outputs = channels(shape_.out) / parts;
        if (shape_.groups * joined_ != 1 || shape_.bias || shape_.out.block == 1 ||
            element_offset(weights_.strides(), {outputs, 0, 0, 0, 0}) != weight_floats() / parts)
            return {};
        return weights_.first(outputs);
    }
    /// Winograd reads the parameters' own; a direct kernel what one wanted the first time.
    GX_COLD [[nodiscard]] Desc data_weights(dnnl_alg_kind_t algorithm) const {
        if (algorithm == dnnl_convolution_winograd) return weights_;
        return chose_data_weights_ ? data_.desc : any_weights(shape_.type);
    }
    GX_COLD void choose_data_weights(const Plan& plan) {
        data_.desc = desc_of(plan, dnnl_query_weights_md);
        chose_data_weights_ = true;
        if (data_.desc == forward_.desc) return;
        if (copies_in_passing) return passing_.plan(weights_, data_.desc, lanes_);
        data_.allocate(weights_, lanes_);
        data_.refresh(weight, 0);
    }
    GX_COLD [[nodiscard]] Call* new_call(Pass pass, const Plan& plan) const {
        const auto make_call = [&](std::initializer_list<Call::Argument> arguments) {
            return new Call(plan, lanes_, arguments);
        };
        const Desc bias_desc = of_bias(pass);
        const Desc w = pass == Pass::data      ? desc_of(plan, dnnl_query_weights_md)
                       : pass == Pass::forward ? forward_.desc
                                               : desc_of(plan, dnnl_query_diff_weights_md);
        const Desc in =
            desc_of(plan, pass == Pass::data ? dnnl_query_diff_src_md : dnnl_query_src_md);
        const Desc out =
            desc_of(plan, pass == Pass::forward ? dnnl_query_dst_md : dnnl_query_diff_dst_md);
        switch (pass) {
            case Pass::data:
                return make_call(
                    {{DNNL_ARG_DIFF_DST, out}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DIFF_SRC, in}});
            case Pass::forward:
                if (shape_.bias)
                    return make_call({{DNNL_ARG_SRC, in},
                                      {DNNL_ARG_WEIGHTS, w},
                                      {DNNL_ARG_DST, out},
                                      {DNNL_ARG_BIAS, bias_desc}});
                return make_call({{DNNL_ARG_SRC, in}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, out}});
            case Pass::weights: break;
        }
        if (shape_.bias)
            return make_call({{DNNL_ARG_SRC, in},
                              {DNNL_ARG_DIFF_DST, out},
                              {DNNL_ARG_DIFF_WEIGHTS, w},
                              {DNNL_ARG_DIFF_BIAS, bias_desc}});
        return make_call(
            {{DNNL_ARG_SRC, in}, {DNNL_ARG_DIFF_DST, out}, {DNNL_ARG_DIFF_WEIGHTS, w}});
    }
    GX_COLD void note(Pass pass, const Plan& plan) {
        const char* kernel = "";
        expect(dnnl_primitive_desc_query(plan.get(), dnnl_query_impl_info_str, 0, &kernel),
               "name a kernel");
        note(pass, kernel);
    }
    GX_COLD void note(Pass pass, const char* kernel) {
        constexpr const char* names[] = {"forward: ", "data: ", "weights: "};
        std::string entry = names[static_cast<int>(pass)];
        entry += kernel;
        if (kernels_.find(entry) != std::string::npos) return;
        if (!kernels_.empty()) kernels_ += ", ";
        kernels_ += entry;
    }

    Shape shape_;  ///< its groups: after some were joined
    Lanes& lanes_;
    int group_in_, group_out_, joined_;    // channels of a group of the graph
    TrivialVector<std::int64_t> zeros_{};  // weights between joined groups
    Desc weights_{};                       // of the parameters, and of their gradient
    Copy forward_{}, data_{};              // the latter for direct kernels
    PassingCopy passing_{};                // in place of data_'s own memory
    bool chose_data_weights_ = false;
    TrivialVector<bool> data_by_winograd_{};        // by the images of a chunk
    OwnedList<Call> calls_[3];                      // of each pass, by the images of a chunk
    TrivialVector<int> parts_{};                    // of the gradient of the weights, likewise
    bool by_tiles_ = false, few_channels_ = false;  // the gradient of the weights
    OwnedList<TileWeightGradient> tiles_{};         // by the images of a chunk
    OwnedList<FewChannelsWeightGradient> by_few_channels_{};
    CopyWeights::Args copies_{};  // from: null where oneDNN makes the copies
    Memory bias_copy_{};
    std::string kernels_{};
};

/// Runs one of the three passes.
class ConvolutionStep : public Step {
public:
    ConvolutionStep(Convolution& c, Convolution::Pass pass) : c_(c), pass_(pass) {}
    void prepare(int images) override { c_.plan(pass_, images); }
    void run(const Run& run, const Place& at) override {
        switch (pass_) {
            case Convolution::Pass::forward: return c_.run_forward(at);
            case Convolution::Pass::data: return c_.run_data(at);
            case Convolution::Pass::weights: return c_.run_weights(run, at);
        }
    }

private:
    Convolution& c_;
    Convolution::Pass pass_;
};

/// Brings the weights of a convolution into the layout that its data gradient's kernel reads.
class CopyWeightsStep : public Step {
public:
    explicit CopyWeightsStep(Convolution& c) : c_(c) {}
    void begin(Run& run) override {
        if (c_.has_passing_copy()) ++run.counters->weight_repacks;
    }
    void run(const Run&, const Place& at) override {
        if (c_.has_passing_copy()) c_.copy_in_passing(at.lane);
    }

private:
    Convolution& c_;
};

}  // namespace gx::onednn::detail
