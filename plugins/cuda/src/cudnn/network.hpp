// Network: queues the forward and the backward of a planned graph.
#pragma once

#include <cstddef>  // byte
#include <cstdint>  // int64_t
#include <memory>   // unique_ptr

#include <gx/core/device.hpp>        // ForwardReport, Mode
#include <gx/core/function_ref.hpp>  // FunctionRef
#include <gx/cuda/device_span.hpp>   // DeviceSpan
#include <gx/model/graph.hpp>        // Graph

#include "../network_kernels.hpp"
#include "batch_buffers.hpp"
#include "network_plan.hpp"
#include "parameter_layout.hpp"

namespace gx::cuda::detail {

/// What a network computes with: device memory, all of it made before.
struct NetworkMemory {
    DeviceSpan<std::byte> arena{};         ///< NetworkPlan::bytes()
    DeviceSpan<const float> parameters{};  ///< master weights
    std::byte* working = nullptr;          ///< their copy in E; of fp32, these
    DeviceSpan<float> statistics{};
};

struct NetworkPass : LoadedBatch {
    Mode mode = Mode::train;
};

class Network {
public:
    Network() = default;
    Network(const Network&) = delete;
    Network& operator=(const Network&) = delete;
    virtual ~Network() = default;

    virtual void forward(const NetworkPass& pass, DeviceSpan<ForwardReport> report) = 0;
    /// check_activations() of NetworkPlan::checks(); `counts` has one more: `found`.
    virtual void check(DeviceSpan<const ForwardReport> report,
                       DeviceSpan<const CheckedActivation> activations,
                       DeviceSpan<std::uint32_t> counts) = 0;
    /// `ready`: all gradients from an element to the end are final behind what was queued.
    virtual void backward(DeviceSpan<const float> scale, DeviceSpan<float> gradients,
                          FunctionRef<void(std::size_t)> ready) = 0;
    /// Rounds the working copy from the parameters.
    virtual void refresh() = 0;
};

struct NetworkParts {
    const Graph* graph;
    const NetworkPlan* plan;
    const ParameterLayout* layout;
    const Dnn* dnn;
    cudaStream_t stream;
    NetworkMemory memory;
    int batch;
    std::uint64_t seed;  ///< of dropout
    int rank;
};
[[nodiscard]] std::unique_ptr<Network> make_network(ElementType compute, const NetworkParts& parts);

}  // namespace gx::cuda::detail
