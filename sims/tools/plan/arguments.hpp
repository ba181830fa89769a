// Arguments: what a command line asks of a plan.
#pragma once

#include <cstdint>   // counts
#include <optional>  // micro-batches
#include <string>    // names
#include <vector>    // machines

#include <tools/plan/inputs.hpp>  // StepInput

namespace gx::tools::plan {

/// What a command line asks for: `gx_plan --help` says what each is.
struct Arguments {
    std::string model = "ResNet-50", precision = "mixed", optimizer = "sgd", profile{},
                stack = "pytorch-ddp", kernels = "auto", json{}, html{}, print_machine{};
    std::vector<std::string> machines{"p2.xlarge",     "p2.8xlarge",   "p2.16xlarge",
                                      "p3.2xlarge",    "p3.8xlarge",   "p3.16xlarge",
                                      "p3dn.24xlarge", "p4d.24xlarge", "p5.48xlarge"};
    std::int64_t examples = 0, parameters = 0;
    int sequence_length = 0, epochs = 90, global_batch = 0, batch_per_gpu = 0, most_gpus = 64,
        lines = 12;
    std::vector<int> counts{};  ///< of machines; none: by most_gpus
    std::vector<std::string> phases{}, nccl_tests{};
    StepInput step{};
    std::optional<int> micro_batches{};
    double budget_dollars = 0, deadline_hours = 0, most_messages = 5e7;
    bool synchronous = false, sharded = false, lossy = false, served = false;

    /// Whether the network is the user's own, known by a measured step alone.
    [[nodiscard]] bool own() const { return model == "own"; }
};

}  // namespace gx::tools::plan
