// gx_measured: what was measured on a GPU beside the simulated one, row by row.
// Run:     gx_measured --file measured.json [--gpu H100]
// Prints:  predicted, measured and error of each row; what is left over for each kind.
#include <algorithm>    // find, sort
#include <cmath>        // fabs
#include <fstream>      // the file
#include <iterator>     // istreambuf_iterator
#include <optional>     // what was not measured
#include <string>       // names
#include <string_view>  // names
#include <vector>       // rows

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include <gx/core/error.hpp>                  // Error
#include <gx/sim/find_gpu.hpp>                // find_gpu
#include <gx/sim/measured/compare.hpp>        // compare
#include <gx/sim/measured/measured_file.hpp>  // read_measured

#include "../../examples/support/command_line.hpp"  // run_program

namespace {

using namespace gx::sim::measured;

std::string read(const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    if (!in) throw gx::Error(file + ": cannot be read; name a file of reference/gpu/measure.py");
    return {std::istreambuf_iterator<char>(in), {}};
}

/// Groups in the order of their first rows.
void print_left_over(const std::vector<Comparison>& rows) {
    std::vector<std::string_view> groups;
    for (const Comparison& c : rows)
        if (std::find(groups.begin(), groups.end(), c.group) == groups.end())
            groups.push_back(c.group);
    fmt::print("\n{:<28} {:>5} {:>10} {:>12} {:>12}\n", "left over", "rows", "mean", "median |.|",
               "largest |.|");
    for (const std::string_view group : groups) {
        double mean = 0;
        std::vector<double> sizes;
        for (const Comparison& c : rows) {
            if (c.group != group) continue;
            mean += c.error_pct();
            sizes.push_back(std::fabs(c.error_pct()));
        }
        std::sort(sizes.begin(), sizes.end());
        fmt::print("{:<28} {:>5} {:>+9.1f}% {:>11.1f}% {:>11.1f}%\n", group, sizes.size(),
                   mean / static_cast<double>(sizes.size()), sizes[sizes.size() / 2],
                   sizes.back());
    }
}

/// What is a parameter, of a framework or of a run, and no constant of the GPU.
void print_parameters(const MeasuredGpu& m, const gx::sim::GpuSpec& gpu) {
    if (m.issued_us)
        fmt::print("host: PyTorch issues a kernel each {:.2f} us; separate_kernels has {:.0f} us "
                   "from one to the next\n", *m.issued_us,
                   1e6 * gx::seconds(gpu.launch + gx::sim::separate_kernels.dispatch));
    for (const OverlapRow& r : m.overlap) {
        const auto slower = [&](const std::optional<double>& beside, const char* copies) {
            if (r.alone_us && beside)
                fmt::print("{} beside copies {}: {:+.1f} %, for Options::overlap_slowdown\n",
                           to_string(r.kind), copies, 100 * (*beside / *r.alone_us - 1));
        };
        slower(r.beside_device_copies_us, "on the device");
        slower(r.beside_to_gpu_copies_us, "from the host");
    }
}

void print_failures(const MeasuredGpu& m) {
    for (const OperationRow& r : m.kernels)
        if (!r.failed.empty())
            fmt::print("failed: {} {}: {}\n", to_string(r.kind), r.precision, r.failed);
    for (const StepRow& r : m.steps)
        if (!r.failed.empty())
            fmt::print("failed: {} {} batch {}: {}\n", r.network, r.precision, r.batch, r.failed);
}

void print(const std::string& file, const std::string& name) {
    const MeasuredGpu m = read_measured(read(file), file);
    if (m.smoke)
        throw gx::Error(file + ": was written by --smoke, a test on a CPU: nothing was measured");
    const gx::sim::GpuSpec gpu = gx::sim::find_gpu(name.empty() ? m.gpu : name);
    fmt::print("measured: {}, driver {}, PyTorch {}, {}\nsimulated: {}\n\n", m.gpu, m.driver,
               m.torch, m.date, gpu.name.view());
    const std::vector<Comparison> rows = compare(m, gpu);
    fmt::print("{:<28} {:<42} {:>12} {:>12}      {:>9}\n", "", "", "predicted", "measured",
               "error");
    for (const Comparison& c : rows)
        fmt::print("{:<28} {:<42} {:>12.3f} {:>12.3f} {:<4} {:>+8.1f}%\n", c.group, c.what,
                   c.predicted, c.measured, c.unit, c.error_pct());
    print_left_over(rows);
    print_parameters(m, gpu);
    print_failures(m);
}

}  // namespace

int main(int argc, char** argv) {
    std::string file, gpu;
    CLI::App app("Compares a simulated GPU with what was measured on one.", "gx_measured");
    app.add_option("--file", file, "what reference/gpu/measure.py wrote")->required();
    app.add_option("--gpu", gpu, "the simulated GPU; otherwise the one that was measured");
    return gx::run_program(app, argc, argv, [&] { print(file, gpu); });
}
