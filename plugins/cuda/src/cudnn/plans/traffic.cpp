// Print how many bytes a training step of ResNet-50 moves, and what memory and tensor cores allow.
// Run:     gx_cuda_traffic          a line for each way to cut the step
//          gx_cuda_traffic device   each operation of one of them
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "chains.hpp"

namespace {

using namespace gx::cuda;

FusionAnswers h100_answers(const PlannedNetwork& network) {
    std::ifstream in(GX_CUDNN_PLANS "/h100.json");
    if (!in) throw gx::Error(GX_CUDNN_PLANS "/h100.json cannot be read.");
    return {std::string(std::istreambuf_iterator<char>(in), {}), network};
}

void print_chains(const PlannedNetwork& network, const std::vector<StepChain>& chains) {
    std::printf(
        "ResNet-50, fp16, batch %d: bytes that operations read and write, and the images a second\n"
        "that data sheets allow for them. What a GPU did is in reference/measured.\n\n"
        "%-8s %14s %18s %24s\n%-8s %14s %18s %8s %7s %7s\n",
        network.batch, "", "activations", "weights, optimizer", "images/s at most", "chain",
        "MB/image", "MB/step", "V100", "H100", "H200");
    for (const StepChain& chain : chains) {
        const auto rows = step_traffic(network.graph, chain.shape);
        std::printf("%-8s %14.1f %18.0f ", chain.name.c_str(), activation_bytes(rows) / 1e6,
                    parameter_bytes(rows) / 1e6);
        for (const GpuPeaks& gpu : {v100_peaks, h100_peaks, h200_peaks})
            std::printf(" %7.0f", roofline_images_per_second(rows, network.batch, gpu));
        std::printf("  %s\n", chain.meaning.c_str());
    }
}

/// Of the chains that the GPU can run, and of what it could if cuDNN refused nothing.
struct Goal {
    const GpuPeaks& gpu;
    double megabytes, images_per_second, roofline_share;
    std::string_view chains;
};
constexpr Goal goals[] = {{v100_peaks, 342, 1560, 0.73, "device"},
                          {h100_peaks, 266, 7700, 0.63, "sums h100 all"}};

void print_goals(const PlannedNetwork& network, const std::vector<StepChain>& chains) {
    std::printf("\ngoals\n");
    for (const Goal& goal : goals) {
        std::string bytes, shares;
        for (const StepChain& chain : chains) {
            if (goal.chains.find(chain.name) == goal.chains.npos) continue;
            const auto rows = step_traffic(network.graph, chain.shape);
            const double most = roofline_images_per_second(rows, network.batch, goal.gpu);
            bytes += fmt::format("  {} {:.1f}", chain.name, activation_bytes(rows) / 1e6);
            shares += fmt::format("  {} {:.2f}", chain.name, goal.images_per_second / most);
        }
        std::printf("%s  at most %.0f MB/image:%s\n", goal.gpu.name, goal.megabytes, bytes.c_str());
        std::printf("%s  at least %.0f images/s, which is %.2f of the roofline; of that of%s\n",
                    goal.gpu.name, goal.images_per_second, goal.roofline_share, shares.c_str());
    }
}

void print_refusals(const FusionAnswers& answers) {
    std::printf("\nrefused by cuDNN %s for an %s (reference/cudnn)\n", answers.cudnn().c_str(),
                answers.gpu().c_str());
    for (const FusionAnswers::Refusal& r : answers.refusals()) {
        std::printf("%s, for %zu of %zu layers:\n", std::string(to_string(r.fusion)).c_str(),
                    r.layers.size(), r.asked);
        std::string line = " ";
        for (const std::string& layer : r.layers) {
            if (line.size() + layer.size() > 98) std::printf("%s\n", line.c_str()), line = " ";
            line += " " + layer;
        }
        std::printf("%s\n", line.c_str());
    }
}

void print_operations(const gx::Graph& graph, const StepChain& chain) {
    std::printf("%-64s %9s %9s %9s\n", "operation", "MB read", "written", "MB/step");
    for (const OperationTraffic& r : step_traffic(graph, chain.shape))
        std::printf("%-64s %9.3f %9.3f %9.2f\n", r.name.c_str(), r.read / 1e6, r.written / 1e6,
                    r.parameter_bytes / 1e6);
}

int run(int argc, char** argv) {
    const PlannedNetwork network = planned_networks().front();
    const FusionAnswers answers = h100_answers(network);
    const auto chains = step_chains(network.graph, answers);
    if (argc == 1) {
        print_chains(network, chains);
        print_goals(network, chains);
        print_refusals(answers);
        return 0;
    }
    std::string names;
    for (const StepChain& chain : chains) {
        if (argv[1] == chain.name) return print_operations(network.graph, chain), 0;
        names += " " + chain.name;
    }
    std::fprintf(stderr, "gx_cuda_traffic: no chain '%s'; there are%s\n", argv[1], names.c_str());
    return 2;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc, argv);
    } catch (const std::exception& e) {
        std::fprintf(stderr, "gx_cuda_traffic: %s\n", e.what());
        return 1;
    }
}
