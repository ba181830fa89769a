// Predictions of a tree before nested leaving out, scored as `gx_predict --hold-out source` scores
// today's: beside_commit.py compiles this file against the headers of that tree.
// Run:     held_out_before CASES.json
// Prints:  JSON: mean absolute errors of efficiency over the measurements on several machines
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <gx/sim/predict/fit.hpp>      // Fit
#include <gx/sim/predict/predict.hpp>  // Predictor
#include <gx/sim/predict/score.hpp>    // score

namespace {

using namespace gx::sim::predict;

/// As today's firmness_choices; infinite: the priors.
constexpr std::array choices{0.5, 1., 2., 4., 8., std::numeric_limits<double>::infinity()};

/// Measurements that count, and the sum of their errors.
struct Sum {
    int points = 0;
    double error = 0;
    [[nodiscard]] double mean() const { return points > 0 ? error / points : 0; }
};

/// Which targets are the first to hold their measurement, by today's key.
class Measurements {
public:
    bool insert(const Case& c, const Point& t) {
        std::string key = c.source + "|" + c.conditions.dump() + "|";
        const auto put = [&](double x) { key += std::to_string(x) + "|"; };
        for (const Point& p : c.points)
            if (p.role == Point::Role::base) put(p.given.value_or(0));
        put(t.gpus), put(t.nodes), put(t.batch_per_gpu);
        key += t.unit + "|" + t.phase + "|" + t.variant + "|";
        put(t.published.value_or(0)), put(t.published_efficiency_pct.value_or(0));
        return seen_.insert(key).second;
    }

private:
    std::set<std::string> seen_{};
};

class Study {
public:
    explicit Study(const std::vector<Case>& cases) : all_(fitted_cases(cases)) {
        Measurements seen;
        std::set<std::string> names;
        for (const Case& c : cases)
            for (const Point& t : c.points)
                if ((t.published || t.published_efficiency_pct) && seen.insert(c, t))
                    first_.insert(&t);
        for (const Case* c : all_) names.insert(c->source);
        names_.assign(names.begin(), names.end());
    }
    [[nodiscard]] const std::vector<std::string>& folds() const { return names_; }

    [[nodiscard]] Calibration without(const std::string& a, const std::string& b,
                                      double firmness) const {
        if (std::isinf(firmness)) {
            Calibration k;
            for (const Knob& n : knobs()) n.in(k) = n.expected;
            return k;
        }
        std::vector<const Case*> used;
        for (const Case* c : all_)
            if (c->source != a && c->source != b) used.push_back(c);
        Fit::Options o;
        o.firmness = firmness;
        return Fit(used, o)();
    }
    /// Of a fold; of all where its name is empty.
    [[nodiscard]] Sum error(const std::string& fold, const Calibration& k) const {
        Predictor predict(k);
        Sum s;
        for (const Case* c : all_) {
            if (!fold.empty() && c->source != fold) continue;
            for (const PredictedPoint& q : predict(*c).points) {
                const Point& t = c->points[static_cast<std::size_t>(q.index)];
                if (q.machines < 2 || first_.count(&t) == 0) continue;
                ++s.points;
                s.error += std::abs(q.efficiency_pct - detail::published_pct(t, q));
            }
        }
        return s;
    }

private:
    std::vector<const Case*> all_;
    std::set<const Point*> first_{};
    std::vector<std::string> names_{};
};

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) return std::fputs("give a JSON file of cases\n", stderr), 2;
    std::ifstream in(argv[1], std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    const std::vector<Case> cases = read_cases(text, argv[1]);
    const Study study(cases);
    const auto& folds = study.folds();
    std::vector<std::array<double, choices.size()>> inner(folds.size());
    for (std::size_t a = 0; a < folds.size(); ++a)
        for (std::size_t b = 0; b < a; ++b)
            for (std::size_t f = 0; f < choices.size(); ++f) {
                const Calibration k = study.without(folds[a], folds[b], choices[f]);
                inner[a][f] += study.error(folds[b], k).error;
                inner[b][f] += study.error(folds[a], k).error;
            }
    Sum nested;
    for (std::size_t a = 0; a < folds.size(); ++a) {
        const auto best = std::min_element(inner[a].begin(), inner[a].end()) - inner[a].begin();
        const Sum s = study.error(
            folds[a], study.without(folds[a], "", choices[static_cast<std::size_t>(best)]));
        nested.points += s.points, nested.error += s.error;
    }
    const Sum in_force = study.error("", calibrated),
              unfitted = study.error("", study.without("", "", choices.back()));
    std::printf(
        "{\"points\": %d, \"in_force\": %.4f, \"nothing_fitted\": %.4f, "
        "\"held_out_nested\": %.4f}\n",
        in_force.points, in_force.mean(), unfitted.mean(), nested.mean());
    return 0;
}
