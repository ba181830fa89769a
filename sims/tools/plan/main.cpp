// gx_plan: Pareto front of time and price for a job over machines, counts, reducers and wires.
// Run:    build/release/gx_plan --model ResNet-50 --epochs 90 --global-batch 8192 --html plan.html
// Prints: the front, why the others are dominated, and what is assumed of the framework
// Exit:   0; 1 where no candidate can do the job within its limits; 2 for input that cannot be used
#include <algorithm>   // any_of, count
#include <cstdio>      // stderr
#include <functional>  // less
#include <map>         // machines by name
#include <optional>    // prices, micro-batches
#include <set>         // clusters that were printed
#include <string>      // names
#include <tuple>       // clusters
#include <vector>      // offers

#include <CLI/CLI.hpp>        // App
#include <fmt/format.h>       // tables
#include <nlohmann/json.hpp>  // --json

#include <gx/io/atomic_file.hpp>              // write_file
#include <gx/halving_doubling/reducer.hpp>    // HalvingDoubling
#include <gx/hierarchical/reducer.hpp>        // Hierarchical
#include <gx/optimizer/adam.hpp>              // Adam
#include <gx/optimizer/adamw.hpp>             // AdamW
#include <gx/optimizer/lamb.hpp>              // Lamb
#include <gx/optimizer/lars.hpp>              // Lars
#include <gx/optimizer/sgd.hpp>               // Sgd
#include <gx/optimizer/update_cost.hpp>       // update_cost_of
#include <gx/recursive_doubling/reducer.hpp>  // RecursiveDoubling
#include <gx/reducer/double_buffered.hpp>     // DoubleBuffered
#include <gx/reducer/multi_ring.hpp>          // MultiRing
#include <gx/reducer/ring.hpp>                // Ring
#include <gx/sharded/reducer.hpp>             // Sharded
#include <gx/sim/catalog/find_model.hpp>      // find_model
#include <gx/sim/compute/gpu_memory.hpp>      // parameter_need
#include <gx/sim/io/machine_file.hpp>         // find_or_read_cluster
#include <gx/sim/catalog/comm_stacks.hpp>     // find_profile
#include <gx/trainer/progress.hpp>            // Progress
#include <gx/trees/double_tree.hpp>           // DoubleTree
#include <gx/trees/tree.hpp>                  // Tree
#include <support/command_line.hpp>           // expect_outputs, printable, read_input, run_program
#include <tools/common/nccl_runs.hpp>         // NcclRuns
#include <tools/plan/compressed.hpp>          // top_k_choice, quantized_choice, local_choice
#include <tools/plan/inputs.hpp>              // read_step, input_of
#include <tools/plan/page.hpp>                // page
#include <tools/plan/search.hpp>              // search
#include <tools/plan/served.hpp>              // served_choice

namespace {

using namespace gx;
using tools::plan::Candidate;

struct Asked {
    std::string model = "ResNet-50", precision = "mixed", optimizer = "sgd", profile{},
                stack = "pytorch-ddp", kernels = "auto", json{}, html{}, print_machine{};
    std::vector<std::string> machines{"p2.xlarge",     "p2.8xlarge",   "p2.16xlarge",
                                      "p3.2xlarge",    "p3.8xlarge",   "p3.16xlarge",
                                      "p3dn.24xlarge", "p4d.24xlarge", "p5.48xlarge"};
    std::int64_t examples = 0, parameters = 0;
    int sequence_length = 0, epochs = 90, global_batch = 0, batch_per_gpu = 0, most_gpus = 64,
        lines = 12;
    std::vector<std::string> phases{}, nccl_tests{};
    tools::plan::StepInput step{};
    std::optional<int> micro_batches{};
    double budget_dollars = 0, deadline_hours = 0, most_messages = 5e7;
    bool synchronous = false, sharded = false, lossy = false, served = false;
};

/// What a user measured, in place of rooflines and data sheets.
void read_inputs(CLI::App& app, Asked& a, CLI::Option* phase) {
    auto* step = app.add_option("--step-seconds", a.step.step_s,
                                "measured: a step on one GPU, in place of the roofline's");
    auto* rate = app.add_option("--images-per-second", a.step.images_s, "the same, as a rate");
    auto* trace = app.add_option("--trace", a.step.trace_file,
                                 "the same, as a trace of torch.profiler (Chrome JSON): its parts, "
                                 "and when gradients are ready");
    step->check(number_in(1e-6, 1e6, "from 1e-6 to 1e6"))->excludes(rate)->excludes(trace);
    rate->check(number_in(1e-6, 1e9, "from 1e-6 to 1e9"))->excludes(trace);
    for (auto* measured : {step, rate, trace}) measured->excludes(phase);
    app.add_option("--step-batch", a.step.batch,
                   "examples of that step (default: those of --batch-per-gpu)")
        ->check(count_in(1, 1'000'000'000));
    app.add_option("--nccl-tests", a.nccl_tests,
                   "output of all_reduce_perf: rates between the GPUs of one host, or between "
                   "hosts, in place of data sheets; repeatable");
}

void read_options(CLI::App& app, Asked& a) {
    app.add_option("--model", a.model,
                   "the network; a wrong name lists them; own: one of yours, by a measured step")
        ->capture_default_str();
    app.add_option("--parameters", a.parameters,
                   "of a network of yours; not with --trace, which says them")
        ->check(count_in(1, 10'000'000'000'000));
    app.add_option("--sequence-length", a.sequence_length,
                   "tokens of an example, of networks of sequences (default: the network's own)")
        ->check(count_in(1, 1'000'000'000));
    app.add_option("--examples", a.examples,
                   "in the data set (default of networks of images: 1281167, as ImageNet has)")
        ->check(count_in(1, 1'000'000'000'000));
    app.add_option("--epochs", a.epochs, "passes over the data set")
        ->check(count_in(1, 1'000'000))
        ->capture_default_str();
    auto* global = app.add_option("--global-batch", a.global_batch,
                                  "examples a step on all GPUs together (default 2048; of --model "
                                  "own the batch of its step on each GPU)");
    auto* each = app.add_option("--batch-per-gpu", a.batch_per_gpu, "examples a step on each GPU");
    global->check(count_in(1, 1'000'000'000))->excludes(each);
    each->check(count_in(1, 1'000'000'000))->excludes(global);
    auto* phase =
        app.add_option("--phase", a.phases,
                       "FIRST_EPOCH:BATCH:SIDE, examples a step on each GPU and the side of square "
                       "images from an epoch on, as the Trainer's phases; repeatable")
            ->excludes(global)
            ->excludes(each);
    app.add_option("--micro-batches", a.micro_batches,
                   "parts of a GPU's batch, whose gradients are summed before one reduction; 0: "
                   "the fewest that fit in its memory (default 1; of --model own as many as its "
                   "trace has)")
        ->check(count_in(0, 1'000'000'000));
    read_inputs(app, a, phase);
    app.add_option("--budget-dollars", a.budget_dollars, "on demand")->check(above_zero());
    app.add_option("--deadline-hours", a.deadline_hours, "for all epochs")
        ->check(number_in(1e-6, 1e6, "from 1e-6 to 1e6"));
    app.add_option("--precision", a.precision, "of the computation")
        ->check(CLI::IsMember({"fp32", "mixed"}))
        ->capture_default_str();
    app.add_option("--optimizer", a.optimizer, "whose update is timed and whose state must fit")
        ->check(CLI::IsMember({"sgd", "adam", "adamw", "lars", "lamb"}))
        ->capture_default_str();
    app.add_option("--machine", a.machines,
                   "machines to consider: names, files of machines and clusters (.json, as `gx "
                   "bench network` writes them), dumps of NCCL's topology (.xml); repeatable")
        ->capture_default_str();
    app.add_option("--print-machine", a.print_machine,
                   "print the file of a known machine, as p3.16xlarge, to change and to give to "
                   "--machine; plans nothing");
    app.add_option("--most-gpus", a.most_gpus, "the largest cluster to consider")
        ->check(count_in(1, 1'000'000))
        ->capture_default_str();
    app.add_option("--most-messages", a.most_messages,
                   "to simulate for all candidates; those with the most are dropped")
        ->check(number_in(1, 1e12, "from 1 to 1e12"))
        ->capture_default_str();
    app.add_option("--profile", a.profile,
                   "communication stack, as nccl-2.10+tcp-aws (default: by the machine)");
    app.add_option("--stack", a.stack,
                   "framework whose costs a step pays: pytorch-ddp, tensorflow-horovod, "
                   "mxnet-horovod, oneflow; none: computation and wire alone")
        ->capture_default_str();
    app.add_option("--kernels", a.kernels,
                   "of the roofline: fused, as by torch.compile and NVIDIA's containers; separate; "
                   "channels-first, as frameworks of before 2020; auto: channels-first on GPUs of "
                   "before 2020 unless --stack is none, else fused")
        ->check(CLI::IsMember({"auto", "fused", "separate", "channels-first"}))
        ->capture_default_str();
    app.add_flag("--synchronous", a.synchronous, "exclude reducers that apply stale gradients");
    app.add_flag("--sharded", a.sharded,
                 "also consider rings whose ranks update a shard each, and keep its state alone");
    app.add_flag("--lossy", a.lossy,
                 "also consider reducers that send less than the gradient: TopK, Quantized, "
                 "LocalSgd");
    app.add_flag("--served", a.served,
                 "also consider means by direct messages to the ranks that serve them: "
                 "ParameterServer, SharedMemory");
    app.add_option("--lines", a.lines, "dominated candidates to print; 0: all")
        ->check(count_in(0, 1'000'000'000))
        ->capture_default_str();
    app.add_option("--json", a.json, "write the whole ranking there");
    app.add_option("--html", a.html, "write it there as a page with a picture");
}

/// Errors: Error naming the phase, what was expected and found.
std::vector<tools::plan::JobPhase> phases_of(const Asked& a, const sim::KnownModel& model) {
    std::vector<tools::plan::JobPhase> phases;
    const ImageShape image = model.make({}).input;
    for (const std::string& text : a.phases) {
        tools::plan::JobPhase p;
        int read = 0;
        const std::string name = "--phase " + printable(text);
        if (text.find_first_not_of("0123456789:-") != text.npos ||  // sscanf takes blanks and +
            std::sscanf(text.c_str(), "%9d:%9d:%5d%n", &p.first_epoch, &p.batch_per_gpu,
                        &p.image_side, &read) != 3 ||
            read != std::ssize(text))
            throw Error(name + ": expected FIRST_EPOCH:BATCH:SIDE, as 13:224:224");
        if (phases.empty() && p.first_epoch != 0)
            throw Error(name + ": the first phase begins at epoch 0");
        if (!phases.empty() && p.first_epoch <= phases.back().first_epoch)
            throw Error(
                fmt::format("{}: the phase before begins at epoch {}, and each begins "
                            "later than the one before",
                            name, phases.back().first_epoch));
        if (p.first_epoch >= a.epochs)
            throw Error(
                fmt::format("{}: begins behind the last of {} epochs: name an earlier one, "
                            "or more --epochs",
                            name, a.epochs));
        if (p.batch_per_gpu < 1 || p.image_side < 1)
            throw Error(name + ": a step has at least 1 example, and an image 1 pixel a side");
        if (image.height != image.width)
            throw Error(
                fmt::format("{}: {} has no images: give --batch-per-gpu", name, model.name));
        const GraphTrouble trouble =
            model.trouble({.input = {image.channels, p.image_side, p.image_side}});
        if (trouble.fault != GraphFault::none)
            throw Error(fmt::format("{}: images of {} x {} do not fit {}: {}", name, p.image_side,
                                    p.image_side, model.name, trouble.text().view()));
        phases.push_back(p);
    }
    return phases;
}

/// A sequence is an image of one column and one channel.
bool is_sequence(const ImageShape& input) { return input.channels == 1 && input.width == 1; }

/// Errors: Error for a length of images, and for one that the network can't take, with its reason.
GraphOptions graph_options(const Asked& a, const sim::KnownModel& model) {
    if (a.sequence_length == 0) return {};
    const std::string name = fmt::format("--sequence-length {}", a.sequence_length);
    if (!is_sequence(model.make({}).input))
        throw Error(
            fmt::format("{}: {} takes images, not sequences: leave this option out, or name a "
                        "network of sequences, as BERT-large, with --model",
                        name, model.name));
    const GraphOptions options{.input = {1, a.sequence_length, 1}};
    const GraphTrouble trouble = model.trouble(options);
    if (trouble.fault != GraphFault::none)
        throw Error(fmt::format("{}: sequences of {} tokens do not fit {}: {}", name,
                                a.sequence_length, model.name, trouble.text().view()));
    return options;
}

/// Whether the network is the user's own, known by a measured step alone.
bool own(const Asked& a) { return a.model == "own"; }

/// Errors: Error for an option that needs the graph of a known network, and the other way round.
void expect_options_of_model(const Asked& a) {
    if (!own(a) && a.parameters > 0)
        throw Error(
            fmt::format("--parameters: {} is known: leave this out, or plan for a network "
                        "of yours as --model own",
                        a.model));
    if (!own(a)) return;
    const auto refuse = [](bool given, const char* option, const char* why) {
        if (given) throw Error(fmt::format("{}: --model own has no {}", option, why));
    };
    refuse(!a.phases.empty(), "--phase",
           "image size: plan each phase by a step that was measured in it");
    refuse(a.sequence_length > 0, "--sequence-length",
           "length but that of the measured step: leave this out");
    refuse(a.kernels != "auto", "--kernels", "roofline: leave this out");
    if (a.examples == 0)
        throw Error("--examples: --model own has no data set of its own: give its examples");
}

/// Errors: Error for a network of sequences, which has no default.
std::int64_t examples_of(const Asked& a, const sim::KnownModel& model, const Graph& graph) {
    if (a.examples > 0) return a.examples;
    if (is_sequence(graph.input))
        throw Error(
            fmt::format("--examples: {} learns from sequences, and ImageNet's 1,281,167 images "
                        "are the default of networks of images alone: give the number of "
                        "sequences in the data set",
                        model.name));
    return 1'281'167;
}

/// The job but for its network and examples.
void set_job(tools::plan::Job& job, const Asked& a) {
    job.epochs = a.epochs;
    job.global_batch = a.global_batch;
    job.batch_per_gpu = a.batch_per_gpu;
    if (job.global_batch == 0 && job.batch_per_gpu == 0 && a.phases.empty()) {
        if (own(a)) job.batch_per_gpu = a.step.batch;  // nothing else is known to fit
        else job.global_batch = 2048;
    }
    const int least = std::max(job.global_batch, job.batch_per_gpu);
    if (least > job.examples)
        throw Error(
            fmt::format("{} {}: a step takes more than the {} examples of the data set: "
                        "give a smaller batch, or more --examples",
                        job.global_batch > 0   ? "--global-batch"
                        : a.batch_per_gpu == 0 ? "--step-batch"
                                               : "--batch-per-gpu",
                        least, job.examples));
    if (a.budget_dollars > 0) job.budget = Dollars{a.budget_dollars};
    if (a.deadline_hours > 0) job.deadline = nanoseconds(a.deadline_hours * 3600);
}

template <class E>
void add_reducers(std::vector<tools::plan::ReducerChoice>& all, std::string_view wire, bool late) {
    using enum sim::Algorithm;
    using tools::plan::reducer_choice;
    all.push_back(reducer_choice<Ring<E>>(wire, ring));
    all.push_back(reducer_choice<MultiRing<4, E>>(wire, ring));
    all.push_back(reducer_choice<Hierarchical<E>>(wire, ring));
    all.push_back(reducer_choice<HalvingDoubling<E>>(wire, tree));
    all.push_back(reducer_choice<RecursiveDoubling<E>>(wire, tree));
    all.push_back(reducer_choice<Tree<E>>(wire, tree));
    all.push_back(reducer_choice<DoubleTree<8, E>>(wire, tree));
    if (!late) return;
    all.push_back(reducer_choice<DoubleBuffered<Ring<E>>>(wire, ring));
    all.push_back(reducer_choice<DoubleBuffered<MultiRing<4, E>>>(wire, ring));
    all.push_back(reducer_choice<DoubleBuffered<Hierarchical<E>>>(wire, ring));
}

void add_sharded(std::vector<tools::plan::ReducerChoice>& all) {
    using enum sim::Algorithm;
    using tools::plan::reducer_choice;
    all.push_back(reducer_choice<Sharded<Ring<fp32>>>("fp32", ring));
    all.push_back(reducer_choice<Sharded<MultiRing<4, fp32>>>("fp32", ring));
    all.push_back(reducer_choice<Sharded<Ring<fp16>>>("fp16", ring));
    all.push_back(reducer_choice<Sharded<MultiRing<4, fp16>>>("fp16", ring));
}

void add_lossy(std::vector<tools::plan::ReducerChoice>& all) {
    using namespace tools::plan;
    using enum sim::Algorithm;
    all.push_back(top_k_choice<1>());
    all.push_back(top_k_choice<10>());
    all.push_back(quantized_choice<8>());
    all.push_back(quantized_choice<4>());
    all.push_back(local_choice<Ring<fp32>, 4>("fp32", ring));
    all.push_back(local_choice<MultiRing<4, fp32>, 16>("fp32", ring));
}

void add_served(std::vector<tools::plan::ReducerChoice>& all) {
    using tools::plan::served_choice;
    all.push_back(served_choice<ParameterServer<fp32>>("fp32"));
    all.push_back(served_choice<ParameterServer<fp16>>("fp16"));
    all.push_back(served_choice<SharedMemory<fp32>>("fp32"));
    all.push_back(served_choice<SharedMemory<fp16>>("fp16"));
}

UpdateCost update_of(const std::string& optimizer) {
    if (optimizer == "adam") return update_cost_of<Adam>();
    if (optimizer == "adamw") return update_cost_of<AdamW>();
    if (optimizer == "lamb") return update_cost_of<Lamb>();
    if (optimizer == "lars") return update_cost_of<Lars>();
    return update_cost_of<Sgd>();
}

using Inputs = std::vector<tools::plan::Input>;

/// "; kernels are ... on p3.16xlarge": of each machine's roofline.
std::string kernels_text(const tools::plan::SearchSpace& space) {
    std::map<std::string, std::set<std::string>> machines;  // by kernels
    for (const sim::ClusterSpec& c : space.clusters) {
        const sim::Framework kernels = space.kernels_on(c.machine.gpu);
        const char* const are = kernels.fused            ? "fused, channels last"
                                : kernels.channels_first ? "one for each operation, channels first"
                                                         : "one for each operation, channels last";
        machines[are].insert(std::string(c.machine.name.view()));
    }
    std::string text = "; kernels (--kernels) are ";
    for (bool first = true; const auto& [are, names] : machines) {
        text += fmt::format("{}{} on {}", first ? "" : "; ", are, fmt::join(names, ", "));
        first = false;
    }
    return text;
}

/// The measured step, with the text of its trace and its examples.
tools::plan::StepInput step_of(const Asked& a) {
    tools::plan::StepInput step = a.step;
    if (!step.trace_file.empty()) step.trace = read_input("--trace", step.trace_file);
    if (step.batch == 0) step.batch = a.batch_per_gpu;
    return step;
}

/// The step that the space is timed with.
void set_step(tools::plan::SearchSpace& space, const Asked& a, const Graph& graph, Inputs& inputs) {
    if (!a.step.given()) {
        if (a.step.batch > 0)
            throw Error(
                "--step-batch: no step was measured; give --step-seconds, "
                "--images-per-second or --trace");
        inputs.push_back(
            {"computation", false,
             "a roofline of data sheets, whose own error is in no interval" + kernels_text(space)});
        return;
    }
    const tools::plan::StepInput step = step_of(a);
    space.measured = tools::plan::read_step(step, graph, space.clusters);
    const sim::GpuSpec& gpu = space.clusters.front().machine.gpu;
    tools::plan::expect_possible(step, *space.measured, graph, gpu, space.precision);
    const sim::TimedGraph roofline(graph, gpu, space.precision, space.kernels_on(gpu),
                                   space.update);
    inputs.push_back(
        tools::plan::input_of(step, *space.measured, roofline.step(space.measured->batch)));
}

std::optional<sim::Framework> kernels_of(const Asked& a) {
    if (a.kernels == "separate") return sim::separate_kernels;
    if (a.kernels == "channels-first") return sim::channels_first_kernels;
    if (a.kernels == "auto" && a.stack != "none") return std::nullopt;
    return sim::fused_kernels;
}

tools::plan::SearchSpace space_of(const Asked& a, Inputs& inputs) {
    tools::plan::SearchSpace space{
        .buckets = {Bytes{0}, Bytes{25'000'000}},
        .precision = a.precision == "fp32" ? sim::Precision::fp32 : sim::Precision::mixed,
        .kernels = kernels_of(a),
        .update = update_of(a.optimizer),
        .micro_batches = a.micro_batches.value_or(1),
        .stack = tools::predict::stack_named(a.stack),
        .most_messages = a.most_messages};
    if (!a.nccl_tests.empty() && a.machines.size() != 1)
        throw Error("--nccl-tests: rates are of one kind of machine: name it alone, by --machine");
    std::map<std::string, std::string, std::less<>> chosen;  // by the machine's own name
    std::map<std::string, std::string> unmeasured;           // machines by profile
    for (const std::string& name : a.machines) {
        sim::ClusterSpec named = sim::find_or_read_cluster(name);
        const sim::MachineSpec& machine = named.machine;
        const auto [other, fresh] = chosen.emplace(machine.name.view(), name);
        if (!fresh && other->second == name) continue;
        if (!fresh)
            throw Error(
                fmt::format("--machine {} and {} are both named '{}': give one another "
                            "'name'",
                            other->second, name, machine.name.view()));
        const std::string_view own = machine.name.view();
        const bool listed = std::ranges::any_of(
            sim::machine_makers, [&](auto make) { return make().name.view() == own; });
        const bool tcp = listed && (own.starts_with("p2") || own.starts_with("p3"));
        const bool efa = listed && (own.starts_with("p4d") || own.starts_with("p5"));
        const std::string stack = !a.profile.empty() ? a.profile
                                  : tcp              ? "nccl-2.10+tcp-aws"
                                  : efa              ? "nccl-2.10+roce-100g"
                                                     : "nccl-2.10";
        const bool stated = sim::states_network(named);
        if (stated)
            inputs.push_back({"network", true,
                              name + ", in place of data sheets" +
                                  (a.profile.empty() ? " and a profile"
                                                     : "; its profile is --profile " + stack)});
        else if (a.nccl_tests.empty())
            unmeasured[stack] += (unmeasured[stack].empty() ? "" : ", ") + name;
        if (!a.profile.empty() || !stated) named.profile = sim::find_profile(stack);
        std::vector<sim::NcclTests> measured;
        tools::NcclRuns runs;
        for (const std::string& file : a.nccl_tests) {
            const auto& tests =
                measured.emplace_back(sim::read_nccl_tests(read_input("--nccl-tests", file), file));
            runs.add(tests, file);
            named = sim::with_measured(named, tests, file);
            inputs.push_back(tools::plan::input_of(tests, file, named));
        }
        if (!measured.empty())
            for (const auto& input : tools::plan::assumed_beside(measured, machine, stated))
                inputs.push_back(input);
        for (int count = 1; count * machine.gpus <= a.most_gpus; count *= 2) {
            space.clusters.push_back(named);
            space.clusters.back().machines = count;
        }
    }
    for (const auto& [stack, names] : unmeasured)
        inputs.push_back({"network", false,
                          "data sheets of " + names + ", profile " + stack +
                              (a.profile.empty() ? " (another by --profile)" : "")});
    if (space.clusters.empty())
        throw Error(
            fmt::format("--most-gpus {}: each of these machines has more; allow as many as "
                        "one has, or name a smaller --machine",
                        a.most_gpus));
    add_reducers<fp32>(space.reducers, "fp32", !a.synchronous);
    add_reducers<fp16>(space.reducers, "fp16", !a.synchronous);
    if (a.sharded) add_sharded(space.reducers);
    if (a.lossy) add_lossy(space.reducers);
    if (a.served) add_served(space.reducers);
    return space;
}

std::string price(const std::optional<Dollars>& p) {
    return p ? fmt::format("{:.2f}", p->count) : "unknown";
}
std::string line_of(const Candidate& o) {
    return fmt::format("{:>9}  {:>9}  {:>9}  {:>8.1f}  {:>17}  {:>6.1f} %   {}",
                       tools::plan::hours(o.total), price(o.on_demand), price(o.spot),
                       seconds(o.step) * 1e3, tools::plan::step_bounds(o), o.exposed_pct(),
                       printable(o.choice.text()));
}

/// The machines of the space by what is said of their prices.
std::map<std::string, std::string> price_dates(const tools::plan::SearchSpace& space) {
    std::map<std::string, std::string> dates;
    for (const sim::ClusterSpec& c : space.clusters) {
        if (c.machines > 1) continue;
        const std::string_view date = c.machine.price_date.view();
        std::string& names = dates[date.empty() ? "not said when" : std::string(date)];
        names += (names.empty() ? "" : ", ") + std::string(c.machine.name.view());
    }
    return dates;
}

/// What a plan rests on: its inputs, and what a step is assumed to pay beside computation and wire.
std::vector<std::string> assumptions(const tools::predict::Stack& s, const Inputs& inputs) {
    std::vector<std::string> all;
    for (const tools::plan::Input& i : inputs) {
        all.push_back(
            fmt::format("{}: {}: {}.", i.measured ? "Measured" : "Assumed", i.of, i.text));
        if (!i.doubt.empty()) all.push_back("Doubtful: " + i.doubt);
    }
    if (s.name == "none") {
        all.push_back(
            "Assumed: no framework. Hidden communication slows nothing down, and hooks, "
            "packing and stragglers cost nothing: times are lower bounds.");
        return all;
    }
    for (std::string& sentence : std::vector<std::string>{
             fmt::format(
                 "Assumed: the costs of {}, as any framework's are expected (--stack none: none).",
                 s.name),
             fmt::format("Communication that runs beside computation costs {:.0f} % of its time; a "
                         "step of several GPUs pays {:.1f} ms of hooks and {:.1f} ms a 100 MB of "
                         "gradient, of several machines at least {:.1f} ms of waiting, and "
                         "stragglers that deviate by {:.1f} % (V100; others by memory bandwidth).",
                         100 * s.interference, s.step_ms, s.mb_ms, s.machines_ms, 100 * s.jitter),
             "Intervals are of what many GPUs add to a step of one, as wide as errors on published "
             "results were; gx predict --score prints their coverage."})
        all.push_back(std::move(sentence));
    return all;
}

void print_dominated(const std::vector<Candidate>& candidates, int lines) {
    fmt::print("\nDominated and infeasible, the best of each cluster, synchronous and not{}:\n",
               lines > 0 ? "" : ", and all the rest");
    int all = 0, printed = 0;
    std::set<std::tuple<std::string, int, int>> seen;
    for (const Candidate& o : candidates) {
        if (o.on_front) continue;
        ++all;
        const bool first =
            seen.emplace(o.choice.machine, o.choice.machines, o.choice.staleness).second;
        if (lines > 0 && (!first || printed >= lines)) continue;
        ++printed;
        fmt::print("{:>9}  {:>9}   {}: {}\n",
                   o.infeasible.empty() ? tools::plan::hours(o.total) : "-",
                   o.infeasible.empty() ? price(o.on_demand) : "-", printable(o.choice.text()),
                   printable(o.why));
    }
    if (all > printed)
        fmt::print("and {} more: --lines 0 prints all, --json FILE and --html FILE hold them\n",
                   all - printed);
}

std::string phases_text(const tools::plan::Job& job) {
    std::string text = "by phase (step ms is the mean):";
    for (const tools::plan::JobPhase& p : job.phases)
        text += fmt::format("\n    from epoch {}: {} a step and GPU, images of {} x {}",
                            p.first_epoch, p.batch_per_gpu, p.image_side, p.image_side);
    return text;
}

void print(const std::vector<Candidate>& candidates, const tools::plan::Job& job, const Asked& a,
           const std::vector<std::string>& assumed,
           const std::map<std::string, std::string>& dates) {
    fmt::print("{}, {} examples x {} epochs, {}\n\n", job.network(), job.examples, job.epochs,
               !job.phases.empty()    ? phases_text(job)
               : job.global_batch > 0 ? fmt::format("{} a step", job.global_batch)
                                      : fmt::format("{} a step and GPU", job.batch_per_gpu));
    fmt::print(
        "Pareto front: nothing else is both faster and cheaper, and stale gradients gain over 1 "
        "%.\n"
        "{:>9}  {:>9}  {:>9}  "
        "{:>8}  {:>17}  {:>8}\n",
        "time", "dollars", "spot", "step ms", "80 % interval", "exposed");
    bool any = false;
    for (const Candidate& o : candidates)
        if (o.on_front) fmt::print("{}\n", line_of(o)), any = true;
    const auto nearest = tools::plan::nearest(candidates);
    if (!any && nearest.empty()) fmt::print("none: no candidate can run; see below\n");
    if (!nearest.empty()) {
        fmt::print("none: every candidate breaks a limit or cannot run. Nearest {}:\n",
                   nearest.size() > 1                  ? "are the fastest and the cheapest"
                   : nearest[0]->on_demand.has_value() ? "is the fastest, which is the cheapest"
                                                       : "is the fastest; no price is known");
        for (const Candidate* o : nearest) fmt::print("{}: {}\n", line_of(*o), printable(o->why));
    }
    const auto left_out = std::ranges::count(candidates, false, &Candidate::simulated);
    if (left_out > 0)
        fmt::print(
            "{} of {} candidates were not simulated, as they send the most messages, and may be "
            "faster: name fewer machines, or raise --most-messages.\n",
            left_out, candidates.size());
    for (const std::string& sentence : assumed) fmt::print("{}\n", printable(sentence));
    print_dominated(candidates, a.lines);
    fmt::print("\nTimes are steps alone, simulated; prices may have changed:\n");
    for (const auto& [date, names] : dates)
        fmt::print("    {}: {}\n", printable(names), printable(date));
    fmt::print(
        "A stale gradient (DoubleBuffered){} and a large batch cost accuracy: train before "
        "you trust.\n",
        a.lossy ? ", a compressed one (TopK, Quantized), local steps (LocalSgd)" : "");
}

nlohmann::ordered_json json_of(const Candidate& o) {
    nlohmann::ordered_json j{{"machine", o.choice.machine},
                             {"machines", o.choice.machines},
                             {"gpus", o.choice.gpus},
                             {"batch_per_gpu", o.choice.batch_per_gpu},
                             {"micro_batches", o.choice.micro_batches},
                             {"reducer", o.choice.reducer},
                             {"wire", o.choice.wire},
                             {"bucket_bytes", o.choice.bucket.count},
                             {"staleness", o.choice.staleness},
                             {"on_frontier", o.on_front},
                             {"why", o.why}};
    if (!o.infeasible.empty()) return j;
    j["step_ms"] = seconds(o.step) * 1e3;
    if (o.step_80)
        j["step_ms_80"] = {seconds(o.step_80->low) * 1e3, seconds(o.step_80->high) * 1e3};
    j["exposed_ms"] = seconds(o.exposed) * 1e3;
    j["framework_ms"] = seconds(o.framework) * 1e3;
    for (const Nanoseconds step : o.phase_steps) j["phase_step_ms"].push_back(seconds(step) * 1e3);
    j["total_hours"] = seconds(o.total) / 3600;
    if (o.on_demand) j["on_demand_dollars"] = o.on_demand->count;
    if (o.spot) j["spot_dollars"] = o.spot->count;
    return j;
}

/// The job and what all candidates share, beside the candidates.
nlohmann::ordered_json json_of(const tools::plan::Job& job, const Asked& a, int micro_batches,
                               const std::string& stack) {
    nlohmann::ordered_json j{{"model", job.model}};
    if (job.parameters > 0) j["parameters"] = job.parameters;
    if (job.sequence_length > 0) j["sequence_length"] = job.sequence_length;
    j["examples"] = job.examples;
    j["epochs"] = job.epochs;
    if (job.global_batch > 0) j["global_batch"] = job.global_batch;
    if (job.batch_per_gpu > 0) j["batch_per_gpu"] = job.batch_per_gpu;
    for (const tools::plan::JobPhase& p : job.phases)
        j["phases"].push_back({{"first_epoch", p.first_epoch},
                               {"batch_per_gpu", p.batch_per_gpu},
                               {"image_side", p.image_side}});
    j["micro_batches"] = micro_batches;
    j["precision"] = a.precision;
    j["optimizer"] = a.optimizer;
    j["kernels"] = a.kernels;
    if (job.budget) j["budget_dollars"] = job.budget->count;
    if (job.deadline) j["deadline_hours"] = a.deadline_hours;
    j["stack"] = stack;
    return j;
}

int print_machine(const std::string& name) {
    fmt::print("{}\n", sim::to_json(sim::find_or_read_machine(name)));
    return 0;
}

/// A job, where it may run, what is assumed of that, and what was found.
struct Planned {
    tools::plan::Job job{};
    tools::plan::SearchSpace space{};
    Inputs inputs{};
    std::vector<Candidate> candidates{};
};

void print_doubts(const Inputs& inputs) {
    for (const tools::plan::Input& i : inputs)
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

Planned plan_known(const Asked& a, const auto& progress) {
    const sim::KnownModel& model = known_model(a.model);
    const std::vector<tools::plan::JobPhase> phases = phases_of(a, model);
    const Graph graph = model.make(graph_options(a, model));
    Planned p;
    p.job = {.model = std::string(model.name),
             .sequence_length = is_sequence(graph.input) ? graph.input.height : 0,
             .examples = examples_of(a, model, graph)};
    set_job(p.job, a);
    p.job.phases = phases;
    p.space = space_of(a, p.inputs);
    set_step(p.space, a, graph, p.inputs);
    print_doubts(p.inputs);
    const int channels = graph.input.channels;
    const auto graph_at = [&](int side) { return model.make({.input = {channels, side, side}}); };
    p.candidates = phases.empty() ? tools::plan::search(p.job, graph, p.space, progress)
                                  : tools::plan::search_phases(p.job, graph_at, p.space, progress);
    return p;
}

Planned plan_own(const Asked& a, const auto& progress) {
    Planned p;
    p.space = space_of(a, p.inputs);
    const tools::plan::StepInput step = step_of(a);
    const tools::plan::MeasuredWork measured =
        tools::plan::read_own_step(step, a.parameters, p.space.clusters, p.space.update);
    const Bytes need =
        sim::parameter_need(measured.step.elements, p.space.precision, p.space.update);
    p.inputs.push_back(
        tools::plan::input_of_own(step, measured, need, p.space.clusters.front().machine.gpu));
    print_doubts(p.inputs);
    // A trace's step is of several passes, and fits as such.
    if (!a.micro_batches) p.space.micro_batches = step.batch / measured.batch;
    p.job = {.model = a.model, .parameters = measured.step.elements, .examples = a.examples};
    set_job(p.job, a);
    p.candidates = tools::plan::search(p.job, tools::plan::Network(measured), p.space, progress);
    return p;
}

int plan(const Asked& a) {
    expect_options_of_model(a);
    expect_outputs({{"--json", a.json}, {"--html", a.html}});
    const bool shows = Progress::style_of(stderr) == Progress::Style::bar;
    const auto progress = [&](std::size_t done, std::size_t of) {
        if (shows) gx::print_error("\rsimulating {} of {} clusters\033[K", done, of);
    };
    auto [job, space, inputs, candidates] =
        own(a) ? plan_own(a, progress) : plan_known(a, progress);
    if (shows) gx::print_error("\r\033[K");
    tools::plan::pareto_front(candidates, job);
    const std::vector<std::string> assumed = assumptions(space.stack, inputs);
    if (!a.html.empty()) write_file(a.html, tools::plan::page(candidates, job, assumed));
    if (!a.json.empty()) {  // files first: what reads the table may close it
        nlohmann::ordered_json all = nlohmann::ordered_json::array();
        for (const Candidate& o : candidates) all.push_back(json_of(o));
        nlohmann::ordered_json rests_on = nlohmann::ordered_json::array();
        for (const tools::plan::Input& i : inputs) {
            rests_on.push_back({{"of", i.of}, {"measured", i.measured}, {"text", i.text}});
            if (!i.doubt.empty()) rests_on.back()["doubt"] = i.doubt;
        }
        nlohmann::ordered_json whole = json_of(job, a, space.micro_batches, space.stack.name);
        whole["inputs"] = std::move(rests_on);
        whole["offers"] = std::move(all);
        write_file(a.json,
                   whole.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    }
    print(candidates, job, a, assumed, price_dates(space));
    const int status = std::ranges::any_of(candidates, &Candidate::on_front) ? 0 : 1;
    if (status != 0) {
        std::fflush(stdout);  // the reasons first
        gx::print_error(
            "gx_plan: none of {} candidates can do this job within its limits: the reasons are "
            "above.\n",
            candidates.size());
    }
    return status;
}

}  // namespace

int main(int argc, char** argv) {
    Asked asked;
    CLI::App app("Pareto front of time and dollars for training a network, on simulated clusters.",
                 "gx_plan");
    read_options(app, asked);
    return gx::run_program(app, argc, argv, [&] {
        return asked.print_machine.empty() ? plan(asked) : print_machine(asked.print_machine);
    });
}
