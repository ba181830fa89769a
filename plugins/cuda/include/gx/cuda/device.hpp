// cuda::Device: runs a graph on a GPU, by cuDNN's plans and gx's own kernels.
#pragma once

#include <cstddef>   // size_t
#include <cstdint>   // int64_t
#include <memory>    // unique_ptr
#include <optional>  // first_non_finite
#include <span>      // the host's memory
#include <string>    // names of layers
#include <vector>    // logits

#include <gx/core/device.hpp>           // Batch, DeviceOptions
#include <gx/core/function_ref.hpp>     // FunctionRef
#include <gx/cuda/launch.hpp>           // launch, for programs that train
#include <gx/cuda/memory.hpp>           // GpuMemory
#include <gx/cuda/queue.hpp>            // DeviceContext, Queue
#include <gx/memory/queued_device.hpp>  // QueuedDevice
#include <gx/model/compute.hpp>         // ComputeElement
#include <gx/model/graph.hpp>           // Graph

namespace gx::cuda {

/// Models gx::QueuedDevice. Convolutions, linear layers, pools, ReLUs and additions are cuDNN's
/// (src/cudnn/dnn.hpp); batch norms, with an addition, the batch norm that is added and a ReLU
/// behind them in the same kernels, concat, dropout, loss, images and casts are gx's
/// (gx/cuda/layer_kernels.hpp). A list of branches is copied to its place once, whatever the
/// number of concats that join it.
///
/// Shapes: activations (N, H, W, C) in memory; a flatten brings them to (N, C, H, W), so that what
///         follows is in the graph's order. Weights of convolutions (out, H, W, in / groups); each
///         parameter begins at 16 bytes, behind zeros.
/// Tails:  plans are for DeviceOptions::batch images. In a smaller batch, even of 0, the images
///         that are missing are zeros, and so are their activations behind each bias and batch
///         norm, and all their gradients: they add exact zeros to the sums of the others. Batch
///         norm, dropout and loss read the images of the batch alone.
/// Elements: as gx/model/compute.hpp says; gradients of weights and biases are rounded to E, though
///         cuDNN has engines on some GPUs that store some of them in fp32: so the same steps
///         overflow, and are skipped, on every device and for every shape.
/// Order:  no sum is in an order that hardware decides: equal inputs give equal bits on one GPU and
///         version of cuDNN, unless DeviceOptions::deterministic is false. A tensor that several
///         operations read gets its gradient from the last of them first; each sum is rounded to
///         the element. Ready is called where a parameter's gradient, and all behind, are final.
/// Errors: gx::Error in the constructor for a graph that can only be timed, a layer or an element
///         for which cuDNN has no plan on the GPU, cuDNN of another major version than the one
///         that it was compiled with, and a batch that does not fit beside one gradient and the
///         optimizer's state, with the largest that does; buffers of reducers are not counted. A
///         batch that is larger, a label outside the classes, or a backward that follows no forward
///         in Mode::train breaks the contract. What a GPU refuses later is a gx::Error or a
///         gx::DeviceLost, as of Queue.
/// Threads: those of its context.
/// Cost:   the constructor plans (2 ms to 2 s a shape), or reads plans that an earlier one has kept
///         below $GX_CACHE, $XDG_CACHE_HOME/gx or ~/.cache/gx, and allocates: an arena of
///         activations, gradients and workspaces; parameters, their copy in E, and statistics; and
///         the batches of two steps, with all their micro-batches, as they came, of floats, in the
///         GPU's memory and in pinned memory. A load is one copy, on a stream of its own, beside
///         the step before it; it waits until the step before that begins. A step allocates no
///         memory of the GPU and does not wait; each plan of cuDNN is given a new descriptor.
class Device {
public:
    using Memory = GpuMemory;
    using Context = DeviceContext;
    template <class T>
    using View = ViewIn<T, Memory>;
    /// bf16 and tf32 need sm_80.
    template <class E>
    static constexpr bool computes = ComputeElement<E>;
    static constexpr bool takes_pixels = true;
    static constexpr bool takes_second_labels = true;

    Device(DeviceContext& gpu, const Graph& graph, DeviceOptions options);
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;
    /// Waits for its work.
    ~Device();

    [[nodiscard]] Queue& queue();

    void load(const Batch& batch, float rate = 0) { load(std::span(&batch, 1), rate); }
    /// The parts of one batch, all of floats or all of pixels.
    void load(std::span<const Batch> parts, float rate);
    [[nodiscard]] ScalarIn<float, Memory> rate() const;
    [[nodiscard]] int batch_slot() const;
    void forward(Mode mode, View<ForwardReport> report);
    void backward(ScalarIn<float, Memory> scale, View<float> gradients, GradientsQueued ready);

    [[nodiscard]] View<const float> parameters() const;
    [[nodiscard]] std::span<const ParameterSlice> slices() const;
    void update(FunctionRef<void(View<float>)> change);
    [[nodiscard]] View<float> statistics();

    // These wait.
    void to_canonical(View<const float> mine, std::span<float> canonical);
    void from_canonical(std::span<const float> canonical, View<float> mine);
    /// As in "conv2d 'stem'". Outputs of batch norms that are not stored are computed again; of
    /// other operations whose outputs are not kept, the first behind the last finite output.
    [[nodiscard]] std::optional<std::string> first_non_finite();

    /// That plans of earlier runs could not be read, or none kept for later ones.
    [[nodiscard]] const std::string& warning() const;

    // ---- Beyond the concept ----
    /// Of the last forward, until backward; waits. Shapes: (count, classes), row-major.
    [[nodiscard]] std::vector<float> logits();
    /// Bytes of the arena: activations, gradients, workspaces.
    [[nodiscard]] std::int64_t arena_bytes() const;

private:
    class State;
    std::unique_ptr<State> state_;
};

static_assert(RepeatsPasses<Device> && LoadsParts<Device>);

}  // namespace gx::cuda
