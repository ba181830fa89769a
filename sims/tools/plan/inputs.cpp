#include <tools/plan/inputs.hpp>

#include <algorithm>  // all_of, find, max, max_element, none_of

#include <fmt/core.h>  // sentences

#include <gx/collective/ring.hpp>             // Ring
#include <gx/core/error.hpp>                  // Error
#include <gx/model/cost.hpp>                  // total_cost
#include <gx/sim/catalog/find_gpu.hpp>        // known_gpus, names_gpu
#include <gx/sim/timing/all_reduce_time.hpp>  // all_reduce_time
#include <tools/plan/candidate.hpp>           // parameters_text

namespace gx::tools::plan {

std::string StepInput::option() const {
    return step_s > 0 ? "--step-seconds" : images_s > 0 ? "--images-per-second" : "--trace";
}

namespace {

/// Checks what no step can do without: its examples, and one kind of GPU.
void expect_of_one_gpu(const StepInput& step, const std::vector<sim::ClusterSpec>& clusters) {
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
}

MeasuredWork whole_of(const StepInput& step) {
    return measured_whole(step.step_s > 0 ? step.step_s : step.batch / step.images_s, step.batch);
}

MeasuredWork parts_of(const predict::MeasuredStep& trace, const StepInput& step) {
    if (!trace.gpu)
        throw Error(step.trace_file +
                    ": no kernels in it, so that its times are a CPU's: profile on the GPU that is "
                    "planned for, with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]");
    return measured_parts(trace, step.batch, step.trace_file);
}

}  // namespace

MeasuredWork read_step(const StepInput& step, const Graph& graph,
                       const std::vector<sim::ClusterSpec>& clusters) {
    expect_of_one_gpu(step, clusters);
    if (step.trace_file.empty()) return whole_of(step);
    const predict::MeasuredStep trace = predict::read_trace(step.trace, step.trace_file);
    if (trace.elements() != graph.parameter_elements())
        throw Error(fmt::format(
            "{}: {} gradients of {} elements, where {} has {} parameters: trace a step of that "
            "network, name the traced one with --model, or plan for it as --model own",
            step.trace_file, trace.gradients.size(), trace.elements(), graph.name.view(),
            graph.parameter_elements()));
    return parts_of(trace, step);
}

MeasuredWork read_own_step(const StepInput& step, std::int64_t parameters,
                           const std::vector<sim::ClusterSpec>& clusters,
                           const UpdateCost& update) {
    if (!step.given())
        throw Error(
            "--model own: a network of yours is known by a step of it on one GPU: give --trace, or "
            "--parameters with --step-seconds or --images-per-second");
    expect_of_one_gpu(step, clusters);
    if (step.trace_file.empty()) {
        if (parameters == 0)
            throw Error(step.option() +
                        ": give the parameters of the network as well, with --parameters");
        const sim::GpuSpec& gpu = clusters.front().machine.gpu;
        if (parameters > gpu.memory.count / 4)
            throw Error(fmt::format(
                "--parameters {}: with 2 bytes for each, and for its gradient, they take {:.0f} "
                "GB, and {} has {:.0f}: name the machine that the step was measured on, by "
                "--machine",
                parameters, static_cast<double>(parameters) * 4e-9, gpu.name.view(),
                static_cast<double>(gpu.memory.count) * 1e-9));
        return with_parts(whole_of(step), parameters, gpu, update, step.option());
    }
    const predict::MeasuredStep trace = predict::read_trace(step.trace, step.trace_file);
    if (parameters != 0 && parameters != trace.elements())
        throw Error(fmt::format(
            "--parameters {}: {} has {} gradients of {} elements: leave --parameters out",
            parameters, step.trace_file, trace.gradients.size(), trace.elements()));
    return parts_of(trace, step);
}

namespace {

/// Of products in fp32, what a framework may reach without being asked.
FlopsPerSecond most_flops(const sim::GpuSpec& gpu, sim::Precision precision) {
    FlopsPerSecond most = gpu.peak(precision);
    if (!gpu.tensor_cores(precision)) most.count *= gpu.winograd;
    if (precision == sim::Precision::fp32) most = std::max(most, gpu.tf32);
    return most;
}

/// "; that is 51 times the roofline's: is it in seconds, and of one GPU?"; or empty.
std::string doubt_of(const StepInput& step, const MeasuredWork& m, Nanoseconds roofline) {
    const double times = seconds(m.step.total()) / seconds(roofline);
    if (times >= 0.2 && times <= 5) return {};
    return fmt::format("{} has {:.4g} times the roofline's {:.4g} ms for a pass over {}: is it {}?",
                       step.option(), times, 1e3 * seconds(roofline), m.batch,
                       step.step_s > 0     ? "in seconds, and of one GPU"
                       : step.images_s > 0 ? "in examples a second, and of one GPU"
                                           : "of --step-batch examples on one GPU");
}

}  // namespace

void expect_possible(const StepInput& step, const MeasuredWork& m, const Graph& graph,
                     const sim::GpuSpec& gpu, sim::Precision precision) {
    const double flops = total_cost(graph).flops() * m.batch, took = seconds(m.step.total());
    const FlopsPerSecond most = most_flops(gpu, precision);
    if (took * most.count >= flops) return;
    throw Error(fmt::format(
        "{}: {:.4g} ms for a pass over {} of {} are {:.4g} TFLOP/s, where the peak of {} is {:.4g} "
        "({}), so that a pass takes at least {:.4g} ms: is it the rate of one GPU? Give a step of "
        "one, with its --step-batch",
        step.option(), 1e3 * took, m.batch, graph.name.view(), flops / took * 1e-12,
        gpu.name.view(), most.count * 1e-12, to_string(precision), 1e3 * flops / most.count));
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
    return {"computation", true, text, doubt_of(step, m, roofline)};
}

Input input_of_own(const StepInput& step, const MeasuredWork& m, Bytes need,
                   const sim::GpuSpec& gpu) {
    const bool traced = !step.trace_file.empty();
    std::string text = fmt::format(
        "{}{} has {:.1f} ms for a pass over {} on one GPU; other batches in proportion",
        step.option(), traced ? " " + step.trace_file : "", 1e3 * seconds(m.step.total()), m.batch);
    if (traced) text += fmt::format("; {} gradients are ready as traced", m.step.ready.size());
    else
        text += fmt::format(
            "; of it the update of {} is modelled as {:.1f} ms, forward is "
            "taken for a third of the rest, and gradients for ready evenly in backward (--trace "
            "measures that)",
            parameters_text(m.step.elements), 1e3 * seconds(m.step.update));
    text += fmt::format("; passes over more than {} are taken not to fit", m.batch);
    std::string doubt;
    if (need > gpu.memory)
        doubt = fmt::format(
            "{} with their gradients and the optimizer's state take {:.0f} GB in mixed or full "
            "precision, and {} has {:.0f}: was the step measured there?",
            parameters_text(m.step.elements), static_cast<double>(need.count) * 1e-9,
            gpu.name.view(), static_cast<double>(gpu.memory.count) * 1e-9);
    return {"computation", true, text, doubt};
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
    const sim::GpuSpec& gpu = cluster.machine.gpu;
    const bool known = std::ranges::find(sim::known_gpus, gpu.name, &sim::GpuSpec::name) !=
                       sim::known_gpus.end();  // else its name is the user's own
    std::string doubt;
    if (known && !tests.gpu.empty() && !sim::names_gpu(tests.gpu, gpu))
        doubt = fmt::format(
            "--nccl-tests {} is of '{}', and '{}' has {}: was it measured on these machines? Name "
            "those with --machine",
            file, tests.gpu, cluster.machine.name.view(), gpu.name.view());
    return {inside ? "GPUs of a machine" : "network", true,
            fmt::format("{} has {:.2f} GB/s and {:.1f} us a hop, from {} GPUs on {} host{} (NCCL "
                        "{}), in place of {}; {:.0f} MB take {:.2f} ms, a simulated ring {:.2f}",
                        file, rates.bus.count * 1e-9, 1e6 * seconds(rates.hop), tests.ranks,
                        tests.hosts, inside ? "" : "s",
                        tests.library.empty() ? "not said" : tests.library,
                        inside ? "the machine's wiring" : "NICs' data sheets and a profile",
                        static_cast<double>(largest.bytes.count) * 1e-6,
                        1e3 * seconds(largest.in_place), 1e3 * seconds(simulated)),
            doubt};
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
