// planner: turns a graph into a program: fuses, decides what is kept, cuts it into segments.
#pragma once

#include <algorithm>  // max
#include <deque>      // parts of steps, at fixed addresses
#include <memory>     // unique_ptr
#include <vector>     // lists

#include <gx/onednn/detail/convolution.hpp>  // convolution steps
#include <gx/onednn/detail/elementwise.hpp>  // relu, add, dropout, pack
#include <gx/onednn/detail/linear.hpp>       // linear steps
#include <gx/onednn/detail/loss.hpp>         // loss steps
#include <gx/onednn/detail/norm.hpp>         // batch normalisation
#include <gx/onednn/detail/pooling.hpp>      // pools
#include <gx/onednn/detail/shapes.hpp>       // Shapes, Parameters

namespace gx::onednn::detail {

/// What steps point to.
struct Parts {
    std::deque<Norm> norms{};
    std::deque<Linear> linears{};
    std::deque<Pool> pools{};
    Loss loss{};
    LaneGradients gradients{};
    Buffer* images = nullptr;       ///< points at the batch
    std::vector<Buffer*> values{};  ///< of tensors; null where fused away
    std::vector<int> written_in{};  ///< forward segment that writes a tensor, -1: none
    std::vector<int> blame{};       ///< of each op: the first one of those it is fused with
};

/// Builds the forward and the backward segments of a training step. An evaluation runs the forward
/// segments only.
class Planner {
public:
    Planner(const Graph& graph, DeviceOptions options, std::span<float> statistics,
            const Shapes& shapes, const Parameters& parameters, int lanes, Parts& parts,
            Program& program)
        : graph_(graph),
          options_(options),
          statistics_(statistics),
          shapes_(shapes),
          parameters_(parameters),
          lanes_(lanes),
          parts_(parts),
          program_(program),
          norm_of_(graph.ops.size(), nullptr),
          sums_in_(graph.ops.size(), -1),
          linear_of_(graph.ops.size(), nullptr),
          pool_of_(graph.ops.size(), nullptr),
          factors_of_(graph.ops.size(), nullptr),
          gradients_(graph.tensors.size()),
          finished_(graph.parameters.size(), -1) {
        parts_.values.assign(graph.tensors.size(), nullptr);
        parts_.written_in.assign(graph.tensors.size(), -1);
        for (int i = 0; i < static_cast<int>(graph.ops.size()); ++i) parts_.blame.push_back(i);
        find_norms();
        plan_forward();
        forward_segments_ = static_cast<int>(program_.forward.size());
        plan_backward();
        set_watermarks();
    }

private:
    enum class Size : unsigned char { chunk, whole };
    using Segments = std::vector<Segment>;

    // ---- segments ---------------------------------------------------------------------
    [[nodiscard]] Segments& now() { return backward_ ? program_.backward : program_.forward; }
    [[nodiscard]] int time() {
        return (backward_ ? forward_segments_ : 0) + static_cast<int>(now().size()) - 1;
    }
    void cut() { cut_ = true; }
    void open(Size size) {
        const bool whole = size == Size::whole;
        if (!now().empty() && !cut_ && now().back().whole == whole) return;
        flush();
        now().push_back({});
        now().back().whole = whole;
        cut_ = false;
    }
    /// The lanes' weight gradients that are complete now are added in a segment of their own.
    void flush() {
        if (pending_.empty()) return;
        now().push_back({});
        Segment& sum = now().back();
        sum.every_lane = true;
        for (const int p : pending_) {
            const ParameterSlice& s = parameters_.slices()[at(p)];
            if (lanes_ > 1) {
                program_.steps.push_back(std::make_unique<AddLanesStep>(
                    parts_.gradients, s.offset, static_cast<std::int64_t>(s.count)));
                sum.steps.push_back(program_.steps.back().get());
            }
            finished_[at(p)] = static_cast<int>(now().size()) - 1;
        }
        pending_.clear();
        cut_ = true;
    }
    template <class S, class... A>
    void add(Size size, std::initializer_list<Buffer*> uses, A&&... arguments) {
        open(size);
        program_.steps.push_back(std::make_unique<S>(std::forward<A>(arguments)...));
        now().back().steps.push_back(program_.steps.back().get());
        for (Buffer* b : uses) use(b);
    }
    void use(Buffer* b) {
        if (b == nullptr) return;
        if (b->last != time()) now().back().image_floats += b->image_floats;
        if (b->first < 0) b->first = time();
        b->last = time();
    }
    Buffer* buffer(std::int64_t image_floats) {
        program_.buffers.push_back(std::make_unique<Buffer>());
        program_.buffers.back()->image_floats = image_floats;
        return program_.buffers.back().get();
    }
    Buffer* value(int tensor) { return parts_.values[at(tensor)]; }
    Buffer* new_value(int tensor) {
        return parts_.values[at(tensor)] = buffer(shapes_.layouts[at(tensor)].floats());
    }
    void written(int tensor) { parts_.written_in[at(tensor)] = static_cast<int>(now().size()) - 1; }
    /// The input's own memory where nobody else reads it.
    Buffer* in_place(const Op& op) {
        const int in = op.inputs[0];
        return owned(in) ? parts_.values[at(op.output)] = value(in) : new_value(op.output);
    }

    /// Nobody but the one reader of `tensor` reads its memory.
    [[nodiscard]] bool owned(int tensor) {
        const Op& op = graph_.ops[at(shapes_.writer[at(tensor)])];
        if (!shapes_.read_once(tensor) || value(tensor) == parts_.images) return false;
        return op.kind != OpKind::flatten || owned(op.inputs[0]);
    }

    // ---- fusion -----------------------------------------------------------------------
    [[nodiscard]] int only_reader(int tensor, OpKind kind) const {
        if (!shapes_.read_once(tensor)) return -1;
        const int r = shapes_.readers[at(tensor)][0];
        return graph_.ops[at(r)].kind == kind ? r : -1;
    }
    /// A batch norm takes along an add and a ReLU that nobody else needs the input of.
    void find_norms() {
        for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
            const Op& op = graph_.ops[i];
            if (op.kind != OpKind::batch_norm) continue;
            parts_.norms.emplace_back();
            norm_of_[i] = &parts_.norms.back();
            int end = static_cast<int>(i);
            const int sum = only_reader(op.output, OpKind::add);
            if (sum >= 0 && norm_of_[at(sum)] == nullptr) end = sum;
            const int relu = only_reader(graph_.ops[at(end)].output, OpKind::relu);
            if (relu >= 0) end = relu, norm_of_[i]->relu = true;
            if (sum >= 0 && norm_of_[at(sum)] == nullptr) {
                norm_of_[at(sum)] = norm_of_[i];
                const auto& in = graph_.ops[at(sum)].inputs;
                residual_of_.push_back(in[0] == op.output ? in[1] : in[0]);
            } else {
                residual_of_.push_back(-1);
            }
            norm_of_[at(end)] = norm_of_[i];
            parts_.blame[at(end)] = static_cast<int>(i);
            begin_of_.push_back(static_cast<int>(i));
            end_of_.push_back(end);
        }
    }
    [[nodiscard]] std::size_t number(const Norm* n) const {
        std::size_t i = 0;
        while (&parts_.norms[i] != n) ++i;
        return i;
    }

    // ---- forward ----------------------------------------------------------------------
    void plan_forward() {
        for (int i = 0; i < static_cast<int>(graph_.ops.size()); ++i) {
            const Op& op = graph_.ops[at(i)];
            if (op.kind == OpKind::batch_norm) begin_norm(i, op);
            if (Norm* n = norm_of_[at(i)]) {
                if (end_of_[number(n)] == i) end_norm(i, *n);
                continue;
            }
            forward_op(i, op);
        }
    }
    void forward_op(int i, const Op& op) {
        switch (op.kind) {
            case OpKind::input:
                return forward_input(op);
            case OpKind::conv2d:
                return forward_convolution(i, op);
            case OpKind::linear:
                return forward_linear(i, op);
            case OpKind::max_pool:
            case OpKind::avg_pool:
                return forward_pool(i, op);
            case OpKind::relu: {
                Buffer *x = value(op.inputs[0]), *y = in_place(op);
                add<ElementwiseStep>(Size::chunk, {x, y}, Elementwise::relu, *x, nullptr, *y);
                return written(op.output);
            }
            case OpKind::add: {
                Buffer *a = value(op.inputs[0]), *b = value(op.inputs[1]),
                       *y = new_value(op.output);
                add<ElementwiseStep>(Size::chunk, {a, b, y}, Elementwise::add, *a, b, *y);
                return written(op.output);
            }
            case OpKind::flatten:
                parts_.values[at(op.output)] = value(op.inputs[0]);
                return;
            case OpKind::dropout:
                return forward_dropout(i, op);
            case OpKind::softmax_cross_entropy:
                return forward_loss(op);
            case OpKind::batch_norm:
                return;
        }
    }
    void forward_input(const Op& op) {
        parts_.images = buffer(graph_.input.elements());
        parts_.values[at(op.output)] = parts_.images;
        if (!shapes_.packs_input) return;
        Buffer* blocked = new_value(op.output);
        add<PackStep>(Size::chunk, {parts_.images, blocked}, *parts_.images, *blocked,
                      shapes_.layouts[at(op.output)]);
        written(op.output);
    }
    void forward_convolution(int i, const Op& op) {
        Convolution& c = parameters_.convolution(i);
        Buffer *x = value(op.inputs[0]), *y = new_value(op.output);
        c.x = x, c.y = y, c.gradients = &parts_.gradients;
        c.weight = parameters_.data(op.first_parameter);
        c.weight_offset = parameters_.offset(op.first_parameter);
        if (op.parameter_count == 2) {
            c.bias = parameters_.data(op.first_parameter + 1);
            c.bias_offset = parameters_.offset(op.first_parameter + 1);
        }
        add<ConvolutionStep>(Size::chunk, {x, y}, c);
        written(op.output);
    }
    void forward_linear(int i, const Op& op) {
        parts_.linears.emplace_back();
        Linear& l = parts_.linears.back();
        linear_of_[at(i)] = &l;
        Buffer *x = value(op.inputs[0]), *y = new_value(op.output);
        l.inputs = x->image_floats, l.outputs = shapes_.layouts[at(op.output)].channels();
        l.x = x, l.y = y;
        l.weight = parameters_.data(op.first_parameter),
        l.weight_offset = parameters_.offset(op.first_parameter);
        if (op.parameter_count == 2) {
            l.bias = parameters_.data(op.first_parameter + 1);
            l.bias_offset = parameters_.offset(op.first_parameter + 1);
        }
        add<LinearForwardStep>(Size::whole, {x, y}, l);
        written(op.output);
    }
    void forward_pool(int i, const Op& op) {
        parts_.pools.emplace_back();
        Pool& p = parts_.pools.back();
        pool_of_[at(i)] = &p;
        Buffer *x = value(op.inputs[0]), *y = new_value(op.output), *place = nullptr;
        p.largest = op.kind == OpKind::max_pool, p.window = op.window;
        p.in = shapes_.layouts[at(op.inputs[0])], p.out = shapes_.layouts[at(op.output)];
        if (p.largest) place = buffer(p.out.floats());
        p.x = x, p.y = y, p.place = place;
        add<PoolStep>(Size::chunk, {x, y, place}, p);
        written(op.output);
    }
    void forward_dropout(int i, const Op& op) {
        Buffer *x = value(op.inputs[0]), *y = in_place(op);
        Buffer* factors = buffer(shapes_.layouts[at(op.output)].floats());
        factors_of_[at(i)] = factors;
        const Rng rng =
            Rng(options_.seed, op.name.view()).at(static_cast<std::uint64_t>(options_.rank));
        add<DropoutStep>(Size::chunk, {x, y, factors}, *x, *y, *factors,
                         shapes_.layouts[at(op.output)], op.rate, rng);
        written(op.output);
    }
    void forward_loss(const Op& op) {
        Loss& l = parts_.loss;
        l.layout = shapes_.layouts[at(op.inputs[0])], l.classes = graph_.classes,
        l.smoothing = op.rate;
        l.logits = value(op.inputs[0]);
        l.losses.assign(at(options_.batch), 0.0), l.hits.assign(at(options_.batch), 0);
        add<LossStep>(Size::whole, {value(op.inputs[0])}, l);
    }
    void begin_norm(int i, const Op& op) {
        Norm& n = *norm_of_[at(i)];
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
        add<NormSumsStep>(Size::chunk, {value(op.inputs[0])}, n);
        sums_in_[at(i)] = time();
    }
    void end_norm(int end, Norm& n) {
        const std::size_t k = number(&n);
        const int begin = begin_of_[k];
        Buffer* x = value(graph_.ops[at(begin)].inputs[0]);
        Buffer* residual = residual_of_[k] >= 0 ? value(residual_of_[k]) : nullptr;
        Buffer* y = new_value(graph_.ops[at(end)].output);
        n.residual = residual, n.y = y;
        if (sums_in_[at(begin)] == time()) cut();
        add<NormApplyStep>(Size::chunk, {x, residual, y}, n);
        written(graph_.ops[at(end)].output);
    }

    // ---- backward ---------------------------------------------------------------------
    void plan_backward() {
        backward_ = true;
        cut();
        for (int i = static_cast<int>(graph_.ops.size()) - 1; i >= 0; --i) {
            const Op& op = graph_.ops[at(i)];
            if (op.kind != OpKind::softmax_cross_entropy && !shapes_.needs_gradient[at(op.output)])
                continue;
            if (Norm* n = norm_of_[at(i)]) {
                if (end_of_[number(n)] == i) backward_norm(*n);
                continue;
            }
            backward_op(i, op);
        }
        flush();
    }
    void backward_op(int i, const Op& op) {
        switch (op.kind) {
            case OpKind::conv2d:
                return backward_convolution(i, op);
            case OpKind::linear:
                return backward_linear(i, op);
            case OpKind::max_pool:
            case OpKind::avg_pool:
                return backward_pool(i, op);
            case OpKind::relu: {
                Buffer *g = gradient(op), *y = value(op.output);
                add<ElementwiseStep>(Size::chunk, {g, y}, Elementwise::relu_mask, *g, y, *g);
                return pass(op.inputs[0], g);
            }
            case OpKind::add:
                return backward_add(op);
            case OpKind::flatten:
                for (Buffer* g : gradients_[at(op.output)]) pass(op.inputs[0], g);
                return;
            case OpKind::dropout: {
                Buffer *g = gradient(op), *factors = factors_of_[at(i)];
                add<DropoutGradientStep>(Size::chunk, {g, factors}, *g, *factors);
                return pass(op.inputs[0], g);
            }
            case OpKind::softmax_cross_entropy: {
                Buffer* g = buffer(parts_.loss.layout.floats());
                parts_.loss.gradient = g;
                add<LossGradientStep>(Size::whole, {value(op.inputs[0]), g}, parts_.loss);
                return pass(op.inputs[0], g);
            }
            case OpKind::batch_norm:
            case OpKind::input:
                return;
        }
    }
    void pass(int tensor, Buffer* g) {
        if (shapes_.needs_gradient[at(tensor)]) gradients_[at(tensor)].push_back(g);
    }
    /// The gradients that arrived at a tensor, added until `most` are left; each is its reader's
    /// own.
    std::vector<Buffer*>& arrived(int tensor, std::size_t most) {
        auto& list = gradients_[at(tensor)];
        if (list.empty()) {
            const Op& op = graph_.ops[at(shapes_.writer[at(tensor)])];
            throw Error("gx::onednn: nothing reads the output of " +
                        std::string(to_string(op.kind)) + " '" + std::string(op.name.view()) +
                        "': remove the operation, or use its output");
        }
        while (list.size() > most) {
            Buffer* extra = list.back();
            list.pop_back();
            add<ElementwiseStep>(Size::chunk, {list[0], extra}, Elementwise::add, *list[0], extra,
                                 *list[0]);
        }
        return list;
    }
    Buffer* gradient(const Op& op) { return arrived(op.output, 1)[0]; }
    void backward_add(const Op& op) {
        Buffer* g = gradient(op);
        pass(op.inputs[0], g);
        if (!shapes_.needs_gradient[at(op.inputs[1])]) return;
        Buffer* copy = buffer(g->image_floats);
        add<ElementwiseStep>(Size::chunk, {g, copy}, Elementwise::copy, *g, nullptr, *copy);
        pass(op.inputs[1], copy);
    }
    void backward_convolution(int i, const Op& op) {
        Convolution& c = parameters_.convolution(i);
        Buffer *x = value(op.inputs[0]), *dy = gradient(op);
        c.dy = dy;
        // a large gradient is not added up chunk by chunk: that would cost more than it saves
        const bool heavy = c.weight_floats() > std::int64_t{1} << 17;
        if (heavy && needs(op)) backward_data(c, op, dy);
        add<ConvolutionWeightsStep>(heavy ? Size::whole : Size::chunk, {x, dy}, c);
        for (int k = 0; k < op.parameter_count; ++k) pending_.push_back(op.first_parameter + k);
        if (!heavy && needs(op)) backward_data(c, op, dy);
    }
    [[nodiscard]] bool needs(const Op& op) const {
        return shapes_.needs_gradient[at(op.inputs[0])];
    }
    void backward_data(Convolution& c, const Op& op, Buffer* dy) {
        c.dx = buffer(shapes_.layouts[at(op.inputs[0])].floats());
        add<ConvolutionDataStep>(Size::chunk, {dy, c.dx}, c);
        pass(op.inputs[0], c.dx);
    }
    void backward_linear(int i, const Op& op) {
        Linear& l = *linear_of_[at(i)];
        Buffer* x = value(op.inputs[0]);
        l.dy = gradient(op);
        if (needs(op)) l.dx = buffer(l.inputs);
        add<LinearGradientStep>(Size::whole, {x, l.dy, l.dx}, l, parts_.gradients);
        for (int k = 0; k < op.parameter_count; ++k) pending_.push_back(op.first_parameter + k);
        if (needs(op)) pass(op.inputs[0], l.dx);
    }
    void backward_pool(int i, const Op& op) {
        Pool& p = *pool_of_[at(i)];
        p.dy = gradient(op), p.dx = buffer(p.in.floats());
        Buffer* place = const_cast<Buffer*>(p.place);
        add<PoolGradientStep>(Size::chunk, {p.dy, p.dx, place}, p);
        pass(op.inputs[0], p.dx);
    }
    void backward_norm(Norm& n) {
        const std::size_t k = number(&n);
        const Op &begin = graph_.ops[at(begin_of_[k])], &end = graph_.ops[at(end_of_[k])];
        const auto list = arrived(end.output, 2);
        Buffer *x = value(begin.inputs[0]), *y = value(end.output);
        NormGradient g{list[0], list.size() > 1 ? list[1] : nullptr, nullptr};
        g.out = residual_of_[k] >= 0 ? buffer(x->image_floats) : g.first;
        Buffer* mask = NormGradient::mask(n) == Mask::from_output ? y : nullptr;
        add<NormGradientSumsStep>(Size::chunk, {g.first, g.second, x, mask}, n, g);
        cut();
        add<NormGradientApplyStep>(Size::chunk, {g.first, x, g.out}, n, g);
        for (int p = 0; p < 2; ++p)  // written when the segment begins
            finished_[at(begin.first_parameter + p)] = static_cast<int>(now().size()) - 1;
        pass(begin.inputs[0], g.out);
        if (residual_of_[k] >= 0) {
            // `first` goes on as the residual's gradient and may then be changed in place, so the
            // input's gradient must be made before: it is, in this very segment
            pass(residual_of_[k], g.first);
        }
    }

    /// After which segment the gradients from an offset to the end are all final.
    void set_watermarks() {
        std::size_t offset = parameters_.total();
        std::vector<std::size_t> final_from(program_.backward.size(), offset);
        int latest = 0;
        for (std::size_t p = finished_.size(); p-- > 0;) {
            latest = std::max(latest, finished_[p]);
            if (!program_.backward.empty())
                final_from[at(latest)] = parameters_.offset(static_cast<int>(p));
        }
        for (std::size_t s = 0; s < final_from.size(); ++s) {
            Segment& segment = program_.backward[s];
            segment.moves_watermark = final_from[s] < offset;
            offset = std::min(offset, final_from[s]);
            segment.watermark = offset;
        }
    }

    const Graph& graph_;
    DeviceOptions options_;
    std::span<float> statistics_;
    const Shapes& shapes_;
    const Parameters& parameters_;
    int lanes_;
    Parts& parts_;
    Program& program_;
    std::vector<Norm*> norm_of_;  // of a batch norm and of the ops it takes along
    std::vector<int> sums_in_;
    std::vector<Linear*> linear_of_;
    std::vector<Pool*> pool_of_;
    std::vector<int> begin_of_{}, end_of_{}, residual_of_{};  // of each norm: ops, and a tensor
    std::vector<Buffer*> factors_of_;                         // of each dropout
    std::vector<std::vector<Buffer*>> gradients_;
    std::vector<int> finished_;  // backward segment after which a parameter's gradient is final
    std::vector<int> pending_{};
    int forward_segments_ = 0;
    bool backward_ = false, cut_ = false;
};

}  // namespace gx::onednn::detail
