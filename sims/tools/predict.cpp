// gx_predict: published scaling results from their conditions, and how far off they are.
//
//     gx_predict --cases FILE --out FILE     predict every case of a file
//     gx_predict --score FILE                compare with the published values that are in it
//     gx_predict --score FILE --hold-out source     the same, each case by constants that were
//                                            fitted without its source (or group)
//     gx_predict --score FILE --fit          find the constants of stacks.hpp again
#include <cstdio>   // stderr
#include <fstream>  // files
#include <iterator> // whole files
#include <string>   // names
#include <vector>   // cases

#include <CLI/CLI.hpp>  // command line
#include <fmt/core.h>   // print

#include <gx/core/atomic_file.hpp>     // write_file
#include <gx/core/error.hpp>           // Error
#include <gx/sim/predict/fit.hpp>      // Fit, held_out
#include <gx/sim/predict/plot.hpp>     // scatter
#include <gx/sim/predict/predict.hpp>  // Predictor
#include <gx/sim/predict/score.hpp>    // score

#include "../support/command_line.hpp"  // run_program

namespace {

using namespace gx::sim::predict;
using gx::sim::Json;

struct Asked {
    std::string cases{}, out{}, score{}, json{}, html{}, hold_out{};
    bool all = false, fit = false;
};

std::string read(const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    if (!in) throw gx::Error(file + ": cannot be read; give the name of a JSON file of cases");
    return {std::istreambuf_iterator<char>(in), {}};
}
void predict_cases(const Asked& a) {
    Predictor predict;
    Json all = Json::array();
    int errors = 0;
    for (const Case& c : read_cases(read(a.cases), a.cases)) {
        const Prediction p = predict(c);
        errors += p.error.empty() ? 0 : 1;
        all.push_back(to_json(p));
    }
    const std::string text = all.dump(1) + "\n";
    if (a.out.empty() || a.out == "-") fmt::print("{}", text);
    else gx::write_file(a.out, text);
    fmt::print(stderr, "{} cases, {} of them with an error\n", all.size(), errors);
}

void print(const char* name, const Errors& e) {
    fmt::print("{:<62} {:>4} {:>7.2f} {:>9.2f} {:>9.2f}\n", name, e.points, e.mae(),
               e.formula_mae(), e.perfect_mae());
}

void print_points(const Score& s, bool all) {
    fmt::print("{:<30} {:<29} {:>5} {:>9} {:>9} {:>7}\n", "case", "stack", "GPUs", "published",
               "predicted", "error");
    for (const ScoredPoint& p : s.points)
        if (all || p.counts())
            fmt::print("{:<30} {:<29} {:>5} {:>7.1f} % {:>7.1f} % {:>+7.1f}\n", p.id, p.stack,
                       p.gpus, p.published_pct, p.predicted_pct, p.error());
}

void print_tables(const Score& s) {
    fmt::print("\nmean absolute error of efficiency, percentage points\n{:<62} {:>4} {:>7} {:>9} "
               "{:>9}\n", "", "n", "gx", "formula", "perfect");
    print("scored calibration points, several machines", s.several_machines);
    print("scored calibration points, one machine", s.one_machine);
    print("all other points, several machines", s.others);
    for (const auto& [name, e] : s.groups) print(("  " + name).c_str(), e);
    for (const auto& [name, e] : s.stacks) print(("  stack " + name).c_str(), e);
    for (const Prediction& p : s.failed) fmt::print("{}: {}\n", p.id, p.error);
}

Json json_of(const Errors& e) {
    return {{"points", e.points},
            {"mae", e.mae()},
            {"mae_formula_without_overlap", e.formula_mae()},
            {"mae_perfect_scaling", e.perfect_mae()}};
}
Json json_of(const Score& s) {
    Json out{{"scored_calibration_several_machines", json_of(s.several_machines)},
             {"scored_calibration_one_machine", json_of(s.one_machine)},
             {"others_several_machines", json_of(s.others)},
             {"groups", Json::object()},
             {"points", Json::array()}};
    for (const auto& [name, e] : s.groups) out["groups"][name] = json_of(e);
    for (const ScoredPoint& p : s.points)
        out["points"].push_back({{"id", p.id}, {"stack", p.stack}, {"gpus", p.gpus},
                                 {"machines", p.machines}, {"counts", p.counts()},
                                 {"published_pct", p.published_pct},
                                 {"predicted_pct", p.predicted_pct}});
    return out;
}

/// The constants that are fitted, and what those of the program are.
void print_constants(Calibration found) {
    Calibration held = calibrated;
    fmt::print("\n{:<46} {:>9} {:>9} {:>9}\n", "constant", "expected", "fitted", "in force");
    for (const Knob& n : knobs()) {
        const std::string_view stack = n.stack != nullptr ? (held.*n.stack).name : "all stacks";
        fmt::print("{:<46} {:>9.4g} {:>9.4g} {:>9.4g}\n", fmt::format("{}, {}", stack, n.name),
                   n.expected, n.in(found), n.in(held));
    }
}

Score score_of(const Asked& a) {
    const auto cases = read_cases(read(a.score), a.score);
    if (a.hold_out == "group") return held_out(cases, &Case::group);
    if (a.hold_out == "source") return held_out(cases, &Case::source);
    if (!a.fit) return score(cases);
    const Calibration found = Fit(fitted_cases(cases))();
    print_constants(found);
    return score(cases, found);
}

void score_cases(const Asked& a) {
    const Score s = score_of(a);
    print_points(s, a.all);
    print_tables(s);
    if (!a.json.empty()) gx::write_file(a.json, json_of(s).dump(1) + "\n");
    if (!a.html.empty()) gx::write_file(a.html, scatter(s));
}

}  // namespace

int main(int argc, char** argv) {
    Asked a;
    CLI::App app{"Predicts published scaling results from their conditions", "gx_predict"};
    auto* cases = app.add_option("--cases", a.cases, "JSON file of cases to predict");
    app.add_option("--out", a.out, "where predictions go; '-' or nothing: standard output")
        ->needs(cases);
    auto* score = app.add_option("--score", a.score, "JSON file of cases with published values")
                      ->excludes(cases);
    app.add_option("--json", a.json, "the score as JSON")->needs(score);
    app.add_option("--html", a.html, "predicted against published, as a page")->needs(score);
    auto* hold_out =
        app.add_option("--hold-out", a.hold_out,
                       "predict each source, or each group, by constants fitted on the others")
            ->needs(score)->check(CLI::IsMember({"source", "group"}));
    app.add_flag("--fit", a.fit, "fit the stacks' constants on these cases, print and use them")
        ->needs(score)->excludes(hold_out);
    app.add_flag("--all", a.all, "print every point, not only those that count")->needs(score);
    return gx::run_program(app, argc, argv, [&] {
        if (!a.cases.empty()) predict_cases(a);
        else if (!a.score.empty()) score_cases(a);
        else throw gx::Error("nothing to do: give --cases FILE --out FILE, or --score FILE");
    });
}
