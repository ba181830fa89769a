// predict: a published case's targets from its conditions and given values.
#pragma once

#include <algorithm>    // max
#include <cmath>        // round
#include <string>       // sentences
#include <string_view>  // model
#include <vector>       // points

#include <fmt/core.h>  // format

#include <gx/core/error.hpp>              // Error
#include <gx/sim/predict/case_file.hpp>   // Case
#include <gx/sim/predict/conditions.hpp>  // Conditions
#include <gx/sim/predict/hardware.hpp>    // Hardware
#include <gx/sim/predict/model_work.hpp>  // ModelWork
#include <gx/sim/predict/stacks.hpp>      // Calibration
#include <gx/sim/predict/step_model.hpp>  // StepModel
#include <gx/sim/predict/units.hpp>       // Measure

namespace gx::sim::predict {

struct PredictedPoint {
    int index = 0, gpus = 0, machines = 1;
    double value = 0;
    std::string unit{};
    double efficiency_pct = 0;  ///< rate of a GPU, as a share of the base's
    double step_ms = 0, exposed_ms = 0, floor_ms = 0;
    double formula_pct = 0;     ///< for the score: the base's step plus the wire, nothing hidden
};

/// Either points, one for each target, or an error.
struct Prediction {
    std::string id{}, machine{}, stack{}, profile{}, why{};
    std::vector<PredictedPoint> points{};
    std::string error{};
};

namespace detail {

inline constexpr double imagenet_images = 1'281'167;

/// A case while it is predicted.
class CaseModel {
public:
    CaseModel(const Case& given, const Calibration& k, WireTime& wire)
        : case_(given), k_(k), wire_(wire), base_(find_base()),
          c_(read_conditions(case_.conditions)),
          measure_(measure_of(base_.unit, field(base_.index, "unit"))) {
        check_units();
        settle_gpus_per_node();
        settle_global_batch();
        settle_batch();
        work_ = model_work(c_.model, c_.gpu, c_.precision, c_.batch_per_gpu);
        settle_gradient();
        settled_ = c_.remarks;
    }

    [[nodiscard]] Prediction run() {
        c_.remarks = settled_;
        const Stack stack = find_stack(c_, k_);
        const Hardware h = hardware_of(c_, stack, k_, c_.remarks);
        StepModel model(c_, stack, h, work_, k_, wire_);
        Prediction p{.id = case_.id, .machine = h.machine, .stack = std::string(stack.name),
                     .profile = std::string(h.profile.name.view())};
        for (const Point& t : case_.points)
            if (t.role == Point::Role::target) p.points.push_back(point(t, model));
        p.why = why(stack, h, model);
        return p;
    }

private:
    [[nodiscard]] const Point& find_base() const {
        bool targets = false;
        for (const Point& p : case_.points) targets = targets || p.role == Point::Role::target;
        if (!targets)
            throw Error("field 'measured': no point has the role target, so nothing is asked");
        for (const Point& p : case_.points)
            if (p.role == Point::Role::base) return p;
        for (const Point& p : case_.points)
            if (p.role == Point::Role::given) return p;
        throw Error("field 'measured': no point has the role base or given: mark the one that "
                    "others are compared with, and give its value and unit");
    }
    void check_units() const {
        for (const Point& p : case_.points) {
            if (p.role == Point::Role::other || p.unit.empty()) continue;
            const Measure m = measure_of(p.unit, field(p.index, "unit"));
            if (m == measure_) continue;
            throw Error(field(p.index, "unit") + "'" + p.unit + "' where the base has '" +
                        base_.unit + "': a case has one unit; convert, or make two cases");
        }
        for (const Point& p : case_.points)
            if (p.role != Point::Role::other && p.gpus == 0 && p.nodes == 0)
                throw Error(field(p.index, "gpus") + "is missing: say how many GPUs, or how many "
                                                     "nodes with 'gpus_per_node'");
    }
    void settle_gpus_per_node() {
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
    void settle_global_batch() {
        if (c_.global_batch == 0 || c_.accumulates || c_.batch_per_gpu > 0 ||
            base_.batch_per_gpu > 0 || c_.micro_batch > 0)
            return;
        int most = 0;
        for (const Point& p : case_.points)
            if (p.role != Point::Role::other) most = std::max(most, gpus_of(p, group(p)));
        const int base = gpus_of(base_, group(base_));
        fixed_global_ = c_.global_batch / base <= (is_language_model(c_.model) ? 128 : 512);
        c_.batch_per_gpu = c_.global_batch / (fixed_global_ ? base : most);
        c_.remarks.push_back(fixed_global_ ? "global batch taken as fixed"
                                           : "global batch taken as that of the most GPUs");
    }
    void settle_batch() {
        if (c_.batch_per_gpu > 0 || base_.batch_per_gpu > 0 || c_.micro_batch > 0) {
            if (c_.batch_per_gpu == 0)
                c_.batch_per_gpu = base_.batch_per_gpu > 0 ? base_.batch_per_gpu : c_.micro_batch;
            return;
        }
        const bool large = c_.gpu.memory.count >= 16'000'000'000;
        const bool mixed = c_.precision == Precision::mixed;
        c_.batch_per_gpu = is_language_model(c_.model) ? 32 : !large ? 64 : mixed ? 256 : 128;
        if (has(lower(c_.gpu.name.view()), "p100")) c_.batch_per_gpu = 64;
        if (!c_.accumulates)
            c_.remarks.push_back(fmt::format("batch not stated: {} a GPU assumed",
                                             c_.batch_per_gpu));
    }
    void settle_gradient() {
        if (c_.gradient_mb_fp32 > 0) return;
        if (work_.gradient_mb_fp32 > 0) {
            c_.gradient_mb_fp32 = work_.gradient_mb_fp32;
            return;
        }
        const int millions = measure_.tokens || is_language_model(c_.model) ? 110 : 30;
        c_.gradient_mb_fp32 = 4 * millions;
        c_.remarks.push_back(fmt::format("neither params_millions nor a known model: {} million "
                                         "parameters assumed", millions));
    }

    [[nodiscard]] WireTime::Group group(const Point& p) const {
        const int gpus = p.gpus > 0 ? p.gpus : p.nodes * c_.gpus_per_node;
        int machines = p.nodes > 0 ? p.nodes : (gpus + c_.gpus_per_node - 1) / c_.gpus_per_node;
        machines = std::min(machines, gpus);
        return {machines, (gpus + machines - 1) / machines};
    }
    [[nodiscard]] static int gpus_of(const Point& p, const WireTime::Group& g) {
        return p.gpus > 0 ? p.gpus : g.ranks();
    }

    /// The given point that a target is predicted from: of its phase, the largest not above it.
    [[nodiscard]] const Point& anchor(const Point& target) const {
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
    [[nodiscard]] double samples(const Point& p) const {
        const auto g = group(p);
        if (fixed_global_ && p.batch_per_gpu == 0) return c_.global_batch / gpus_of(p, g);
        if (!c_.accumulates) {
            const double batch = p.batch_per_gpu > 0 ? p.batch_per_gpu : c_.batch_per_gpu;
            return batch * c_.accumulation;
        }
        if (c_.accumulation_by_nodes.is_object() && c_.micro_batch > 0) {
            const auto at = c_.accumulation_by_nodes.find(std::to_string(g.machines));
            if (at != c_.accumulation_by_nodes.end() && at->is_number())
                return at->get<double>() * c_.micro_batch;
        }
        return global_batch() / gpus_of(p, g);
    }
    /// 65,536 sequences of 128 tokens, 32,768 of 512: LAMB's two phases (You et al. 2019). Which
    /// one it is shows in the rate: at 512 a GPU would be below a fifth of its peak.
    [[nodiscard]] double global_batch() const {
        if (c_.global_batch > 0) return c_.global_batch;
        const double peak = c_.gpu.peak(c_.precision).count;
        const double rate = *base_.given / measure_.seconds / gpus_of(base_, group(base_));
        return rate * 6 * c_.gradient_mb_fp32 / 4 * 1e6 * 128 > 0.2 * peak ? 65536 : 32768;
    }

    /// Milliseconds of a step at a given point.
    [[nodiscard]] double step_ms(const Point& p) {
        const double v = *p.given, batch = samples(p), n = gpus_of(p, group(p));
        switch (measure_.kind) {
            case Measure::Kind::rate: {
                if (measure_.relative) break;
                const double parts = measure_.per_gpu ? n : measure_.per_node ? machines(p) : 1;
                const double rate = v / measure_.seconds * parts;
                if (measure_.tokens && batch < 1024) return tokens_step_ms(batch * n, n, rate);
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
    [[nodiscard]] double epochs() {
        if (has(lower(base_.unit), "epoch")) return measure_.epochs;
        if (const double n = first_number(case_.conditions, "epochs"); n > 0) return n;
        remark("epochs not stated: 90 assumed");
        return 90;
    }
    [[nodiscard]] double machines(const Point& p) const { return group(p).machines; }
    /// Rates in tokens: of a batch in sequences, 512 tokens each; else 4,096 tokens a GPU, what
    /// translation and language models on 16 GB are commonly trained with.
    [[nodiscard]] double tokens_step_ms(double sequences, double gpus, double rate) {
        const bool stated = detail::first_number(case_.conditions, "batch_per_gpu") > 0;
        remark(stated ? "rate in tokens: sequences of 512 assumed"
                      : "rate in tokens: 4096 a GPU assumed");
        return (stated ? sequences * 512 : gpus * 4096) / rate * 1e3;
    }
    [[nodiscard]] double roofline_ms(double batch) {
        remark("a share of a rate: computation from the roofline");
        if (!work_.graph) return 300;
        const TimedGraph timed(*work_.graph, c_.gpu, c_.precision);
        return seconds(timed.step(std::max(1, static_cast<int>(batch)))) * 1e3;
    }
    void remark(const std::string& text) {
        for (const std::string& r : c_.remarks)
            if (r == text) return;
        c_.remarks.push_back(text);
    }

    [[nodiscard]] PredictedPoint point(const Point& target, StepModel& model) {
        const Point& from = anchor(target);
        const auto a = group(from), g = group(target);
        const double batch_a = samples(from), batch = samples(target);
        const double known_ms = step_ms(from);
        const double compute_a = model.compute_in(a, known_ms, batch_a);
        const double ratio = c_.accumulates ? batch / batch_a : work_.time_ratio(batch, batch_a);
        Step s = model.of(g, compute_a * ratio, batch);
        s.total_ms *= known_ms / model.of(a, compute_a, batch_a).total_ms;  // 1 but for odd input
        if (g.ranks() == 1 && has(lower(from.variant), "no ddp")) s.total_ms += model.hooks_ms();
        const double n = gpus_of(target, g), n_a = gpus_of(from, a);
        const double per_gpu = (batch / s.total_ms) / (batch_a / known_ms);
        PredictedPoint p{.index = target.index, .gpus = static_cast<int>(n),
                         .machines = g.machines, .unit = base_.unit, .step_ms = s.total_ms,
                         .exposed_ms = s.exposed_ms, .floor_ms = s.floor_ms};
        p.value = *from.given * value_factor(per_gpu, n / n_a, s.total_ms / known_ms);
        p.efficiency_pct = 100 * per_gpu * efficiency_of(from);
        const double linear = known_ms * batch / batch_a;
        p.formula_pct = 100 * linear / (linear + model.wire_ms(g)) * efficiency_of(from);
        return p;
    }
    [[nodiscard]] double value_factor(double per_gpu, double gpus, double time) const {
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
    [[nodiscard]] double efficiency_of(const Point& p) {
        if (&p == &base_ || p.phase != base_.phase) return 1;
        if (measure_.kind == Measure::Kind::share || measure_.relative) {
            const bool each = measure_.kind == Measure::Kind::share || measure_.per_gpu;
            const double n = gpus_of(p, group(p)), n_base = gpus_of(base_, group(base_));
            return *p.given / *base_.given * (each ? 1 : n_base / n);
        }
        return (samples(p) / step_ms(p)) / (samples(base_) / step_ms(base_));
    }

    [[nodiscard]] std::string why(const Stack& stack, const Hardware& h,
                                  const StepModel& model) const {
        std::string text = fmt::format(
            "computation from the given rate at {} GPUs; {:.1f} MB of gradient a step; {} ({})",
            gpus_of(base_, group(base_)), c_.gradient_mb_fp32 * c_.wire_bytes / 4, stack.name,
            stack.source);
        if (!model.algorithm().empty()) text += "; " + model.algorithm();
        text += fmt::format("; {:.0f} GB/s inside a machine, {:.2f} GB/s between",
                            h.inside.bus.count * 1e-9, h.spec(2, 1).nic_rate().count * 1e-9);
        text += work_.graph ? "; gradients ready as the graph of " + work_.name + " has them"
                            : "; no graph: gradients ready evenly";
        for (const std::string& r : c_.remarks) text += "; " + r;
        return text;
    }

    const Case& case_;
    const Calibration& k_;
    WireTime& wire_;
    const Point& base_;
    Conditions c_;
    Measure measure_;
    ModelWork work_{};
    bool fixed_global_ = false;
    std::vector<std::string> settled_{};
};

}  // namespace detail

/// Predicts cases one by one; what was simulated for one is kept for the next.
///
/// Only `conditions` and the values of points of role base and given are used.
/// Errors: none are thrown; a case that cannot be predicted holds a sentence in `error`.
/// Order:  equal cases give equal predictions, whatever was predicted before.
class Predictor {
public:
    explicit Predictor(const Calibration& k = calibrated) : k_(k) {}

    [[nodiscard]] Prediction operator()(const Case& c) {
        Prediction failed{.id = c.id};
        failed.error = c.error;
        if (!c.error.empty()) return failed;
        try {
            return detail::CaseModel(c, k_, wire_).run();
        } catch (const Error& e) {
            failed.error = e.what();
        } catch (const Json::exception& e) {
            failed.error = std::string("conditions: ") + e.what();
        }
        return failed;
    }

private:
    Calibration k_;
    WireTime wire_{};
};

/// Rounded to what a reader uses: six digits behind the point.
[[nodiscard]] inline Json to_json(const Prediction& p) {
    Json out{{"id", p.id}};
    if (!p.error.empty()) {
        out["error"] = p.error;
        return out;
    }
    out["machine"] = p.machine;
    out["stack"] = p.stack;
    out["profile"] = p.profile;
    out["why"] = p.why;
    out["points"] = Json::array();
    const auto round = [](double x) { return std::round(x * 1e6) / 1e6; };
    for (const PredictedPoint& q : p.points)
        out["points"].push_back({{"index", q.index},
                                 {"gpus", q.gpus},
                                 {"value", round(q.value)},
                                 {"unit", q.unit},
                                 {"efficiency_pct", round(q.efficiency_pct)},
                                 {"step_ms", round(q.step_ms)},
                                 {"exposed_ms", round(q.exposed_ms)},
                                 {"floor_ms", round(q.floor_ms)}});
    return out;
}

}  // namespace gx::sim::predict
