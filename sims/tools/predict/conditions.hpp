// Conditions: hardware, model and software of a case; defaults for missing fields.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <gx/sim/hardware/gpu.hpp>  // GpuSpec, Precision
#include <tools/common/json.hpp>    // Json

namespace gx::tools::predict {

/// Conditions as numbers and lower-case words. 0 and empty: not said.
struct Conditions {
    sim::GpuSpec gpu{};
    bool no_peers = false;  ///< the GPUs' driver copies between them through the host's memory
    int gpus_per_node = 0;
    double nic_gbps_per_node = 0;
    std::string link{}, transport{}, model{}, framework{}, collective{}, data{}, option{};
    sim::Precision precision = sim::Precision::fp32;
    int wire_bytes = 4;  ///< of an element of the gradient
    double gradient_mb_fp32 = 0;
    double batch_per_gpu = 0;
    double micro_batch = 0;    ///< of a step without reduction, where steps accumulate
    double accumulation = 1;   ///< steps that one reduction ends, at the base
    bool accumulates = false;  ///< over a constant global batch
    double global_batch = 0;
    double bucket_mb = 0;
    double sequence = 0;  ///< tokens of a sample
    double epochs = 0;
    bool states_batch_per_gpu = false;
    Json accumulation_by_nodes{}, servers{};
    std::vector<std::string> remarks{};  ///< defaults taken, for `why`
};

/// The conditions of a case.
/// Errors: gx::Error naming the field and what it takes, and for a GPU the nearest names.
[[nodiscard]] Conditions read_conditions(const Json& c);

}  // namespace gx::tools::predict
