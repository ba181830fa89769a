// Bodies of checkpoint.hpp.
#pragma once

#include <algorithm>     // copy, equal
#include <charconv>      // from_chars
#include <cmath>         // isfinite, isnan
#include <functional>    // greater
#include <limits>        // largest integers
#include <set>           // files by age
#include <span>          // flat memory
#include <string_view>   // names
#include <system_error>  // errc
#include <utility>       // pair

#include <fmt/core.h>  // sentences

#include <gx/core/cold.hpp>      // GX_COLD
#include <gx/core/error.hpp>     // Error
#include <gx/io/json_text.hpp>   // JsonWriter
#include <gx/io/json_value.hpp>  // metadata
#include <gx/model/graph.hpp>    // Graph
#include <gx/trainer/checkpoint.hpp>
#include <gx/trainer/rows.hpp>         // read_rows
#include <gx/trainer/safetensors.hpp>  // write_safetensors
#include <gx/trainer/weights.hpp>      // tensor_shapes

namespace gx {

namespace detail::checkpoint {

/// Version of the fields below. 1: neither rank count nor reducer state of each rank. 2: one
/// nameless vector of reducer state; neither clock, dollars, options nor notes. A checkpoint within
/// an epoch is of format 4, which versions that know none refuse.
inline constexpr int format = 3, format_within = 4;

GX_COLD GX_DECL std::string statistics_tensor(std::size_t rank) {
    return fmt::format("within.statistics.{}", rank);
}

GX_COLD GX_DECL void add_parameters(std::vector<NamedTensor>& out, const Graph& graph,
                                    const std::string& prefix, std::span<const float> flat) {
    std::vector<std::vector<std::int64_t>> shapes = tensor_shapes(graph);
    for (std::size_t i = 0; i < shapes.size(); ++i) {
        const Parameter& p = graph.parameters[i];
        out.push_back({prefix + std::string(p.name.view()), std::move(shapes[i]),
                       flat.subspan(std::size_t(p.offset), std::size_t(p.count))});
    }
}

GX_COLD GX_DECL std::string reducer_tensor(const std::string& name, int rank) {
    return fmt::format("reducer.{}.{}", name, rank);
}

/// A number, or NaN as JsonWriter writes it.
GX_COLD GX_DECL double number_or_nan(const JsonValue& v) {
    return v.kind == JsonValue::Kind::null ? std::numeric_limits<double>::quiet_NaN() : v.number();
}

/// A scalar of an optimizer: a number, or the name of a value that JSON has no number for.
GX_COLD GX_DECL void write_scalar(JsonWriter& to, double x) {
    if (std::isfinite(x)) to.field("value", x);
    else to.field("value", std::isnan(x) ? "nan" : x > 0 ? "inf" : "-inf");
}
GX_COLD GX_DECL double scalar_of(const JsonValue& v) {
    if (v.kind != JsonValue::Kind::string) return v.number();
    constexpr double inf = std::numeric_limits<double>::infinity();
    if (v.string() == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (v.string() == "inf") return inf;
    if (v.string() == "-inf") return -inf;
    throw JsonError("field 'value' is '" + v.string() + "', and is a number, inf, -inf or nan");
}

/// Takes named tensors and fields out of a file; its errors name the file and the field.
struct Reader {
    const std::filesystem::path& path;
    const SafetensorsFile& file;

    [[noreturn]] void wrong(const std::string& what) const {
        throw Error("checkpoint '" + path.string() + "': " + what);
    }
    GX_COLD void expect(bool good, const char* field, const auto& found,
                        const std::string& wanted) const {
        if (good) return;
        wrong(
            fmt::format("field '{}' is {} where {} was expected. The file is damaged or was "
                        "edited; take an earlier checkpoint.",
                        field, found, wanted));
    }
    GX_COLD [[nodiscard]] const std::vector<float>& all_of(const std::string& name) const {
        const auto found = file.tensors.find(name);
        if (found == file.tensors.end())
            wrong("tensor '" + name +
                  "' is missing. It belongs to another network or optimizer; "
                  "resume with the composition that wrote it.");
        return found->second.values;
    }
    GX_COLD void copy(const std::string& name, std::span<float> to) const {
        const std::vector<float>& values = all_of(name);
        if (values.size() != to.size())
            wrong(fmt::format(
                "tensor '{}' has {} elements where {} were expected. It belongs to "
                "another network, or to images of another size: resume with the composition and "
                "the data that wrote it.",
                name, values.size(), to.size()));
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

    GX_COLD void scalars(const JsonValue& state, Checkpoint& c) const {
        const int largest = std::numeric_limits<int>::max();
        constexpr std::int64_t images_max = std::numeric_limits<std::uint32_t>::max();
        expect(c.ranks >= 1, "ranks", c.ranks, "1 or more");
        expect(c.batch >= 1 && c.batch <= largest / c.ranks, "batch", c.batch,
               fmt::format("1 to {}", largest / c.ranks));
        expect(c.images >= c.ranks && c.images <= images_max, "images", c.images,
               "one or more for each rank, and at most 4294967295");
        const int within = c.is_within() ? 1 : 0;
        expect(c.epoch >= 1 - within && c.epoch < largest, "epoch", c.epoch,
               fmt::format("{} to {}", 1 - within, largest - 1));
        const int begun = c.epoch + within;
        expect(c.step >= begun && c.step <= begun * c.images, "step", c.step,
               fmt::format("{} to {}, as {} epochs of {} images have", begun, begun * c.images,
                           begun, c.images));
        expect(c.world_step >= 0 && c.world_step <= c.step, "world_step", c.world_step,
               "0 to 'step'");
        expect(c.updates >= 0 && c.updates <= c.step, "updates", c.updates, "0 to 'step'");
        expect(c.skips_in_a_row >= 0 && c.skips_in_a_row <= c.step, "skips_in_a_row",
               c.skips_in_a_row, "0 to 'step'");
        expect(!c.clock.empty(), "clock", "empty", "the clock of 'seconds'");
        sum_of_parts(c, "seconds", c.seconds);
        sum_of_parts(c, "dollars", c.dollars);
        expect(std::isfinite(c.timed_images) && c.timed_images >= 0, "timed_images", c.timed_images,
               "0 or more");
        expect(std::isfinite(c.undisturbed_seconds) && c.undisturbed_seconds >= 0,
               "undisturbed_seconds", c.undisturbed_seconds, "0 or more");
        c.loss_scale = {scale(state), state.at("good_steps").integer()};
        expect(c.loss_scale.good_steps >= 0 && c.loss_scale.good_steps <= c.step, "good_steps",
               c.loss_scale.good_steps, "0 to 'step'");
    }
    /// A sum over all of the run, which has no value where its parts have different clocks.
    GX_COLD void sum_of_parts(const Checkpoint& c, const char* field, double x) const {
        if (c.clock == mixed_clocks) expect(std::isnan(x), field, x, "null, as 'clock' is mixed");
        else expect(std::isfinite(x) && x >= 0, field, x, "0 or more");
    }
    GX_COLD [[nodiscard]] float scale(const JsonValue& of) const {
        const double x = of.at("loss_scale").number();
        expect(x > 0 && x <= double{std::numeric_limits<float>::max()} && float(x) > 0,
               "loss_scale", x, "a finite number above 0");
        return float(x);
    }
    /// Names of an array, each once.
    GX_COLD [[nodiscard]] std::vector<std::string> names(const JsonValue& state,
                                                         const char* field) const {
        std::vector<std::string> out;
        for (const JsonValue& name : state.at(field).array()) {
            expect(std::ranges::find(out, name.string()) == out.end(), field,
                   "'" + name.string() + "' twice", "each name once");
            out.push_back(name.string());
        }
        return out;
    }
    GX_COLD void policies(const JsonValue& state, const Graph& graph, Checkpoint& c) const {
        for (std::string& name : names(state, "optimizer"))
            c.optimizer.push_back({name, parameters(graph, "optimizer." + name + ".")});
        for (const JsonValue& s : state.at("optimizer_scalars").array())
            c.scalars.push_back({s.at("name").string(), scalar_of(s.at("value"))});
        const auto count = std::int64_t(state.at("pending").array().size());
        for (const JsonValue& p : state.at("pending").array()) {
            const auto next = std::int64_t(c.pending.size());
            const auto index = p.at("gradient").integer<std::uint64_t>();
            expect(count <= c.step && index == std::uint64_t(c.step - count + next), "gradient",
                   index,
                   fmt::format("{}, number {} of the last {} before step {},",
                               c.step - count + next, next + 1, count, c.step));
            if (!p.find("rate"))
                wrong(
                    "no field 'rate' of its gradients in flight. Take a checkpoint of this "
                    "version of gx.");
            const double rate = p.at("rate").number();
            expect(rate >= 0 && rate <= double{std::numeric_limits<float>::max()}, "rate", rate,
                   "a finite number from 0 on");
            c.pending.push_back({index, scale(p), float(rate),
                                 parameters(graph, "pending." + std::to_string(next) + ".")});
        }
        for (const JsonValue& v : state.at("reducer").array()) {
            const std::string& name = v.at("name").string();
            for (const Checkpoint::ReducerVector& other : c.reducer)
                expect(other.name != name, "reducer", "'" + name + "' twice", "each name once");
            Checkpoint::ReducerVector& one =
                c.reducer.emplace_back(name, v.at("replicated").boolean());
            for (int r = 0; r < (one.replicated ? 1 : c.ranks); ++r)
                one.ranks.push_back(all_of(reducer_tensor(one.name, r)));
            for (const std::vector<float>& values : one.ranks)
                expect(values.size() == one.ranks.front().size(), "reducer",
                       "'" + one.name + "' of unequal lengths", "equal lengths");
        }
    }
    GX_COLD void history(const JsonValue& state, Checkpoint& c) const {
        for (const JsonValue& o : state.at("options").array())
            c.options.push_back({o.at("name").string(), o.at("value").string()});
        for (const JsonValue& note : state.at("notes").array()) c.notes.push_back(note.string());
    }
    GX_COLD void rows(Checkpoint& c) const {
        const auto record = file.metadata.find("record");
        if (record == file.metadata.end())
            wrong("no field 'record' in its metadata. Take a checkpoint of this version of gx.");
        c.record = record->second;
        RunRecord rows;
        read_rows(c.record, rows);  // throws here, not on a rank
        expect(std::ssize(rows.epochs) == c.epoch, "epochs", rows.epochs.size(),
               fmt::format("{} rows", c.epoch));
        can_be(c, rows);
        if (c.is_within())
            expect(c.within.sums.size() == 3 * rows.steps.size(), "sums", c.within.sums.size(),
                   fmt::format("3 of each of {} steps", rows.steps.size()));
    }
    /// Throws unless some run can have written these rows.
    GX_COLD void can_be(const Checkpoint& c, const RunRecord& rows) const {
        std::int64_t before = 0;
        for (std::size_t i = 0; i < rows.epochs.size(); ++i) {
            const EpochRow& row = rows.epochs[i];
            expect(row.epoch == int(i), "epochs.epoch", row.epoch, fmt::format("{}", i));
            expect(row.step > before && row.step <= c.step, "epochs.step", row.step,
                   fmt::format("{} to {}", before + 1, c.step));
            before = row.step;
            for (const double pct :
                 {row.train_accuracy_pct, row.test_accuracy_pct, row.test_top5_accuracy_pct})
                expect(!(pct < 0 || pct > 100), "accuracy_pct", pct, "0 to 100");
        }
        if (!c.is_within())
            expect(before == c.step, "epochs.step", before, fmt::format("{}", c.step));
        expect(rows.skipped_steps >= 0 && rows.skipped_steps <= c.step, "skipped_steps",
               rows.skipped_steps, fmt::format("0 to {}", c.step));
        std::int64_t least = 0;
        for (const StepRow& row : rows.steps) {
            expect(row.step >= least && row.step < c.step, "steps.step", row.step,
                   fmt::format("{} to {}", least, c.step - 1));
            least = row.step + 1;
        }
        double images = 0;
        for (std::size_t i = 0; i + 2 < c.within.sums.size(); i += 3) {
            const double hits = c.within.sums[i + 1], count = c.within.sums[i + 2];
            expect(count >= 0 && hits >= 0 && hits <= count, "sums", hits,
                   fmt::format("0 to {} hits", count));
            images += count;
        }
        expect(images <= double(c.within.images), "sums", images,
               fmt::format("{} images at most", c.within.images));
    }
    /// Before `scalars`, which depend on it.
    GX_COLD void within(const JsonValue& state, Checkpoint& c) const {
        const JsonValue* const found = state.find("within");
        if (found == nullptr) return;
        Checkpoint::Within& w = c.within;
        w.images = found->at("images").integer();
        expect(w.images >= 1 && w.images <= c.images, "within.images", w.images,
               fmt::format("1 to {}", c.images));
        w.begin_seconds = number_or_nan(found->at("begin_seconds"));
        for (const JsonValue& x : found->at("sums").array()) w.sums.push_back(x.number());
        std::int64_t sum = 0;
        for (const JsonValue& x : found->at("rank_images").array()) {
            w.rank_images.push_back(x.integer());
            expect(w.rank_images.back() >= 0 && w.rank_images.back() <= w.images - sum,
                   "rank_images", w.rank_images.back(), fmt::format("0 to {}", w.images - sum));
            sum += w.rank_images.back();
        }
        expect(std::ssize(w.rank_images) == c.ranks && sum == w.images, "rank_images", sum,
               fmt::format("{} of {} ranks", w.images, c.ranks));
    }
    GX_COLD void statistics_within(const Graph& graph, Checkpoint& c) const {
        for (std::size_t r = 0; r < c.within.rank_images.size(); ++r) {
            auto& mine = c.within.statistics.emplace_back(std::size_t(graph.statistic_elements()));
            if (!mine.empty()) copy(statistics_tensor(r), mine);
        }
    }
};

/// What to_json wrote.
GX_COLD GX_DECL InputFormat input_format(const std::filesystem::path& path,
                                         const std::string& text) {
    const auto wrong = [&](const std::string& what) {
        return Error("file '" + path.string() + "': metadata field 'images' " + what +
                     ". Take a file of this version of gx.");
    };
    try {
        const JsonValue json = read_json(text);
        InputFormat f{.classes = json.at("classes").integer<int>()};
        const auto& shape = json.at("shape").array();
        if (shape.size() != f.shape.size()) throw wrong("has a shape that is no image's");
        for (std::size_t i = 0; i < shape.size(); ++i) f.shape[i] = shape[i].integer<int>();
        for (const JsonValue& x : json.at("mean").array()) f.mean.push_back(float(x.number()));
        for (const JsonValue& x : json.at("deviation").array())
            f.deviation.push_back(float(x.number()));
        for (const JsonValue& name : json.at("class_names").array())
            f.class_names.push_back(name.string());
        const auto channels = std::size_t(f.shape[0]);
        const auto below_one = [](int n) { return n < 1; };
        if (std::ranges::any_of(f.shape, below_one)) throw wrong("has a side below 1 in its shape");
        if (f.classes < 2) throw wrong(fmt::format("has {} classes: 2 at least", f.classes));
        if (f.mean.size() != channels || f.deviation.size() != channels)
            throw wrong(fmt::format("has {} means and {} deviations for {} channels: one for each",
                                    f.mean.size(), f.deviation.size(), channels));
        for (const float x : f.deviation)
            if (!(x > 0)) throw wrong(fmt::format("has a deviation of {}: above 0", x));
        if (!f.class_names.empty() && std::ssize(f.class_names) != f.classes)
            throw wrong(fmt::format("names {} of {} classes: all or none", f.class_names.size(),
                                    f.classes));
        return f;
    } catch (const JsonError& e) {
        throw wrong(std::string("is not as gx writes it: ") + e.what());
    }
}

/// Whether one run can have written both rows.
GX_COLD GX_DECL bool same_row(const EpochRow& a, const EpochRow& b) {
    const bool seconds = a.seconds == b.seconds || (std::isnan(a.seconds) && std::isnan(b.seconds));
    return a.epoch == b.epoch && a.step == b.step && seconds && a.train_loss == b.train_loss &&
           a.train_accuracy_pct == b.train_accuracy_pct;
}

}  // namespace detail::checkpoint

GX_DECL std::string checkpoint_name(int epochs_done) {
    return fmt::format("epoch-{:04d}.safetensors", epochs_done);
}

GX_DECL std::string step_checkpoint_name(std::int64_t steps_done) {
    return fmt::format("step-{:08d}.safetensors", steps_done);
}

GX_DECL std::optional<CheckpointNumber> checkpoint_number(std::string_view name) {
    CheckpointNumber n{.of_epoch = name.starts_with("epoch-")};
    if (!n.of_epoch && !name.starts_with("step-")) return std::nullopt;
    const char* const digits = name.data() + name.find('-') + 1;
    const auto read = std::from_chars(digits, name.data() + name.size(), n.number);
    if (read.ec != std::errc{} || n.number < 1) return std::nullopt;
    if (n.of_epoch && n.number > std::numeric_limits<int>::max()) return std::nullopt;
    const bool given =
        name == (n.of_epoch ? checkpoint_name(int(n.number)) : step_checkpoint_name(n.number));
    return given ? std::optional(n) : std::nullopt;
}

GX_DECL std::string Checkpoint::place() const {
    if (!is_within()) return fmt::format("after epoch {}", epoch);
    return fmt::format("within epoch {}, behind {} of its images", epoch + 1, within.images);
}

GX_DECL void write_checkpoint(const std::filesystem::path& path, const Graph& graph,
                              const Checkpoint& c) {
    using detail::checkpoint::add_parameters;
    std::vector<NamedTensor> tensors;
    add_parameters(tensors, graph, "", c.parameters);
    for (const Statistic& s : graph.statistics)
        tensors.push_back(
            {std::string(s.name.view()),
             {s.count},
             std::span(c.statistics).subspan(std::size_t(s.offset), std::size_t(s.count))});
    for (const Checkpoint::Vector& v : c.optimizer)
        add_parameters(tensors, graph, "optimizer." + v.name + ".", v.values);
    for (std::size_t i = 0; i < c.pending.size(); ++i)
        add_parameters(tensors, graph, "pending." + std::to_string(i) + ".", c.pending[i].values);
    for (const Checkpoint::ReducerVector& v : c.reducer)
        for (std::size_t r = 0; r < v.ranks.size(); ++r)
            tensors.push_back({detail::checkpoint::reducer_tensor(v.name, static_cast<int>(r)),
                               {std::int64_t(v.ranks[r].size())},
                               v.ranks[r]});
    if (!c.statistics.empty())
        for (std::size_t r = 0; r < c.within.statistics.size(); ++r)
            tensors.push_back({detail::checkpoint::statistics_tensor(r),
                               {std::int64_t(c.statistics.size())},
                               c.within.statistics[r]});
    JsonWriter state;
    using detail::checkpoint::format, detail::checkpoint::format_within;
    state.open('{').field("format", c.is_within() ? format_within : format);
    state.field("model", c.model);
    state.field("composition", c.composition).field("seed", c.seed).field("ranks", c.ranks);
    state.field("batch", c.batch).field("images", c.images).field("epoch", c.epoch);
    if (c.data_hash != 0) state.field("data_hash", c.data_hash);
    if (c.test_data_hash != 0) state.field("test_data_hash", c.test_data_hash);
    state.field("step", c.step);
    if (c.world_step > 0) state.field("world_step", c.world_step);  // a run that has lost ranks
    state.field("updates", c.updates);
    state.field("skips_in_a_row", c.skips_in_a_row).field("clock", c.clock);
    state.field("timed_as", c.timed_as).field("seconds", c.seconds);
    state.field("undisturbed_seconds", c.undisturbed_seconds).field("dollars", c.dollars);
    state.field("timed_images", c.timed_images);
    state.field("loss_scale", c.loss_scale.scale).field("good_steps", c.loss_scale.good_steps);
    state.name("optimizer").open('[');
    for (const Checkpoint::Vector& v : c.optimizer) state.value(v.name);
    state.close(']').name("optimizer_scalars").open('[');
    for (const Checkpoint::Scalar& s : c.scalars) {
        state.open('{').field("name", s.name);
        detail::checkpoint::write_scalar(state, s.value);
        state.close('}');
    }
    state.close(']').name("reducer").open('[');
    for (const Checkpoint::ReducerVector& v : c.reducer)
        state.open('{').field("name", v.name).field("replicated", v.replicated).close('}');
    state.close(']').name("pending").open('[');
    for (const Checkpoint::Pending& p : c.pending) {
        state.open('{').field("gradient", p.index).field("loss_scale", p.loss_scale);
        state.field("rate", p.rate).close('}');
    }
    state.close(']');
    if (c.is_within()) {
        state.name("within").open('{').field("images", c.within.images);
        state.field("begin_seconds", c.within.begin_seconds).name("rank_images").open('[');
        for (const std::int64_t x : c.within.rank_images) state.value(x);
        state.close(']').name("sums").open('[');
        for (const double x : c.within.sums) state.value(x);
        state.close(']').close('}');
    }
    state.name("options").open('[');
    for (const Checkpoint::Option& o : c.options)
        state.open('{').field("name", o.name).field("value", o.value).close('}');
    state.close(']').name("notes").open('[');
    for (const std::string& note : c.notes) state.value(note);
    state.close(']').close('}');
    std::map<std::string, std::string> metadata{{"gx", state.text()}, {"record", c.record}};
    if (c.input_format.shape[0] > 0) metadata["images"] = to_json(c.input_format);
    write_safetensors(path, tensors, metadata);
}

GX_DECL std::string older_model_note(std::string_view written, std::string_view model,
                                     std::string_view remedy) {
    if (!model.starts_with(std::string(written) + "<")) return {};
    return fmt::format(
        "; if that is this one, an older gx, which left its sizes out of the name, wrote the file: "
        "{}",
        remedy);
}

GX_DECL std::string read_model_name(const std::filesystem::path& path) {
    const auto metadata = read_safetensors_metadata(path);
    if (const auto name = metadata.find("model"); name != metadata.end()) return name->second;
    const auto text = metadata.find("gx");
    if (text == metadata.end()) return {};
    try {
        return read_json(text->second).at("model").string();
    } catch (const JsonError& e) {
        throw Error("file '" + path.string() +
                    "': metadata field 'gx' is not as gx writes it: " + e.what());
    }
}

GX_DECL std::string to_json(const InputFormat& format) {
    JsonWriter w;
    w.open('{').name("shape").open('[');
    for (const int n : format.shape) w.value(n);
    w.close(']').name("mean").open('[');
    for (const float x : format.mean) w.value(x);
    w.close(']').name("deviation").open('[');
    for (const float x : format.deviation) w.value(x);
    w.close(']').field("classes", format.classes).name("class_names").open('[');
    for (const std::string& name : format.class_names) w.value(name);
    return w.close(']').close('}').text();
}

GX_DECL InputFormat read_input_format(const std::filesystem::path& path) {
    const auto metadata = read_safetensors_metadata(path);
    const auto text = metadata.find("images");
    return text == metadata.end() ? InputFormat{}
                                  : detail::checkpoint::input_format(path, text->second);
}

GX_DECL Checkpoint read_checkpoint(const std::filesystem::path& path, const Graph& graph) {
    const SafetensorsFile file = read_safetensors(path);
    const detail::checkpoint::Reader in{path, file};
    const auto text = file.metadata.find("gx");
    if (text == file.metadata.end())
        in.wrong(
            "no field 'gx' in its metadata. It holds weights only and can't be resumed from; "
            "give a file that gx wrote after an epoch.");
    if (!file.summed)
        in.wrong(
            "no field 'gx.crc32' in its metadata, by which a change is found. The file is damaged "
            "or was edited; take an earlier checkpoint.");
    try {
        const JsonValue state = read_json(text->second);
        constexpr int format = detail::checkpoint::format;
        constexpr int format_within = detail::checkpoint::format_within;
        const bool within = state.find("within") != nullptr;
        if (const auto found = state.at("format").integer();
            found != (within ? format_within : format))
            in.wrong(fmt::format(
                "it has file format {}, and this version of gx reads format {}. {}", found,
                within ? format_within : format,
                found < format ? "Finish that run with the version of gx that wrote it, or begin "
                                 "it anew."
                               : "Resume it with the newer version of gx that wrote it."));
        Checkpoint c{.model = state.at("model").string(),
                     .composition = state.at("composition").string(),
                     .seed = state.at("seed").integer<std::uint64_t>(),
                     .ranks = state.at("ranks").integer<int>(),
                     .batch = state.at("batch").integer<int>(),
                     .images = state.at("images").integer(),
                     .data_hash = state.find("data_hash")
                                      ? state.at("data_hash").integer<std::uint64_t>()
                                      : 0,
                     .test_data_hash = state.find("test_data_hash")
                                           ? state.at("test_data_hash").integer<std::uint64_t>()
                                           : 0,
                     .epoch = state.at("epoch").integer<int>(),
                     .step = state.at("step").integer(),
                     .world_step = state.find("world_step") ? state.at("world_step").integer() : 0,
                     .updates = state.at("updates").integer(),
                     .skips_in_a_row = state.at("skips_in_a_row").integer(),
                     .clock = state.at("clock").string(),
                     .timed_as = state.at("timed_as").string(),
                     .seconds = detail::checkpoint::number_or_nan(state.at("seconds")),
                     .undisturbed_seconds = state.at("undisturbed_seconds").number(),
                     .dollars = detail::checkpoint::number_or_nan(state.at("dollars")),
                     .timed_images = state.at("timed_images").number()};
        if (c.model != graph.name.view())
            in.wrong(fmt::format(
                "it is of model '{}', and this run trains '{}'. Resume with the model that wrote "
                "it{}.",
                c.model, graph.name.view(),
                older_model_note(c.model, graph.name.view(), "finish the run with that gx")));
        if (const auto images = file.metadata.find("images"); images != file.metadata.end())
            c.input_format = detail::checkpoint::input_format(path, images->second);
        in.within(state, c);
        in.scalars(state, c);
        c.parameters = in.parameters(graph, "");
        c.statistics.resize(std::size_t(graph.statistic_elements()));
        for (const Statistic& s : graph.statistics)
            in.copy(std::string(s.name.view()),
                    std::span(c.statistics).subspan(std::size_t(s.offset), std::size_t(s.count)));
        in.statistics_within(graph, c);
        in.policies(state, graph, c);
        in.history(state, c);
        in.rows(c);
        return c;
    } catch (const JsonError& e) {
        in.wrong(std::string("its metadata fields 'gx' and 'record' are not as gx writes them: ") +
                 e.what() + ". Take a checkpoint of this version of gx.");
    }
}

GX_DECL std::vector<std::filesystem::directory_entry> checkpoint_files(
    const std::filesystem::path& folder) {
    namespace fs = std::filesystem;
    std::vector<fs::directory_entry> files;
    std::error_code trouble;
    for (fs::directory_iterator at(folder, trouble), end; !trouble && at != end;
         at.increment(trouble)) {
        const std::string name = at->path().filename().string();
        if (name.ends_with(".safetensors") &&
            (name.starts_with("epoch-") || name.starts_with("step-")))
            files.push_back(*at);
    }
    if (trouble && trouble != std::errc::no_such_file_or_directory)
        throw Error("gx: folder '" + folder.string() + "' can't be listed: " + trouble.message() +
                    ". Checkpoints in it are not found, and a run would overwrite them: make the "
                    "folder readable, or name another.");
    return files;
}

GX_DECL FoundCheckpoint latest_checkpoint(const std::filesystem::path& folder, const Graph& graph) {
    namespace fs = std::filesystem;
    std::set<std::pair<fs::file_time_type, fs::path>, std::greater<>> files;  // newest first
    std::vector<std::string> without_time;
    for (const auto& entry : checkpoint_files(folder)) {
        std::error_code trouble, none;
        const auto time = entry.last_write_time(trouble);
        const bool gone = trouble == std::errc::no_such_file_or_directory &&
                          !fs::is_symlink(entry.symlink_status(none));  // by another hand
        if (!trouble) files.emplace(time, entry.path());
        else if (!gone)
            without_time.push_back("'" + entry.path().string() +
                                   "' can't be looked at: " + trouble.message() + ".");
    }
    FoundCheckpoint found;
    fs::file_time_type before{};
    for (const auto& [time, file] : files) {
        if (found.checkpoint && time != before) break;
        before = time;
        try {
            Checkpoint c = read_checkpoint(file, graph);
            if (found.checkpoint && found.checkpoint->progress() >= c.progress()) continue;
            found.checkpoint = std::move(c);
            found.file = file;
        } catch (const Error& e) {
            found.errors.emplace_back(e.what());
        }
    }
    found.errors.insert(found.errors.end(), without_time.begin(), without_time.end());
    return found;
}

GX_DECL std::vector<StepRow> earlier_steps(const std::filesystem::path& path, const Checkpoint& c) {
    RunRecord last;
    read_rows(c.record, last);
    std::vector<StepRow> steps;
    for (int epoch = 1; epoch < c.epoch + (c.is_within() ? 1 : 0); ++epoch) {
        try {
            const auto metadata =
                read_safetensors_metadata(path.parent_path() / checkpoint_name(epoch));
            const auto record = metadata.find("record");
            if (record == metadata.end()) continue;
            RunRecord rows;
            read_rows(record->second, rows);
            if (std::ssize(rows.epochs) == epoch &&
                std::equal(rows.epochs.begin(), rows.epochs.end(), last.epochs.begin(),
                           detail::checkpoint::same_row))
                steps.insert(steps.end(), rows.steps.begin(), rows.steps.end());
        } catch (const Error&) {  // missing or damaged: that epoch's rows are omitted
        }
    }
    return steps;
}

}  // namespace gx

#if defined(GX_COMPILED)
template class std::vector<gx::Checkpoint::Vector>;
template class std::vector<gx::Checkpoint::Scalar>;
template class std::vector<gx::Checkpoint::Pending>;
template class std::vector<gx::Checkpoint::Option>;
template class std::vector<gx::Checkpoint::ReducerVector>;
#endif
