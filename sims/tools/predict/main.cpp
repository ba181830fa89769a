// gx_predict: predicts published scaling results from their conditions, and scores the errors.
//
//     gx_predict --cases FILE --out FILE     predict every case of a file, and print a table
//     gx_predict --score FILE                compare with the published values that are in it
//     gx_predict --score FILE --hold-out source     the same, each case by constants fitted
//                                            without its source (or group)
//     gx_predict --score FILE --fit          find what a fit makes of the constants
//     gx_predict --cases FILE --machine network.json     on links and a network that were measured
//     gx_predict --trace FILE                a step of PyTorch's profiler, as a case's base point
#include <sys/stat.h>  // fstat
#include <unistd.h>    // STDOUT_FILENO

#include <algorithm>  // all_of
#include <cstdio>     // stderr
#include <optional>   // networks
#include <string>     // names
#include <vector>     // cases

#include <CLI/CLI.hpp>   // command line
#include <fmt/format.h>  // print, join

#include <gx/io/atomic_file.hpp>       // write_file
#include <gx/core/error.hpp>           // Error
#include <gx/sim/io/machine_file.hpp>  // find_or_read_cluster
#include <gx/sim/io/nccl_tests.hpp>    // read_nccl_tests
#include <support/command_line.hpp>    // expect_outputs, printable, read_input, run_program
#include <tools/common/nccl_runs.hpp>  // NcclRuns
#include <tools/predict/fit.hpp>       // Fitter, hold_out, fit_in_force
#include <tools/predict/interval.hpp>  // quality_of
#include <tools/predict/plot.hpp>      // scatter
#include <tools/predict/predict.hpp>   // Predictor
#include <tools/predict/score.hpp>     // score
#include <tools/predict/trace.hpp>     // read_trace

namespace {

using namespace gx::tools::predict;
using namespace gx::tools;
using gx::printable;

struct Arguments {
    std::string cases{}, out{}, json{}, html{}, hold_out{}, trace{}, machine{};
    std::vector<std::string> score{}, nccl_tests{};
    bool all = false, fit = false, swapped = false;
};

/// One line on standard error for a case that cannot be predicted or scored.
void report(const Prediction& p) {
    gx::print_error("gx_predict: {}: case '{}': {}\n", printable(p.file), printable(p.id),
                    printable(p.error));
}

/// The network that was measured, if one is given.
/// Errors: gx::Error for a machine without a network of its own.
std::optional<gx::sim::ClusterSpec> measured_network(const Arguments& a) {
    if (a.machine.empty()) return {};
    gx::sim::ClusterSpec c = gx::sim::find_or_read_cluster(a.machine);
    bool network = gx::sim::states_network(c);
    NcclRuns runs;
    for (const std::string& file : a.nccl_tests) {
        const auto tests = gx::sim::read_nccl_tests(gx::read_input("--nccl-tests", file), file);
        runs.add(tests, file);
        network = network || tests.hosts > 1;
        c = with_measured(c, tests, file);
    }
    if (!network)
        throw gx::Error("--machine " + printable(a.machine) +
                        ": says nothing of the network between machines: give a cluster file, as "
                        "gx_bench_network writes it under mpirun, or --nccl-tests of several "
                        "hosts");
    return c;
}

/// File names need not be UTF-8.
std::string text_of(const Json& json) {
    return json.dump(1, ' ', false, Json::error_handler_t::replace);
}

/// Whether a path names what standard output is, as /dev/stdout does.
bool is_standard_output(const std::string& path) {
    struct stat named{}, output{};
    return !path.empty() && ::stat(path.c_str(), &named) == 0 &&
           ::fstat(STDOUT_FILENO, &output) == 0 && named.st_dev == output.st_dev &&
           named.st_ino == output.st_ino;
}
/// Whether standard output takes JSON: where that is asked for, and where nothing else takes it.
bool prints_json(const Arguments& a) {
    return a.out == "-" || (a.out.empty() && a.json.empty()) || is_standard_output(a.out) ||
           is_standard_output(a.json);
}

/// Writes to --json, where it is given, and prints where standard output takes it.
void put(const Arguments& a, const std::string& text) {
    if (a.out == "-" || (a.out.empty() && a.json.empty())) fmt::print("{}", text);
    if (!a.out.empty() && a.out != "-") gx::write_file(a.out, text);
    if (!a.json.empty()) gx::write_file(a.json, text);
}

/// Cases whose assumptions are printed on standard error; those of more are in the output alone.
constexpr int told_assumptions = 10;

int predict_cases(const Arguments& a) {
    gx::expect_outputs({{"--out", a.out == "-" ? "" : a.out}, {"--json", a.json}},
                       {{"--cases", a.cases}});
    Predictor predict(calibrated(), measured_network(a));
    Json all = Json::array();
    std::vector<Prediction> predicted;
    int refused = 0, unasked = 0, assuming = 0;
    for (const Case& c : read_cases(gx::read_input("--cases", a.cases), a.cases)) {
        const Prediction p = predict(c);
        if (c.error.empty() && !c.asks()) ++unasked;
        else if (!p.error.empty()) report(p), ++refused;
        else if (!p.assumed.empty() && ++assuming <= told_assumptions)
            gx::print_error("gx_predict: {}: case '{}': {}\n", printable(a.cases), printable(p.id),
                            printable(fmt::format("{}", fmt::join(p.assumed, "; "))));
        all.push_back(to_json(p));
        if (!p.points.empty()) predicted.push_back(p);
    }
    const bool only_json = prints_json(a);  // before that file is replaced
    put(a, text_of(all) + "\n");
    if (!only_json) fmt::print("{}", printable(table(predicted), "\n"));
    gx::print_error(
        "{} case{}, of them {} without a target, {} refused, {} predicted from what was "
        "assumed{}\n",
        all.size(), all.size() == 1 ? "" : "s", unasked, refused, assuming,
        assuming > told_assumptions ? ": see the fields 'assumed'" : "");
    return refused > 0 ? 2 : 0;
}

void print(const char* name, const Errors& e) {
    fmt::print("{:<62} {:>4} {:>7.2f} {:>9.2f} {:>9.2f}\n", name, e.points, e.mae(),
               e.formula_mae(), e.perfect_mae());
}

void print(const char* name, const IntervalQuality& q) {
    fmt::print("{:<44} {:>4} {:>8.1f} % {:>5.1f} to {:>5.1f} % {:>9.2f} {:>9.2f}\n", name, q.points,
               100 * q.covered, 100 * q.least, 100 * q.most, q.score, q.median_width);
}
void print_header(const char* intervals) {
    fmt::print("{}\n{:<44} {:>4} {:>10} {:>16} {:>9} {:>9}\n", intervals, "", "n", "covered",
               "95 % bootstrap", "score", "width");
}

void print_points(const Score& s, bool all) {
    fmt::print("{:<30} {:<29} {:>5} {:>9} {:>9} {:>7}\n", "case", "stack", "GPUs", "published",
               "predicted", "error");
    for (const ScoredPoint& p : s.points)
        if (all || p.counts())
            fmt::print("{:<30} {:<29} {:>5} {:>7.1f} % {:>7.1f} % {:>+7.1f}\n", printable(p.id),
                       p.stack, p.gpus, p.published_pct, p.predicted_pct, p.error());
}

void print_tables(const Score& s, const Score& unfitted) {
    fmt::print(
        "\nmean absolute error of efficiency, percentage points\n{:<62} {:>4} {:>7} {:>9} "
        "{:>9}\n",
        "", "n", "gx", "formula", "perfect");
    print("scored points, several machines", s.several_machines);
    print("  nothing fitted: every constant at its prior", unfitted.several_machines);
    print("scored points, one machine", s.one_machine);
    print("  nothing fitted", unfitted.one_machine);
    print("all other points, several machines", s.others);
    for (const auto& [name, e] : s.groups) print(printable("  " + name).c_str(), e);
    for (const auto& [name, e] : s.stacks) print(("  stack " + name).c_str(), e);
    int repeated = 0;
    for (const ScoredPoint& p : s.points) repeated += p.repeated ? 1 : 0;
    if (repeated > 0)
        fmt::print("\n{} targets repeat a measurement of an earlier case and are not counted\n",
                   repeated);
    if (const IntervalQuality q = intervals_of(s); q.points > 0) {
        print_header("\n80 % intervals in force; points of efficiency");
        print("around the scored points, several machines", q);
        print("  equally wide", equally_wide_intervals_of(s));
    }
    const bool unseen =
        s.several_machines.points > 0 && std::ranges::all_of(s.points, [](const ScoredPoint& p) {
            return p.held_out || !p.counts();
        });
    fmt::print("{}", unseen ? "No constant was fitted on these results: their split is held_out.\n"
                            : "The model's structure, the priors and the constants set by hand "
                              "were written with these results\nin sight: no row is the error on "
                              "unseen results.\n");
}

Json json_of(const IntervalQuality& q) {
    return {{"points", q.points},
            {"covered", q.covered},
            {"covered_least", q.least},
            {"covered_most", q.most},
            {"mean_interval_score", q.score},
            {"median_width_pct", q.median_width}};
}
Json json_of(const Errors& e) {
    return {{"points", e.points},
            {"mae", e.mae()},
            {"mae_formula_without_overlap", e.formula_mae()},
            {"mae_perfect_scaling", e.perfect_mae()}};
}
Json json_of(const Score& s, const Score& unfitted) {
    Json out{{"scored_calibration_several_machines", json_of(s.several_machines)},
             {"scored_calibration_one_machine", json_of(s.one_machine)},
             {"others_several_machines", json_of(s.others)},
             {"nothing_fitted_several_machines", json_of(unfitted.several_machines)},
             {"nothing_fitted_one_machine", json_of(unfitted.one_machine)},
             {"intervals_80_in_force", json_of(intervals_of(s))},
             {"intervals_80_equally_wide", json_of(equally_wide_intervals_of(s))},
             {"groups", Json::object()},
             {"points", Json::array()}};
    for (const auto& [name, e] : s.groups) out["groups"][name] = json_of(e);
    for (const ScoredPoint& p : s.points)
        out["points"].push_back({{"id", p.id},
                                 {"stack", p.stack},
                                 {"gpus", p.gpus},
                                 {"machines", p.machines},
                                 {"counts", p.counts()},
                                 {"published_pct", p.published_pct},
                                 {"predicted_pct", p.predicted_pct}});
    return out;
}

/// Prints the constants that are fitted: their priors, what a fit finds, what is in force.
void print_constants(Calibration found) {
    Calibration held = calibrated();
    fmt::print("\n{:<46} {:>9} {:>9} {:>9}\n", "constant", "prior", "fitted", "in force");
    for (const Knob& n : knobs()) {
        const std::string stack = n.stack != nullptr ? (held.*n.stack).name : "all stacks";
        fmt::print("{:<46} {:>9.4g} {:>9.4g} {:>9.4g}\n", fmt::format("{}, {}", stack, n.name),
                   n.expected, n.in(found), n.in(held));
    }
}

void print_intervals(const HeldOut& h) {
    print_header("\n80 % intervals, each fold's calibrated on the others; points of efficiency");
    print("by network, bounded by linear scaling", quality_of(h.fitted.by_network));
    print("  nothing fitted", quality_of(h.unfitted.by_network));
    print("equally wide", quality_of(h.fitted.equally_wide));
    print("  nothing fitted", quality_of(h.unfitted.equally_wide));
    fmt::print("score: the mean interval score, less is better; width: the median\n");
}

/// The table of errors follows that of folds; --json holds both.
Score print_held_out(const std::vector<Case>& cases, std::string Case::* fold, Json& intervals) {
    const HeldOut h = hold_out(cases, fold);
    fmt::print("{:<62} {:>8} {:>10} {:>10}\n", "held out; chosen without it:", "firmness",
               "half, RDMA", "sockets");
    for (const auto& [name, firmness] : h.firmness)
        fmt::print("{:<62} {:>8} {:>10.2f} {:>10.2f}\n", printable(name), firmness,
                   h.rule.at(name)[Between::rdma].half, h.rule.at(name)[Between::sockets].half);
    fmt::print(
        "mean absolute error {:.2f}; {:.2f} where firmness is the greatest within a standard error "
        "of the best\n",
        h.score.several_machines.mae(), h.one_error.mae());
    print_intervals(h);
    fmt::print("\n");
    intervals = {{"by_network", json_of(quality_of(h.fitted.by_network))},
                 {"by_network_nothing_fitted", json_of(quality_of(h.unfitted.by_network))},
                 {"equally_wide", json_of(quality_of(h.fitted.equally_wide))},
                 {"equally_wide_nothing_fitted", json_of(quality_of(h.unfitted.equally_wide))}};
    return h.score;
}

Score score_of(const Arguments& a, const std::vector<Case>& cases, Json& intervals) {
    if (a.hold_out == "group") return print_held_out(cases, &Case::group, intervals);
    if (a.hold_out == "source") return print_held_out(cases, &Case::source, intervals);
    if (!a.fit) return score(cases);
    const InForce by = fit_in_force(cases, &Case::source);
    const Calibration found = Fitter(fitted_cases(cases)).fit(by.firmness);
    fmt::print("firmness of the priors, chosen by leaving out each source: {}\n", by.firmness);
    for (const auto& [name, b] :
         {std::pair{"inside a machine", Between::links}, std::pair{"over RDMA", Between::rdma},
          std::pair{"over sockets", Between::sockets}})
        fmt::print("80 % intervals {}: {:.2f} points either side; in force {:.2f}\n", name,
                   by.rules[b].half, intervals_in_force()[b].half);
    print_constants(found);
    return score(cases, found);
}

int score_cases(const Arguments& a) {
    for (const std::string& file : a.score)
        gx::expect_outputs({{"--json", a.json}, {"--html", a.html}}, {{"--score", file}});
    std::vector<Case> cases;
    for (const std::string& file : a.score)
        for (Case& c : read_cases(gx::read_input("--score", file), file))
            cases.push_back(std::move(c));
    if (a.swapped && (cases = swapped(cases)).empty())
        throw gx::Error("'" + fmt::format("{}", fmt::join(a.score, "', '")) +
                        "' has nothing to swap: a case needs a target with a 'value' that has more "
                        "GPUs than its base");
    const Score unfitted = score(cases, priors());
    if (unfitted.points.empty() && unfitted.failed.empty())
        throw gx::Error("'" + fmt::format("{}", fmt::join(a.score, "', '")) +
                        "' has no published value to compare with: a point of a "
                        "case needs 'role' \"target\" and a 'value'");
    Json intervals;
    const Score s = score_of(a, cases, intervals);
    print_points(s, a.all);
    print_tables(s, unfitted);
    if (!a.json.empty()) {
        Json all = json_of(s, unfitted);
        if (!intervals.is_null()) all["intervals_80"] = intervals;
        gx::write_file(a.json, text_of(all) + "\n");
    }
    if (!a.html.empty()) gx::write_file(a.html, scatter(s));
    for (const Prediction& p : s.failed) report(p);
    return s.failed.empty() ? 0 : 2;
}

/// What a measured step holds, and the base point that a case takes it as.
int print_trace(const Arguments& a) {
    gx::expect_outputs({{"--json", a.json}}, {{"--trace", a.trace}});
    const MeasuredStep m = read_trace(gx::read_input("--trace", a.trace), a.trace);
    gx::print_error(
        "ProfilerStep#{} on a {}: {:.3f} ms; micro-batches {}, forward of one {:.3f}, backward "
        "{:.3f}; update {:.3f}, gaps between kernels {:.3f}\n",
        m.number, m.gpu ? "GPU" : "CPU", m.step_ms, m.micro_batches, m.forward_ms, m.backward_ms,
        m.update_ms, m.gap_ms);
    Json layers = Json::array(), gradients = Json::array();
    for (const MeasuredStep::Layer& l : m.backward)
        layers.push_back({{"name", l.name}, {"ms", l.ms}});
    for (const MeasuredStep::Gradient& g : m.gradients)
        gradients.push_back({{"elements", g.elements}, {"ready", g.ready}});
    const Json base{
        {"gpus", 1}, {"role", "base"}, {"value", m.step_ms * 1e-3}, {"unit", "s/iteration"}};
    const Json all{{"measured", Json::array({base})},
                   {"params_millions", static_cast<double>(m.elements()) * 1e-6},
                   {"micro_batches", m.micro_batches},
                   {"forward_ms", m.forward_ms},
                   {"backward_ms", m.backward_ms},
                   {"update_ms", m.update_ms},
                   {"gap_ms", m.gap_ms},
                   {"backward", layers},
                   {"gradients", gradients}};
    put(a, text_of(all) + "\n");
    return 0;
}

constexpr const char* case_help =
    R"(A file of one case; any condition may be missing, 'assumed' lists what was taken instead:
  [{"id": "mine",
    "conditions": {"gpu": "V100", "gpus_per_node": 8, "nic_gbps_per_node": 25,
                   "model": "ResNet-50", "batch_per_gpu": 128, "precision": "mixed",
                   "framework": "PyTorch DDP"},
    "measured": [{"gpus": 8, "role": "base", "value": 2900, "unit": "img/s"},
                 {"gpus": 64, "role": "target"}]}])";

}  // namespace

int main(int argc, char** argv) {
    Arguments a;
    CLI::App app{"Predicts published scaling results from their conditions.", "gx_predict"};
    auto* cases = app.add_option("--cases", a.cases, "JSON file of cases to predict");
    app.footer(case_help);
    app.add_option("--out", a.out,
                   "where predictions go, as JSON, beside a table on standard output; '-', or "
                   "neither it nor --json: standard output")
        ->needs(cases);
    auto* machine =
        app.add_option("--machine", a.machine,
                       "cluster file, as gx_bench_network writes it under mpirun: links "
                       "and network of all cases, in place of what their conditions say")
            ->needs(cases);
    app.add_option("--nccl-tests", a.nccl_tests,
                   "output of all_reduce_perf on that --machine, in place of its rates; repeatable")
        ->needs(machine);
    auto* score = app.add_option("--score", a.score, "JSON files of cases with published values")
                      ->excludes(cases);
    app.add_option("--json", a.json,
                   "where predictions, a score or the parts of a traced step go, as JSON");
    app.add_option("--html", a.html, "predicted against published, as a page")->needs(score);
    auto* hold_out =
        app.add_option("--hold-out", a.hold_out,
                       "predict each source, or each group, by constants fitted on the others; "
                       "takes minutes")
            ->needs(score)
            ->check(CLI::IsMember({"source", "group"}));
    app.add_flag("--fit", a.fit, "fit the stacks' constants on these cases, print and use them")
        ->needs(score)
        ->excludes(hold_out);
    app.add_flag("--swapped", a.swapped,
                 "predict each case's base from its smallest larger target: how far predictions "
                 "of fewer GPUs can be trusted")
        ->needs(score)
        ->excludes(hold_out)
        ->excludes("--fit");
    app.add_flag("--all", a.all, "print every point, not only those that count")->needs(score);
    app.add_option("--trace", a.trace,
                   "Chrome JSON of torch.profiler, also packed by gzip: print the parts of its "
                   "median step, and the base point that a case takes it as")
        ->excludes(cases)
        ->excludes(score);
    return gx::run_program(app, argc, argv, [&] {
        if (!a.trace.empty()) return print_trace(a);
        if (!a.cases.empty()) return predict_cases(a);
        if (!a.score.empty()) return score_cases(a);
        throw gx::Error("nothing to do: give --cases FILE, --score FILE or --trace FILE");
    });
}
