// Bodies of weights.hpp.
#pragma once

#include <algorithm>    // copy, any_of, find_if
#include <array>        // names
#include <cmath>        // isfinite, sqrt
#include <set>          // names
#include <span>         // flat vectors
#include <string_view>  // names
#include <utility>      // move

#include <fmt/format.h>  // sentences

#include <gx/core/cold.hpp>      // GX_COLD
#include <gx/core/contract.hpp>  // GX_EXPECT
#include <gx/core/error.hpp>     // Error
#include <gx/io/json_value.hpp>  // metadata
#include <gx/model/graph.hpp>    // Graph
#include <gx/model/init.hpp>     // initial_parameters
#include <gx/trainer/safetensors.hpp>
#include <gx/trainer/weights.hpp>

namespace gx {

namespace detail::weights {

using Shape = std::vector<std::int64_t>;

/// A tensor of a network: its name and shape in a file, and its place in the flat vector.
struct Place {
    std::string name;
    Shape shape;
    std::int64_t offset = 0, count = 0;
    bool variance = false;
};

GX_COLD GX_DECL std::vector<Place> parameters_of(const Graph& graph) {
    const std::vector<Shape> shapes = tensor_shapes(graph);
    std::vector<Place> all;
    for (std::size_t i = 0; i < graph.parameters.size(); ++i) {
        const Parameter& p = graph.parameters[i];
        all.push_back({std::string(p.name.view()), shapes[i], p.offset, p.count});
    }
    return all;
}
GX_COLD GX_DECL std::vector<Place> statistics_of(const Graph& graph) {
    std::vector<Place> all;
    for (const Statistic& s : graph.statistics)
        all.push_back({std::string(s.name.view()),
                       {s.count},
                       s.offset,
                       s.count,
                       s.name.view().ends_with("running_var")});
    return all;
}

/// Whether `name` is `layer` or below it.
GX_COLD GX_DECL bool is_below(std::string_view name, std::string_view layer) {
    return name.starts_with(layer) && (name.size() == layer.size() || name[layer.size()] == '.');
}

/// Lists the first few of what does not fit.
class Differences {
public:
    GX_COLD void add(const std::string& what) {
        if (count_++ < 4) text_ += (text_.empty() ? "" : "; ") + what;
    }
    [[nodiscard]] bool empty() const { return count_ == 0; }
    GX_COLD [[nodiscard]] std::string text() const {
        return count_ > 4 ? fmt::format("{}; and {} more", text_, count_ - 4) : text_;
    }

private:
    std::string text_{};
    int count_ = 0;
};

GX_COLD GX_DECL std::string text_of(const Shape& shape) {
    std::string text;
    for (const std::int64_t n : shape) text += (text.empty() ? "" : " x ") + std::to_string(n);
    return shape.empty() ? "one number" : text;
}

/// Whether a tensor of a file that is none of the network's is no sign of another one.
GX_COLD GX_DECL bool is_passed_over(std::string_view name, bool checkpoint) {
    constexpr std::array<std::string_view, 4> of_a_run{"optimizer.", "pending.", "reducer.",
                                                       "within."};
    if (name.ends_with(".num_batches_tracked") || name.starts_with("AuxLogits.")) return true;
    return checkpoint &&
           std::ranges::any_of(of_a_run, [&](auto prefix) { return name.starts_with(prefix); });
}

class Reader {
public:
    GX_COLD Reader(const InitialWeights& from, const Graph& graph)
        : from_(from), graph_(graph), file_(read_safetensors(from.file)) {
        for (const std::string& layer : from.fresh)
            if (std::ranges::none_of(graph.parameters, [&](const Parameter& p) {
                    return is_below(p.name.view(), layer);
                }))
                throw Error(
                    fmt::format("'fresh' names layer '{}', and network '{}' has no such "
                                "layer with weights. Name one as its parameters are, "
                                "without '.weight'",
                                layer, graph.name.view()));
    }

    GX_COLD [[nodiscard]] Weights read(Weights start) {
        const std::vector<Place> parameters = parameters_of(graph_);
        const std::vector<Place> statistics = statistics_of(graph_);
        expect_all(parameters);
        expect_all(statistics);
        if (from_.whole_file) expect_no_others();
        if (!differences_.empty())
            throw Error(fmt::format("weights '{}' are not those of network '{}': {}. {}",
                                    from_.file.string(), graph_.name.view(), differences_.text(),
                                    advice(parameters.front().name)));
        take(parameters, start.parameters, tested());
        take(statistics, start.statistics, "");
        return start;
    }

private:
    GX_COLD [[nodiscard]] bool is_fresh(std::string_view name) const {
        return std::ranges::any_of(from_.fresh,
                                   [&](const auto& layer) { return is_below(name, layer); });
    }
    /// What to do about differences; `name` is one that the file should have.
    GX_COLD [[nodiscard]] std::string advice(const std::string& name) const {
        for (const auto& [its, tensor] : file_.tensors) {
            const std::string prefix =
                its.substr(0, its.size() - std::min(its.size(), name.size()));
            if (its == prefix + name && prefix.ends_with('.') &&
                std::ranges::all_of(file_.tensors,
                                    [&](const auto& t) { return t.first.starts_with(prefix); }))
                return fmt::format(
                    "All names in the file begin with '{0}', as those of a model inside another do "
                    "(DistributedDataParallel's is 'module.'): save the state_dict() of the inner "
                    "one, such as model.module.state_dict()",
                    prefix);
        }
        return "Give weights of this network; a run that is to train on from them may name layers "
               "of other shapes in 'fresh'";
    }
    GX_COLD void expect_all(const std::vector<Place>& places) {
        for (const Place& p : places) {
            known_.insert(p.name);
            if (is_fresh(p.name)) continue;
            const auto found = file_.tensors.find(p.name);
            if (found == file_.tensors.end()) {
                differences_.add("'" + p.name + "' is missing");
            } else if (found->second.shape != p.shape) {
                differences_.add(fmt::format("'{}' has the shape {} where {} was expected", p.name,
                                             text_of(found->second.shape), text_of(p.shape)));
            } else if (std::ssize(found->second.values) != p.count) {
                differences_.add(fmt::format("'{}' holds {}, no floating-point numbers", p.name,
                                             found->second.element));
            }
        }
    }
    GX_COLD void expect_no_others() {
        const bool checkpoint = file_.metadata.contains("gx");
        for (const auto& [name, tensor] : file_.tensors)
            if (!known_.contains(name) && !is_fresh(name) && !is_passed_over(name, checkpoint))
                differences_.add("'" + name + "' is none of its tensors");
    }
    /// What names of parameters begin with, where a checkpoint holds the average of its weights
    /// that its run tested in their place (WeightAverage); else empty.
    GX_COLD [[nodiscard]] std::string tested() const {
        const std::string prefix = "optimizer.average.";
        const auto text = file_.metadata.find("gx");
        if (text == file_.metadata.end()) return "";
        for (const Parameter& p : graph_.parameters)
            if (!is_fresh(p.name.view()) &&
                !file_.tensors.contains(prefix + std::string(p.name.view())))
                return "";
        try {
            return read_json(text->second).at("updates").integer() > 0 ? prefix : "";
        } catch (const JsonError& e) {
            throw Error("weights '" + from_.file.string() +
                        "': metadata field 'gx' is not as gx writes it: " + e.what() +
                        ". The file is damaged; take another");
        }
    }
    void take(const std::vector<Place>& places, std::vector<float>& flat,
              const std::string& prefix) {
        for (const Place& p : places) {
            if (is_fresh(p.name)) continue;
            const std::vector<float>& values = file_.tensors.at(prefix + p.name).values;
            if (std::ssize(values) != p.count)
                throw Error(
                    fmt::format("weights '{}': tensor '{}{}' has {} elements where {} were "
                                "expected. The file is damaged; take another",
                                from_.file.string(), prefix, p.name, values.size(), p.count));
            for (std::size_t i = 0; i < values.size(); ++i)
                if (!std::isfinite(values[i]) || (p.variance && values[i] < 0))
                    throw Error(
                        fmt::format("weights '{}': number {} of tensor '{}' is {}, and {} "
                                    "was expected. The file is damaged, or of a run that "
                                    "diverged; take another",
                                    from_.file.string(), i, p.name, values[i],
                                    p.variance ? "a variance of 0 or more" : "a finite number"));
            std::ranges::copy(values, flat.begin() + p.offset);
        }
    }

    const InitialWeights& from_;
    const Graph& graph_;
    SafetensorsFile file_;
    std::set<std::string, std::less<>> known_{};
    Differences differences_{};
};

}  // namespace detail::weights

GX_DECL std::vector<std::vector<std::int64_t>> tensor_shapes(const Graph& graph) {
    std::vector<std::vector<std::int64_t>> shapes;
    for (const Parameter& p : graph.parameters) shapes.push_back({p.shape[0]});
    for (const Op& op : graph.ops)
        for (int k = 0; k < op.parameter_count; ++k) {
            const auto i = static_cast<std::size_t>(op.first_parameter + k);
            const Parameter& p = graph.parameters[i];
            if (p.role != ParameterRole::weight) continue;
            const int dimensions = op.kind == OpKind::conv2d ? 4 : 2;
            shapes[i].assign(p.shape.begin(), p.shape.begin() + dimensions);
        }
    return shapes;
}

GX_DECL Weights initial_weights(const Graph& graph, std::uint64_t seed, double last_deviation) {
    Weights w{std::vector<float>(std::size_t(graph.parameter_elements())),
              std::vector<float>(std::size_t(graph.statistic_elements()))};
    initial_parameters(graph, seed, w.parameters);
    initial_statistics(graph, w.statistics);
    if (last_deviation == 0) return w;
    const auto is_linear = [](const Op& op) {
        return op.kind == OpKind::linear && op.first_parameter >= 0;
    };
    const auto last = std::find_if(graph.ops.rbegin(), graph.ops.rend(), is_linear);
    if (!(last_deviation > 0) || !std::isfinite(last_deviation))
        throw Error(
            fmt::format("weights.last_deviation is {:g}: expected a number from 0 on, as 0.01",
                        last_deviation));
    if (last == graph.ops.rend())
        throw Error(fmt::format("weights.last_deviation: {} has no linear layer: leave it out",
                                graph.name.view()));
    const Parameter& p = graph.parameters[std::size_t(last->first_parameter)];
    const auto factor = static_cast<float>(last_deviation / std::sqrt(2.0 / p.fan_in));
    for (float& x : std::span(w.parameters).subspan(std::size_t(p.offset), std::size_t(p.count)))
        x *= factor;
    return w;
}

GX_DECL Weights read_weights(const InitialWeights& from, const Graph& graph, Weights start) {
    GX_EXPECT(std::ssize(start.parameters) == graph.parameter_elements() &&
                  std::ssize(start.statistics) == graph.statistic_elements(),
              "weights have as many numbers as the graph");
    return detail::weights::Reader(from, graph).read(std::move(start));
}

GX_DECL Weights read_weights(const std::filesystem::path& file, const Graph& graph) {
    Weights none{std::vector<float>(std::size_t(graph.parameter_elements())),
                 std::vector<float>(std::size_t(graph.statistic_elements()))};
    return read_weights({.file = file}, graph, std::move(none));
}

GX_DECL void write_weights(const std::filesystem::path& file, const Graph& graph,
                           const Weights& weights,
                           const std::map<std::string, std::string>& metadata) {
    std::vector<NamedTensor> tensors;
    const auto add = [&](const std::vector<detail::weights::Place>& places,
                         const std::vector<float>& flat) {
        for (const auto& p : places)
            tensors.push_back(
                {p.name, p.shape,
                 std::span(flat).subspan(std::size_t(p.offset), std::size_t(p.count))});
    };
    add(detail::weights::parameters_of(graph), weights.parameters);
    add(detail::weights::statistics_of(graph), weights.statistics);
    std::map<std::string, std::string> all = metadata;
    all.emplace("format", "pt");  // as Python's library writes for PyTorch
    all.emplace("model", graph.name.view());
    write_safetensors(file, tensors, all);
}

}  // namespace gx
