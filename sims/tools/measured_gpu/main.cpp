// gx_measured_gpu: a step's simulated kernels beside those that ./gx gpu measured, by kind.
// Run:     gx_measured_gpu reference/measured/GPU.json
// Prints:  the GPU of the data sheet beside the measured one, then the GPU fitted to the file.

#include <string>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include <gx/core/error.hpp>           // Error
#include <gx/sim/io/measured_gpu.hpp>  // read_measured_gpu, measured_gpu

#include <support/command_line.hpp>      // count_in, printable, read_input, run_program
#include <tools/measured_gpu/kinds.hpp>  // kind_table, gpu_field

namespace {

using namespace gx;
using tools::gpu_field;
using tools::kind_table;

void print(const std::string& file, const std::string& network, int batch) {
    const std::string name = printable(file);
    const sim::MeasuredGpu m =
        sim::read_measured_gpu(read_input("FILE", file), name, {network, batch});
    const auto shares = [&](const sim::GpuSpec& gpu) {
        const sim::Efficiency& e = gpu.efficiency(m.precision);
        return fmt::format(
            "of its peaks, convolutions reach {:.3f}, linear layers {:.3f}, memory "
            "{:.3f}",
            e.convolution, e.linear, e.memory);
    };
    fmt::print(
        "{}: {} in {} on {}, as ncu recorded its kernels, each alone\n"
        "simulated: GpuSpec {}, framework fused_kernels, {:.0f} us of launch in each kernel\n\n",
        name, m.network, to_string(m.precision), printable(m.name), m.data_sheet.name.view(),
        1e6 * seconds(m.data_sheet.launch));
    fmt::print("As the catalog has it: {}\n{}\n", shares(m.data_sheet),
               kind_table(m, m.data_sheet));
    try {
        const sim::GpuSpec fitted = sim::measured_gpu(m, name);
        fmt::print(
            "As calibrated by this file: {}\n{}"
            "The sum of products and that of batch norms and pools are fitted: these errors are "
            "in-sample, not held-out.\n"
            "In a machine file: {}\n",
            shares(fitted), kind_table(m, fitted), gpu_field(m, fitted));
    } catch (const Error& e) {  // the first table holds all the same
        fmt::print("Not calibrated: {}\n", e.what());
    }
}

}  // namespace

int main(int argc, char** argv) {
    std::string file, network;
    int batch = 0;
    CLI::App app("Compares a step's simulated kernels with those measured on a GPU.",
                 "gx_measured_gpu");
    app.add_option("FILE", file, "what ./gx gpu wrote: reference/measured/GPU.json")->required();
    app.add_option("--network", network, "that was trained (default: the file's, or resnet50)");
    app.add_option("--batch", batch, "images of a step (default: the file's, or 256)")
        ->check(gx::count_in(1, 1'000'000));
    return gx::run_program(app, argc, argv, [&] { print(file, network, batch); });
}
