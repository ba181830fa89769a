// ModelWork: a network's shape in time: when gradients are ready, and what a batch costs.
#pragma once

#include <algorithm>    // max, min
#include <cmath>        // sqrt
#include <memory>       // shared graphs
#include <string>       // names
#include <string_view>  // names
#include <vector>       // curve

#include <gx/model/graph.hpp>              // Graph
#include <gx/sim/find_model.hpp>           // models
#include <gx/sim/predict/conditions.hpp>   // Conditions
#include <gx/sim/predict/outlines.hpp>     // outline_of, millions_in
#include <gx/sim/roofline.hpp>             // TimedGraph
#include <gx/sim/step_time.hpp>            // step_work

namespace gx::sim::predict {

/// From the graph where the model is known; else gradients come evenly and time goes by batch.
struct ModelWork {
    struct Ready {
        double backward = 0, bytes = 0;  ///< shares of the whole, both growing
    };
    std::string name{};             ///< of the graph; empty: none known
    double forward_share = 1.0 / 3; ///< of a step's computation
    double largest_tensor = 0.05;   ///< share of the gradient
    double gradient_mb_fp32 = 0;
    double flops = 0;               ///< of a sample, forward and backward
    std::vector<Ready> ready{{1, 1}};
    std::shared_ptr<const Graph> graph{};
    /// On its GPU. Launches do not count: the host queues kernels ahead of those that run. (Fitted
    /// as a share of them, none was left.)
    std::shared_ptr<const TimedGraph> timed{};

    /// The share of the gradient's bytes that is final after such a share of backward.
    [[nodiscard]] double bytes_at(double backward) const {
        Ready last{};
        for (const Ready& r : ready) {
            if (r.backward > backward) {
                if (graph) return last.bytes;  // a gradient comes whole
                return last.bytes + (r.bytes - last.bytes) * (backward - last.backward) /
                                        (r.backward - last.backward);
            }
            last = r;
        }
        return 1;
    }
    /// The share of backward after which so many bytes are final.
    [[nodiscard]] double backward_at(double bytes) const {
        Ready last{};
        for (const Ready& r : ready) {
            if (r.bytes >= bytes - 1e-9 && r.bytes > last.bytes)
                return graph ? r.backward
                             : last.backward + (r.backward - last.backward) *
                                                   (bytes - last.bytes) / (r.bytes - last.bytes);
            last = r;
        }
        return 1;
    }
    /// Time at one batch over time at another.
    [[nodiscard]] double time_ratio(double batch, double base) const {
        if (batch == base) return 1;
        if (!timed) return batch / base;
        const auto at = [&](double b) {
            return seconds(timed->step(std::max(1, static_cast<int>(b + 0.5))));
        };
        return at(batch) / at(base);
    }
};

namespace detail {

/// The known model whose name opens `model`, the longest one: "resnet-50 v1.5" is ResNet-50. Else,
/// unless an outline's name does, one whose name is inside: "MLPerf ResNet-50".
[[nodiscard]] inline const KnownModel* model_named(const std::string& model) {
    const std::string said = sim::detail::find_model::plain(model);
    const KnownModel* opens = nullptr;
    const KnownModel* inside = nullptr;
    std::size_t longest_opening = 0, longest_inside = 0;
    for (const KnownModel& m : models) {
        const std::string name = sim::detail::find_model::plain(m.name);
        if (said.starts_with(name) && name.size() > longest_opening)
            opens = &m, longest_opening = name.size();
        if (has(said, name) && name.size() > longest_inside)
            inside = &m, longest_inside = name.size();
    }
    const Outline* outline = outline_opening(model);
    if (outline == nullptr) return opens != nullptr ? opens : inside;
    return outline->name.size() > longest_opening ? nullptr : opens;
}
[[nodiscard]] inline bool is_language_model(const std::string& model) {
    for (const char* word : {"bert", "gpt", "transformer", "gnmt", "lm", "t5", "lstm", "llama",
                             "xlnet", "electra", "seq2seq", "nlp", "bloom", "mistral"})
        if (has(model, word)) return true;
    return false;
}

}  // namespace detail

/// The work of a model by name; `batch` sets how forward and backward compare.
[[nodiscard]] inline ModelWork model_work(const std::string& model, const GpuSpec& gpu,
                                          Precision precision, double batch) {
    ModelWork w;
    const KnownModel* known = detail::model_named(model);
    if (known == nullptr) {
        // a transformer's layers are equal, and the embedding, 15 to 20 % of it, comes last
        if (detail::is_language_model(model)) w.ready = {{0.98, 0.85}, {1, 1}};
        double millions = millions_in(model);
        if (const Outline* o = outline_of(model)) {
            if (millions == 0) millions = o->millions;
            // a larger one of the family: layers grow with the square of what an embedding does
            const double last = o->last * std::sqrt(std::min(1.0, o->millions / millions));
            w.ready = {{0.02, o->first}, {0.98, 1 - last}, {1, 1}};
            w.largest_tensor = std::max({w.largest_tensor, 0.8 * o->first, last});
        }
        w.gradient_mb_fp32 = 4 * millions;
        return w;
    }
    w.name = known->name;
    w.graph = std::make_shared<const Graph>(known->make({}));
    const TimedGraph timed(*w.graph, gpu, precision);
    const StepWork step = step_work(*w.graph, timed, std::clamp(static_cast<int>(batch), 1, 1024));
    w.forward_share = (step.forward + step.update) / Seconds(step.total());
    const double elements = static_cast<double>(step.elements);
    w.gradient_mb_fp32 = elements * 4e-6;
    GpuSpec queued = gpu;
    queued.launch = Nanoseconds(0);
    w.timed = std::make_shared<const TimedGraph>(*w.graph, queued, precision);
    w.flops = 6.0 * static_cast<double>(w.graph->macs());
    w.ready.clear();
    for (const StepWork::Ready& r : step.ready)
        w.ready.push_back({r.after / Seconds(step.backward),
                           1 - static_cast<double>(r.watermark) / elements});
    for (const Parameter& p : w.graph->parameters)
        w.largest_tensor = std::max(w.largest_tensor, static_cast<double>(p.count) / elements);
    return w;
}

}  // namespace gx::sim::predict
