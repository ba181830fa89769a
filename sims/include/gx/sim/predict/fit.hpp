// Fit: the constants of stacks from published results; held_out: what they are worth elsewhere.
#pragma once

#include <algorithm>    // max, min
#include <array>        // costs
#include <cmath>        // abs
#include <cstddef>      // size_t
#include <memory>       // models
#include <set>          // folds, in order of name
#include <string>       // names
#include <string_view>  // names
#include <vector>       // cases

#include <gx/sim/predict/predict.hpp>  // CaseModel
#include <gx/sim/predict/score.hpp>    // published_pct, Score
#include <gx/sim/predict/stacks.hpp>   // Calibration

namespace gx::sim::predict {

/// A constant that is fitted: a cost of a stack, or a member of Calibration itself.
struct Knob {
    std::string_view name;
    double expected;              ///< before any result is seen
    double spread;                ///< how far from it a constant may well be
    Stack Calibration::* stack;   ///< or null
    double Stack::* cost;         ///< of `stack`
    double Calibration::* own;    ///< where `stack` is null; a share, if 1 or less is expected

    [[nodiscard]] double& in(Calibration& k) const { return stack ? k.*stack.*cost : k.*own; }
};

/// What any framework is expected to cost, and may well: the same of all, so that one with few
/// results, or on one kind of machine, ends in the middle and at no extreme.
struct ExpectedCost {
    std::string_view name;
    double Stack::* cost;
    double value, spread;
};
inline constexpr std::array<ExpectedCost, 5> expected_costs{
    {{"step_ms", &Stack::step_ms, 5, 5},
     {"mb_ms", &Stack::mb_ms, 3, 3},
     {"machines_ms", &Stack::machines_ms, 5, 10},
     {"jitter", &Stack::jitter, 0.01, 0.03},
     {"interference", &Stack::interference, 0.2, 0.2}}};

/// Every constant that is fitted. Those of a stack with no scored result of several machines
/// (ChainerMN's), and those read in a source, are not among them.
[[nodiscard]] inline std::vector<Knob> knobs() {
    using K = Calibration;
    std::vector<Knob> all;
    const auto cost = [&](Stack K::* stack, std::size_t i) {
        const ExpectedCost& e = expected_costs[i];
        all.push_back({e.name, e.value, e.spread, stack, e.cost, nullptr});
    };
    const auto own = [&](std::string_view name, double expected, double spread, double K::* at) {
        all.push_back({name, expected, spread, nullptr, nullptr, at});
    };
    for (Stack K::* stack : {&K::tensorflow, &K::mxnet, &K::pytorch, &K::oneflow})
        for (std::size_t i = 0; i < expected_costs.size(); ++i) cost(stack, i);
    cost(&K::local_servers, 0), cost(&K::local_servers, 3);
    cost(&K::servers, 0), cost(&K::servers, 4);
    cost(&K::key_value, 3), cost(&K::key_value, 4);
    own("pair_loss", 0.03, 0.03, &K::pair_loss);
    own("clipping_mb_ms", 3, 3, &K::clipping_mb_ms);
    own("tcp_share", 0.85, 0.1, &K::tcp_share);
    own("omni_path_share", 0.85, 0.1, &K::omni_path_share);
    own("grpc_share", 0.7, 0.2, &K::grpc_share);
    own("server_window", 0.5, 0.2, &K::server_window);
    own("peer_copy_share", 0.8, 0.15, &K::peer_copy_share);
    own("micro_exposed", 0.5, 0.3, &K::micro_exposed);
    return all;
}

/// The constants with the least of
///
///     sum over targets of weight * |predicted - published efficiency, in points|
///     + firmness * sum over constants of ((constant - expected) / spread)^2
///
/// found from what is expected, constant by constant, in steps that halve when none helps: a local
/// least. weight is 1, and `one_machine` of a target on one machine.
/// Cost:   about 300 predictions of each case: half a second for the published ones.
/// Order:  the same cases, in the same order, give the same constants.
class Fit {
public:
    struct Options {
        double one_machine = 0.2, firmness = 2;
    };

    /// Of cases that can be predicted. `cases` stay where they are as long as the fit.
    explicit Fit(const std::vector<const Case*>& cases) : Fit(cases, Options{}) {}
    Fit(const std::vector<const Case*>& cases, Options options) : o_(options) {
        for (const Case* c : cases)
            rows_.push_back({c, find_stack(read_conditions(c->conditions), k_).source,
                             std::make_unique<detail::CaseModel>(*c, k_, wire_)});
    }
    Fit(const Fit&) = delete;
    Fit& operator=(const Fit&) = delete;

    [[nodiscard]] Calibration operator()() {
        for (const Knob& n : knobs_) n.in(k_) = n.expected;
        for (Row& r : rows_) r.error = error(r);
        for (double step = 1; step > 0.04;) {
            bool better = false;
            for (const Knob& n : knobs_)
                better = move(n, step * n.spread) || move(n, -step * n.spread) || better;
            if (!better) step /= 2;
        }
        return k_;
    }

private:
    struct Row {
        const Case* of;
        std::string_view stack;  ///< its source, which variants of a stack share
        std::unique_ptr<detail::CaseModel> model;
        double error = 0, next = 0;
    };

    /// Changes a constant if that makes the sum less; says whether it did.
    [[nodiscard]] bool move(const Knob& n, double by) {
        double& x = n.in(k_);
        const double was = x;
        x = std::max(0.0, was + by);
        if (n.own != nullptr && n.expected < 1) x = std::min(x, 1.0);
        if (x == was) return false;
        const auto surprise = [&](double value) {
            const double d = (value - n.expected) / n.spread;
            return o_.firmness * d * d;
        };
        double gain = surprise(was) - surprise(x);
        for (Row& r : rows_)
            if (reaches(n, r)) gain += r.error - (r.next = error(r));
        if (gain < 1e-9) {
            x = was;
            return false;
        }
        for (Row& r : rows_)
            if (reaches(n, r)) r.error = r.next;
        return true;
    }
    [[nodiscard]] bool reaches(const Knob& n, const Row& r) const {
        return n.stack == nullptr || (k_.*n.stack).source == r.stack;
    }
    [[nodiscard]] double error(const Row& r) const {
        double sum = 0;
        for (const PredictedPoint& q : r.model->run().points) {
            const Point& t = r.of->points[static_cast<std::size_t>(q.index)];
            if (t.published || t.published_efficiency_pct)
                sum += (q.machines > 1 ? 1 : o_.one_machine) *
                       std::abs(q.efficiency_pct - detail::published_pct(t, q));
        }
        return sum;
    }

    Options o_;
    std::vector<Knob> knobs_ = knobs();
    Calibration k_{};
    WireTime wire_{};
    std::vector<Row> rows_{};
};

/// The cases that a fit may see: scored, not of the split "reference", with a target, without an
/// error.
[[nodiscard]] inline std::vector<const Case*> fitted_cases(const std::vector<Case>& cases) {
    std::vector<const Case*> all;
    Predictor predict;
    for (const Case& c : cases)
        if (c.scored && c.split != "reference" && predict(c).error.empty()) all.push_back(&c);
    return all;
}

/// Every case predicted by constants that were fitted without those that share its `group`, or its
/// `source`: an estimate of the error on results that nobody has seen. Groups are the folds' names.
[[nodiscard]] inline Score held_out(const std::vector<Case>& cases, std::string Case::* fold) {
    Score s;
    const std::vector<const Case*> all = fitted_cases(cases);
    std::set<std::string> names;
    for (const Case* c : all) names.insert(c->*fold);
    for (const std::string& name : names) {
        std::vector<const Case*> others;
        for (const Case* c : all)
            if (c->*fold != name) others.push_back(c);
        Predictor predict{Fit(others)()};
        for (const Case* c : all)
            if (c->*fold == name) add(s, *c, predict(*c), name);
    }
    return s;
}

}  // namespace gx::sim::predict
