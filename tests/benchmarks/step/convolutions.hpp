// convolutions: those of a training step alone, each by oneDNN's quickest kernel: what no step that
// is built on them can pass.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include <gx/core/element.hpp>               // ElementType
#include <gx/model/graph.hpp>                // Graph
#include <gx/onednn/detail/convolution.hpp>  // Convolution
#include <gx/onednn/detail/team.hpp>         // run_team

#include "clock.hpp"  // now, median

namespace gx::bench {

/// All convolutions of a graph, over a whole batch of which each thread takes a share: forward,
/// data and weight gradients, each direct or by Winograd, whichever is quicker here.
class Convolutions {
    using Convolution = onednn::detail::Convolution;
    using Pass = Convolution::Pass;

public:
    Convolutions(const Graph& graph, int batch, ElementType type, int threads)
        : batch_(batch), threads_(threads), lanes_(threads) {
        for (const Op& op : graph.ops) {
            if (op.kind != OpKind::conv2d) continue;
            const bool first = op.inputs[0] == 0;
            const ImageShape in = graph.tensors[std::size_t(op.inputs[0])],
                             out = graph.tensors[std::size_t(op.output)];
            const auto same = std::ranges::find_if(layers_, [&](const auto& l) {
                return l->in == in && l->out == out && l->window == op.window;
            });
            if (same != layers_.end()) ++(*same)->times;
            else
                layers_.push_back(std::make_unique<Layer>(in, out, op, first, batch, type, lanes_));
        }
        reserve();
        for (auto& layer : layers_)
            for (auto& [pass, kernels] : layer->passes) choose(pass, kernels);
    }
    /// Seconds of those of one step.
    double step() {
        double sum = 0;
        for (auto& layer : layers_)
            for (auto& [pass, kernels] : layer->passes)
                sum += layer->times * seconds(pass, *kernels.front());
        return sum;
    }

private:
    using Layout = onednn::detail::Layout;
    using Kernels = std::vector<std::unique_ptr<Convolution>>;  // the chosen one first
    struct Layer {
        ImageShape in, out;
        Window window;
        int times = 1;
        onednn::detail::Buffer x, y;
        std::vector<std::pair<Pass, Kernels>> passes;

        Layer(ImageShape i, ImageShape o, const Op& op, bool first, int batch, ElementType type,
              onednn::detail::Lanes& lanes)
            : in(i), out(o), window(op.window) {
            Convolution::Shape shape{.in = {i, first ? 1 : onednn::detail::cpu_block()},
                                     .out = {o, onednn::detail::cpu_block()},
                                     .window = op.window,
                                     .groups = op.groups,
                                     .type = type};
            x.image_floats = shape.in.floats(), y.image_floats = shape.out.floats();
            x.type = y.type = type;
            for (const Pass pass : {Pass::forward, Pass::data, Pass::weights}) {
                if (first && pass == Pass::data) continue;
                Kernels kernels;
                for (const bool winograd : {false, true}) {
                    shape.winograd = winograd;
                    const bool can =
                        type == ElementType::fp32 && !first && op.window == Window::square(3, 1, 1);
                    if (winograd && !can) continue;
                    kernels.push_back(std::make_unique<Convolution>(shape, batch, lanes));
                }
                passes.emplace_back(pass, std::move(kernels));
            }
        }
    };
    void reserve() {
        std::int64_t most = 0, weights = 0;
        for (const auto& l : layers_) {
            most = std::max({most, l->x.image_bytes(), l->y.image_bytes()});
            weights = std::max(weights, l->passes.front().second.front()->weight_floats());
        }
        x_ = onednn::detail::Memory(most * batch_ / 4 + 1);
        y_ = onednn::detail::Memory(most * batch_ / 4 + 1);
        weights_ = onednn::detail::Memory(weights);
        gradients_ = onednn::detail::Memory(weights);
        sums_.allocate(threads_, weights);
        run_.gradients = gradients_.span();
        for (auto& l : layers_) {
            l->x.data = x_.data(), l->y.data = y_.data();
            for (auto& [pass, kernels] : l->passes)
                for (auto& c : kernels) {
                    c->x = &l->x, c->y = &l->y, c->dx = &l->x, c->dy = &l->y;
                    c->weight = weights_.data(), c->gradients = &sums_;
                    for (int lane = 0; lane < threads_; ++lane) c->plan(pass, share(lane).count);
                    c->refresh(0);
                }
        }
    }
    void choose(Pass pass, Kernels& kernels) {
        if (kernels.size() < 2) return;
        std::vector<double> taken[2];
        for (int turn = 0; turn < 4; ++turn)
            for (const std::size_t k : {0u, 1u}) taken[k].push_back(seconds(pass, *kernels[k]));
        if (median(taken[1]) < median(taken[0])) std::swap(kernels[0], kernels[1]);
    }
    double seconds(Pass pass, Convolution& c) {
        const double begin = now();
        onednn::detail::run_team(threads_, [&](int lane) {
            if (pass == Pass::forward) c.run_forward(share(lane));
            if (pass == Pass::data) c.run_data(share(lane));
            if (pass == Pass::weights) c.run_weights(run_, share(lane));
        });
        return now() - begin;
    }
    [[nodiscard]] onednn::detail::Place share(int lane) const {
        const int first = onednn::detail::share_begin(batch_, threads_, lane);
        const int end = onednn::detail::share_begin(batch_, threads_, lane + 1);
        return {.lane = lane, .first = first, .count = end - first, .opens = true};
    }

    int batch_, threads_;
    onednn::detail::Lanes lanes_;
    std::vector<std::unique_ptr<Layer>> layers_{};
    onednn::detail::Memory x_{}, y_{}, weights_{}, gradients_{};
    onednn::detail::LaneGradients sums_{};
    onednn::detail::Run run_{};
};

}  // namespace gx::bench
