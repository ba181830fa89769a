// Steps with buckets and without, between two hosts on one core each.
#include "overlap.hpp"

#include <sched.h>  // sched_setaffinity

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

#include <gx/io/atomic_file.hpp>
#include <gx/loader/synthetic.hpp>
#include <gx/model/cifar_resnet.hpp>
#include <gx/mpi/world.hpp>
#include <gx/onednn/device.hpp>
#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/multi_ring.hpp>
#include <gx/reducer/name.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/scheduler/constant.hpp>
#include <gx/threads/threads.hpp>
#include <gx/trainer/trainer.hpp>

#include "../../../sims/support/command_line.hpp"  // expect_outputs
#include "../machine.hpp"
#include "measure.hpp"
#include "namespaces.hpp"

namespace gx::bench {
namespace {

using Net = CifarResNet<20, 3, 32, 10>;
using Whole = Ring<fp32>;
using InBuckets = Bucketed<Ring<fp32>, 128 << 10>;
using InBucketsOfRings = Bucketed<MultiRing<4, fp32>, 256 << 10>;  // whose messages hide latency
template <class R>
using Training = Trainer<Net, R, Constant>;

constexpr double communication_share = 0.8;  // of the computation
constexpr double goal_with = 1.15, goal_without = 1.6;
constexpr int steps = 24, first_counted = 4;

struct OneCore : onednn::Device {
    OneCore(const Graph& graph, DeviceOptions options)
        : onednn::Device(graph, options, {.lanes = 1, .threads = 1}) {}
};

/// This process, and the threads that it makes, stay on one of the cores that it may use.
void stay_on_core_of(int rank) {
    cpu_set_t all, one;
    CPU_ZERO(&all);
    CPU_ZERO(&one);
    if (::sched_getaffinity(0, sizeof(all), &all) != 0) return;
    for (int core = 0, skip = rank % CPU_COUNT(&all); core < CPU_SETSIZE; ++core)
        if (CPU_ISSET(core, &all) && skip-- == 0) CPU_SET(core, &one);
    (void)::sched_setaffinity(0, sizeof(one), &one);
}

/// Milliseconds of a step: the median.
template <class R, class W>
double step_ms(W& world, int batch) {
    const Split images = synthetic({.shape = {3, 32, 32},
                                    .classes = 10,
                                    .train_count = std::int64_t{batch} * world.ranks() * steps,
                                    .test_count = 0});
    const RunRecord run =
        Training<R>({.batch = batch, .epochs = 1, .evaluate = false}).train(world, images);
    std::vector<double> ms;
    for (std::size_t i = first_counted; i < run.steps.size(); ++i)
        ms.push_back(1e3 * (run.steps[i].seconds - run.steps[i - 1].seconds));
    return median(ms);
}

/// The longest of all ranks.
double longest(mpi::World<OneCore>& world, double mine) {
    double most = 0;
    world.run([&](auto& rank) {
        const std::vector<double> all = Lockstep(rank).gather(mine);
        most = *std::max_element(all.begin(), all.end());
    });
    return most;
}

/// Of a step on this core alone; both ranks measure at the same time.
double compute_ms(mpi::World<OneCore>& world, int batch) {
    world.run([](auto& rank) { Lockstep(rank).barrier(); });
    Threads<1, OneCore> alone;
    return longest(world, step_ms<Whole>(alone, batch));
}

/// Of a reduction of the whole gradient, with nothing beside it.
double communication_ms(mpi::World<OneCore>& world) {
    std::vector<double> times;
    world.run([&](auto& rank) {
        Lockstep together(rank);
        std::vector<float> gradient(std::size_t(parameter_count<Net>()), 1.0f);
        Whole ring;
        ring.reserve(ReducePlan::whole(world.placement(), std::ssize(gradient)));
        for (int i = 0; i < 7; ++i) {
            together.barrier();
            const auto begin = rank.now();
            together.expect(ring.all_reduce(rank.transport(), Bucket(gradient)).delivery);
            times.push_back(std::chrono::duration<double, std::milli>(rank.now() - begin).count());
        }
    });
    return longest(world, median(times));
}

nlohmann::json row(const std::string& reducer, double step, double longer, bool met) {
    const double ratio = step / longer;
    fmt::print("{:32} {:8.1f} ms a step, {:.2f} of the longer one: {}\n", reducer, step, ratio,
               met ? "met" : "missed");
    return {{"reducer", reducer}, {"step_ms", step}, {"step_over_longer", ratio}, {"met", met}};
}

}  // namespace

int measure_overlap(const std::string& json, bool namespaces) {
    if (launcher_rank() == 0) expect_outputs({{"--json", json}});
    if (namespaces) raise_priority();
    stay_on_core_of(launcher_rank());
    mpi::World<OneCore> world({.announce = !namespaces});
    if (world.ranks() != 2 || world.placement().machines != 2)
        throw Error(fmt::format("--overlap: {} ranks on {} hosts: expected two, one on each",
                                world.ranks(), world.placement().machines));
    const double communication = communication_ms(world);
    const double wanted = communication / communication_share;
    int batch = 8;
    double computation = compute_ms(world, batch);
    for (int i = 0; i < 8; ++i) {  // about linear
        const int next =
            std::clamp(static_cast<int>(std::lround(batch * wanted / computation)), 1, 1024);
        if (next == batch) break;
        batch = next;
        computation = compute_ms(world, batch);
    }
    const double in_buckets = longest(world, step_ms<InBuckets>(world, batch));
    const double of_rings = longest(world, step_ms<InBucketsOfRings>(world, batch));
    const double without = longest(world, step_ms<Whole>(world, batch));
    computation = (computation + compute_ms(world, batch)) / 2;  // before and after
    if (!is_root(world)) return 0;

    fmt::print(
        "on {}: two hosts of one core; ResNet-20, {} images a host: computation {:.1f} ms, "
        "communication of {:.2f} MB {:.1f} ms, {:.2f} of it\n",
        cpu_name(), batch, computation, 4e-6 * double(parameter_count<Net>()), communication,
        communication / computation);
    const double longer = std::max(computation, communication);
    const nlohmann::json rows{
        row(reducer_name<InBuckets>(), in_buckets, longer, in_buckets <= goal_with * longer),
        row(reducer_name<InBucketsOfRings>(), of_rings, longer, of_rings <= goal_with * longer),
        row(reducer_name<Whole>(), without, longer, without >= goal_without * longer)};
    fmt::print("goals: with buckets at most {}, without at least {}\n", goal_with, goal_without);
    if (!json.empty())
        write_file(json, nlohmann::json{{"benchmark", "network overlap"},
                                        {"cpu", cpu_name()},
                                        {"load_average", load_average()},
                                        {"model", Net::name},
                                        {"batch_per_host", batch},
                                        {"gradient_bytes", 4 * parameter_count<Net>()},
                                        {"computation_ms", computation},
                                        {"communication_ms", communication},
                                        {"goal_with_buckets_at_most", goal_with},
                                        {"goal_without_at_least", goal_without},
                                        {"rows", rows}}
                                 .dump(2) +
                             "\n");
    return 0;
}

}  // namespace gx::bench
