// Checkpoint: everything a run needs to go on as if it had not stopped, in one safetensors file.
#pragma once

#include <filesystem>  // path
#include <optional>    // pending gradients
#include <string>      // names
#include <vector>      // flat vectors

#include <gx/core/cold.hpp>  // GX_COLD
#include <gx/core/error.hpp>           // Error
#include <gx/core/json_text.hpp>       // JsonWriter
#include <gx/core/json_value.hpp>      // metadata
#include <gx/model/graph.hpp>          // Graph
#include <gx/trainer/loss_scale.hpp>   // LossScaleState
#include <gx/trainer/rows.hpp>         // read_rows
#include <gx/trainer/safetensors.hpp>  // write_safetensors

namespace gx {

/// A run between two epochs. Flat vectors are canonical (Graph::parameters' layout), so that a
/// checkpoint depends on neither the device nor the rank count.
struct Checkpoint {
    std::string model{};
    std::string composition{};
    std::uint64_t seed = 0;
    int epoch = 0;          ///< epochs done
    std::int64_t step = 0;  ///< steps done
    double seconds = 0;     ///< training time on the world's clock
    LossScaleState loss_scale{};
    std::vector<float> parameters{}, statistics{};
    std::vector<std::vector<float>> optimizer{};  ///< one flat vector for each that it keeps
    struct Pending {
        std::uint64_t index = 0;  ///< which gradient
        float loss_scale = 1;     ///< it was computed with
        std::vector<float> values;
    };
    std::vector<Pending> pending{};  ///< averaged gradients that are not applied yet
    std::vector<float> reducer{};    ///< Reducer::state()
    std::string record{};            ///< the rows so far, as JSON
};

namespace detail::checkpoint {

GX_COLD inline void add_parameters(std::vector<NamedTensor>& out, const Graph& graph,
                                   const std::string& prefix, std::span<const float> flat) {
    for (const Parameter& p : graph.parameters) {
        std::vector<std::int64_t> shape(p.shape.begin(), p.shape.end());
        while (shape.size() > 1 && shape.back() == 1) shape.pop_back();
        out.push_back({prefix + std::string(p.name.view()), std::move(shape),
                       flat.subspan(std::size_t(p.offset), std::size_t(p.count))});
    }
}

/// Takes named tensors out of a file and complains by name.
struct Reader {
    const std::filesystem::path& path;
    const SafetensorsFile& file;

    [[noreturn]] void wrong(const std::string& what) const {
        throw Error("checkpoint '" + path.string() + "': " + what);
    }
    GX_COLD [[nodiscard]] const std::vector<float>& all_of(const std::string& name) const {
        const auto found = file.tensors.find(name);
        if (found == file.tensors.end())
            wrong("tensor '" + name +
                  "' is missing. It belongs to another network or optimizer; "
                  "resume with the composition that wrote it.");
        return found->second.values;
    }
    void copy(const std::string& name, std::span<float> to) const {
        const std::vector<float>& values = all_of(name);
        if (values.size() != to.size())
            wrong("tensor '" + name + "' has " + std::to_string(values.size()) +
                  " elements where " + std::to_string(to.size()) +
                  " were expected. It belongs to another network; resume with the composition "
                  "that wrote it.");
        std::copy(values.begin(), values.end(), to.begin());
    }
    GX_COLD [[nodiscard]] std::vector<float> parameters(const Graph& graph,
                                                        const std::string& prefix) const {
        std::vector<float> flat(std::size_t(graph.parameter_elements()));
        for (const Parameter& p : graph.parameters)
            copy(prefix + std::string(p.name.view()),
                 std::span(flat).subspan(std::size_t(p.offset), std::size_t(p.count)));
        return flat;
    }
};

}  // namespace detail::checkpoint

/// Writes `c` whole or not at all. Weights carry their plain names, as other programs expect.
/// Errors: gx::Error naming the file; an older checkpoint of that name is then untouched.
GX_COLD inline void write_checkpoint(const std::filesystem::path& path, const Graph& graph,
                                     const Checkpoint& c) {
    std::vector<NamedTensor> tensors;
    detail::checkpoint::add_parameters(tensors, graph, "", c.parameters);
    for (const Statistic& s : graph.statistics)
        tensors.push_back(
            {std::string(s.name.view()),
             {s.count},
             std::span(c.statistics).subspan(std::size_t(s.offset), std::size_t(s.count))});
    for (std::size_t i = 0; i < c.optimizer.size(); ++i)
        detail::checkpoint::add_parameters(tensors, graph, "optimizer." + std::to_string(i) + ".",
                                           c.optimizer[i]);
    for (std::size_t i = 0; i < c.pending.size(); ++i)
        detail::checkpoint::add_parameters(tensors, graph, "pending." + std::to_string(i) + ".",
                                           c.pending[i].values);
    if (!c.reducer.empty())
        tensors.push_back({"reducer.state", {std::int64_t(c.reducer.size())}, c.reducer});
    JsonWriter state;
    state.open('{').field("format", 1).field("model", c.model).field("composition", c.composition);
    state.field("seed", c.seed).field("epoch", c.epoch).field("step", c.step);
    state.field("seconds", c.seconds).field("loss_scale", c.loss_scale.scale);
    state.field("good_steps", c.loss_scale.good_steps);
    state.field("optimizer_vectors", c.optimizer.size());
    state.field("reducer_elements", c.reducer.size()).name("pending").open('[');
    for (const Checkpoint::Pending& p : c.pending)
        state.open('{').field("gradient", p.index).field("loss_scale", p.loss_scale).close('}');
    state.close(']').close('}');
    write_safetensors(path, tensors, {{"gx", state.text()}, {"record", c.record}});
}

/// Reads what write_checkpoint wrote.
/// Errors: gx::Error naming the file and the tensor or field that is missing or does not fit.
GX_COLD [[nodiscard]] inline Checkpoint read_checkpoint(const std::filesystem::path& path,
                                                        const Graph& graph) {
    const SafetensorsFile file = read_safetensors(path);
    const detail::checkpoint::Reader in{path, file};
    const auto text = file.metadata.find("gx");
    if (text == file.metadata.end())
        in.wrong(
            "no field 'gx' in its metadata. It holds weights only and can't be resumed from; "
            "give a file that gx wrote after an epoch.");
    try {
        const JsonValue state = read_json(text->second);
        Checkpoint c{.model = state.at("model").string(),
                     .composition = state.at("composition").string(),
                     .seed = state.at("seed").integer<std::uint64_t>(),
                     .epoch = state.at("epoch").integer<int>(),
                     .step = state.at("step").integer(),
                     .seconds = state.at("seconds").number(),
                     .loss_scale = {float(state.at("loss_scale").number()),
                                    state.at("good_steps").integer()}};
        if (c.model != graph.name.view())
            in.wrong("it is of model '" + c.model + "', and this run trains '" +
                     std::string(graph.name.view()) + "'. Resume with the model that wrote it.");
        c.parameters = in.parameters(graph, "");
        c.statistics.resize(std::size_t(graph.statistic_elements()));
        for (const Statistic& s : graph.statistics)
            in.copy(std::string(s.name.view()),
                    std::span(c.statistics).subspan(std::size_t(s.offset), std::size_t(s.count)));
        for (std::size_t i = 0; i < state.at("optimizer_vectors").integer<std::size_t>(); ++i)
            c.optimizer.push_back(in.parameters(graph, "optimizer." + std::to_string(i) + "."));
        for (const JsonValue& p : state.at("pending").array())
            c.pending.push_back(
                {p.at("gradient").integer<std::uint64_t>(), float(p.at("loss_scale").number()),
                 in.parameters(graph, "pending." + std::to_string(c.pending.size()) + ".")});
        if (state.at("reducer_elements").integer() != 0) c.reducer = in.all_of("reducer.state");
        const auto record = file.metadata.find("record");
        if (record == file.metadata.end())
            in.wrong("no field 'record' in its metadata. Take a checkpoint of this version of gx.");
        c.record = record->second;
        RunRecord rows;
        read_rows(c.record, rows);  // throws here, not on a rank
        return c;
    } catch (const JsonError& e) {
        in.wrong(std::string("its metadata fields 'gx' and 'record' lack something: ") + e.what() +
                 ". Take a checkpoint of this version of gx.");
    }
}

}  // namespace gx
