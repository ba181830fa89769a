// detail::cluster::Run: what a simulated cluster consists of while it runs.
#pragma once

#include <cstdint>  // int64_t
#include <memory>   // unique_ptr
#include <vector>   // ranks

#include <gx/core/function_ref.hpp>          // FunctionRef
#include <gx/core/device.hpp>                // UpdateCost
#include <gx/core/label.hpp>                 // Label
#include <gx/model/graph.hpp>                // Graph
#include <gx/sim/des/engine.hpp>             // Engine
#include <gx/sim/hardware/machine.hpp>       // ClusterSpec
#include <gx/sim/network/network.hpp>        // FlowNetwork
#include <gx/sim/topology/topology.hpp>      // Topology
#include <gx/sim/world/fault_interface.hpp>  // FaultInterface
#include <gx/sim/world/matching.hpp>         // MessageMatcher
#include <gx/sim/world/pass_workers.hpp>     // PassWorkers
#include <gx/sim/world/race_interface.hpp>   // RaceInterface

namespace gx::sim {
struct ClusterOptions;
}

namespace gx::sim::detail::cluster {

class RankBase;

/// One run: the engine, the network and the ranks, which outlive their fibers.
struct Run {
    Run(const ClusterSpec& spec, const ClusterOptions& options);
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;
    ~Run();
    /// Runs `f` on a fiber for each rank.
    /// Errors: the first exception of a rank; gx::Error for faults without effect.
    void run(FunctionRef<void(RankBase&)> f);
    /// Errors: gx::Error when a step over `batch` images does not fit in the GPU. All ranks ask
    ///         alike, so the result for the first is kept.
    void expect_fits(const Graph& graph, int batch, UpdateCost update = {});
    /// Made when first asked for; nullptr where one thread computes.
    PassWorkers* pass_workers();

    struct FitsKey {
        Label name{};
        std::int64_t parameters = 0, macs = 0;
        int batch = 0;
        UpdateCost update{};
        bool operator==(const FitsKey&) const = default;
    };
    const ClusterSpec& spec;
    const ClusterOptions& options;
    std::vector<std::unique_ptr<RankBase>> ranks{};
    std::unique_ptr<RaceInterface> races{};
    std::unique_ptr<FaultInterface> faults{};
    std::unique_ptr<PassWorkers> workers{};  ///< outlives the fibers, which may have passes
    Engine engine;
    FlowNetwork network;
    Topology topology;
    MessageMatcher matcher;
    FitsKey fits{};
};

}  // namespace gx::sim::detail::cluster
