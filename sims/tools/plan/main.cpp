// gx_plan: Pareto front of time and price for a job over machines, counts, reducers and wires.
// Run:    build/release/gx_plan --model ResNet-50 --epochs 90 --global-batch 8192 --html plan.html
// Prints: the front, why the others are dominated, and what is assumed of the framework
// Exit:   0; 1 where no candidate can do the job within its limits; 2 for input that cannot be used
#include <algorithm>  // any_of
#include <cstdint>    // limits of options
#include <cstdio>     // stderr
#include <string>     // names
#include <vector>     // phases

#include <CLI/CLI.hpp>        // App
#include <fmt/format.h>       // print
#include <nlohmann/json.hpp>  // --json

#include <gx/io/atomic_file.hpp>          // write_file
#include <gx/sim/catalog/find_model.hpp>  // find_model
#include <gx/sim/compute/gpu_memory.hpp>  // parameter_need
#include <gx/sim/io/machine_file.hpp>     // find_or_read_machine
#include <gx/trainer/progress.hpp>        // Progress
#include <support/command_line.hpp>       // expect_outputs, printable, run_program
#include <tools/plan/job.hpp>             // known_job, own_job
#include <tools/plan/json.hpp>            // json_of
#include <tools/plan/page.hpp>            // page
#include <tools/plan/search.hpp>          // search
#include <tools/plan/text.hpp>            // assumptions, print

namespace {

using namespace gx;
using namespace gx::tools::plan;

/// What a user measured, in place of rooflines and data sheets.
void read_inputs(CLI::App& app, Arguments& o, CLI::Option* phase) {
    auto* step = app.add_option("--step-seconds", o.step.step_s,
                                "measured: a step on one GPU, in place of the roofline's");
    auto* rate = app.add_option("--images-per-second", o.step.images_s, "the same, as a rate");
    auto* trace = app.add_option("--trace", o.step.trace_file,
                                 "the same, as a trace of torch.profiler (Chrome JSON, also packed "
                                 "by gzip): its parts, and when gradients are ready");
    step->check(number_in(1e-6, 1e6, "from 1e-6 to 1e6"))->excludes(rate)->excludes(trace);
    rate->check(number_in(1e-6, 1e9, "from 1e-6 to 1e9"))->excludes(trace);
    for (auto* measured : {step, rate, trace}) measured->excludes(phase);
    app.add_option("--step-batch", o.step.batch,
                   "examples of that step (default: those of --batch-per-gpu)")
        ->check(count_in(1, 1'000'000'000));
    app.add_option("--nccl-tests", o.nccl_tests,
                   "output of all_reduce_perf: rates between the GPUs of one host, or between "
                   "hosts, in place of data sheets; repeatable");
}

void read_options(CLI::App& app, Arguments& o) {
    app.add_option("--model", o.model,
                   "the network; a wrong name lists them; own: one of yours, by a measured step")
        ->capture_default_str();
    app.add_option("--parameters", o.parameters,
                   "of a network of yours; not with --trace, which says them")
        ->check(count_in(1, 10'000'000'000'000));
    app.add_option("--sequence-length", o.sequence_length,
                   "tokens of an example, of networks of sequences (default: the network's own)")
        ->check(count_in(1, 1'000'000'000));
    app.add_option("--examples", o.examples,
                   "in the data set (default of networks of images: 1281167, as ImageNet has)")
        ->check(count_in(1, 1'000'000'000'000));
    app.add_option("--epochs", o.epochs, "passes over the data set")
        ->check(count_in(1, 1'000'000))
        ->capture_default_str();
    auto* global = app.add_option("--global-batch", o.global_batch,
                                  "examples a step on all GPUs together (default 2048; of --model "
                                  "own the batch of its step on each GPU)");
    auto* each = app.add_option("--batch-per-gpu", o.batch_per_gpu, "examples a step on each GPU");
    global->check(count_in(1, 1'000'000'000))->excludes(each);
    each->check(count_in(1, 1'000'000'000))->excludes(global);
    auto* phase =
        app.add_option("--phase", o.phases,
                       "FIRST_EPOCH:BATCH:SIDE, examples a step on each GPU and the side of square "
                       "images from an epoch on, as the Trainer's phases; repeatable")
            ->excludes(global)
            ->excludes(each);
    app.add_option("--micro-batches", o.micro_batches,
                   "parts of a GPU's batch, whose gradients are summed before one reduction; 0: "
                   "the fewest that fit in its memory, in each phase (default 1; of --model own as "
                   "many as its trace has)")
        ->check(count_in(0, 1'000'000'000));
    read_inputs(app, o, phase);
    app.add_option("--budget-dollars", o.budget_dollars, "on demand")->check(above_zero());
    app.add_option("--deadline-hours", o.deadline_hours, "for all epochs")
        ->check(number_in(1e-6, 1e6, "from 1e-6 to 1e6"));
    app.add_option("--precision", o.precision, "of the computation")
        ->check(CLI::IsMember({"fp32", "mixed"}))
        ->capture_default_str();
    app.add_option("--optimizer", o.optimizer, "whose update is timed and whose state must fit")
        ->check(CLI::IsMember({"sgd", "adam", "adamw", "lars", "lamb"}))
        ->capture_default_str();
    app.add_option("--machine", o.machines,
                   "machines to consider: names, files of machines and clusters (.json, as "
                   "gx_bench_network writes one under mpirun), dumps of NCCL's topology (.xml); "
                   "repeatable")
        ->capture_default_str();
    app.add_option("--print-machine", o.print_machine,
                   "print the file of a known machine, as p3.16xlarge, to change and to give to "
                   "--machine; plans nothing");
    CLI::Option* const most =
        app.add_option("--most-gpus", o.most_gpus,
                       "of a cluster to consider: counts of machines are powers of two, that of a "
                       "cluster's file, and the largest with so many GPUs")
            ->check(count_in(1, 1'000'000))
            ->capture_default_str();
    app.add_option("--count", o.counts, "of machines to consider, in their place; repeatable")
        ->check(count_in(1, 1'000'000))
        ->excludes(most);
    app.add_option("--most-messages", o.most_messages,
                   "to simulate for all candidates; those with the most are dropped")
        ->check(number_in(1, 1e12, "from 1 to 1e12"))
        ->capture_default_str();
    app.add_option(
        "--profile", o.profile,
        "communication stack, as nccl-2.10+tcp-aws (default: the machine's 'profile'; nccl-2.10 "
        "and NICs at line rate where it has none)");
    app.add_option("--stack", o.stack,
                   "framework whose costs a step pays: pytorch-ddp, tensorflow-horovod, "
                   "mxnet-horovod, oneflow; none: computation and wire alone")
        ->capture_default_str();
    app.add_option("--kernels", o.kernels,
                   "of the roofline: fused, as by torch.compile and NVIDIA's containers; separate; "
                   "channels-first, as frameworks of before 2020; auto: channels-first on GPUs of "
                   "before 2020 unless --stack is none, else fused")
        ->check(CLI::IsMember({"auto", "fused", "separate", "channels-first"}))
        ->capture_default_str();
    app.add_flag("--synchronous", o.synchronous, "exclude reducers that apply stale gradients");
    app.add_flag("--sharded", o.sharded,
                 "also consider rings whose ranks update a shard each, and keep its state alone");
    app.add_flag("--lossy", o.lossy,
                 "also consider reducers that send less than the gradient: TopK, Quantized, "
                 "LocalSgd");
    app.add_flag("--served", o.served,
                 "also consider means by direct messages to the ranks that serve them: "
                 "ParameterServer, SharedMemory");
    app.add_option("--lines", o.lines, "dominated candidates to print; 0: all")
        ->check(count_in(0, 1'000'000'000))
        ->capture_default_str();
    app.add_option("--json", o.json, "write the whole ranking there");
    app.add_option("--html", o.html, "write it there as a page with a picture");
}

int print_machine(const std::string& name) {
    fmt::print("{}\n", sim::to_json(sim::find_or_read_machine(name)));
    return 0;
}

void print_doubts(const Inputs& inputs) {
    for (const Input& i : inputs)
        if (!i.doubt.empty()) gx::print_error("gx_plan: warning: {}\n", printable(i.doubt));
}

/// Errors: Error that lists the known networks, and says how to plan for others.
const sim::KnownModel& known_model(const std::string& name) {
    try {
        return sim::find_model(name);
    } catch (const Error& e) {
        throw Error(e.what() + std::string("; --model own plans for a network of yours"));
    }
}

Planned plan_known(const Arguments& o, const auto& progress) {
    const sim::KnownModel& model = known_model(o.model);
    const Graph graph = model.make(graph_options(o, model));
    Planned p{.job = known_job(o, model, graph)};
    p.space = space_of(o, p.inputs);
    set_step(p.space, o, graph, p.inputs);
    print_doubts(p.inputs);
    const int channels = graph.input.channels;
    const auto graph_at = [&](int side) { return model.make({.input = {channels, side, side}}); };
    p.candidates = p.job.phases.empty() ? search(p.job, graph, p.space, progress)
                                        : search_phases(p.job, graph_at, p.space, progress);
    return p;
}

Planned plan_own(const Arguments& o, const auto& progress) {
    Planned p;
    p.space = space_of(o, p.inputs);
    const StepInput step = step_of(o);
    const MeasuredWork measured =
        read_own_step(step, o.parameters, p.space.clusters, p.space.update);
    const Bytes need =
        sim::parameter_need(measured.step.elements, p.space.precision, p.space.update);
    p.inputs.push_back(input_of_own(step, measured, need, p.space.clusters.front().machine.gpu));
    print_doubts(p.inputs);
    // A trace's step is of several passes, and fits as such.
    if (!o.micro_batches) p.space.micro_batches = step.batch / measured.batch;
    p.job = own_job(o, measured.step.elements);
    p.candidates = search(p.job, tools::plan::Network(measured), p.space, progress);
    return p;
}

int plan(const Arguments& o) {
    expect_options_of_model(o);
    expect_outputs({{"--json", o.json}, {"--html", o.html}});
    const bool shows = Progress::style_of(stderr) == Progress::Style::bar;
    const auto progress = [&](std::size_t done, std::size_t of) {
        if (shows) gx::print_error("\rsimulating {} of {} clusters\033[K", done, of);
    };
    Planned p = o.own() ? plan_own(o, progress) : plan_known(o, progress);
    if (shows) gx::print_error("\r\033[K");
    pareto_front(p.candidates, p.job);
    // Files first: what reads the table may close it.
    if (!o.html.empty())
        write_file(o.html, page(p.candidates, p.job, assumptions(p.space.stack, p.inputs)));
    if (!o.json.empty()) {
        using nlohmann::json;
        write_file(o.json,
                   json_of(p, o).dump(1, ' ', false, json::error_handler_t::replace) + "\n");
    }
    print(p, o);
    if (std::ranges::any_of(p.candidates, &Candidate::on_front)) return 0;
    std::fflush(stdout);  // the reasons first
    gx::print_error(
        "gx_plan: none of {} candidates can do this job within its limits: the reasons are "
        "above.\n",
        p.candidates.size());
    return 1;
}

}  // namespace

int main(int argc, char** argv) {
    Arguments options;
    CLI::App app("Pareto front of time and dollars for training a network, on simulated clusters.",
                 "gx_plan");
    read_options(app, options);
    return gx::run_program(app, argc, argv, [&] {
        return options.print_machine.empty() ? plan(options) : print_machine(options.print_machine);
    });
}
