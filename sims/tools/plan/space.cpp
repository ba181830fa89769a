#include <tools/plan/space.hpp>

#include <functional>   // less
#include <map>          // machines by name
#include <optional>     // kernels
#include <set>          // machines
#include <string>       // names
#include <string_view>  // names

#include <fmt/ranges.h>  // join

#include <gx/core/error.hpp>                  // Error
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
#include <gx/sim/catalog/comm_stacks.hpp>     // find_profile
#include <gx/sim/io/machine_file.hpp>         // find_or_read_cluster
#include <gx/trees/double_tree.hpp>           // DoubleTree
#include <gx/trees/tree.hpp>                  // Tree
#include <support/files_of_options.hpp>       // read_input
#include <tools/common/nccl_runs.hpp>         // NcclRuns
#include <tools/plan/compressed.hpp>          // top_k_choice, quantized_choice, local_choice
#include <tools/plan/served.hpp>              // served_choice

namespace gx::tools::plan {

namespace {

template <class E>
void add_reducers(std::vector<ReducerChoice>& all, std::string_view wire, bool late) {
    using enum sim::Algorithm;
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

void add_sharded(std::vector<ReducerChoice>& all) {
    using enum sim::Algorithm;
    all.push_back(reducer_choice<Sharded<Ring<fp32>>>("fp32", ring));
    all.push_back(reducer_choice<Sharded<MultiRing<4, fp32>>>("fp32", ring));
    all.push_back(reducer_choice<Sharded<Ring<fp16>>>("fp16", ring));
    all.push_back(reducer_choice<Sharded<MultiRing<4, fp16>>>("fp16", ring));
}

void add_lossy(std::vector<ReducerChoice>& all) {
    using enum sim::Algorithm;
    all.push_back(top_k_choice<1>());
    all.push_back(top_k_choice<10>());
    all.push_back(quantized_choice<8>());
    all.push_back(quantized_choice<4>());
    all.push_back(local_choice<Ring<fp32>, 4>("fp32", ring));
    all.push_back(local_choice<MultiRing<4, fp32>, 16>("fp32", ring));
}

void add_served(std::vector<ReducerChoice>& all) {
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

/// "; kernels are ... on p3.16xlarge": of each machine's roofline.
std::string kernels_text(const SearchSpace& space) {
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

/// The profile that is asked for, else the machine's own, else that of a library without a network.
std::string profile_of(const sim::MachineSpec& machine, const Arguments& o) {
    if (!o.profile.empty()) return o.profile;
    const std::string_view own = machine.profile.view();
    return own.empty() ? "nccl-2.10" : std::string(own);
}

/// What is assumed of the network of machines that nobody measured.
std::string data_sheets_text(const std::string& names, const std::string& stack,
                             const Arguments& o) {
    std::string text = "data sheets of " + names + ", profile " + stack;
    if (o.profile.empty()) text += " (another by --profile)";
    if (!sim::find_profile(stack).has_transport)
        text +=
            "; no network stack is stated, so that NICs carry their line rate (field 'profile' of "
            "a machine file states one, as nccl-2.10+tcp-aws)";
    return text;
}

std::optional<sim::Framework> kernels_of(const Arguments& o) {
    if (o.kernels == "separate") return sim::separate_kernels;
    if (o.kernels == "channels-first") return sim::channels_first_kernels;
    if (o.kernels == "auto" && o.stack != "none") return std::nullopt;
    return sim::fused_kernels;
}

}  // namespace

StepInput step_of(const Arguments& o) {
    StepInput step = o.step;
    if (!step.trace_file.empty()) step.trace = read_input("--trace", step.trace_file);
    if (step.batch == 0) step.batch = o.batch_per_gpu;
    return step;
}

void set_step(SearchSpace& space, const Arguments& o, const Graph& graph, Inputs& inputs) {
    if (!o.step.given()) {
        if (o.step.batch > 0)
            throw Error(
                "--step-batch: no step was measured; give --step-seconds, "
                "--images-per-second or --trace");
        inputs.push_back(
            {"computation", false,
             "a roofline of data sheets, whose own error is in no interval" + kernels_text(space)});
        return;
    }
    const StepInput step = step_of(o);
    space.measured = read_step(step, graph, space.clusters);
    const sim::GpuSpec& gpu = space.clusters.front().machine.gpu;
    expect_possible(step, *space.measured, graph, gpu, space.precision);
    const sim::TimedGraph roofline(graph, gpu, space.precision, space.kernels_on(gpu),
                                   space.update);
    inputs.push_back(input_of(step, *space.measured, roofline.step(space.measured->batch)));
}

namespace {
/// Of machines, in rising order.
std::set<int> counts_of(const Arguments& o, const sim::ClusterSpec& named) {
    if (!o.counts.empty()) return {o.counts.begin(), o.counts.end()};
    const int most = o.most_gpus / named.machine.gpus;
    std::set<int> counts;
    for (std::int64_t count = 1; count <= most; count *= 2) counts.insert(int(count));
    if (most > 0) counts.insert(most);
    if (named.machines <= most) counts.insert(named.machines);
    return counts;
}
}  // namespace

SearchSpace space_of(const Arguments& o, Inputs& inputs) {
    SearchSpace space{
        .buckets = {Bytes{0}, Bytes{25'000'000}},
        .precision = o.precision == "fp32" ? sim::Precision::fp32 : sim::Precision::mixed,
        .kernels = kernels_of(o),
        .update = update_of(o.optimizer),
        .micro_batches = o.micro_batches.value_or(1),
        .stack = tools::predict::stack_named(o.stack),
        .most_messages = o.most_messages};
    if (!o.nccl_tests.empty() && o.machines.size() != 1)
        throw Error("--nccl-tests: rates are of one kind of machine: name it alone, by --machine");
    std::map<std::string, std::string, std::less<>> chosen;  // by the machine's own name
    std::map<std::string, std::string> unmeasured;           // machines by profile
    for (const std::string& name : o.machines) {
        sim::ClusterSpec named = sim::find_or_read_cluster(name);
        const sim::MachineSpec& machine = named.machine;
        const auto [other, fresh] = chosen.emplace(machine.name.view(), name);
        if (!fresh && other->second == name) continue;
        if (!fresh)
            throw Error(
                fmt::format("--machine {} and {} are both named '{}': give one another "
                            "'name'",
                            other->second, name, machine.name.view()));
        const std::string stack = profile_of(machine, o);
        const bool stated = sim::states_network(named);
        if (stated)
            inputs.push_back({"network", true,
                              name + ", in place of data sheets" +
                                  (o.profile.empty() ? " and a profile"
                                                     : "; its profile is --profile " + stack)});
        else if (o.nccl_tests.empty())
            unmeasured[stack] += (unmeasured[stack].empty() ? "" : ", ") + name;
        if (!o.profile.empty() || !stated) named.profile = sim::find_profile(stack);
        std::vector<sim::NcclTests> measured;
        tools::NcclRuns runs;
        for (const std::string& file : o.nccl_tests) {
            const auto& tests =
                measured.emplace_back(sim::read_nccl_tests(read_input("--nccl-tests", file), file));
            runs.add(tests, file);
            named = sim::with_measured(named, tests, file);
            inputs.push_back(input_of(tests, file, named));
        }
        if (!measured.empty())
            for (const auto& input : assumed_beside(measured, machine, stated))
                inputs.push_back(input);
        for (const int count : counts_of(o, named)) {
            space.clusters.push_back(named);
            space.clusters.back().machines = count;
        }
    }
    for (const auto& [stack, names] : unmeasured)
        inputs.push_back({"network", false, data_sheets_text(names, stack, o)});
    if (o.counts.empty())
        inputs.push_back({"counts of machines", false,
                          fmt::format("powers of two, those of cluster files and the largest, all "
                                      "of at most {} GPUs (others by --count)",
                                      o.most_gpus)});
    if (space.clusters.empty())
        throw Error(
            fmt::format("--most-gpus {}: each of these machines has more; allow as many as "
                        "one has, or name a smaller --machine",
                        o.most_gpus));
    add_reducers<fp32>(space.reducers, "fp32", !o.synchronous);
    add_reducers<fp16>(space.reducers, "fp16", !o.synchronous);
    if (o.sharded) add_sharded(space.reducers);
    if (o.lossy) add_lossy(space.reducers);
    if (o.served) {
        add_served(space.reducers);
        inputs.push_back({"SharedMemory", false,
                          "by messages between GPUs; its one pass over the memory of a machine's "
                          "CPU ranks, the quickest way between them, is not timed"});
    }
    return space;
}

}  // namespace gx::tools::plan
