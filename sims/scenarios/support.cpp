// Shared code of the scenarios, compiled once: the predictor, the published cases, main().
#include "support.hpp"

#include <fstream>   // published cases
#include <iterator>  // whole files

#include <CLI/CLI.hpp>  // App

#include <gx/core/error.hpp>          // Error
#include <tools/predict/predict.hpp>  // Predictor

#include "../support/command_line.hpp"  // run_program

namespace gx::scenario {

Json published(const std::string& id) {
    std::ifstream file(GX_PUBLISHED_CASES);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    for (const Json& c : tools::parse_json(text, GX_PUBLISHED_CASES))
        if (c.at("id") == id) return c;
    throw Error(GX_PUBLISHED_CASES ": there is no case '" + id + "'");
}

Prediction predicted(const Json& conditions, const Json& points) {
    static tools::predict::Predictor predict;
    const Json cases{{{"id", "scenario"}, {"conditions", conditions}, {"measured", points}}};
    const auto p = predict(tools::predict::read_cases(cases.dump(), "scenario").at(0));
    if (!p.error.empty()) throw Error(p.error);
    Prediction out{
        fmt::format("stack {}, machine {}, profile {}: {}", p.stack, p.machine, p.profile, p.why)};
    for (const auto& q : p.points)
        out.points.push_back({q.index, q.gpus, q.value, q.efficiency_pct, q.step_ms});
    return out;
}

int run(int argc, char** argv, const char* name, Scenario (*make)()) {
    CLI::App app("Simulates a published result and prints it beside the published values.", name);
    std::string json;
    app.add_option("--json", json, "write the rows there");
    return run_program(app, argc, argv, [&] {
        expect_outputs({{"--json", json}});
        const Scenario s = make();
        s.print();
        if (!json.empty()) s.write(json);
        s.hold();
    });
}

}  // namespace gx::scenario
