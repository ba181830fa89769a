#include <tools/plan/json.hpp>

namespace gx::tools::plan {

namespace {

nlohmann::ordered_json json_of(const Candidate& c, std::size_t phases) {
    nlohmann::ordered_json j{{"machine", c.choice.machine},
                             {"machines", c.choice.machines},
                             {"gpus", c.choice.gpus},
                             {"batch_per_gpu", c.choice.batch_per_gpu},
                             {"micro_batches", c.choice.micro_batches},
                             {"reducer", c.choice.reducer},
                             {"wire", c.choice.wire},
                             {"bucket_bytes", c.choice.bucket.count},
                             {"staleness", c.choice.staleness},
                             {"on_frontier", c.on_front},
                             {"why", c.why}};
    // Each offer has each key; what is not known, and all of one that can't run, is null.
    const nlohmann::ordered_json none;
    const auto ms = [](Nanoseconds t) { return seconds(t) * 1e3; };
    const auto price = [&](const auto& of) {
        return of ? nlohmann::ordered_json(of->count) : none;
    };
    const bool runs = c.infeasible.empty();
    const auto of_runs = [&](double x) { return runs ? nlohmann::ordered_json(x) : none; };
    j["step_ms"] = of_runs(ms(c.step));
    j["step_ms_80"] = none;
    if (runs && c.step_80) j["step_ms_80"] = {ms(c.step_80->low), ms(c.step_80->high)};
    j["exposed_ms"] = of_runs(ms(c.exposed));
    j["framework_ms"] = of_runs(ms(c.framework));
    if (phases > 0) j["phase_step_ms"] = none;
    for (const Nanoseconds step : c.phase_steps)
        if (runs) j["phase_step_ms"].push_back(ms(step));
    j["total_hours"] = of_runs(seconds(c.total) / 3600);
    j["on_demand_dollars"] = runs ? price(c.on_demand) : none;
    j["spot_dollars"] = runs ? price(c.spot) : none;
    return j;
}

}  // namespace

nlohmann::ordered_json json_of(const Planned& planned, const Arguments& o) {
    const Job& job = planned.job;
    nlohmann::ordered_json j{{"model", job.model}};
    if (job.parameters > 0) j["parameters"] = job.parameters;
    if (job.sequence_length > 0) j["sequence_length"] = job.sequence_length;
    j["examples"] = job.examples;
    j["epochs"] = job.epochs;
    if (job.global_batch > 0) j["global_batch"] = job.global_batch;
    if (job.batch_per_gpu > 0) j["batch_per_gpu"] = job.batch_per_gpu;
    for (const JobPhase& p : job.phases)
        j["phases"].push_back({{"first_epoch", p.first_epoch},
                               {"batch_per_gpu", p.batch_per_gpu},
                               {"image_side", p.image_side}});
    j["micro_batches"] = planned.space.micro_batches;
    j["precision"] = o.precision;
    j["optimizer"] = o.optimizer;
    j["kernels"] = o.kernels;
    if (job.budget) j["budget_dollars"] = job.budget->count;
    if (job.deadline) j["deadline_hours"] = o.deadline_hours;
    j["stack"] = planned.space.stack.name;
    j["inputs"] = nlohmann::ordered_json::array();
    for (const Input& i : planned.inputs) {
        j["inputs"].push_back({{"of", i.of}, {"measured", i.measured}, {"text", i.text}});
        if (!i.doubt.empty()) j["inputs"].back()["doubt"] = i.doubt;
    }
    j["offers"] = nlohmann::ordered_json::array();
    for (const Candidate& c : planned.candidates)
        j["offers"].push_back(json_of(c, job.phases.size()));
    return j;
}

}  // namespace gx::tools::plan
