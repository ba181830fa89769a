#include <tools/predict/case_model.hpp>

#include <algorithm>  // max
#include <cmath>      // isfinite
#include <set>        // GPUs of points

#include <fmt/format.h>  // format
#include <fmt/ranges.h>  // join

#include <gx/core/error.hpp>                    // Error
#include <tools/common/text.hpp>                // lower, has
#include <tools/predict/limits.hpp>             // within
#include <tools/predict/mechanism.hpp>          // find_mechanism
#include <tools/predict/parameter_profile.hpp>  // millions_in, unread_size

namespace gx::tools::predict {

namespace {

constexpr double imagenet_images = 1'281'167;

std::string did_you_mean(const std::string& name) {
    return name.empty() ? "" : " (did you mean '" + name + "'?)";
}

}  // namespace

CaseModel::CaseModel(const Case& given, const Calibration& k, WireTime& wire,
                     const sim::ClusterSpec* network)
    : case_(given),
      k_(k),
      wire_(wire),
      network_(network),
      base_(find_base()),
      c_(read_conditions(case_.conditions)),
      measure_(measure_of(base_.unit, field(base_.index, "unit"))) {
    check_units();
    settle_gpus_per_node();
    check_groups();
    settle_global_batch();
    settle_batch();
    work_ = model_work(c_.model, c_.gpu, c_.precision, c_.batch_per_gpu);
    settle_gradient();
    machine_ = machine_name(c_);
    if (c_.accumulates && c_.global_batch == 0 &&
        samples_unchecked(base_) == global_batch() / gpus_of(base_, group(base_)))
        remark(fmt::format("global batch not stated: {} assumed", global_batch()));
    settled_ = c_.remarks;
}

Hardware CaseModel::hardware(const Stack& stack) {
    Hardware h = hardware_of(c_, stack, k_, c_.remarks);
    h.machine = machine_;
    if (network_ == nullptr) return h;
    h.measure(*network_);
    remark("links and network as measured on " + h.machine);
    return h;
}

Prediction CaseModel::run() {
    c_.remarks = settled_;
    const Stack stack = find_stack(c_, k_);
    const Hardware h = hardware(stack);
    StepModel model(c_, stack, h, work_, k_, wire_);
    Prediction p{.id = case_.id,
                 .file = case_.file,
                 .machine = h.machine,
                 .stack = stack.name,
                 .profile = std::string(h.profile.name.view())};
    for (const Point& t : case_.points)
        if (t.role == Point::Role::target) p.points.push_back(point(t, model));
    p.why = why(stack, h, model);
    for (const std::string& r : c_.remarks)
        if (r.ends_with(" assumed") || r.ends_with(" is not read") || r.starts_with("GPU '"))
            p.assumed.push_back(r);
    const Mechanism* const how = find_mechanism(c_.framework, c_.model, c_.collective);
    if (how == nullptr)
        p.assumed.push_back(c_.framework.empty()
                                ? "framework not stated: " + stack.name + " assumed"
                                : "framework '" + c_.framework + "' not known: " + stack.name +
                                      " assumed");
    else if (!how->timed)
        p.assumed.push_back(
            how->name + ": its exchange of gradients is not modelled: " + stack.name + " assumed");
    else if (stack.other)
        p.assumed.push_back(how->name + ": the costs are of another exchange of gradients: " +
                            stack.name + " assumed");
    return p;
}

std::vector<PredictedPoint> CaseModel::points(std::optional<Scheme> as) {
    c_.remarks = settled_;
    Stack stack = find_stack(c_, k_);
    if (as) stack.scheme = *as;
    const Hardware h = hardware(stack);
    StepModel model(c_, stack, h, work_, k_, wire_);
    std::vector<PredictedPoint> all;
    for (const Point& t : case_.points)
        if (t.role == Point::Role::target) all.push_back(point(t, model));
    return all;
}

const Point& CaseModel::find_base() const {
    if (!case_.asks())
        throw Error("field 'measured': no point has the role target, so nothing is asked");
    const Point *base = nullptr, *given = nullptr;
    for (const Point& p : case_.points) {
        if (p.role == Point::Role::given && given == nullptr) given = &p;
        if (p.role != Point::Role::base) continue;
        if (base != nullptr)
            throw Error(
                fmt::format("{}base, as 'measured[{}]' is: expected one base, which others "
                            "are compared with; mark this one given",
                            field(p.index, "role"), base->index));
        base = &p;
    }
    if (base != nullptr) return *base;
    if (given != nullptr) return *given;
    throw Error(
        "field 'measured': no point has the role base or given: mark the one that "
        "others are compared with, and give its value and unit");
}

void CaseModel::check_units() const {
    for (const Point& p : case_.points) {
        if (p.role == Point::Role::other || p.unit.empty()) continue;
        const Measure m = measure_of(p.unit, field(p.index, "unit"));
        if (m == measure_) continue;
        throw Error(field(p.index, "unit") + "'" + p.unit + "' where the base has '" + base_.unit +
                    "': a case has one unit; convert, or make two cases");
    }
    for (const Point& p : case_.points)
        if (p.role != Point::Role::other && p.gpus == 0 && p.nodes == 0)
            throw Error(field(p.index, "gpus") +
                        "is missing: say how many GPUs, or how many "
                        "nodes with 'gpus_per_node'");
}

void CaseModel::check_groups() const {
    for (const Point& p : case_.points) {
        if (p.role == Point::Role::other) continue;
        if (p.gpus > 0 && p.nodes > p.gpus)
            throw Error(fmt::format("{}{} nodes with {} GPUs; expected at most a node for each GPU",
                                    field(p.index, "nodes"), p.nodes, p.gpus));
        const double gpus = p.gpus > 0 ? p.gpus : double(p.nodes) * c_.gpus_per_node;
        (void)within(gpus_limits, gpus,
                     field(p.index, "nodes") + "GPUs of all nodes: ", fmt::format("{}", gpus));
        (void)within(gpus_per_node_limits, group(p).gpus,
                     field(p.index, "nodes") + "GPUs of a node: ", std::to_string(group(p).gpus));
    }
}

void CaseModel::settle_gpus_per_node() {
    if (c_.gpus_per_node > 0) return;
    int most = 0;
    for (const Point& p : case_.points) {
        if (p.nodes > 0) most = std::max(most, p.gpus / p.nodes);
        if (p.nodes == 0 && p.gpus > 0) most = std::max(most, std::min(8, p.gpus));
    }
    c_.gpus_per_node = std::max(1, most);
    c_.remarks.push_back(fmt::format("gpus_per_node not stated: {} assumed", c_.gpus_per_node));
}

/// A global batch alone: a fixed one, if the base's GPUs can hold it; else that of all GPUs.
void CaseModel::settle_global_batch() {
    if (c_.global_batch == 0 || c_.accumulates || c_.batch_per_gpu > 0 || base_.batch_per_gpu > 0 ||
        c_.micro_batch > 0)
        return;
    int most = 0;
    for (const Point& p : case_.points)
        if (p.role != Point::Role::other) most = std::max(most, gpus_of(p, group(p)));
    const int base = gpus_of(base_, group(base_));
    fixed_global_ = c_.global_batch / base <= (is_language_model(c_.model) ? 128 : 512);
    c_.batch_per_gpu = c_.global_batch / (fixed_global_ ? base : most);
    (void)within(batch_limits, c_.batch_per_gpu, "field 'conditions.global_batch': of a GPU: ",
                 fmt::format("{:.6g}", c_.batch_per_gpu));
    c_.remarks.push_back(fixed_global_ ? "global batch taken as fixed"
                                       : "global batch taken as that of the most GPUs");
}

void CaseModel::settle_batch() {
    if (c_.batch_per_gpu > 0 || base_.batch_per_gpu > 0 || c_.micro_batch > 0) {
        if (c_.batch_per_gpu == 0)
            c_.batch_per_gpu = base_.batch_per_gpu > 0 ? base_.batch_per_gpu : c_.micro_batch;
        return;
    }
    if (measure_.tokens) {
        c_.sequence = sequence();
        c_.batch_per_gpu = std::max(1.0, 4096 / c_.sequence);
        c_.remarks.push_back(fmt::format("batch not stated: {} tokens a GPU assumed",
                                         c_.batch_per_gpu * c_.sequence));
        return;
    }
    const bool large = c_.gpu.memory.count >= 16'000'000'000;
    const bool mixed = c_.precision == sim::Precision::mixed;
    c_.batch_per_gpu = is_language_model(c_.model) ? 32 : !large ? 64 : mixed ? 256 : 128;
    if (has(lower(c_.gpu.name.view()), "p100")) c_.batch_per_gpu = 64;
    if (!c_.accumulates)
        c_.remarks.push_back(fmt::format("batch not stated: {} a GPU assumed", c_.batch_per_gpu));
}

void CaseModel::settle_gradient() {
    if (c_.gradient_mb_fp32 > 0) return;
    if (work_.gradient_mb_fp32 > 0) {
        c_.gradient_mb_fp32 = within(gradient_mb_limits, work_.gradient_mb_fp32,
                                     "field 'conditions.model': megabytes of its gradient: ",
                                     fmt::format("{:.6g}", work_.gradient_mb_fp32));
        if (!name_unread_size()) name_taken_model();
        return;
    }
    const int millions = measure_.tokens || is_language_model(c_.model) ? 110 : 30;
    c_.gradient_mb_fp32 = 4 * millions;
    c_.remarks.push_back(
        fmt::format("neither params_millions nor a known model{}: {} million parameters assumed",
                    did_you_mean(nearest_model(c_.model)), millions));
    (void)name_unread_size();
}

bool CaseModel::name_unread_size() {
    const std::string size = unread_size(c_.model);
    if (size.empty() || millions_in(c_.model) > 0) return false;
    c_.remarks.push_back(fmt::format(
        "'{}' in the model's name is not read as a number of parameters: {:.4g} million assumed",
        size, c_.gradient_mb_fp32 / 4));
    return true;
}

void CaseModel::name_taken_model() {
    if (work_.taken_for.empty() && !work_.family) return;
    const std::string near = work_.name.empty() ? nearest_model(c_.model, work_.taken_for) : "";
    c_.remarks.push_back(fmt::format(
        "model '{}' {}: {:.4g} million parameters assumed", text_at(case_.conditions, "model"),
        work_.family ? "states no size"
                     : "taken for '" + work_.taken_for + "'" + did_you_mean(near),
        c_.gradient_mb_fp32 / 4));
}

Group CaseModel::group(const Point& p) const {
    const int gpus = p.gpus > 0 ? p.gpus : p.nodes * c_.gpus_per_node;
    int machines = p.nodes > 0 ? p.nodes : (gpus + c_.gpus_per_node - 1) / c_.gpus_per_node;
    machines = std::min(machines, gpus);
    return {machines, (gpus + machines - 1) / machines};
}

int CaseModel::gpus_of(const Point& p, const Group& g) { return p.gpus > 0 ? p.gpus : g.ranks(); }

/// The given point that a target is predicted from: of its phase, the largest not above it.
const Point& CaseModel::anchor(const Point& target) const {
    const Point* best = &base_;
    const auto alike = [&](const Point& p) { return p.phase == target.phase; };
    const int most = gpus_of(target, group(target));
    for (const Point& p : case_.points) {
        if (p.role != Point::Role::base && p.role != Point::Role::given) continue;
        if (alike(p) < alike(*best)) continue;
        const int n = gpus_of(p, group(p)), held = gpus_of(*best, group(*best));
        if (alike(p) > alike(*best) || (n <= most && (n > held || held > most))) best = &p;
    }
    return *best;
}

/// Samples that a GPU takes between two reductions.
double CaseModel::samples(const Point& p) const {
    const double n = samples_unchecked(p);
    return within(batch_limits, n, field(p.index, "batch_per_gpu") + "samples of a GPU a step: ",
                  fmt::format("{:.6g}", n));
}

double CaseModel::samples_unchecked(const Point& p) const {
    const auto g = group(p);
    if (fixed_global_ && p.batch_per_gpu == 0) return c_.global_batch / gpus_of(p, g);
    if (!c_.accumulates) {
        const double batch = p.batch_per_gpu > 0 ? p.batch_per_gpu : c_.batch_per_gpu;
        return batch * c_.accumulation;
    }
    double micro = c_.micro_batch;  // of a step without reduction
    if (micro == 0) micro = p.batch_per_gpu;
    if (micro == 0) micro = base_.batch_per_gpu;
    if (micro == 0 && c_.states_batch_per_gpu) micro = c_.batch_per_gpu;
    if (c_.accumulation_by_nodes.is_object() && micro > 0) {
        const auto at = c_.accumulation_by_nodes.find(std::to_string(g.machines));
        if (at != c_.accumulation_by_nodes.end() && at->is_number())
            return at->get<double>() * micro;
        if (c_.global_batch == 0)
            throw Error(
                fmt::format("field 'conditions.accumulation_steps_by_node_count': {} nodes "
                            "are not among them: add them, or give the global_batch",
                            g.machines));
    }
    const bool stated = p.batch_per_gpu > 0 || base_.batch_per_gpu > 0 || c_.accumulation > 1;
    if (c_.global_batch == 0 && stated && micro > 0) return micro * c_.accumulation;
    return global_batch() / gpus_of(p, g);
}

/// Of all GPUs. Where the case states none: 65,536 sequences of 128 tokens, 32,768 of 512, LAMB's
/// two phases (You et al. 2019). Which one it is shows in the rate: at 512 a GPU would be below a
/// fifth of its peak.
double CaseModel::global_batch() const {
    if (c_.global_batch > 0) return c_.global_batch;
    const double peak = c_.gpu.peak(c_.precision).count;
    const double rate = *base_.given / measure_.seconds / gpus_of(base_, group(base_));
    return rate * 6 * c_.gradient_mb_fp32 / 4 * 1e6 * 128 > 0.2 * peak ? 65536 : 32768;
}

/// Milliseconds of a step at a given point.
double CaseModel::step_ms(const Point& p) {
    const double ms = step_ms_unchecked(p);
    return within(step_ms_limits, ms,
                  field(p.index, "value") + "milliseconds of a step: ", fmt::format("{:.6g}", ms));
}

double CaseModel::step_ms_unchecked(const Point& p) {
    const double v = *p.given, batch = samples(p), n = gpus_of(p, group(p));
    switch (measure_.kind) {
        case Measure::Kind::rate: {
            if (measure_.relative) break;
            const double parts = measure_.per_gpu ? n : measure_.per_node ? group(p).machines : 1;
            const double rate = v / measure_.seconds * parts;
            // a larger one without a length is in tokens
            const bool sequences = c_.sequence > 0 || batch / c_.accumulation < 1024;
            if (measure_.tokens && sequences) return tokens_step_ms(batch * n, rate);
            return batch * n / rate * 1e3;
        }
        case Measure::Kind::step_time: return v * measure_.seconds * 1e3;
        case Measure::Kind::step_rate: return measure_.seconds / v * 1e3;
        case Measure::Kind::job_time:
            if (is_language_model(c_.model)) break;
            return v * measure_.seconds * batch * n / (imagenet_images * epochs()) * 1e3;
        case Measure::Kind::share: break;
    }
    return roofline_ms(batch);
}

/// Of a job: as its unit says, else its conditions, else ImageNet's usual 90.
double CaseModel::epochs() {
    if (has(lower(base_.unit), "epoch")) return measure_.epochs;
    if (c_.epochs > 0) return c_.epochs;
    remark("epochs not stated: 90 assumed");
    return 90;
}

/// Tokens of a sample: as stated, else 512, 2,048 of networks of a billion parameters and more.
double CaseModel::sequence() const {
    if (c_.sequence > 0) return c_.sequence;
    return c_.gradient_mb_fp32 > 4000 ? 2048 : 512;
}

/// Rates in tokens, of steps of so many sequences.
double CaseModel::tokens_step_ms(double sequences, double rate) {
    if (c_.sequence == 0)
        remark(fmt::format("rate in tokens: sequences of {} assumed", sequence()));
    return sequences * sequence() / rate * 1e3;
}

double CaseModel::roofline_ms(double batch) {
    remark("a share of a rate: computation from the roofline");
    if (!work_.graph) return 300;
    const sim::TimedGraph timed(*work_.graph, c_.gpu, c_.precision);
    return seconds(timed.step(std::max(1, static_cast<int>(batch)))) * 1e3;
}

double CaseModel::time_ratio(double batch, double base) {
    for (const auto& [asked, ratio] : ratios_)
        if (asked == std::pair(batch, base)) return ratio;
    return ratios_.emplace_back(std::pair(batch, base), work_.time_ratio(batch, base)).second;
}

void CaseModel::remark(const std::string& text) {
    for (const std::string& r : c_.remarks)
        if (r == text) return;
    c_.remarks.push_back(text);
}

PredictedPoint CaseModel::point(const Point& target, StepModel& model) {
    const Point& from = anchor(target);
    const auto a = group(from), g = group(target);
    const double batch_a = samples(from), batch = samples(target);
    const double known_ms = step_ms(from);
    const double compute_a = model.compute_in(a, known_ms, batch_a);
    const double ratio = c_.accumulates ? batch / batch_a : time_ratio(batch, batch_a);
    Step s = model.of(g, compute_a * ratio, batch);
    const double least_ms = model.of(a, compute_a, batch_a).total_ms;  // known_ms, if it is enough
    if (least_ms > 1.01 * known_ms)
        remark(
            fmt::format("step of {:.4g} ms at {} GPUs is shorter than the {:.4g} ms that its "
                        "gradient, network and framework are modelled with (is one of them, or "
                        "the unit, wrong?): times in proportion assumed",
                        known_ms, gpus_of(from, a), least_ms));
    s.total_ms *= known_ms / least_ms;
    if (g.ranks() == 1 && has(lower(from.variant), "no ddp")) s.total_ms += model.hooks_ms();
    const double n = gpus_of(target, g), n_a = gpus_of(from, a);
    const double per_gpu = (batch / s.total_ms) / (batch_a / known_ms);
    PredictedPoint p{.index = target.index,
                     .gpus = static_cast<int>(n),
                     .machines = std::max(g.machines, a.machines),
                     .between = model.between(a.machines > g.machines ? a : g),
                     .unit = base_.unit,
                     .step_ms = s.total_ms,
                     .exposed_ms = s.exposed_ms,
                     .floor_ms = s.floor_ms};
    p.value = *from.given * value_factor(per_gpu, n / n_a, s.total_ms / known_ms);
    p.anchor_pct = 100 * efficiency_of(from);
    p.efficiency_pct = per_gpu * p.anchor_pct;
    if (n < n_a || g.machines < a.machines)
        p.fewer = (n <= n_a && g.machines <= a.machines) || p.efficiency_pct > p.anchor_pct;
    const double linear = known_ms * batch / batch_a;
    p.formula_pct = 100 * linear / (linear + model.wire_ms(g)) * efficiency_of(from);
    if (!(std::isfinite(p.value) && p.value > 0 && std::isfinite(p.efficiency_pct)))
        throw Error(field(from.index, "value") +
                    "the prediction from it is not a number; check "
                    "its unit and batch");
    return p;
}

double CaseModel::value_factor(double per_gpu, double gpus, double time) const {
    switch (measure_.kind) {
        case Measure::Kind::rate:
            return per_gpu * (measure_.per_gpu || measure_.per_node ? 1 : gpus);
        case Measure::Kind::step_time: return time;
        case Measure::Kind::step_rate: return 1 / time;
        case Measure::Kind::job_time: return 1 / (per_gpu * gpus);
        case Measure::Kind::share: break;
    }
    return per_gpu;
}

/// Of a given point against the base, where they are of one phase.
double CaseModel::efficiency_of(const Point& p) {
    if (&p == &base_ || p.phase != base_.phase) return 1;
    if (measure_.kind == Measure::Kind::share || measure_.relative) {
        const bool each = measure_.kind == Measure::Kind::share || measure_.per_gpu;
        const double n = gpus_of(p, group(p)), n_base = gpus_of(base_, group(base_));
        return *p.given / *base_.given * (each ? 1 : n_base / n);
    }
    return (samples(p) / step_ms(p)) / (samples(base_) / step_ms(base_));
}

std::string CaseModel::why(const Stack& stack, const Hardware& h, const StepModel& model) const {
    std::set<int> anchors;  // GPUs of the points that targets are predicted from
    for (const Point& p : case_.points) {
        if (p.role != Point::Role::target) continue;
        const Point& from = anchor(p);
        anchors.insert(gpus_of(from, group(from)));
    }
    std::string text = fmt::format(
        "computation from the given rate at {} GPUs; {:.1f} MB of gradient a step; {} ({})",
        fmt::join(anchors, " and "), c_.gradient_mb_fp32 * c_.wire_bytes / 4, stack.name,
        stack.source);
    if (!model.algorithm().empty()) text += "; " + model.algorithm();
    text += fmt::format("; {:.0f} GB/s inside a machine, {:.2f} GB/s between",
                        h.inside.bus_of(c_.gpus_per_node).count * 1e-9,
                        h.spec(2, 1).nic_rate().count * 1e-9);
    text += work_.graph ? "; gradients ready as the graph of " + work_.name + " has them"
                        : "; no graph: gradients ready evenly";
    const Mechanism* const m = find_mechanism(c_.framework, c_.model, c_.collective);
    if (m != nullptr) text += "; " + m->text();
    if (!stack.known)
        text += fmt::format(
            "; how '{}' exchanges gradients is not {}: taken for {}, and the interval reaches "
            "over buckets and fusion under backward and one reduction after it",
            c_.framework, m != nullptr ? "modelled" : "known", stack.name);
    for (const std::string& r : c_.remarks) text += "; " + r;
    return text;
}

}  // namespace gx::tools::predict
