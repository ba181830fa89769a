// Demo: train a ResNet on Fashion-MNIST with three compositions, on eight simulated GPUs and
// 10 Gb/s Ethernet; print accuracy, virtual time, efficiency and dollars side by side.
// Run:  ./gx demo

#include <cstdio>        // output
#include <filesystem>    // output folder
#include <optional>      // the timed graph
#include <string>        // file names
#include <system_error>  // error_code

#include <fmt/format.h>       // table
#include <nlohmann/json.hpp>  // --json

#include <gx/io/atomic_file.hpp>                 // write_file
#include <gx/report/chart.hpp>                   // standalone
#include <gx/loader/idx.hpp>                     // fashion_mnist
#include <gx/model/cifar_resnet.hpp>             // CifarResNet
#include <gx/model/resnet.hpp>                   // ResNet50: what the clock is charged for
#include <gx/onednn/device.hpp>                  // the numbers
#include <gx/reducer/double_buffered.hpp>        // DoubleBuffered
#include <gx/reducer/multi_ring.hpp>             // MultiRing
#include <gx/reducer/ring.hpp>                   // Ring
#include <gx/sim/world/cluster.hpp>              // Cluster
#include <gx/sim/world/device.hpp>               // the time
#include <gx/sim/catalog/simple_clusters.hpp>    // ethernet_10g
#include <gx/trainer/json.hpp>                   // to_json
#include <gx/trainer/monitor/show_progress.hpp>  // ShowProgress
#include <gx/trainer/report.hpp>                 // write_report
#include <gx/trainer/table.hpp>                  // comparison_table
#include <gx/trainer/trace.hpp>                  // chrome_trace
#include <gx/trainer/trainer.hpp>                // Trainer

#include "../../sims/support/command_line.hpp"  // run_program

namespace {

struct DemoOptions {
    int epochs = 1;
    int batch = 16;
    float rate = 0.1f;
    std::uint64_t seed = 1;
    int timed_batch = 64;
    double interference_pct = 20;  // fits of all-reduce stacks lie between 13 and 31
    std::filesystem::path data = gx::fashion_mnist_directory;
    std::filesystem::path output = "out/demo";
    std::filesystem::path json;
};

// One epoch is too short for a last gamma of zero to pay off.
using Net = gx::CifarResNet<8, 1, 28, 10, gx::LastGamma::one>;
// Sums are split into lanes, by default one per core. Two on every machine, so that accuracies do
// not depend on the number of cores; they still do on the CPU's vector instructions.
struct TwoLanes : gx::onednn::Device {
    TwoLanes(const gx::Graph& graph, gx::DeviceOptions options)
        : Device(graph, options, {.lanes = 2}) {}
};
template <class Reducer>
using Demo = gx::Trainer<Net, Reducer, gx::Warmup<gx::Poly<1>>>;

template <class Reducer>
gx::RunRecord run(const DemoOptions& o, const gx::Split& data) {
    fmt::print("\n{}\n", Demo<Reducer>::name());
    std::fflush(stdout);
    gx::sim::Cluster<TwoLanes> cluster(gx::sim::ethernet_10g(8),
                                       {.seed = o.seed,
                                        .timed_as = gx::graph<gx::ResNet50>(),
                                        .timed_batch = o.timed_batch,
                                        .overlap_slowdown = {o.interference_pct / 100}});
    gx::ShowProgress progress;
    const Demo<Reducer> trainer({.batch = o.batch,
                                 .epochs = o.epochs,
                                 .seed = o.seed,
                                 .scheduler = {.next = {.peak_rate = o.rate}},
                                 .optimizer = {.weight_decay = 5e-4f, .nesterov = true},
                                 .observers = {&progress}});
    return trainer.train(cluster, data);
}

/// The numbers of the table for scripts: units in the names.
nlohmann::ordered_json summary(const std::vector<gx::RunRecord>& runs) {
    auto list = nlohmann::ordered_json::array();
    for (const auto& r : runs)
        list.push_back({{"name", r.reducer},
                        {"test_accuracy_pct", r.test_accuracy_pct()},
                        {"virtual_seconds", r.seconds},
                        {"images_per_virtual_second", r.images_per_second},
                        {"scaling_efficiency_pct", r.scaling_efficiency_pct},
                        {"exposed_communication_pct", r.exposed_communication_pct},
                        {"dollars", r.dollars},
                        {"wall_seconds", r.wall_seconds},
                        {"event_hash", fmt::format("{:016x}", r.event_hash)},
                        {"weights_hash", fmt::format("{:016x}", r.weights_hash)}});
    return {{"compositions", list}};
}

void demo(const DemoOptions& o, const std::string& command) {
    std::error_code found_below;
    std::filesystem::create_directories(o.output, found_below);
    gx::expect_outputs({{"--output", o.output / "report.html"}, {"--json", o.json}});
    const gx::Split data = gx::fashion_mnist(o.data);
    fmt::print(
        "Fashion-MNIST: {} images to train on, {} to test with. ResNet-8 is trained;\n"
        "the clock is charged for ResNet-50, {} images a GPU and step.\n",
        data.train.count(), data.test.count(), o.timed_batch);
    std::vector<gx::RunRecord> runs;
    runs.push_back(run<gx::Ring<gx::fp32>>(o, data));
    runs.push_back(run<gx::MultiRing<4, gx::fp16>>(o, data));
    runs.push_back(run<gx::DoubleBuffered<gx::MultiRing<4, gx::fp16>>>(o, data));

    fmt::print("\n{}", gx::comparison_table(runs));
    fmt::print(
        "\nAssumed: a kernel that starts while gradients are on the network takes {:.3g} % longer\n"
        "(fits of published all-reduce runs: 13 to 31 %); the input pipeline costs no time.\n",
        o.interference_pct);
    gx::ReportPage page{.command = command, .versions = gx::versions()};
    for (std::size_t i = 1; i <= runs.size(); ++i)
        page.links.push_back({{"timeline", o.output / fmt::format("trace-{}.json", i)},
                              {"record", o.output / fmt::format("run-{}.json", i)}});
    fmt::print("\nreport    {}\n", gx::write_report(o.output / "report.html", runs, page).string());
    const auto picture = o.output / "breakdown.svg";
    gx::write_file(picture, gx::chart::standalone(gx::breakdown_chart(runs)));
    fmt::print("picture   {}\n", picture.string());
    for (std::size_t i = 0; i < runs.size(); ++i) {
        const auto trace = o.output / fmt::format("trace-{}.json", i + 1);
        gx::write_file(trace, gx::chrome_trace(runs[i].spans, runs[i].link_rates));
        gx::write_file(o.output / fmt::format("run-{}.json", i + 1), gx::to_json(runs[i]));
        fmt::print("timeline  {}   {} (open it in ui.perfetto.dev)\n", trace.string(),
                   runs[i].reducer);
    }
    if (!o.json.empty()) gx::write_file(o.json, summary(runs).dump(2) + "\n");
}

}  // namespace

int main(int argc, char** argv) {
    DemoOptions o;
    CLI::App app{"One network, three compositions, eight simulated GPUs on 10 Gb/s Ethernet.",
                 "gx demo"};
    app.option_defaults()->always_capture_default();
    app.add_option("--epochs", o.epochs, "passes over the training set")
        ->check(gx::count_in(1, 1000));
    app.add_option("--batch", o.batch, "images per GPU and step")->check(gx::count_in(1, 4096));
    app.add_option("--rate", o.rate, "peak learning rate")->check(gx::number_in(1e-9, 1000));
    app.add_option("--seed", o.seed, "seed of weights, order and augmentation");
    app.add_option("--timed-batch", o.timed_batch, "images per GPU and step in simulated time")
        ->check(gx::count_in(1, 1 << 20));
    app.add_option("--interference", o.interference_pct,
                   "percent that a kernel takes longer during communication")
        ->check(gx::number_in(0, 1000));
    app.add_option("--data", o.data, "folder of the Fashion-MNIST files");
    app.add_option("--output", o.output, "folder of the report and the timelines");
    app.add_option("--json", o.json, "write the comparison to this file, too");
    return gx::run_program(app, argc, argv, [&] { demo(o, gx::command_line(argc, argv)); });
}
