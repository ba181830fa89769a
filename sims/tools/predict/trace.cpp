#include <tools/predict/trace.hpp>

#include <algorithm>  // sort
#include <cstdlib>    // atoi
#include <map>        // launches

#include <fmt/core.h>  // format

#include <gx/core/error.hpp>      // Error
#include <tools/common/json.hpp>  // Json, parse_json

namespace gx::tools::predict {

namespace {

constexpr std::string_view step_name = "ProfilerStep#";
constexpr std::string_view update_name = "Optimizer.step#";
constexpr std::string_view function_name = "autograd::engine::evaluate_function: ";
constexpr std::string_view gradient_name = "torch::autograd::AccumulateGrad";

/// A complete event; microseconds.
struct Event {
    std::string name{}, category{};
    double begin = 0, end = 0;
    std::int64_t correlation = -1;
    std::int64_t elements = -1;  ///< of its first input; -1: not recorded
    double launched = 0;         ///< of a kernel: when the host did
};

/// Of the first input that has sides; 1 where an input has none, as a scalar.
std::int64_t elements_of(const Json& args) {
    const auto dims = args.find("Input Dims");
    if (dims == args.end() || !dims->is_array()) return -1;
    bool scalar = false;
    for (const Json& d : *dims) {
        if (!d.is_array()) continue;
        scalar = scalar || d.empty();
        if (d.empty()) continue;
        std::int64_t n = 1;
        for (const Json& side : d) {
            if (!side.is_number_integer()) return -1;
            n *= side.get<std::int64_t>();
        }
        return n;
    }
    return scalar ? 1 : -1;
}

std::vector<Event> events_of(const Json& file) {
    std::vector<Event> all;
    const auto list = file.is_object() ? file.find("traceEvents") : file.end();
    if (!file.is_object() || list == file.end() || !list->is_array()) return all;
    for (const Json& e : *list) {
        if (!e.is_object() || e.value("ph", "") != "X" || !e.contains("ts") || !e.contains("dur") ||
            !e.at("ts").is_number() || !e.at("dur").is_number())
            continue;
        Event& v = all.emplace_back();
        v.name = e.value("name", "");
        v.category = e.value("cat", "");
        v.begin = e.at("ts").get<double>();
        v.end = v.begin + e.at("dur").get<double>();
        if (const auto args = e.find("args"); args != e.end() && args->is_object()) {
            if (const auto c = args->find("correlation");
                c != args->end() && c->is_number_integer())
                v.correlation = c->get<std::int64_t>();
            v.elements = elements_of(*args);
        }
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const Event& a, const Event& b) { return a.begin < b.begin; });
    return all;
}

/// The step of median duration; of an even count the shorter of the two in the middle.
Event median_step(const std::vector<Event>& all, const std::string& file) {
    std::vector<Event> steps;
    for (const Event& e : all)
        if (e.name.starts_with(step_name) && e.category != "gpu_user_annotation")
            steps.push_back(e);
    if (steps.empty())
        throw Error(file +
                    ": no 'ProfilerStep#' event, so no step is marked: profile with "
                    "schedule=torch.profiler.schedule(...), and call step() of the profiler "
                    "after each training step");
    std::stable_sort(steps.begin(), steps.end(), [](const Event& a, const Event& b) {
        return a.end - a.begin < b.end - b.begin;
    });
    return steps[(steps.size() - 1) / 2];
}

/// Events of one step, by what they are.
struct Parts {
    std::vector<Event> functions{}, gradients{}, updates{}, kernels{};
};

Parts parts_of(const std::vector<Event>& all, const Event& step, const std::string& file) {
    Parts p;
    std::map<std::int64_t, double> launched;
    for (const Event& e : all) {
        if (e.begin < step.begin || e.end > step.end) continue;
        if (e.category == "cuda_runtime" || e.category == "cuda_driver")
            launched[e.correlation] = e.begin;
        else if (e.name == gradient_name) p.gradients.push_back(e);
        else if (e.name.starts_with(function_name)) p.functions.push_back(e);
        else if (e.name.starts_with(update_name) && e.category == "user_annotation")
            p.updates.push_back(e);
    }
    std::size_t kernels = 0;
    for (const Event& e : all) {
        if (e.category != "kernel") continue;
        ++kernels;
        const auto launch = launched.find(e.correlation);
        if (launch == launched.end()) continue;
        p.kernels.push_back(e);
        p.kernels.back().launched = launch->second;
    }
    const std::string where = fmt::format("{}: {}: ", file, step.name);
    if (p.gradients.empty())
        throw Error(where + "no gradient is ready in it (no '" + std::string(gradient_name) +
                    "'): profile a training step, backward() included, with "
                    "activities=[ProfilerActivity.CPU, ...]");
    if (p.updates.empty())
        throw Error(where +
                    "no 'Optimizer.step#' event: profile whole steps, with the "
                    "optimizer's step() before the profiler's");
    for (const Event& g : p.gradients)
        if (g.elements < 0)
            throw Error(where + "gradients without 'Input Dims': profile with record_shapes=True");
    if (kernels > 0 && p.kernels.empty())
        throw Error(where +
                    "kernels without the 'cuda_runtime' events that launch them: profile with "
                    "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]");
    return p;
}

/// Moments of a step: when forward, backward and the update begin, and when all is done.
struct Moments {
    double forward = 0, backward = 0, update = 0, end = 0;
};

void fill(MeasuredStep& m, const Moments& at) {
    m.forward_ms = (at.backward - at.forward) * 1e-3;
    m.backward_ms = (at.update - at.backward) * 1e-3;
    m.update_ms = (at.end - at.update) * 1e-3;
}

double share_of(double x, double from, double to) {
    return to > from ? std::clamp((x - from) / (to - from), 0.0, 1.0) : 1.0;
}

void on_cpu(MeasuredStep& m, const Event& step, const Parts& p) {
    Moments at{step.begin, p.functions.front().begin, 0, 0};
    for (const Event& f : p.functions) at.update = std::max(at.update, f.end);
    at.end = at.update;
    for (const Event& u : p.updates) at.end += u.end - u.begin;
    fill(m, at);
    for (const Event& g : p.gradients)
        m.gradients.push_back({g.elements, share_of(g.end, at.backward, at.update)});
    for (const Event& f : p.functions)
        if (!f.name.ends_with(gradient_name))
            m.backward.push_back({f.name.substr(function_name.size()), (f.end - f.begin) * 1e-3});
}

/// A kernel belongs to the part of the step in which the host launched it.
void on_gpu(MeasuredStep& m, const Parts& p, const std::string& where) {
    const double backward = p.functions.front().begin, update = p.updates.front().begin;
    Moments at{p.kernels.front().begin, 0, 0, 0};
    double busy = 0;
    for (const Event& k : p.kernels) {
        if (k.launched >= backward && at.backward == 0) at.backward = k.begin;
        if (k.launched >= update && at.update == 0) at.update = k.begin;
        busy += std::max(0.0, k.end - std::max(k.begin, at.end));
        at.end = std::max(at.end, k.end);
    }
    if (at.backward == 0 || at.update == 0)
        throw Error(where + "no kernel of backward or of the update: profile a whole step");
    fill(m, at);
    m.gap_ms = (at.end - at.forward - busy) * 1e-3;
    for (const Event& g : p.gradients) {
        double ready = at.backward;
        for (const Event& k : p.kernels)
            if (k.launched <= g.end) ready = std::max(ready, k.end);
        m.gradients.push_back({g.elements, share_of(ready, at.backward, at.update)});
    }
    for (const Event& f : p.functions) {
        if (f.name.ends_with(gradient_name)) continue;
        double ms = 0;
        for (const Event& k : p.kernels)
            if (k.launched >= f.begin && k.launched <= f.end) ms += (k.end - k.begin) * 1e-3;
        m.backward.push_back({f.name.substr(function_name.size()), ms});
    }
}

}  // namespace

MeasuredStep read_trace(std::string_view text, const std::string& file) {
    const std::vector<Event> all = events_of(parse_json(text, file));
    if (all.empty())
        throw Error(file +
                    ": no complete events ('ph': 'X') in 'traceEvents': expected what "
                    "export_chrome_trace() of torch.profiler writes");
    const Event step = median_step(all, file);
    const Parts parts = parts_of(all, step, file);
    if (parts.functions.empty())
        throw Error(
            fmt::format("{}: {}: no function of backward: profile with "
                        "activities=[ProfilerActivity.CPU, ...]",
                        file, step.name));
    MeasuredStep m{.number = std::atoi(step.name.c_str() + step_name.size()),
                   .gpu = !parts.kernels.empty(),
                   .step_ms = (step.end - step.begin) * 1e-3};
    if (m.gpu) on_gpu(m, parts, fmt::format("{}: {}: ", file, step.name));
    else on_cpu(m, step, parts);
    return m;
}

}  // namespace gx::tools::predict
