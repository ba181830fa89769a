#include <tools/predict/trace.hpp>

#include <algorithm>  // all_of
#include <charconv>   // from_chars
#include <cmath>      // abs
#include <map>        // launches
#include <set>        // sizes of gradients

#include <fmt/core.h>  // format

#include <gx/core/error.hpp>             // Error
#include <tools/common/gunzip.hpp>       // gunzip, is_gzip
#include <tools/common/json.hpp>         // Json, parse_json
#include <tools/common/stable_sort.hpp>  // stable_sort
#include <tools/common/text.hpp>         // lower, has

namespace gx::tools::predict {

namespace {

constexpr std::string_view step_name = "ProfilerStep#";
constexpr std::string_view update_name = "Optimizer.step#";
constexpr std::string_view function_name = "autograd::engine::evaluate_function: ";
constexpr std::string_view gradient_name = "torch::autograd::AccumulateGrad";
constexpr std::string_view checkpoint_name = "CheckpointFunctionBackward";

constexpr std::size_t unpacked_most = 256 << 20;        // as read_input's of a plain one
constexpr double begin_most = 1e18, lasts_most = 1e14;  // microseconds

/// A complete event; microseconds.
struct Event {
    std::string name{}, category{};  ///< category: in lower case
    double begin = 0, end = 0;
    std::int64_t correlation = -1;
    std::int64_t sequence = -1;       ///< of a function: that of its operation in forward
    std::int64_t forward_thread = 0;  ///< of a function: that of its operation, from 1 on
    std::int64_t elements = -1;       ///< of its first input; -1: not recorded
    std::int64_t device = -1;         ///< of a kernel
    double launched = 0;              ///< of a kernel: when the host did
    std::string process{};            ///< of what the host ran; of a kernel its device; empty: none
};

constexpr std::uint64_t elements_most = std::uint64_t{1} << 53;

/// Of the first input that has sides; 1 where an input has none, as a scalar; -1 for no count.
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
            if (!side.is_number_unsigned()) return -1;
            const auto more = side.get<std::uint64_t>();
            if (more > 0 &&
                more > elements_most / static_cast<std::uint64_t>(std::max<std::int64_t>(n, 1)))
                return -1;
            n *= static_cast<std::int64_t>(more);
        }
        return n;
    }
    return scalar ? 1 : -1;
}

/// Of an event's field; empty where it has none, or another than a string.
std::string text_of(const Json& event, const char* field) {
    const auto at = event.find(field);
    return at != event.end() && at->is_string() ? at->get<std::string>() : "";
}

/// Errors: gx::Error with the file, as it is `called`, for an event of a time that cannot be.
std::vector<Event> events_of(const Json& file, const std::string& called) {
    std::vector<Event> all;
    const auto list = file.is_object() ? file.find("traceEvents") : file.end();
    if (!file.is_object() || list == file.end() || !list->is_array()) return all;
    for (const Json& e : *list) {
        if (!e.is_object() || text_of(e, "ph") != "X" || !e.contains("ts") || !e.contains("dur") ||
            !e.at("ts").is_number() || !e.at("dur").is_number())
            continue;
        Event& v = all.emplace_back();
        v.name = text_of(e, "name");
        v.category = lower(text_of(e, "cat"));
        if (const auto pid = e.find("pid"); pid != e.end()) v.process = pid->dump();
        v.begin = e.at("ts").get<double>();
        const double lasts = e.at("dur").get<double>();
        if (!(std::abs(v.begin) <= begin_most) || !(lasts >= 0 && lasts <= lasts_most))
            throw Error(
                fmt::format("{}: event '{}' begins at {} us and lasts {} us: expected 0 to "
                            "{:.0e} us, from at most {:.0e} us on",
                            called, v.name, v.begin, lasts, lasts_most, begin_most));
        v.end = v.begin + lasts;
        if (const auto args = e.find("args"); args != e.end() && args->is_object()) {
            const auto whole = [&](const char* name, std::int64_t& to) {
                const auto at = args->find(name);
                if (at != args->end() && at->is_number_integer()) to = at->get<std::int64_t>();
            };
            whole("correlation", v.correlation);
            whole("device", v.device);
            whole("Sequence number", v.sequence);
            whole("Fwd thread id", v.forward_thread);
            v.elements = elements_of(*args);
        }
    }
    stable_sort(all, [](const Event& a, const Event& b) { return a.begin < b.begin; });
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
    stable_sort(steps,
                [](const Event& a, const Event& b) { return a.end - a.begin < b.end - b.begin; });
    return steps[(steps.size() - 1) / 2];
}

/// Events of one step, by what they are. Functions' names are without what the engine puts before.
struct Parts {
    std::vector<Event> functions{}, gradients{}, updates{}, kernels{};
};

/// Where the engine marks no functions, as in PyTorch 1.9: what has the thread of its operation in
/// forward, so runs in backward, and sums of gradients; of these what is not inside of another.
std::vector<Event> unmarked_functions(const std::vector<Event>& all, const Event& step) {
    std::vector<Event> outer;
    for (const Event& e : all) {
        if (e.begin < step.begin || e.end > step.end) continue;
        if (e.forward_thread < 1 && e.name != gradient_name) continue;
        if (!outer.empty() && e.end <= outer.back().end) continue;
        outer.push_back(e);
    }
    return outer;
}

Parts parts_of(const std::vector<Event>& all, const Event& step, const std::string& file) {
    Parts p;
    std::map<std::int64_t, double> launched;
    for (const Event& e : all) {
        if (e.begin < step.begin || e.end > step.end) continue;
        if (e.category == "cuda_runtime" || e.category == "cuda_driver" || e.category == "runtime")
            launched[e.correlation] = e.begin;
        else if (e.name == gradient_name) p.gradients.push_back(e);
        else if (e.name.starts_with(function_name)) {
            p.functions.push_back(e);
            p.functions.back().name.erase(0, function_name.size());
        } else if (e.name.starts_with(update_name) && e.category != "gpu_user_annotation")
            p.updates.push_back(e);
    }
    if (p.functions.empty()) p.functions = unmarked_functions(all, step);
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
    for (const Event& f : p.functions)
        if (f.name.ends_with(checkpoint_name))
            throw Error(fmt::format(
                "{}'{}': gradients of activations can't be distinguished in it from those of "
                "parameters: checkpoint with use_reentrant=False",
                where, checkpoint_name));
    if (p.gradients.empty())
        throw Error(where + "no gradient is ready in it (no '" + std::string(gradient_name) +
                    "'): profile a training step, backward() included, with "
                    "activities=[ProfilerActivity.CPU, ...]");
    if (std::all_of(p.functions.begin(), p.functions.end(),
                    [](const Event& f) { return f.name.ends_with(gradient_name); }))
        throw Error(where +
                    "no function of backward: profile with activities=[ProfilerActivity.CPU, "
                    "...], by a PyTorch that records 'Fwd thread id' (1.9 does)");
    if (p.updates.empty())
        throw Error(where +
                    "no 'Optimizer.step#' event: profile whole steps, with the "
                    "optimizer's step() before the profiler's");
    for (const Event& g : p.gradients)
        if (g.elements < 0)
            throw Error(where +
                        "gradients without 'Input Dims' that can be counted: profile with "
                        "record_shapes=True");
    if (kernels > 0 && p.kernels.empty())
        throw Error(where +
                    "kernels without the 'cuda_runtime' events that launch them: profile with "
                    "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]");
    return p;
}

/// Processes of the run, as PyTorch notes them where torch.distributed is in use; 0: not said.
std::int64_t processes_of(const Json& file) {
    const auto info = file.is_object() ? file.find("distributedInfo") : file.end();
    if (!file.is_object() || info == file.end() || !info->is_object()) return 0;
    const auto size = info->find("world_size");
    if (size == info->end()) return 0;
    if (size->is_number_integer()) return size->get<std::int64_t>();
    std::int64_t n = 0;
    const std::string text = text_of(*info, "world_size");
    (void)std::from_chars(text.data(), text.data() + text.size(), n);
    return n;
}
/// Whether an event of the host exchanges data with other processes, or prepares or waits for it.
/// Source: PyTorch torch/csrc/distributed/c10d: ProcessGroup*.cpp and ParamCommsUtils.hpp name
///         them; torch/nn/parallel/distributed.py.
bool is_exchange(const std::string& name) {
    for (const char* opening : {"gloo:", "nccl:", "mpi:", "ucc:", "xccl:", "hccl:", "c10d::",
                                "_c10d_functional::", "DistributedDataParallel."})
        if (name.starts_with(opening)) return true;
    return name == "record_param_comms";
}

/// The GPU of a kernel; empty where the trace says none.
std::string device_of(const Event& kernel) {
    if (kernel.device >= 0) return std::to_string(kernel.device);
    std::string process = kernel.process;
    std::erase(process, '"');
    return process;
}

/// Times of a step that waits for other GPUs would be taken for computation.
/// Errors: gx::Error for events of more than one process, kernels of more than one GPU or of NCCL
///         or RCCL, and collectives of a run that is not of one process.
void check_alone(const std::vector<Event>& all, const Event& step, const Parts& p,
                 std::int64_t processes, const std::string& file) {
    const auto refuse = [&](const std::string& found) {
        throw Error(
            fmt::format("{}: {}: {}: expected a step that one GPU does alone: trace one "
                        "GPU without DistributedDataParallel",
                        file, step.name, found));
    };
    const Event* first = nullptr;
    for (const Event& e : all) {
        if (e.process.empty() || (e.name != gradient_name && !e.name.starts_with(function_name)))
            continue;
        if (first == nullptr) first = &e;
        if (e.process != first->process)
            refuse(fmt::format("operators of processes {} and {}", first->process, e.process));
    }
    first = nullptr;
    for (const Event& k : p.kernels) {
        if (const std::string name = lower(k.name); has(name, "nccl") || has(name, "rccl"))
            refuse(fmt::format("kernel '{}' exchanges data", k.name.substr(0, k.name.find('('))));
        if (device_of(k).empty()) continue;
        if (first == nullptr) first = &k;
        if (device_of(k) != device_of(*first))
            refuse(fmt::format("kernels of devices {} and {}", device_of(*first), device_of(k)));
    }
    if (processes == 1) return;
    for (const Event& e : all)
        if (e.end > step.begin && e.begin < step.end && is_exchange(e.name))
            refuse(processes > 1
                       ? fmt::format("'{}' in a run of {} processes", e.name, processes)
                       : fmt::format("'{}' in a run that says no 'world_size' of 1", e.name));
}

/// A backward pass: its functions, its gradients, and when the host ran it.
struct Pass {
    double begin = 0, end = 0;
    std::vector<Event> functions{}, gradients{};
};

/// The passes that make gradients. The engine runs functions from the last operation of forward to
/// the first, so that one of a later operation than all before it begins another pass. (Functions
/// inside of others are those of a backward pass within one.)
/// Source: PyTorch torch/csrc/autograd/engine.h: ready functions are ordered by sequence number.
std::vector<Pass> passes_of(const Parts& p, const std::string& where) {
    std::vector<Pass> all;
    std::int64_t latest = -1;
    for (const Event& f : p.functions) {
        const bool inside = !all.empty() && f.end <= all.back().end;
        if (all.empty() || (!inside && latest >= 0 && f.sequence > latest))
            all.push_back({.begin = f.begin, .end = f.end});
        Pass& pass = all.back();
        latest = std::max(latest, f.sequence);
        pass.end = std::max(pass.end, f.end);
        pass.functions.push_back(f);
    }
    for (const Event& g : p.gradients)
        for (std::size_t i = all.size(); i-- > 0;)
            if (g.begin >= all[i].begin || i == 0) {
                all[i].gradients.push_back(g);
                break;
            }
    std::erase_if(all, [](const Pass& pass) { return pass.gradients.empty(); });
    const auto sizes = [](const Pass& pass) {
        std::multiset<std::int64_t> elements;
        for (const Event& g : pass.gradients) elements.insert(g.elements);
        return elements;
    };
    std::uint64_t elements = 0;
    for (const Event& g : all.front().gradients) {
        elements += static_cast<std::uint64_t>(g.elements);
        if (elements > elements_most)
            throw Error(where + "gradients of more than 2^53 elements: they can't be counted");
    }
    if (elements == 0)
        throw Error(where + "gradients of 0 elements: trace a network that has parameters");
    for (const Pass& pass : all)
        if (sizes(pass) != sizes(all.front()))
            throw Error(where +
                        fmt::format("backward passes of {} and {} gradients that differ: expected "
                                    "one network, whose micro-batches are alike",
                                    all.front().gradients.size(), pass.gradients.size()));
    return all;
}

/// Adds up a step's parts in microseconds, and divides those of each micro-batch by their number.
struct Sums {
    double forward = 0, backward = 0, update = 0;
    void fill(MeasuredStep& m) const {
        m.forward_ms = forward * 1e-3 / m.micro_batches;
        m.backward_ms = backward * 1e-3 / m.micro_batches;
        m.update_ms = update * 1e-3;
    }
};

double share_of(double x, double from, double to) {
    return to > from ? std::clamp((x - from) / (to - from), 0.0, 1.0) : 1.0;
}

void on_cpu(MeasuredStep& m, const Event& step, const Parts& p, const std::vector<Pass>& passes) {
    Sums sums;
    double before = step.begin;
    for (const Pass& pass : passes) {
        sums.forward += pass.begin - before;
        sums.backward += pass.end - pass.begin;
        before = pass.end;
    }
    for (const Event& u : p.updates) sums.update += u.end - u.begin;
    sums.fill(m);
    const Pass& last = passes.back();
    for (const Event& g : last.gradients)
        m.gradients.push_back({g.elements, share_of(g.end, last.begin, last.end)});
    for (const Event& f : last.functions)
        if (!f.name.ends_with(gradient_name))
            m.backward.push_back({f.name, (f.end - f.begin) * 1e-3});
}

/// A kernel belongs to the part of the step in which the host launched it; a part lasts until the
/// next one's first kernel. What is launched between the last pass and the update is the former's.
void on_gpu(MeasuredStep& m, const Parts& p, const std::vector<Pass>& passes,
            const std::string& where) {
    const double update = p.updates.front().begin;
    enum class Part : unsigned char { forward, backward, updating };
    const auto part_of = [&](const Event& k) {
        if (k.launched >= update) return Part::updating;
        if (k.launched >= passes.back().begin) return Part::backward;
        for (const Pass& pass : passes)
            if (k.launched >= pass.begin && k.launched <= pass.end) return Part::backward;
        return Part::forward;
    };
    Sums sums;
    Part now = Part::forward;
    double since = p.kernels.front().begin, end = 0, busy = 0, last = 0, updated = 0;
    const auto close = [&](double at) {
        (now == Part::forward    ? sums.forward
         : now == Part::backward ? sums.backward
                                 : sums.update) += at - since;
        since = at;
    };
    for (const Event& k : p.kernels) {
        if (const Part part = part_of(k); part != now) close(k.begin), now = part;
        if (now == Part::backward && k.launched >= passes.back().begin && last == 0) last = k.begin;
        if (now == Part::updating && updated == 0) updated = k.begin;
        busy += std::max(0.0, k.end - std::max(k.begin, end));
        end = std::max(end, k.end);
    }
    close(end);
    if (last == 0 || updated == 0)
        throw Error(where + "no kernel of backward or of the update: profile a whole step");
    sums.fill(m);
    m.gap_ms = (end - p.kernels.front().begin - busy) * 1e-3;
    for (const Event& g : passes.back().gradients) {
        double ready = last;
        for (const Event& k : p.kernels)
            if (k.launched <= g.end) ready = std::max(ready, k.end);
        m.gradients.push_back({g.elements, share_of(ready, last, updated)});
    }
    for (const Event& f : passes.back().functions) {
        if (f.name.ends_with(gradient_name)) continue;
        double ms = 0;
        for (const Event& k : p.kernels)
            if (k.launched >= f.begin && k.launched <= f.end) ms += (k.end - k.begin) * 1e-3;
        m.backward.push_back({f.name, ms});
    }
}

}  // namespace

std::int64_t MeasuredStep::elements() const {
    std::int64_t sum = 0;
    for (const Gradient& g : gradients) sum += g.elements;
    return sum;
}

MeasuredStep read_trace(std::string_view text, const std::string& file) {
    std::string unpacked;
    if (is_gzip(text)) text = unpacked = gunzip(text, file, unpacked_most);
    const Json json = parse_json(text, file);
    const std::vector<Event> all = events_of(json, file);
    if (all.empty())
        throw Error(file +
                    ": no complete events ('ph': 'X') in 'traceEvents': expected what "
                    "export_chrome_trace() of torch.profiler writes");
    const Event step = median_step(all, file);
    const Parts parts = parts_of(all, step, file);
    check_alone(all, step, parts, processes_of(json), file);
    const std::string where = fmt::format("{}: {}: ", file, step.name);
    if (!(step.end > step.begin)) throw Error(where + "it takes no time: profile a whole step");
    const std::vector<Pass> passes = passes_of(parts, where);
    int number = 0;
    const std::string_view digits = std::string_view(step.name).substr(step_name.size());
    const char* const end = digits.data() + digits.size();
    if (const auto read = std::from_chars(digits.data(), end, number);
        read.ec != std::errc{} || read.ptr != end || number < 0)
        throw Error(where + "expected 'ProfilerStep#' and a number from 0 to 2147483647");
    MeasuredStep m{.number = number,
                   .gpu = !parts.kernels.empty(),
                   .micro_batches = static_cast<int>(passes.size()),
                   .step_ms = (step.end - step.begin) * 1e-3};
    if (m.gpu) on_gpu(m, parts, passes, where);
    else on_cpu(m, step, parts, passes);
    if (m.update_ms > m.step_ms)
        throw Error(
            fmt::format("{}updates of {:.3f} ms in a step of {:.3f}: one 'Optimizer.step#' "
                        "is within another",
                        where, m.update_ms, m.step_ms));
    return m;
}

}  // namespace gx::tools::predict
