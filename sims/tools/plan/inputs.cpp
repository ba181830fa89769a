#include <tools/plan/inputs.hpp>

#include <algorithm>  // all_of, max_element, none_of

#include <fmt/core.h>  // sentences

#include <gx/collective/ring.hpp>             // Ring
#include <gx/core/error.hpp>                  // Error
#include <gx/sim/timing/all_reduce_time.hpp>  // all_reduce_time

namespace gx::tools::plan {

std::string StepInput::option() const {
    return step_s > 0 ? "--step-seconds" : images_s > 0 ? "--images-per-second" : "--trace";
}

MeasuredWork read_step(const StepInput& step, const Graph& graph,
                       const std::vector<sim::ClusterSpec>& clusters) {
    if (step.batch == 0)
        throw Error(step.option() + ": give the examples of that step with --step-batch");
    const sim::MachineSpec& first = clusters.front().machine;
    for (const sim::ClusterSpec& c : clusters)
        if (c.machine.gpu.name != first.gpu.name)
            throw Error(
                fmt::format("{}: a step is measured on one GPU, and machine '{}' has {} "
                            "where '{}' has {}: name machines with that GPU, by --machine",
                            step.option(), first.name.view(), first.gpu.name.view(),
                            c.machine.name.view(), c.machine.gpu.name.view()));
    if (step.step_s > 0) return measured_whole(step.step_s, step.batch);
    if (step.images_s > 0) return measured_whole(step.batch / step.images_s, step.batch);
    const predict::MeasuredStep trace = predict::read_trace(step.trace, step.trace_file);
    if (trace.elements() != graph.parameter_elements())
        throw Error(fmt::format(
            "{}: {} gradients of {} elements, where {} has {} parameters: trace a step of that "
            "network, or name the traced one with --model",
            step.trace_file, trace.gradients.size(), trace.elements(), graph.name.view(),
            graph.parameter_elements()));
    if (!trace.gpu)
        throw Error(step.trace_file +
                    ": no kernels in it, so that its times are a CPU's: profile on the GPU that is "
                    "planned for, with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]");
    return measured_parts(trace, step.batch, step.trace_file);
}

Input input_of(const StepInput& step, const MeasuredWork& m, Nanoseconds roofline) {
    const double ms = 1e3 * seconds(m.step.total());
    std::string text = fmt::format(
        "{}{} has {:.1f} ms for a pass over {} on one GPU, in place of the roofline's "
        "{:.1f} ms; other batches by the roofline's ratio",
        step.option(), m.parts ? " " + step.trace_file : "", ms, m.batch, 1e3 * seconds(roofline));
    if (m.parts)
        text +=
            fmt::format("; when {} gradients are ready as traced, in place of the graph's order",
                        m.step.ready.size());
    return {"computation", true, text};
}

Input input_of(const sim::NcclTests& tests, const std::string& file,
               const sim::ClusterSpec& cluster) {
    sim::ClusterSpec c = cluster;
    c.machines = tests.hosts;
    const auto& largest =
        *std::max_element(tests.rows.begin(), tests.rows.end(),
                          [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
    const auto simulated =
        sim::all_reduce_time(collective::Ring(tests.ranks), c, largest.bytes).time;
    const sim::RingRates rates = sim::ring_rates(tests, file);
    const bool inside = tests.hosts == 1;
    return {inside ? "GPUs of a machine" : "network", true,
            fmt::format("{} has {:.2f} GB/s and {:.1f} us a hop, from {} GPUs on {} host{} (NCCL "
                        "{}), in place of {}; {:.0f} MB take {:.2f} ms, a simulated ring {:.2f}",
                        file, rates.bus.count * 1e-9, 1e6 * seconds(rates.hop), tests.ranks,
                        tests.hosts, inside ? "" : "s",
                        tests.library.empty() ? "not said" : tests.library,
                        inside ? "the machine's wiring" : "NICs' data sheets and a profile",
                        static_cast<double>(largest.bytes.count) * 1e-6,
                        1e3 * seconds(largest.in_place), 1e3 * seconds(simulated))};
}

std::vector<Input> assumed_beside(const std::vector<sim::NcclTests>& all,
                                  const sim::MachineSpec& machine, bool network_stated) {
    const auto of_one_host = [](const sim::NcclTests& t) { return t.hosts == 1; };
    const std::string name(machine.name.view());
    std::vector<Input> assumed;
    if (std::none_of(all.begin(), all.end(), of_one_host) && machine.gpus > 1)
        assumed.push_back({"GPUs of a machine", false, "wiring and links of " + name});
    if (std::all_of(all.begin(), all.end(), of_one_host) && !network_stated)
        assumed.push_back({"network", false, "data sheets and a profile of " + name});
    return assumed;
}

}  // namespace gx::tools::plan
