#include <tools/plan/json.hpp>

namespace gx::tools::plan {

namespace {

nlohmann::ordered_json json_of(const Candidate& c) {
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
    if (!c.infeasible.empty()) return j;
    j["step_ms"] = seconds(c.step) * 1e3;
    if (c.step_80)
        j["step_ms_80"] = {seconds(c.step_80->low) * 1e3, seconds(c.step_80->high) * 1e3};
    j["exposed_ms"] = seconds(c.exposed) * 1e3;
    j["framework_ms"] = seconds(c.framework) * 1e3;
    for (const Nanoseconds step : c.phase_steps) j["phase_step_ms"].push_back(seconds(step) * 1e3);
    j["total_hours"] = seconds(c.total) / 3600;
    if (c.on_demand) j["on_demand_dollars"] = c.on_demand->count;
    if (c.spot) j["spot_dollars"] = c.spot->count;
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
    for (const Candidate& c : planned.candidates) j["offers"].push_back(json_of(c));
    return j;
}

}  // namespace gx::tools::plan
