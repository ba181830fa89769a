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
    return {{"plain", "each operation apart", {.joined = false}},
            {"device", "as cuda::Device queues it before Ampere", {}},
            {"sums", "as cuda::Device queues it from Ampere on", {.takes = device_fusions(graph)}},
            {"h100",
             "with the fusions that cuDNN has on an H100; cuda::Device does not queue them yet",
             {.takes = [&h100](DnnFusion f, const Op& conv) { return h100.takes(f, conv); }}},
            {"all",
             "if cuDNN had every fusion that it was asked for",
             {.takes = [](DnnFusion, const Op&) { return true; }}}};
}

}  // namespace gx::cuda
