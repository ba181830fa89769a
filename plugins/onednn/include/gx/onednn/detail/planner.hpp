// planner: turns a graph into a program: fusion, buffers and order of steps.
#pragma once

#include <cmath>    // sqrt
#include <cstdint>  // int64_t, uint64_t
#include <span>     // span
#include <string>   // errors

#include <gx/core/cold.hpp>                     // GX_COLD
#include <gx/core/trivial_vector.hpp>           // lists
#include <gx/onednn/detail/concat.hpp>          // joined branches
#include <gx/onednn/detail/convolution.hpp>     // convolution steps
#include <gx/onednn/detail/elementwise.hpp>     // relu, add, dropout, pack, round
#include <gx/onednn/detail/fusion.hpp>          // Fusion, NormGroup
#include <gx/onednn/detail/linear.hpp>          // linear steps
#include <gx/onednn/detail/loss.hpp>            // loss steps
#include <gx/onednn/detail/norm.hpp>            // batch normalisation
#include <gx/onednn/detail/pooling.hpp>         // pools
#include <gx/onednn/detail/program_writer.hpp>  // ProgramWriter, Size
#include <gx/onednn/detail/shapes.hpp>          // Shapes, Parameters

namespace gx::onednn::detail {

/// Layers, buffers and gradients that steps refer to.
struct Parts {
    OwnedList<Norm> norms{};
    OwnedList<Linear> linears{};
    OwnedList<Pool> pools{};
    OwnedList<Concat> concats{};
    Loss loss{};
    LaneGradients gradients{};
    Buffer* images = nullptr;         ///< points at the batch
    TrivialVector<Buffer*> values{};  ///< of tensors; null where fused away
    TrivialVector<int> written_in{};  ///< forward segment that writes a tensor, -1: none
    TrivialVector<int> blame{};       ///< of each op: the first one of those it is fused with
};

/// Builds the forward and the backward segments of a training step. An evaluation runs the forward
/// segments only.
class Planner {
public:
    GX_COLD Planner(const Graph& graph, DeviceOptions options, std::span<float> statistics,
                    const Shapes& shapes, const Parameters& parameters, int lanes, Parts& parts,
                    Program& program)
        : graph_(graph),
          options_(options),
          statistics_(statistics),
          shapes_(shapes),
          parameters_(parameters),
          lanes_(lanes),
          parts_(parts),
          writer_(parameters, lanes, parts.gradients, graph.parameters.size(), program),
          fusion_(graph, shapes, parts.norms, parts.blame),
          sums_in_(graph.ops.size(), -1),
          linear_of_(graph.ops.size(), nullptr),
          pool_of_(graph.ops.size(), nullptr),
          factors_of_(graph.ops.size(), nullptr),
          concat_of_(graph.ops.size(), nullptr),
          again_(graph.tensors.size(), nullptr) {
        for (std::size_t t = 0; t < graph.tensors.size(); ++t) gradients_.add();
        parts_.values.assign(graph.tensors.size(), nullptr);
        parts_.written_in.assign(graph.tensors.size(), -1);
        plan_forward();
        plan_backward();
    }

private:
    using Gradients = TrivialVector<Buffer*>;
    static constexpr std::int64_t least_passing_floats = 1 << 16;  // smaller copies are kept
    static constexpr int least_row_to_forget = 6;                  // fewer save too little

    // ---- tensors ----------------------------------------------------------------------
    Buffer* value(int tensor) { return parts_.values[at(tensor)]; }
    Buffer* new_value(int tensor) {
        return parts_.values[at(tensor)] = new_buffer(shapes_.layouts[at(tensor)].floats());
    }
    /// For activations, or gradients of them.
    Buffer* new_buffer(std::int64_t floats) {
        Buffer* b = writer_.buffer(floats, shapes_.type);
        if (backward_) b->use = BufferUse::gradient;
        return b;
    }
    void written(int tensor) { parts_.written_in[at(tensor)] = writer_.segment(); }
    /// What a step of `size` has just stored; in fp32 and bf16 that is rounded already.
    GX_COLD Buffer* stored(Buffer* b, Size size = Size::chunk) {
        if (shapes_.in_fp16) writer_.add<RoundStep>(size, {b}, *b, backward_);
        return b;
    }
    /// The input's own memory if no other operation reads it, else a new buffer.
    GX_COLD Buffer* in_place(const Op& op) {
        const int in = op.inputs[0];
        return owned(in) ? parts_.values[at(op.output)] = value(in) : new_value(op.output);
    }

    /// Whether the one reader of `tensor` is the only one of its memory.
    GX_COLD [[nodiscard]] bool owned(int tensor) {
        const Op& op = graph_.ops[at(shapes_.writer[at(tensor)])];
        if (!shapes_.read_once(tensor) || value(tensor) == parts_.images) return false;
        return op.kind != OpKind::flatten || owned(op.inputs[0]);
    }

    // ---- forward ----------------------------------------------------------------------
    GX_COLD void plan_forward() {
        for (int i = 0; i < static_cast<int>(graph_.ops.size()); ++i) {
            const Op& op = graph_.ops[at(i)];
            if (op.kind == OpKind::batch_norm) begin_norm(i, op);
            if (Norm* n = fusion_.norm_of(i)) {
                if (fusion_.group(*n).end == i) end_norm(*n);
                continue;
            }
            forward_op(i, op);
        }
    }
    GX_COLD void forward_op(int i, const Op& op) {
        switch (op.kind) {
            case OpKind::input: return forward_input(op);
            case OpKind::conv2d: return forward_convolution(i, op);
            case OpKind::linear: return forward_linear(i, op);
            case OpKind::max_pool:
            case OpKind::avg_pool: return forward_pool(i, op);
            case OpKind::relu: {
                Buffer *x = value(op.inputs[0]), *y = in_place(op);
                writer_.add<ElementwiseStep>(Size::chunk, {x, y}, Elementwise::relu, *x, nullptr,
                                             *y);
                return written(op.output);
            }
            case OpKind::add: {
                Buffer *a = value(op.inputs[0]), *b = value(op.inputs[1]),
                       *y = new_value(op.output);
                writer_.add<ElementwiseStep>(Size::chunk, {a, b, y}, Elementwise::add, *a, b, *y);
                stored(y);
                return written(op.output);
            }
            case OpKind::flatten: parts_.values[at(op.output)] = value(op.inputs[0]); return;
            case OpKind::concat: return forward_concat(i, op);
            case OpKind::dropout: return forward_dropout(i, op);
            case OpKind::softmax_cross_entropy: return forward_loss(op);
            case OpKind::batch_norm: return;
            default: return;  // timed only: the device refused the graph
        }
    }
    /// Whether the only reader of a concat is another, which joins its parts at once.
    GX_COLD [[nodiscard]] bool joined_later(int tensor) const {
        return shapes_.read_once(tensor) &&
               graph_.ops[at(shapes_.writer[at(tensor)])].kind == OpKind::concat &&
               graph_.ops[at(shapes_.readers[at(tensor)].first)].kind == OpKind::concat;
    }
    GX_COLD void add_parts(Concat& c, const Op& op, int& channels) {
        for (const int t : op.inputs) {
            if (joined_later(t)) {
                add_parts(c, graph_.ops[at(shapes_.writer[at(t)])], channels);
                continue;
            }
            c.parts.push_back({value(t), nullptr, shapes_.layouts[at(t)], channels});
            channels += shapes_.layouts[at(t)].shape.channels;
            c.tensors.push_back(t);
        }
    }
    GX_COLD void forward_concat(int i, const Op& op) {
        if (joined_later(op.output)) return;
        Concat& c = parts_.concats.add();
        concat_of_[at(i)] = &c;
        int channels = 0;
        add_parts(c, op, channels);
        c.layout = shapes_.layouts[at(op.output)], c.y = new_value(op.output);
        writer_.add<ConcatStep>(Size::chunk, {c.y}, c);
        for (const Concat::Part& p : c.parts) writer_.uses(p.x);
        written(op.output);
    }
    GX_COLD void forward_input(const Op& op) {
        parts_.images = writer_.buffer(graph_.input.elements());
        parts_.values[at(op.output)] = parts_.images;
        if (!shapes_.packs_input && shapes_.type == ElementType::fp32 && !shapes_.in_fp16) return;
        Buffer* packed = new_value(op.output);
        writer_.add<PackStep>(Size::chunk, {parts_.images, packed}, *parts_.images, *packed,
                              shapes_.layouts[at(op.output)]);
        stored(packed);
        written(op.output);
    }
    GX_COLD void forward_convolution(int i, const Op& op) {
        Convolution& c = parameters_.convolution(i);
        Buffer *x = value(op.inputs[0]), *y = new_value(op.output);
        c.x = x, c.y = y, c.gradients = &parts_.gradients;
        c.weight = parameters_.working(op.first_parameter);
        if (op.parameter_count == 2) c.bias = parameters_.working(op.first_parameter + 1);
        writer_.add<ConvolutionStep>(Size::chunk, {x, y}, c, Convolution::Pass::forward);
        stored(y);
        written(op.output);
    }
    GX_COLD void forward_linear(int i, const Op& op) {
        Linear& l = parts_.linears.add();
        linear_of_[at(i)] = &l;
        Buffer *x = value(op.inputs[0]), *y = new_value(op.output);
        l.inputs = x->image_floats, l.outputs = shapes_.layouts[at(op.output)].channels();
        l.x = x, l.y = y;
        l.weight = parameters_.working(op.first_parameter);
        if (op.parameter_count == 2) l.bias = parameters_.working(op.first_parameter + 1);
        if (shapes_.type == ElementType::bf16) l.compute_in_bf16();
        writer_.add<LinearForwardStep>(Size::whole, {x, y}, l);
        stored(y, Size::whole);
        written(op.output);
    }
    GX_COLD void forward_pool(int i, const Op& op) {
        Pool& p = parts_.pools.add();
        pool_of_[at(i)] = &p;
        Buffer *x = value(op.inputs[0]), *y = new_value(op.output), *place = nullptr;
        p.largest = op.kind == OpKind::max_pool, p.window = op.window;
        p.in = shapes_.layouts[at(op.inputs[0])], p.out = shapes_.layouts[at(op.output)];
        if (p.largest) place = writer_.buffer(p.out.floats());
        p.x = x, p.y = y, p.place = place;
        writer_.add<PoolStep>(Size::chunk, {x, y, place}, p);
        if (!p.largest) stored(y);
        written(op.output);
    }
    GX_COLD void forward_dropout(int i, const Op& op) {
        Buffer *x = value(op.inputs[0]), *y = in_place(op);
        Buffer* factors = writer_.buffer(shapes_.layouts[at(op.output)].floats());
        factors_of_[at(i)] = factors;
        const Rng rng =
            Rng(options_.seed, op.name.view()).at(static_cast<std::uint64_t>(options_.rank));
        writer_.add<DropoutStep>(Size::chunk, {x, y, factors}, *x, *y, *factors,
                                 shapes_.layouts[at(op.output)], op.rate, rng);
        stored(y);
        written(op.output);
    }
    GX_COLD void forward_loss(const Op& op) {
        Loss& l = parts_.loss;
        l.layout = shapes_.layouts[at(op.inputs[0])], l.classes = graph_.classes,
        l.smoothing = op.rate;
        l.logits = value(op.inputs[0]);
        l.losses.assign(at(options_.batch), 0.0), l.hits.assign(at(options_.batch), 0);
        l.top5.assign(at(options_.batch), 0);
        writer_.add<LossStep>(Size::whole, {value(op.inputs[0])}, l);
    }
    GX_COLD void begin_norm(int i, const Op& op) {
        Norm& n = *fusion_.norm_of(i);
        n.layout = shapes_.layouts[at(op.inputs[0])];
        n.epsilon = op.rate, n.momentum = op.momentum;
        n.gamma = parameters_.data(op.first_parameter),
        n.beta = parameters_.data(op.first_parameter + 1);
        n.gamma_offset = parameters_.offset(op.first_parameter);
        n.beta_offset = parameters_.offset(op.first_parameter + 1);
        n.running_mean = statistics_.data() + graph_.statistics[at(op.first_statistic)].offset;
        n.running_var = statistics_.data() + graph_.statistics[at(op.first_statistic + 1)].offset;
        n.allocate(lanes_);
        n.x = value(op.inputs[0]);
        writer_.add<NormSumsStep>(Size::chunk, {value(op.inputs[0])}, n);
        sums_in_[at(i)] = writer_.time();
    }
    GX_COLD void end_norm(Norm& n) {
        const auto [begin, end, residual_tensor] = fusion_.group(n);
        Buffer* x = value(graph_.ops[at(begin)].inputs[0]);
        Buffer* residual = residual_tensor >= 0 ? value(residual_tensor) : nullptr;
        Buffer* y = new_value(graph_.ops[at(end)].output);
        n.residual = residual, n.y = y;
        if (sums_in_[at(begin)] == writer_.time()) writer_.cut();
        writer_.add<NormApplyStep>(Size::chunk, {x, residual, y}, n);
        stored(y);
        written(graph_.ops[at(end)].output);
    }

    // ---- backward ---------------------------------------------------------------------
    GX_COLD void plan_backward() {
        writer_.begin_backward();
        backward_ = true;
        for (int i = static_cast<int>(graph_.ops.size()) - 1; i >= 0; --i) {
            const Op& op = graph_.ops[at(i)];
            if (op.kind != OpKind::softmax_cross_entropy && !shapes_.needs_gradient[at(op.output)])
                continue;
            if (Norm* n = fusion_.norm_of(i)) {
                if (fusion_.group(*n).end == i) backward_norm(*n);
                continue;
            }
            backward_op(i, op);
        }
        writer_.finish();
    }
    GX_COLD void backward_op(int i, const Op& op) {
        switch (op.kind) {
            case OpKind::conv2d: return backward_convolution(i, op);
            case OpKind::linear: return backward_linear(i, op);
            case OpKind::max_pool:
            case OpKind::avg_pool: return backward_pool(i, op);
            case OpKind::relu: {
                Buffer *g = gradient(op), *y = value(op.output);
                writer_.add<ElementwiseStep>(Size::chunk, {g, y}, Elementwise::relu_mask, *g, y,
                                             *g);
                return pass(op.inputs[0], g);
            }
            case OpKind::add: return backward_add(op);
            case OpKind::flatten:
                for (Buffer* g : gradients_[op.output]) pass(op.inputs[0], g);
                return;
            case OpKind::concat: return backward_concat(i, op);
            case OpKind::dropout: {
                Buffer *g = gradient(op), *factors = factors_of_[at(i)];
                writer_.add<DropoutGradientStep>(Size::chunk, {g, factors}, *g, *factors);
                return pass(op.inputs[0], stored(g));
            }
            case OpKind::softmax_cross_entropy: {
                Buffer* g = new_buffer(parts_.loss.layout.floats());
                parts_.loss.gradient = g;
                writer_.add<LossGradientStep>(Size::whole, {value(op.inputs[0]), g}, parts_.loss);
                return pass(op.inputs[0], stored(g, Size::whole));
            }
            case OpKind::batch_norm:
            case OpKind::input: return;
            default: return;  // timed only: the device refused the graph
        }
    }
    GX_COLD void pass(int tensor, Buffer* g) {
        if (shapes_.needs_gradient[at(tensor)]) gradients_[tensor].push_back(g);
    }
    /// The gradients that arrived at a tensor, added until `most` are left; each is its reader's
    /// own.
    GX_COLD Gradients& arrived(int tensor, std::size_t most) {
        Gradients& list = gradients_[tensor];
        if (list.empty()) {
            const Op& op = graph_.ops[at(shapes_.writer[at(tensor)])];
            throw Error("gx::onednn: nothing reads the output of " +
                        std::string(to_string(op.kind)) + " '" + std::string(op.name.view()) +
                        "': remove the operation, or use its output");
        }
        while (list.size() > most) {
            Buffer* extra = list.back();
            list.pop_back();
            writer_.add<ElementwiseStep>(Size::chunk, {list[0], extra}, Elementwise::add, *list[0],
                                         extra, *list[0]);
            stored(list[0]);
        }
        return list;
    }
    /// A tensor's value in the backward pass, before steps of `size`. What a batch norm and the
    /// operations fused with it gave is not kept, but worked out again when it is first needed, and
    /// so are the residuals that it needs: each once, as it then lives until its last use. Of n
    /// residuals in a row, the newest sqrt(n), which the backward pass needs first, and each
    /// sqrt(n)-th before them are held; the others are forgotten, and worked out once more. The
    /// first ones need none before them.
    /// Source: Chen, Xu, Zhang, Guestrin 2016, "Training deep nets with sublinear memory cost".
    Buffer* value_again(int tensor, Size size) {
        const TrivialVector<int> row = not_yet_again(tensor);  // the newest first
        const int count = static_cast<int>(row.size());
        const bool forgets = count >= least_row_to_forget;
        const int held = forgets ? static_cast<int>(std::sqrt(count)) : count;
        const int first = forgets && shapes_.read_once(row[at(count - 1)]) ? count - 2 : count - 1;
        const auto holds = [&](int i) { return i < held || (i % held == held - 1 && i < first); };
        for (int i = count - 1, since_cut = 1; i >= 0; --i, ++since_cut) {
            work_out_again(row[at(i)], size);
            if (!forgets || i < held - 1 || (!holds(i) && since_cut < 2)) continue;
            writer_.cut();  // lives end there
            since_cut = 0;
        }
        for (int i = 0; i < count; ++i)
            if (!holds(i)) again_[at(row[at(i)])] = nullptr;
        return known_again(tensor);
    }
    /// What value_again() returns, or null if that has to be worked out.
    GX_COLD [[nodiscard]] Buffer* known_again(int tensor) {
        const int writer = shapes_.writer[at(tensor)];
        const Op& op = graph_.ops[at(writer)];
        if (op.kind == OpKind::flatten) return known_again(op.inputs[0]);
        return fusion_.norm_of(writer) == nullptr ? value(tensor) : again_[at(tensor)];
    }
    /// `tensor`, its residual, the residual's residual, ... until one whose value is known.
    GX_COLD [[nodiscard]] TrivialVector<int> not_yet_again(int tensor) {
        TrivialVector<int> row;
        while (tensor >= 0 && known_again(tensor) == nullptr) {
            const Op& op = graph_.ops[at(shapes_.writer[at(tensor)])];
            if (op.kind != OpKind::flatten) row.push_back(tensor);
            tensor = op.kind == OpKind::flatten
                         ? op.inputs[0]
                         : fusion_.group(*fusion_.norm_of(shapes_.writer[at(tensor)])).residual;
        }
        return row;
    }
    /// Of a batch norm's output whose residual is known.
    GX_COLD void work_out_again(int tensor, Size size) {
        const Norm& n = *fusion_.norm_of(shapes_.writer[at(tensor)]);
        const NormGroup& group = fusion_.group(n);
        Buffer* x = value_again(graph_.ops[at(group.begin)].inputs[0], size);
        Buffer* residual = group.residual >= 0 ? known_again(group.residual) : nullptr;
        Buffer* again = again_[at(tensor)] = new_buffer(value(tensor)->image_floats);
        again->use = BufferUse::again;
        writer_.add<NormAgainStep>(size, {}, n, *x, residual, *again);
        for (Buffer* b : {x, residual, again}) writer_.keeps(b);
        if (shapes_.in_fp16) writer_.add<RoundStep>(size, {}, *again, false);
    }
    Buffer* gradient(const Op& op) { return arrived(op.output, 1)[0]; }
    GX_COLD void backward_add(const Op& op) {
        Buffer* g = gradient(op);
        pass(op.inputs[0], g);
        if (!shapes_.needs_gradient[at(op.inputs[1])]) return;
        Buffer* copy = new_buffer(g->image_floats);
        writer_.add<ElementwiseStep>(Size::chunk, {g, copy}, Elementwise::copy, *g, nullptr, *copy);
        pass(op.inputs[1], copy);
    }
    GX_COLD void backward_convolution(int i, const Op& op) {
        Convolution& c = parameters_.convolution(i);
        Buffer* dy = gradient(op);
        c.dy = dy;
        // a large gradient is not added up chunk by chunk: that would cost more than it saves
        const bool heavy = c.weight_floats() > std::int64_t{1} << 17;
        if (heavy && needs(op)) backward_data(c, op, dy);
        const Size size = heavy ? Size::whole : Size::chunk;
        Buffer* x = value_again(op.inputs[0], size);
        c.x_again = x;
        writer_.add<ConvolutionStep>(size, {x, dy}, c, Convolution::Pass::weights);
        c.weight_gradient = writer_.summed_later(op.first_parameter);
        if (op.parameter_count == 2) c.bias_gradient = writer_.summed_later(op.first_parameter + 1);
        if (!heavy && needs(op)) backward_data(c, op, dy);
    }
    [[nodiscard]] bool needs(const Op& op) const {
        return shapes_.needs_gradient[at(op.inputs[0])];
    }
    GX_COLD void backward_data(Convolution& c, const Op& op, Buffer* dy) {
        c.copies_in_passing = copied_ == &c;  // and no other since
        c.dx = new_buffer(shapes_.layouts[at(op.inputs[0])].floats());
        writer_.add<ConvolutionStep>(Size::chunk, {dy, c.dx}, c, Convolution::Pass::data);
        pass(op.inputs[0], stored(c.dx));
    }
    /// Copies large weights for the data gradient, just before the segment that needs them. The
    /// memory of the copy is free again after it.
    GX_COLD void copy_weights_of(int i) {
        const Op& op = graph_.ops[at(i)];
        if (op.kind != OpKind::conv2d || !needs(op)) return;
        Convolution& c = parameters_.convolution(i);
        if (c.weight_floats() < least_passing_floats || c.copies_at_once()) return;
        writer_.add_in_every_lane<CopyWeightsStep>(c);
        copied_ = &c;
    }
    GX_COLD void backward_linear(int i, const Op& op) {
        Linear& l = *linear_of_[at(i)];
        l.dy = gradient(op);
        Buffer* x = value_again(op.inputs[0], Size::whole);
        l.x_again = x;
        if (needs(op)) l.dx = new_buffer(l.inputs);
        writer_.add<LinearGradientStep>(Size::whole, {x, l.dy, l.dx}, l, parts_.gradients);
        l.weight_gradient = writer_.summed_later(op.first_parameter);
        if (op.parameter_count == 2) l.bias_gradient = writer_.summed_later(op.first_parameter + 1);
        if (needs(op)) stored(l.dx, Size::whole);
        if (needs(op)) pass(op.inputs[0], l.dx);
    }
    GX_COLD void backward_pool(int i, const Op& op) {
        Pool& p = *pool_of_[at(i)];
        p.dy = gradient(op), p.dx = new_buffer(p.in.floats());
        Buffer* place = const_cast<Buffer*>(p.place);
        writer_.add<PoolGradientStep>(Size::chunk, {p.dy, p.dx, place}, p);
        pass(op.inputs[0], stored(p.dx));
    }
    GX_COLD void backward_concat(int i, const Op& op) {
        if (concat_of_[at(i)] == nullptr) return;  // joined later
        Concat& c = *concat_of_[at(i)];
        c.dy = gradient(op);
        for (std::size_t k = 0; k < c.parts.size(); ++k)
            if (shapes_.needs_gradient[at(c.tensors[k])])
                c.parts[k].dx = new_buffer(c.parts[k].layout.floats());
        writer_.add<ConcatGradientStep>(Size::chunk, {c.dy}, c);
        for (std::size_t k = 0; k < c.parts.size(); ++k) {
            writer_.uses(c.parts[k].dx);
            pass(c.tensors[k], c.parts[k].dx);
        }
    }
    GX_COLD void backward_norm(Norm& n) {
        const NormGroup& group = fusion_.group(n);
        const Op &begin = graph_.ops[at(group.begin)], &end = graph_.ops[at(group.end)];
        const Gradients& list = arrived(end.output, shapes_.in_fp16 ? 1 : 2);  // its sum is stored
        NormGradient g{list[0], list.size() > 1 ? list[1] : nullptr};
        Buffer* x = g.x = value_again(begin.inputs[0], Size::chunk);
        if (NormGradient::mask(n) == Mask::from_output)
            g.mask_y = value_again(end.output, Size::chunk);
        g.out = group.residual >= 0 ? new_buffer(x->image_floats) : g.first;
        writer_.add<NormGradientSumsStep>(Size::chunk, {g.first, g.second, x, g.mask_y}, n, g);
        writer_.cut();
        copy_weights_of(shapes_.writer[at(begin.inputs[0])]);
        writer_.add<NormGradientApplyStep>(Size::chunk, {g.first, x, g.out}, n, g);
        for (int p = 0; p < 2; ++p)  // written when the segment begins
            writer_.final_now(begin.first_parameter + p);
        pass(begin.inputs[0], stored(g.out));
        if (group.residual >= 0) {
            // `first` goes on as the residual's gradient and may then be changed in place, so the
            // input's gradient must be made before: it is, in this very segment
            pass(group.residual, g.first);
        }
    }

    const Graph& graph_;
    DeviceOptions options_;
    std::span<float> statistics_;
    const Shapes& shapes_;
    const Parameters& parameters_;
    int lanes_;
    Parts& parts_;
    ProgramWriter writer_;
    Fusion fusion_;
    TrivialVector<int> sums_in_;
    TrivialVector<Linear*> linear_of_;
    TrivialVector<Pool*> pool_of_;
    TrivialVector<Buffer*> factors_of_;    // of each dropout
    TrivialVector<Concat*> concat_of_;     // null where another concat joins its parts
    TrivialVector<Buffer*> again_;         // of each tensor; null where not worked out again
    OwnedList<Gradients> gradients_{};     // of each tensor
    bool backward_ = false;                // is planned now
    const Convolution* copied_ = nullptr;  // the newest one whose weights were copied
};

}  // namespace gx::onednn::detail
