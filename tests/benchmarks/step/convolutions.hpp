// convolutions: those of a training step alone, each as fast as its kernels run here: what no step
// that is built on them can pass.
#pragma once

#include <time.h>

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include <gx/core/element.hpp>               // ElementType, bf16
#include <gx/core/rng.hpp>                   // values
#include <gx/model/graph.hpp>                // Graph
#include <gx/onednn/detail/convolution.hpp>  // Convolution
#include <gx/onednn/detail/team.hpp>         // run_team, OneOpenMpThread

#include "clock.hpp"  // now

namespace gx::bench {

/// All convolutions of a graph: forward, data and weight gradients. Each thread takes a share of
/// the batch and walks it in chunks, as onednn::Device does, but every chunk lies where the one
/// before lay: in the cache, as if the step before had just written it. Each pass of each shape
/// runs in the way that took the least processor time when it was built: direct or by Winograd, in
/// blocks of channels or, in bf16, channels last, in chunks of 1, 2, 4, ... images or the whole
/// share.
/// Neighbouring passes may thus have different layouts and chunks, which no step can have for free.
class Convolutions {
    using Convolution = onednn::detail::Convolution;
    using Pass = Convolution::Pass;

public:
    Convolutions(const Graph& graph, int batch, ElementType type, int threads)
        : batch_(batch), threads_(threads), lanes_(threads) {
        const onednn::detail::OneOpenMpThread alone;  // a plan for more would start them in a call
        for (const Op& op : graph.ops) {
            if (op.kind != OpKind::conv2d) continue;
            const bool first = op.inputs[0] == 0;
            const ImageShape in = graph.tensors[std::size_t(op.inputs[0])],
                             out = graph.tensors[std::size_t(op.output)];
            const auto same = std::ranges::find_if(layers_, [&](const auto& l) {
                return l->in == in && l->out == out && l->op.window == op.window &&
                       l->op.groups == op.groups;
            });
            if (same != layers_.end()) ++(*same)->times;
            else layers_.push_back(std::make_unique<Layer>(Layer{in, out, op, first, type}));
        }
        allocate();
        for (auto& layer : layers_)
            for (const Pass pass : {Pass::forward, Pass::data, Pass::weights})
                if (pass != Pass::data || !layer->first) choose(*layer, pass);
    }
    Convolutions(const Convolutions&) = delete;
    Convolutions& operator=(const Convolutions&) = delete;

    /// Seconds of those of one step, by `clock`.
    double step(double (*clock)() = now) {
        double sum = 0;
        for (const auto& layer : layers_)
            for (auto& way : layer->chosen) {
                const double begin = clock();
                run(*way);
                sum += layer->times * (clock() - begin);
            }
        return sum;
    }

private:
    using Layout = onednn::detail::Layout;
    /// One way to run a pass of a layer. `in`, `out`: the images read and those written.
    struct Way {
        Pass pass;
        int chunk;
        onednn::detail::Buffer x{}, dy{}, out{};
        std::unique_ptr<Convolution> convolution{};
    };
    struct Layer {
        ImageShape in, out;
        Op op;
        bool first;
        ElementType type;
        int times = 1;
        std::vector<std::unique_ptr<Way>> chosen{};  // one a pass
    };

    [[nodiscard]] static Layout layout(ImageShape shape, bool image, bool last) {
        return {shape, image ? 1 : onednn::detail::cpu_block(), last};
    }
    /// Values between 1/64 and 1/32, of either sign: products and sums are normal numbers.
    static void fill(onednn::detail::Memory& memory, ElementType type) {
        const Rng random(1, "convolutions");
        std::array<float, 4099> values{};  // a prime: no channel has always the same
        for (std::size_t i = 0; i < values.size(); ++i)
            values[i] = (1 + random.uniform(2 * i)) / (random.uniform(2 * i + 1) < 0.5f ? 64 : -64);
        const std::span<float> all = memory.span();
        auto* halves = reinterpret_cast<onednn::detail::Bf16*>(all.data());
        if (type == ElementType::fp32)
            for (std::size_t i = 0; i < all.size(); ++i) all[i] = values[i % values.size()];
        else
            for (std::size_t i = 0; i < 2 * all.size(); ++i)
                halves[i] = bf16::encode(values[i % values.size()]);
    }
    void allocate() {
        std::int64_t bytes = 0;
        for (const auto& l : layers_)
            for (const ImageShape& s : {l->in, l->out})
                bytes = std::max(
                    bytes, layout(s, false, false).floats() * onednn::detail::bytes_of(l->type));
        for (auto* memory : {&x_, &dy_, &out_}) {
            *memory = onednn::detail::Memory(bytes * batch_ / 4 + 16);
            fill(*memory, layers_.front()->type);
        }
    }
    /// The weights of all ways, once the largest is known; they hold no zeros or denormals.
    void make_room_for_weights(std::int64_t floats) {
        if (weights_.size() >= floats) return;
        weights_ = onednn::detail::Memory(floats), gradients_ = onednn::detail::Memory(floats);
        fill(weights_, ElementType::fp32);
        sums_ = std::make_unique<onednn::detail::LaneGradients>();
        sums_->allocate(threads_, floats);
        run_.gradients = gradients_.span();
    }
    [[nodiscard]] std::unique_ptr<Way> way(const Layer& l, Pass pass, int chunk, bool last,
                                           bool winograd) {
        const Convolution::Shape shape{.in = layout(l.in, l.first, last),
                                       .out = layout(l.out, false, last),
                                       .window = l.op.window,
                                       .groups = l.op.groups,
                                       .winograd = winograd,
                                       .type = l.type};
        auto made = std::make_unique<Way>(Way{.pass = pass, .chunk = chunk});
        made->convolution = std::make_unique<Convolution>(shape, chunk, lanes_);
        Convolution& c = *made->convolution;
        made->x.image_floats = shape.in.floats(), made->dy.image_floats = shape.out.floats();
        made->out.image_floats = pass == Pass::forward ? shape.out.floats() : shape.in.floats();
        made->x.data = x_.data(), made->dy.data = dy_.data(), made->out.data = out_.data();
        for (auto* b : {&made->x, &made->dy, &made->out}) b->type = l.type;
        c.x = c.x_again = &made->x, c.dy = &made->dy, c.y = c.dx = &made->out;
        make_room_for_weights(c.weight_floats());
        c.weight = weights_.data();
        for (int lane = 0; lane < threads_; ++lane)
            each_chunk(*made, lane, [&](const auto& at) { c.plan(pass, at.count); });
        lanes_.reserve_spare_scratch(lanes_.segment_floats);
        for (int lane = 0; lane < threads_; ++lane)
            lanes_.use_segment_scratch(lane, nullptr, lanes_.segment_floats);
        c.refresh(0);
        return made;
    }
    /// Times every way, then the quickest ones again, and keeps the quickest.
    void choose(Layer& layer, Pass pass) {
        const bool winograd = layer.type == ElementType::fp32 && !layer.first &&
                              layer.op.window == Window::square(3, 1, 1) && layer.op.groups == 1;
        std::vector<std::pair<double, std::unique_ptr<Way>>> ways;
        const int share = (batch_ + threads_ - 1) / threads_;
        for (const bool last : {false, true})  // in fp32 oneDNN 2.6 has slow kernels for the latter
            for (int w = 0; w <= int(winograd) && (!last || layer.type == ElementType::bf16); ++w)
                for (int chunk = 1;; chunk = std::min(2 * chunk, share)) {
                    auto made = way(layer, pass, chunk, last, w == 1);
                    const double once = processor_seconds(*made);
                    ways.emplace_back(once, std::move(made));
                    if (chunk >= share) break;
                }
        const auto quicker = [](const auto& a, const auto& b) { return a.first < b.first; };
        for (const std::size_t kept : {std::size_t{4}, std::size_t{2}, std::size_t{1}}) {
            std::ranges::sort(ways, quicker);
            ways.resize(std::min(ways.size(), kept));
            if (kept > 1)
                for (auto& [seconds, w] : ways)
                    for (int turn = 0; turn < 2; ++turn)
                        seconds = std::min(seconds, processor_seconds(*w));
        }
        layer.chosen.push_back(std::move(ways.front().second));
    }
    template <class F>
    void each_chunk(const Way& way, int lane, F f) const {
        const int first = onednn::detail::share_begin(batch_, threads_, lane);
        const int images = onednn::detail::share_begin(batch_, threads_, lane + 1) - first;
        const int chunks = (images + way.chunk - 1) / way.chunk;
        for (int c = 0; c < chunks; ++c) {
            const int count = onednn::detail::share_begin(images, chunks, c + 1) -
                              onednn::detail::share_begin(images, chunks, c);
            f(onednn::detail::Place{.lane = lane, .first = first, .count = count, .opens = c == 0});
        }
    }
    void run_chunk(Way& way, const onednn::detail::Place& at) {
        Convolution& c = *way.convolution;
        c.weight = weights_.data(), c.gradients = sums_.get();
        if (way.pass == Pass::forward) c.run_forward(at);
        if (way.pass == Pass::data) c.run_data(at);
        if (way.pass == Pass::weights) c.run_weights(run_, at);
    }
    void run_lane(Way& way, int lane) {
        each_chunk(way, lane, [&](const onednn::detail::Place& at) { run_chunk(way, at); });
    }
    void run(Way& way) {
        onednn::detail::run_team(threads_, [&](int lane) { run_lane(way, lane); });
    }
    /// Of the threads together, which neighbours do not lengthen; a chunk before it warms up.
    double processor_seconds(Way& way) {
        std::vector<double> taken(std::size_t(threads_), 0.0);
        onednn::detail::run_team(threads_, [&](int lane) {
            each_chunk(way, lane, [&](const onednn::detail::Place& at) {
                if (at.opens) run_chunk(way, at);
            });
            const double begin = thread_seconds();
            run_lane(way, lane);
            taken[std::size_t(lane)] = thread_seconds() - begin;
        });
        return std::accumulate(taken.begin(), taken.end(), 0.0);
    }
    static double thread_seconds() {
        timespec t{};
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
    }

    int batch_, threads_;
    onednn::detail::Lanes lanes_;
    std::vector<std::unique_ptr<Layer>> layers_{};
    onednn::detail::Memory x_{}, dy_{}, out_{}, weights_{}, gradients_{};
    std::unique_ptr<onednn::detail::LaneGradients> sums_{};
    onednn::detail::Run run_{};
};

}  // namespace gx::bench
