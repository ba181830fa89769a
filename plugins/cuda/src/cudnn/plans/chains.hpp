// step_chains: the ways in which a training step of ResNet-50 is cut into operations.
#pragma once

#include <vector>  // chains

#include "traffic.hpp"  // StepShape

namespace gx::cuda {

struct StepChain {
    const char *name, *meaning;
    StepShape shape;
};
[[nodiscard]] inline std::vector<StepChain> step_chains() {
    const std::vector<DnnFusion> all(dnn_fusions.begin(), dnn_fusions.end());
    return {{"plain", "each operation apart", {.joined = false}},
            {"joined", "batch norm with the addition and the ReLU behind it", {}},
            {"v100",
             "joined; backward reads both gradients of a tensor, and forward both batch norms",
             {.sums_gradients = true, .joins_norms = true}},
            {"h100", "with all of cuDNN's fusions in reference/cudnn/h100.json", {.fusions = all}}};
}

}  // namespace gx::cuda
