// Print how many bytes a training step of ResNet-50 moves, and what memory and tensor cores allow.
// Run:     gx_cuda_traffic          a line for each way to cut the step
//          gx_cuda_traffic h100     each operation of one of them
#include <cstdio>
#include <string_view>

#include "chains.hpp"

namespace {

using namespace gx::cuda;

constexpr int batch = 256;

void print_chains(const gx::Graph& graph) {
    std::printf(
        "ResNet-50, fp16, batch %d: MB of activations an image, MB of weights and optimizer\n"
        "a step, and images a second at most (data sheets; nothing here is measured)\n\n"
        "%-8s %9s %8s %7s %7s %7s\n",
        batch, "chain", "MB/image", "MB/step", "V100", "H100", "H200");
    for (const StepChain& chain : step_chains()) {
        const auto rows = step_traffic(graph, chain.shape);
        std::printf("%-8s %9.1f %8.0f", chain.name, activation_bytes(rows) / 1e6,
                    parameter_bytes(rows) / 1e6);
        for (const GpuPeaks& gpu : {v100_peaks, h100_peaks, h200_peaks})
            std::printf(" %7.0f", roofline_images_per_second(rows, batch, gpu));
        std::printf("  %s\n", chain.meaning);
    }
}

void print_operations(const gx::Graph& graph, const StepChain& chain) {
    std::printf("%-64s %9s %9s %9s\n", "operation", "MB read", "written", "MB/step");
    for (const OperationTraffic& r : step_traffic(graph, chain.shape))
        std::printf("%-64s %9.3f %9.3f %9.2f\n", r.name.c_str(), r.read / 1e6, r.written / 1e6,
                    r.parameter_bytes / 1e6);
}

}  // namespace

int main(int argc, char** argv) {
    const gx::Graph graph = gx::graph<gx::ResNet50>();
    if (argc == 1) return print_chains(graph), 0;
    for (const StepChain& chain : step_chains())
        if (std::string_view(argv[1]) == chain.name) return print_operations(graph, chain), 0;
    std::fprintf(stderr, "gx_cuda_traffic: no chain '%s'; there are plain, joined, v100, h100\n",
                 argv[1]);
    return 2;
}
