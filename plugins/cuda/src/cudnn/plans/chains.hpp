// step_chains: the ways in which a training step of ResNet-50 is cut into operations.
#pragma once

#include <string>  // names
#include <vector>  // chains

#include "answers.hpp"  // FusionAnswers
#include "traffic.hpp"  // StepShape

namespace gx::cuda {

struct StepChain {
    std::string name, meaning;
    StepShape shape;
};
/// `h100`: the fusions that cuDNN has for the network on an H100. Both outlive the chains.
[[nodiscard]] inline std::vector<StepChain> step_chains(const Graph& graph,
                                                        const FusionAnswers& h100) {
    StepShape before_ampere = device_shape(graph), fused = before_ampere, all = before_ampere;
    before_ampere.takes = {};
    fused.takes = [&h100](DnnFusion f, const Op& conv) { return h100.takes(f, conv); };
    all.takes = [](DnnFusion, const Op&) { return true; };
    return {
        {"plain", "each operation apart", {.joined = false}},
        {"device", "as cuda::Device queues it before Ampere, and in bf16", before_ampere},
        {"sums", "as cuda::Device queues it from Ampere on in fp16", device_shape(graph)},
        {"h100", "with the fusions that cuDNN has on an H100; cuda::Device queues the sums alone",
         fused},
        {"all", "if cuDNN had every fusion that it was asked for", all}};
}

}  // namespace gx::cuda
