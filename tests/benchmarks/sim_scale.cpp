// How far the simulator reaches: ResNet-50 on 100,000 GPUs, and 64 ranks that really train.
// Run:     ./gx bench sim_scale [--json FILE]
// Prints:  one line a case; seconds are of this process's processor, the least of a few runs.
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>

#include <algorithm>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include <gx/hierarchical/reducer.hpp>
#include <gx/io/atomic_file.hpp>
#include <gx/model/cifar_resnet.hpp>
#include <gx/core/rng.hpp>
#include <gx/model/init.hpp>
#include <gx/model/resnet.hpp>
#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/double_buffered.hpp>
#include <gx/reducer/multi_ring.hpp>
#include <gx/reducer/pipeline.hpp>
#include <gx/sim/world/cluster.hpp>
#include <gx/sim/world/device.hpp>
#include <gx/sim/catalog/simple_clusters.hpp>
#include <gx/sim/timing/step_time.hpp>
#if __has_include(<gx/onednn/device.hpp>)
#include <gx/onednn/device.hpp>
#else
#include <gx/reference/device.hpp>
#endif

#include "../../sims/support/command_line.hpp"  // expect_outputs, run_program

namespace {

#if __has_include(<gx/onednn/device.hpp>)
/// On one thread: helpers that wait would be counted as work.
struct Numbers : gx::onednn::Device {
    Numbers(const gx::Graph& graph, gx::DeviceOptions options)
        : Device(graph, options, {.threads = 1}) {}
};
#else
using Numbers = gx::reference::Device;
#endif
using gx::Nanoseconds;

double cpu_seconds() {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}
double max_rss_mb() {
    rusage use{};
    getrusage(RUSAGE_SELF, &use);
    return static_cast<double>(use.ru_maxrss) * 1024 / 1e6;
}

/// One step of ResNet-50, 64 images a GPU, on machines of eight V100 with 25 Gb/s.
template <class R>
nlohmann::json step_of(int machines, gx::sim::ClusterSpec spec, gx::sim::Detail detail) {
    gx::sim::StepTiming t;
    double seconds = 1e9;
    for (int run = 0; run < 3; ++run) {
        const double begin = cpu_seconds();
        t = gx::sim::step_time<R>(
            gx::graph<gx::ResNet50>(), spec,
            {.batch = 64, .precision = gx::sim::Precision::mixed, .detail = detail});
        seconds = std::min(seconds, cpu_seconds() - begin);
        if (seconds > 1) break;
    }
    const std::string name =
        R::name() + (detail == gx::sim::Detail::collapsed ? "" : ", every message");
    const double gpu_seconds = gx::seconds(t.ends.back()) * spec.ranks();
    fmt::print(
        "{:46} {:6} GPUs {:10.3f} ms a step {:8.4f} s cpu {:9} of {:12} messages simulated "
        "{:.3g} GPU-hours per CPU-hour, {:.0f} MB\n",
        name, spec.ranks(), 1e3 * gx::seconds(t.step), seconds, t.simulated,
        t.messages * t.ends.size(), gpu_seconds / seconds, max_rss_mb());
    return {{"name", name},
            {"gpus", spec.ranks()},
            {"machines", machines},
            {"step_ms", 1e3 * gx::seconds(t.step)},
            {"floor_ms", 1e3 * gx::seconds(t.floor)},
            {"exposed_ms", 1e3 * gx::seconds(t.exposed)},
            {"steps_simulated", t.ends.size()},
            {"messages", t.messages * t.ends.size()},
            {"messages_simulated", t.simulated},
            {"chunks_rounded", t.rounded},
            {"settled", t.settled},
            {"cpu_seconds", seconds},
            {"gpu_hours_per_cpu_hour", gpu_seconds / seconds},
            {"max_rss_mb", max_rss_mb()}};
}
template <class R>
nlohmann::json step_of(int machines, gx::sim::Detail detail = gx::sim::Detail::collapsed) {
    return step_of<R>(machines, gx::sim::plain_p3_16xlarge(machines), detail);
}

// ---- With payload -------------------------------------------------------------------
constexpr int payload_ranks = 64, payload_batch = 16, payload_steps = 2;

/// A device with weights, a batch of noise, and steps on them.
struct Images {
    std::vector<float> pixels = std::vector<float>(payload_batch * 3 * 32 * 32);
    std::vector<std::int32_t> labels = std::vector<std::int32_t>(payload_batch);
    Images() {
        const gx::Rng noise(7, "pixels");
        for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = float(noise.uniform(i)) - 0.5f;
        for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = int(i) % 10;
    }
    [[nodiscard]] gx::Batch batch() const { return {pixels, labels, payload_batch, 0}; }
};
template <class Device>
void give_weights(Device& device, const gx::Graph& graph) {
    std::vector<float> canonical(static_cast<std::size_t>(graph.parameter_elements()));
    gx::initial_parameters(graph, 1, canonical);
    device.update([&](std::span<float> mine) { device.from_canonical(canonical, mine); });
}
void descend(std::span<float> parameters, std::span<const float> gradients) {
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] -= 0.01f * gradients[i];
}

/// Processor seconds of a step of all ranks: forward, backward, update, and nothing else.
double computation_alone(const gx::Graph& graph) {
    const Images images;
    std::vector<std::unique_ptr<Numbers>> devices;
    std::vector<float> gradients;
    for (int r = 0; r < payload_ranks; ++r) {
        devices.push_back(std::make_unique<Numbers>(graph, gx::DeviceOptions{payload_batch, 1, r}));
        give_weights(*devices.back(), graph);
    }
    gradients.resize(devices[0]->parameters().size());
    double begin = 0;
    for (int step = -1; step < payload_steps; ++step) {
        if (step == 0) begin = cpu_seconds();  // the first one plans
        for (auto& device : devices) {
            (void)device->forward(images.batch(), gx::Mode::train);
            device->backward(1.0f, gradients, [](std::size_t) {});
            device->update([&](std::span<float> p) { descend(p, gradients); });
        }
    }
    return (cpu_seconds() - begin) / payload_steps;
}

template <class R>
double with_payload(const gx::Graph& graph) {
    const Images images;
    const auto spec = gx::sim::plain_p3_16xlarge(payload_ranks / 8);
    gx::sim::Cluster<Numbers> world(spec);
    double begin = 0;
    world.run([&](auto& rank) {
        auto device = rank.make_device(graph, {payload_batch, 1, rank.rank()});
        give_weights(*device, graph);
        gx::Pipeline pipeline(rank.stream(), rank.transport(),
                              {.elements = static_cast<std::int64_t>(device->parameters().size())},
                              R());
        rank.charge(std::chrono::seconds(1), "start");  // when all ranks are made
        for (int step = -1; step < payload_steps; ++step) {
            if (step == 0 && rank.rank() == 0) begin = cpu_seconds();
            const auto index = static_cast<std::uint64_t>(step + 1);
            const auto gradients = pipeline.begin(index);
            (void)device->forward(images.batch(), gx::Mode::train);
            device->backward(1.0f, gradients,
                             [&](std::size_t watermark) { pipeline.ready(watermark); });
            if (const auto mean = pipeline.collect(index))
                device->update([&](std::span<float> p) { descend(p, mean->values); });
        }
        while (pipeline.drain()) {
        }
    });
    return (cpu_seconds() - begin) / payload_steps;
}
template <class R>
nlohmann::json payload() {
    const auto graph = gx::graph<gx::ResNet8>();
    double alone = 1e9, whole = 1e9, ratio = 1e9;
    for (int run = 0; run < 2; ++run) {  // side by side, as the machine may be shared
        const double a = computation_alone(graph), w = with_payload<R>(graph);
        alone = std::min(alone, a);
        whole = std::min(whole, w);
        ratio = std::min(ratio, w / a);
    }
    fmt::print(
        "{:46} {:6} ranks that train ResNet8, {} images each: {:.3f} s cpu a step, "
        "{:.3f} s of computation alone: {:.3f} times\n",
        R::name(), payload_ranks, payload_batch, whole, alone, whole / alone);
    return {{"name", "ResNet8 with payload, " + R::name()},
            {"ranks", payload_ranks},
            {"batch", payload_batch},
            {"cpu_seconds_a_step", whole},
            {"cpu_seconds_of_computation", alone},
            {"ratio", whole / alone},
            {"least_ratio_of_a_pair", ratio}};
}

void measure(const std::string& json) {
    gx::expect_outputs({{"--json", json}});
    using gx::fp16;
    using Ring = gx::Bucketed<gx::Ring<fp16>, 25'000'000>;
    nlohmann::json cases = nlohmann::json::array();
    for (const int machines : {2048, 12'500}) {
        cases.push_back(step_of<Ring>(machines));
        cases.push_back(step_of<gx::DoubleBuffered<Ring>>(machines));
        cases.push_back(step_of<gx::MultiRing<4, fp16>>(machines));
        cases.push_back(step_of<gx::Bucketed<gx::Hierarchical<fp16>, 25'000'000>>(machines));
    }
    // GPUs that pass chunks on more slowly than the NIC brings them: rounds overlap, and there is
    // no instant without a message from which a lap could be told.
    auto crowded = gx::sim::plain_p3_16xlarge(2048);
    crowded.machine.peer_latency = Nanoseconds(15'000);
    cases.push_back(step_of<Ring>(2048, crowded, gx::sim::Detail::collapsed));
    cases.push_back(step_of<Ring>(16, gx::sim::Detail::every_message));
    cases.push_back(payload<gx::MultiRing<4, fp16>>());
    cases.push_back(payload<gx::Ring<gx::fp32>>());
    if (json.empty()) return;
    const nlohmann::json all{{"benchmark", "sim_scale"}, {"cases", cases}};
    gx::write_file(json, all.dump(2) + "\n");
}

}  // namespace

int main(int argc, char** argv) {
    std::string json;
    CLI::App app("How far the simulator reaches: 100,000 GPUs, and 64 ranks that really train.",
                 "gx bench sim_scale");
    app.add_option("--json", json, "also write what was measured there");
    return gx::run_program(app, argc, argv, [&] { measure(json); });
}
