// gx_calibrate: published rates of one GPU beside simulated ones, and the residuals.
// Run:     gx_calibrate --cases cases.json
// Prints:  a row for each rate, and for each GPU and precision the residuals.

#include <algorithm>  // sort
#include <cmath>      // fabs
#include <map>        // rows by GPU and precision
#include <numeric>    // midpoint
#include <optional>   // what a case does not say
#include <set>        // splits
#include <string>     // names
#include <tuple>      // order
#include <vector>     // rows

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <fmt/ranges.h>  // join

#include <gx/core/error.hpp>              // Error
#include <gx/io/json_value.hpp>           // read_json
#include <gx/sim/catalog/find_gpu.hpp>    // find_gpu
#include <gx/sim/catalog/find_model.hpp>  // find_model
#include <gx/sim/compute/framework.hpp>   // framework_of
#include <gx/sim/compute/roofline.hpp>    // TimedGraph

#include <support/command_line.hpp>  // read_input, run_program

namespace {

using namespace gx;
using sim::Precision;

/// Published rate of one GPU, with all that its time depends on.
struct Rate {
    std::string id{}, gpu{}, model{}, precision{}, framework{}, split{};
    Label known_gpu{};  ///< the simulated one
    Precision computed = Precision::fp32;
    int batch = 0, tokens = 128;
    double published = 0, simulated = 0;
    [[nodiscard]] double residual_pct() const { return 100 * (simulated / published - 1); }
};

std::string text_of(const JsonValue& object, std::string_view field) {
    const JsonValue* found = object.find(field);
    return found && found->kind == JsonValue::Kind::string ? found->string() : std::string();
}
std::optional<double> number_of(const JsonValue& object, std::string_view field) {
    const JsonValue* found = object.find(field);
    if (!found || found->kind != JsonValue::Kind::number) return {};
    return found->number();
}
bool says(std::string_view text, std::string_view word) {
    return text.find(word) != std::string_view::npos;
}

/// "ResNet-50 v1b" is timed as ResNet-50, "AlexNet (MXNet)" as AlexNet.
const sim::KnownModel& model_of(const std::string& name) {
    const std::string first = name.substr(0, name.find(' '));
    return sim::find_model(name == "ResNet-50 v1" ? name : first);
}
Precision precision_of(const std::string& text) {
    if (says(text, "TF32")) return Precision::tf32;
    const bool half = says(text, "fp16") || says(text, "AMP") || says(text, "mixed");
    return half && !says(text, "fp32") ? Precision::mixed : Precision::fp32;
}

std::string path_of(const std::string& id) { return "case '" + id + "': "; }

/// The rate of a point, if it is of one GPU at a stated batch.
std::optional<Rate> rate_of(const JsonValue& c, const JsonValue& point) {
    const JsonValue& conditions = c.at("conditions");
    const auto either = [&](std::string_view field) {
        const std::string own = text_of(point, field);
        return own.empty() ? text_of(conditions, field) : own;
    };
    Rate r{.id = c.at("id").string(),
           .gpu = either("gpu"),
           .model = either("model"),
           .precision = either("precision"),
           .framework = text_of(conditions, "framework"),
           .split = text_of(c, "split")};
    const std::string unit = text_of(point, "unit"), role = text_of(point, "role");
    const bool table = says(unit, "img/s") && number_of(point, "batch").has_value();
    if (table && r.model.empty())  // a table of rates, ResNet-50 where it says nothing else
        r.model = says(unit, ", ") ? unit.substr(unit.find(", ") + 2) : "ResNet-50";
    if (role == "target" || (!table && number_of(point, "gpus").value_or(0) != 1)) return {};
    auto batch = number_of(point, "batch");
    if (!batch) batch = number_of(point, "batch_per_gpu");
    if (!batch) batch = number_of(conditions, "batch_per_gpu");
    const auto value = number_of(point, "value");
    if (!batch || !value || r.gpu.empty() || r.model.empty()) return {};
    if (!(*batch >= 1 && *batch <= 1e6 && *value > 0))
        throw Error(path_of(r.id) + "expected a batch from 1 to 1000000 and a value above 0");
    r.batch = static_cast<int>(*batch);
    r.published = says(unit, "s/iteration") ? *batch / *value : *value;
    if (says(unit, "tokens")) return {};
    if (says(r.id, "s512")) r.tokens = 512;
    return r;
}

void simulate(Rate& r) {
    const bool sequence = says(r.model, "BERT") || says(r.model, "GPT");
    const Graph graph =
        model_of(r.model).make({.input = sequence ? ImageShape{1, r.tokens, 1} : ImageShape{}});
    const sim::GpuSpec gpu = sim::find_gpu(r.gpu);
    r.known_gpu = gpu.name;
    r.computed = precision_of(r.precision);
    const sim::TimedGraph times(graph, gpu, r.computed, sim::framework_of(r.framework));
    r.simulated = r.batch / seconds(times.step(r.batch));
}

void print_left_over(const std::vector<Rate>& rates) {
    std::map<std::string, std::vector<double>> groups;
    for (const Rate& r : rates) {
        const std::string gpu(r.known_gpu.view());
        groups[gpu.substr(0, gpu.find('-')) + " " + std::string(to_string(r.computed))].push_back(
            r.residual_pct());
    }
    fmt::print("\n{:<12} {:>5}  {:>10}  {:>10}  {:>10}\n", "", "rates", "mean", "median |.|",
               "largest |.|");
    for (auto& [name, left] : groups) {
        double mean = 0;
        for (double& x : left) {
            mean += x / static_cast<double>(left.size());
            x = std::fabs(x);
        }
        std::sort(left.begin(), left.end());
        fmt::print("{:<12} {:>5}  {:>+9.1f}%  {:>9.1f}%  {:>9.1f}%\n", name, left.size(), mean,
                   std::midpoint(left[(left.size() - 1) / 2], left[left.size() / 2]), left.back());
    }
}

/// Errors: gx::Error for text that is not a list of cases; with the file.
std::vector<Rate> read_rates(const std::string& path) {
    const std::string text = read_input("--cases", path);
    std::vector<Rate> rates;
    try {
        for (const JsonValue& c : read_json(text).array())
            for (const JsonValue& point : c.at("measured").array())
                if (auto rate = rate_of(c, point)) rates.push_back(*rate);
    } catch (const Error& e) {
        throw Error("file '" + path + "': " + e.what());
    }
    return rates;
}

/// Errors: gx::Error for a split that no rate is of.
void check_split(const std::string& split, const std::string& path,
                 const std::vector<Rate>& rates) {
    std::set<std::string> known;
    for (const Rate& r : rates)
        if (!r.split.empty()) known.insert("'" + r.split + "'");
    if (split.empty() || rates.empty() || known.contains("'" + split + "'")) return;
    throw Error(fmt::format("--split {}: no rate of one GPU in '{}' is of it: {}", split, path,
                            known.empty() ? "its cases have no field 'split'; leave it out"
                                          : fmt::format("expected {}", fmt::join(known, " or "))));
}

void calibrate(const std::string& path, const std::string& split) {
    std::vector<Rate> rates;
    std::vector<std::string> passed_over;
    const std::vector<Rate> all = read_rates(path);
    check_split(split, path, all);
    for (Rate rate : all) {
        if (!split.empty() && rate.split != split) continue;
        try {
            simulate(rate);
            rates.push_back(rate);
        } catch (const Error& e) {
            passed_over.push_back(rate.id + ": " + e.what());
        }
    }
    if (rates.empty())
        throw Error("'" + path +
                    "' has no rate of one GPU: a point needs 'gpus' 1, a 'value' in "
                    "img/s, seq/s or s/iteration, and its case 'gpu', 'model' and 'batch_per_gpu'");
    std::sort(rates.begin(), rates.end(), [](const Rate& a, const Rate& b) {
        return std::tuple(a.known_gpu.view(), a.computed, a.id, a.model, a.batch) <
               std::tuple(b.known_gpu.view(), b.computed, b.id, b.model, b.batch);
    });
    fmt::print("{:<32} {:<18} {:<17} {:<6} {:<14} {:>5} {:>10} {:>10} {:>9}\n", "case", "GPU",
               "model", "", "kernels", "batch", "published", "simulated", "left over");
    for (const Rate& r : rates) {
        const sim::Framework f = sim::framework_of(r.framework);
        fmt::print("{:<32} {:<18} {:<17} {:<6} {:<14} {:>5} {:>10.1f} {:>10.1f} {:>+8.1f}%\n", r.id,
                   r.known_gpu.view(), r.model, to_string(r.computed),
                   f.fused            ? "fused"
                   : f.channels_first ? "channels first"
                                      : "separate",
                   r.batch, r.published, r.simulated, r.residual_pct());
    }
    print_left_over(rates);
    for (const std::string& p : passed_over) fmt::print("passed over: {}\n", p);
}

}  // namespace

int main(int argc, char** argv) {
    std::string path, split;
    CLI::App app("Compares the simulated GPUs with published rates of one GPU.", "gx_calibrate");
    app.add_option("--cases", path, "published cases, as JSON")->required();
    app.add_option("--split", split, "only cases of this split: calibration or reference");
    return gx::run_program(app, argc, argv, [&] { calibrate(path, split); });
}
