// Demo: train a ResNet on Fashion-MNIST with three compositions, on eight simulated GPUs and
// 10 Gb/s Ethernet; print accuracy, virtual time, efficiency and dollars side by side.
// Run:  ./gx demo
//       ./gx demo --world mpi -n 2     on processes of this machine, by the wall clock

#include <cstdio>      // output
#include <filesystem>  // output folder
#include <string>      // file names

#include <fmt/format.h>       // table
#include <nlohmann/json.hpp>  // --json

#include <gx/io/atomic_file.hpp>                 // write_file
#include <gx/report/chart.hpp>                   // standalone
#include <gx/loader/idx.hpp>                     // fashion_mnist
#include <gx/model/cifar_resnet.hpp>             // CifarResNet
#include <gx/trainer/json.hpp>                   // to_json
#include <gx/trainer/monitor/show_progress.hpp>  // ShowProgress
#include <gx/trainer/report.hpp>                 // write_report
#include <gx/trainer/table.hpp>                  // comparison_table
#include <gx/trainer/trace.hpp>                  // chrome_trace
#include <gx/trainer/trainer.hpp>                // Trainer

#include "../../sims/support/command_line.hpp"  // run_program
#include "world.hpp"                            // DemoWorld

namespace {

struct DemoOptions {
    int epochs = 1;
    int batch = DemoWorld::batch;
    float rate = 0.1f;
    std::uint64_t seed = 1;
    DemoWorld::Options world{};
    std::filesystem::path data = gx::fashion_mnist_directory;
    std::filesystem::path output = "out/demo";
    std::filesystem::path json;
};

// One epoch is too short for a last gamma of zero to pay off.
using Net = gx::CifarResNet<8, 1, 28, 10, gx::LastGamma::one>;
template <class Reducer>
using Demo = gx::Trainer<Net, Reducer, gx::Warmup<gx::Poly<1>>>;

template <class Reducer>
gx::RunRecord run(DemoWorld& world, const DemoOptions& o, const gx::Split& data) {
    if (world.is_root()) {
        fmt::print("\n{}\n", Demo<Reducer>::name());
        std::fflush(stdout);
    }
    gx::ShowProgress progress;
    const Demo<Reducer> trainer({.batch = o.batch,
                                 .epochs = o.epochs,
                                 .seed = o.seed,
                                 .scheduler = {.next = {.peak_rate = o.rate}},
                                 .optimizer = {.weight_decay = 5e-4f, .nesterov = true},
                                 .observers = {&progress}});
    return world.train(trainer, data);
}

/// The numbers of the table for scripts: units in the names.
nlohmann::ordered_json summary(const std::vector<gx::RunRecord>& runs) {
    auto list = nlohmann::ordered_json::array();
    for (const auto& r : runs) {
        const bool is_virtual = r.clock == "virtual";
        list.push_back(
            {{"name", r.reducer},
             {"test_accuracy_pct", r.test_accuracy_pct()},
             {is_virtual ? "virtual_seconds" : "seconds", r.seconds},
             {is_virtual ? "images_per_virtual_second" : "images_per_second", r.images_per_second},
             {"scaling_efficiency_pct", r.scaling_efficiency_pct},
             {"exposed_communication_pct", r.exposed_communication_pct},
             {"dollars", r.dollars},
             {"wall_seconds", r.wall_seconds},
             {"event_hash", fmt::format("{:016x}", r.event_hash)},
             {"weights_hash", fmt::format("{:016x}", r.weights_hash)}});
    }
    return {{"compositions", list}};
}

/// Prints the table, and writes the report, the timelines and the records.
void present(const DemoWorld& world, const DemoOptions& o, const std::vector<gx::RunRecord>& runs,
             const std::string& command) {
    fmt::print("\n{}\n{}", gx::comparison_table(runs), world.closing());
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

void demo(const DemoOptions& o, const std::string& command) {
    DemoWorld world(o.world, o.seed);
    if (world.is_root()) {  // it alone writes files
        gx::expect_outside({"--json", o.json}, {"--output", o.output});
        gx::make_output_folder("--output", o.output);
        gx::expect_outputs({{"--output", o.output / "report.html"}, {"--json", o.json}});
    }
    const gx::Split data = gx::fashion_mnist(o.data);
    if (world.is_root())
        fmt::print("Fashion-MNIST: {} images to train on, {} to test with. {}\n",
                   data.train.count(), data.test.count(), world.opening());
    std::vector<gx::RunRecord> runs;
    DemoWorld::for_each_reducer([&]<class R> { runs.push_back(run<R>(world, o, data)); });
    if (world.is_root()) present(world, o, runs, command);
}

}  // namespace

int main(int argc, char** argv) {
    DemoOptions o;
    CLI::App app{DemoWorld::title, "gx demo"};
    app.option_defaults()->always_capture_default();
    app.add_option("--epochs", o.epochs, "passes over the training set")
        ->check(gx::count_in(1, 1000));
    app.add_option("--batch", o.batch, "images per rank and step")->check(gx::count_in(1, 4096));
    app.add_option("--rate", o.rate, "peak learning rate")->check(gx::number_in(1e-9, 1000));
    app.add_option("--seed", o.seed, "seed of weights, order and augmentation");
    o.world.add_to(app);
    app.add_option("--data", o.data, "folder of the Fashion-MNIST files");
    app.add_option("--output", o.output, "folder of the report and the timelines");
    app.add_option("--json", o.json, "write the comparison to this file, too");
    return gx::run_program(app, argc, argv, [&] { demo(o, gx::command_line(argc, argv)); });
}
